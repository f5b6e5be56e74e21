"""From a meter to Home Assistant: the steps of deploy/homeassistant/README.md, with messages of meters."""

import asyncio
import json
import re
import textwrap
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiomqtt import Client

from meteragent import config
from meteragent.cli import main
from tests.conftest import MakeBroker
from tests.integration.service import LIMIT_S, TELL_ALL, Scenarios, end_tasks, service, subscribed, until
from tests.support.broker import Broker
from tests.support.not_run import ROOT
from tests.support.profile_fixtures import dsmr, shelly

README = (ROOT / "deploy" / "homeassistant" / "README.md").read_text()
SHELLY, _DIFFERENT = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
DSMR = SHELLY
for line in _DIFFERENT.splitlines():
    DSMR = re.sub(rf"(?m)^{line.split()[0]} = .*$", line, DSMR, count=1)
P1 = DSMR.replace("dsmr/json", "dsmr/raw").replace("dsmr-reader", "dsmr-p1")
(ACL,) = re.findall(r"((?:^    (?:user|topic) .*\n|\n)+)^    user app", README, re.MULTILINE)
USERS = {"meteragent": "a", "home": "b"}
IDS = ["shelly", "dsmr-reader", "dsmr-p1"]
FASTER = '[window]\nlength = "1s"\ncatch_up = "500ms"\n'
"""The same with slots of a second instead of half an hour."""


def shelly_now() -> bytes:
    """A notification of a Shelly Pro 3EM, of now."""
    document = json.loads(next(c.payload for c in shelly.CASES if c.topic.endswith("em:0")))
    params = {"ts": round(time.time(), 2), "em:0": document}
    name = "shellypro3em-0123456789ab"
    return json.dumps(
        {"src": name, "dst": f"{name}/events", "method": "NotifyStatus", "params": params}
    ).encode()


def reader_now() -> bytes:
    """A telegram as dsmr-reader tells it, of now."""
    document = json.loads(next(c.payload for c in dsmr.CASES if c.profile == "dsmr-reader" and c.readings))
    now = datetime.now(ZoneInfo("UTC"))
    return json.dumps(document | {"timestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}"}).encode()


def p1_now() -> bytes:
    """A telegram of a Dutch meter, of now, with its sum."""
    text = next(
        c.payload for c in dsmr.CASES if c.profile == "dsmr-p1" and b"1-3:0.2.8(50)" in c.payload
    ).decode()
    now = datetime.now(ZoneInfo("Europe/Amsterdam"))
    stamp = f"{now:%y%m%d%H%M%S}{'S' if now.dst() else 'W'}"
    text = re.sub(r"0-0:1\.0\.0\(\d+[SW]\)", f"0-0:1.0.0({stamp})", text)
    header, *lines = text.partition("!")[0].split("\r\n")
    return dsmr.telegram(header[1:], *lines[1:-1])


Seen = dict[str, Any]
"""The newest message of each topic that Home Assistant reads."""


def _as(user: str, broker: Broker) -> Client:
    """A client with a name."""
    return Client("127.0.0.1", broker.port, username=user, password=USERS[user])


async def _try(folder: Path, broker: Broker, block: str, message: Callable[[], bytes]) -> Seen:
    """Run it until Home Assistant has a device and two numbers of it."""
    password = folder / "password"
    password.write_text(USERS["meteragent"])
    user = f'username = "meteragent"\npassword_file = "{password}"\n'
    text = block.replace("mqtt://192.168.1.10:1883", broker.url).partition("[store]")[0]
    text = text.replace("[source]\n", f"[source]\n{user}").replace("[sink]\n", f"[sink]\n{user}")
    topic = config.parse(block).stream[0].source.topic
    seen: Seen = {}
    records: list[Any] = []
    with service(folder, text + FASTER) as agent:
        async with _as("home", broker) as meter, _as("home", broker) as home_assistant:

            async def listen() -> None:
                async for m in home_assistant.messages:
                    seen[str(m.topic)] = json.loads(m.payload)
                    records.extend([seen[str(m.topic)]] if str(m.topic).endswith("/power") else [])

            for below in ("private", "meteragent", "homeassistant"):
                await home_assistant.subscribe(f"{below}/#", qos=1)
            listening = asyncio.create_task(listen())
            agent.start()
            await subscribed(broker)
            async with asyncio.timeout(LIMIT_S):
                while len(records) < 2:
                    await meter.publish(topic, message(), qos=1)
                    await asyncio.sleep(0.2)
            await agent.stop()
            await until(lambda: seen["meteragent/status"]["status"] == "offline")
            await end_tasks(listening)
        return seen


