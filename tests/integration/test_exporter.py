"""The exporter beside a real agent and two real brokers: what Prometheus reads is what left."""

import asyncio
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from aiomqtt import Client
from prometheus_client.parser import text_string_to_metric_families

from meteragent.consume import collect, mean_value
from tests.conftest import MakeBroker
from tests.integration.service import (
    LIMIT_S,
    TELL_ALL,
    end_tasks,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
)
from tests.support.broker import Broker, Certificates, free_port
from tests.support.not_run import ROOT

EXPORTER = ROOT / "deploy" / "exporter" / "exporter.py"
METERS = ("m1", "m2")
USERS = {"agent": "b", "utility": "c"}
CONNECTED, MESSAGES = ("meteragent_exporter_connected", ""), ("meteragent_exporter_messages_total", "")
WINDOW = 'length = "1s"\ncatch_up = "200ms"'
NOISY = "level = 1\nradius = 220"
Rows = dict[tuple[str, str], float]


@contextmanager
def exporting(broker: Broker, certificates: Certificates, folder: Path) -> Iterator[int]:
    """The exporter on a broker that asks for a name, over TLS; the port it listens on."""
    port, password = free_port(), folder / "password"
    password.write_text(USERS["utility"] + "\n")
    command = [sys.executable, str(EXPORTER), "--url", broker.url, "--listen", f"127.0.0.1:{port}"]
    named = ["--username", "utility", "--password-file", str(password)]
    trusting = os.environ | {"SSL_CERT_FILE": str(certificates.ca)}
    with subprocess.Popen([*command, *named], cwd=ROOT, env=trusting) as process:
        try:
            yield port
        finally:
            process.terminate()


def scrape(port: int) -> Rows:
    """What Prometheus would read, by name and meter; nothing while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    families = text_string_to_metric_families(text)
    return {(s.name, s.labels.get("meter", "")): s.value for f in families for s in f.samples}


def shown(payloads: Sequence[bytes]) -> Rows:
    """What must be shown of what came: of each home its newest record, and the mean of all."""
    homes = collect(payloads)
    assert set(homes) == set(METERS)
    newest = {meter: int(home.time_ms[-1]) for meter, home in homes.items()}
    (time_ms,) = set(newest.values())
    told = {meter: homes[meter].value(time_ms) for meter in METERS}
    rows = {("meteragent_private_value", meter): one.value for meter, one in told.items()}
    rows |= {("meteragent_private_value_low", meter): one.low for meter, one in told.items()}
    rows |= {("meteragent_private_value_high", meter): one.high for meter, one in told.items()}
    rows |= {("meteragent_private_value_sd", meter): one.sd for meter, one in told.items()}
    mean = mean_value(homes.values(), time_ms)
    rows["meteragent_private_mean", ""] = mean.value
    rows["meteragent_private_mean_low", ""] = mean.low
    rows["meteragent_private_mean_high", ""] = mean.high
    return rows


@asynccontextmanager
async def receiving(broker: Broker, certificates: Certificates) -> AsyncIterator[list[bytes]]:
    """All that comes at the utility's broker, of the topics of records and descriptors."""
    inbox: list[bytes] = []
    password, trusting = USERS["utility"], ssl.create_default_context(cafile=certificates.ca)
    client = Client("127.0.0.1", broker.port, username="utility", password=password, tls_context=trusting)
    async with client:
        await client.subscribe("private/#", qos=1)

        async def listen() -> None:
            nonlocal inbox
            async for message in client.messages:
                inbox += [bytes(message.payload)]

        listening = asyncio.create_task(listen())
        yield inbox
        await end_tasks(listening)


async def feed(house: Broker) -> None:
    """Two meters for a few slots."""
    async with meters(house) as line:
        begun_ms = now_ms()
        while now_ms() < begun_ms + 2200:
            for meter in METERS:
                await line.send(meter, 400)
            await asyncio.sleep(0.1)


async def test_what_prometheus_reads_is_what_left(
    mosquitto: MakeBroker, certificates: Certificates, tmp_path: Path
) -> None:
    """Each home's value and interval are those of its newest record; the mean is that of both homes.

    The utility's broker goes away and comes back: the exporter says so, and still knows.
    """
    secret = tmp_path / "agent-password"
    secret.write_text(USERS["agent"])
    sink = f'username = "agent"\npassword_file = "{secret}"\nca_file = "{certificates.ca}"'
    upstream = mosquitto(users=USERS, certificates=certificates)
    with mosquitto(settings=TELL_ALL) as house, upstream, exporting(upstream, certificates, tmp_path) as port:
        await until(lambda: scrape(port).get(CONNECTED) == 1)
        config = stream(house.url, upstream.url, window=WINDOW, privacy=NOISY, sink=sink)
        async with receiving(upstream, certificates) as inbox:
            with service(tmp_path / "agent", config) as agent:
                agent.start()
                await subscribed(house)
                await feed(house)
                await agent.stop()
            await until(lambda: scrape(port).get(MESSAGES) == len(inbox))
            rows, wanted = scrape(port), shown(inbox)
        assert {key: rows[key] for key in wanted} == pytest.approx(wanted, rel=1e-9)
        assert rows["meteragent_exporter_refused_total", ""] == 0
        upstream.stop()
        await until(lambda: scrape(port)[CONNECTED] == 0)
        upstream.start()
        await until(lambda: scrape(port)[CONNECTED] == 1)
        again = scrape(port)
        assert {key: again[key] for key in wanted} == {key: rows[key] for key in wanted}