@pytest.fixture(scope="module")
def tried(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """The configurations of step 5, side by side, each with its meter's messages and the rights of step 7."""
    acl = textwrap.dedent(ACL)
    acl += "topic read dsmr/+\n\nuser home\ntopic readwrite #\n"

    async def shelly_em(folder: Path) -> Seen:
        with mosquitto(settings=TELL_ALL, users=USERS, acl=acl) as broker:
            return await _try(folder, broker, SHELLY, shelly_now)

    async def dsmr_reader(folder: Path) -> Seen:
        with mosquitto(settings=TELL_ALL, users=USERS, acl=acl) as broker:
            return await _try(folder, broker, DSMR, reader_now)

    scenarios = Scenarios(tmp_path_factory.mktemp("steps"), shelly_em, dsmr_reader)
    asyncio.run(scenarios.run())
    return scenarios


def test_it_takes_fewer_than_ten_steps() -> None:
    """The steps are numbered without a gap."""
    numbers = [int(number) for number in re.findall(r"^\*\*(\d+)\. ", README, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) < 10


def test_the_commands_of_the_steps_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """What is typed after `meteragent` is a command."""
    names = set(re.findall(r"bin/meteragent (\w+)", README))
    assert names == {"discover", "check"}
    for name in names:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
    capsys.readouterr()


@pytest.mark.parametrize("block", [SHELLY, DSMR, P1], ids=IDS)
def test_the_configurations_are_accepted(
    block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `check` too, where their folder exists; one number each half hour, which hides a kettle."""
    path = tmp_path / "meteragent.toml"
    path.write_text(block.replace("/var/lib/meteragent/", f"{tmp_path}/"))
    assert main(["check", str(path)]) == 0
    assert "kettle" in capsys.readouterr().out
    (stream,) = config.parse(block).stream
    assert config.terms(stream).step_ms == 30 * 60_000
    assert (stream.sink.status, stream.sink.home_assistant) == ("meteragent/status", "homeassistant")


@pytest.mark.parametrize(
    ("block", "message"), [(SHELLY, shelly_now), (DSMR, reader_now), (P1, p1_now)], ids=IDS
)
def test_what_the_meters_send_is_read(block: str, message: Callable[[], bytes]) -> None:
    """One reading of now in each message, under the topic of its device."""
    decode = config.build_decoder(config.parse(block).stream[0].source)
    ((time_ms, *_),) = decode(message())
    assert time_ms is not None
    assert abs(time_ms - time.time() * 1000) < 10_000


@pytest.mark.parametrize(("device", "unit"), [("shelly_em", "W"), ("dsmr_reader", "kW")])
def test_private_numbers_arrive_in_home_assistant(tried: Scenarios, device: str, unit: str) -> None:
    """After the steps there is a device with a sensor, its guarantee, its numbers, and the agent's status."""
    seen: Seen = tried[device]
    (document,) = [facts for topic, facts in seen.items() if topic.endswith("/config")]
    assert document["device"]["name"] == "home"
    sensor = document["components"]["power"]
    assert sensor["unit_of_measurement"] == unit
    record = seen[sensor["state_topic"]]
    assert isinstance(record["value"], int | float)
    assert record["unit"] == unit
    assert seen[sensor["json_attributes_topic"]]["id"] == record["d"]
    assert seen[document["availability"][0]["topic"]] == {"v": 1, "status": "offline"}


@pytest.mark.parametrize("device", ["shelly_em", "dsmr_reader"])
def test_what_the_device_is_called_does_not_leave(tried: Scenarios, device: str) -> None:
    """No name and no serial number of it is in anything that Home Assistant has from the agent."""
    seen: Seen = tried[device]
    left = json.dumps(
        {topic: facts for topic, facts in seen.items() if "private" in topic or "device" in topic}
    )
    for name in ("0123456789ab", "4530303034303031373530323838316A", "XMX5LGBBFG1009325446", "48213377"):
        assert name not in left
