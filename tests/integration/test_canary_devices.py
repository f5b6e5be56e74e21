"""What devices say besides their quantity is nowhere: not in what leaves, nor the log, nor the store (law 3).

Three devices through a real broker and a running agent, whose messages are full of what identifies somebody.
Two have topics that name them: one leaves under a pseudonym, one under a name of its owner's. The agent knows
the first by its topic's name, so that alone may be in its store. The powers are canaries (`canary`).
"""

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.canary import WATTS, concatenated, files, traces_in
from tests.integration.service import TELL_ALL, Meters, meters, now_ms, service, subscribed, until_ms, utility
from tests.support.broker import Broker
from tests.support.profile_fixtures.dsmr import telegram

LENGTH_MS = 1000
PLUG, HEAD = "shellypro3em-c0ffee4d1177", "tasmota_4D7731"
PRIVATE = {
    "mac": "C0FFEE4D1177",
    "ssid": "Gartenweg-Sieben",
    "note": "canary-note-0042",
    "serial": "4530303034303031373530323838316A",
    "gas": "4730303339303031373530323838316B",
    "contract": "041288113377",
}
STREAM = """
[[stream]]
name = "{name}"
[stream.source]
url = "{url}"
topic = "{topic}"
profile = "{profile}"
kind = "power"
unit = "{unit}"
{source}
[stream.window]
length = "1s"
lateness = "200ms"
catch_up = "500ms"
[stream.privacy]
radius = {radius}
quantum = {quantum}
[stream.sink]
topic = "private/{name}/{{meter}}"
{sink}
"""


def streams(url: str, key: Path) -> str:
    """A stream for each device."""
    own, pseudonym = 'meter = "mine"', f'pseudonym_key_file = "{key}"'
    watts, kilowatts = (
        {"url": url, "unit": "W", "radius": 20_000, "quantum": 0.001},
        {"url": url, "unit": "kW", "radius": 20, "quantum": 0.000001},
    )
    plug = {"name": "plug", "topic": "{meter}/events/rpc", "profile": "shelly-gen2-em"}
    head = {"name": "head", "topic": f"tele/{HEAD}/SENSOR", "profile": "tasmota"}
    port = {"name": "port", "topic": "dsmr/raw", "profile": "dsmr-p1"}
    return (
        STREAM.format(**plug, **watts, source="", sink=pseudonym)
        + STREAM.format(**head, **watts, source=own, sink="")
        + STREAM.format(**port, **kilowatts, source=own, sink="")
    )


def messages(at_ms: int) -> Iterator[tuple[str, bytes]]:
    """What the devices say at a time."""
    status: dict[str, Any] = {"id": 0, "total_act_power": float(WATTS["one"]), "note": PRIVATE["note"]}
    wifi = {"ssid": PRIVATE["ssid"], "mac": PRIVATE["mac"]}
    params = {"ts": at_ms / 1000, "em:0": status, "wifi": wifi}
    yield f"{PLUG}/events/rpc", json.dumps({"src": PLUG, "method": "NotifyStatus", "params": params}).encode()
    energy = {"Total": 7.5, "Power": float(WATTS["two"])}
    sensor = {"Time": "2026-11-20T12:00:00", "ENERGY": energy, "Account": {"ADCO": PRIVATE["contract"]}}
    yield f"tele/{HEAD}/SENSOR", json.dumps(sensor).encode()
    local = time.strftime("%y%m%d%H%M%SW", time.gmtime(at_ms / 1000 + 3600))
    lines = (f"0-0:1.0.0({local})", f"0-0:96.1.1({PRIVATE['serial']})", "1-0:1.7.0(19.191*kW)")
    yield "dsmr/raw", telegram("XMX5LGBBFG10", *lines, f"0-1:96.1.0({PRIVATE['gas']})")


class Run(NamedTuple):
    """Every byte that was kept or sent, and what was counted."""

    sent: list[bytes]
    killed: dict[str, bytes]
    stopped: dict[str, bytes]
    log: str
    accepted: int


@pytest.fixture(scope="module")
def run(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An agent that is killed in a window, started again and stopped."""
    with mosquitto(settings=TELL_ALL) as broker:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("devices")))


async def _run(broker: Broker, folder: Path) -> Run:
    key = folder / "key"
    key.write_text("a key of sixteen characters, and more")
    key.chmod(0o600)
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder / "agent", streams(broker.url, key)) as agent:
            agent.start()
            await subscribed(broker, 3)
            sending = asyncio.create_task(send(line))
            await until_ms((now_ms() // LENGTH_MS + 3) * LENGTH_MS + 700)
            await agent.kill()
            killed = files(agent)
            agent.start()
            await subscribed(broker, 6)
            await until_ms((now_ms() // LENGTH_MS + 2) * LENGTH_MS + 700)
            await agent.stop()
            sending.cancel()
            sent = [c.topic.encode() + b"\n" + c.payload for c in inbox.messages if "private/" in c.topic]
            return Run(sent, killed, files(agent), agent.log, agent.totals["accepted"])


async def send(line: Meters) -> None:
    """Each device, five times a second."""
    for _ in count():
        for topic, payload in messages(now_ms()):
            await line.raw(topic, payload)
        await asyncio.sleep(0.2)


def names(data: bytes) -> set[str]:
    """What identifies somebody in some bytes, in capitals or not."""
    return {name for name, text in PRIVATE.items() if text.lower().encode() in data.lower()}


def test_the_run_is_one(run: Run) -> None:
    """The devices were understood: records of all three left, and an open window was in the store."""
    assert run.accepted >= 3
    for name in ("plug", "head", "port"):
        assert sum(f"private/{name}/".encode() in one and b'"value"' in one for one in run.sent) >= 2
    assert b'"slots":[[' in run.killed["db"]


def test_nothing_that_identifies_leaves(run: Run) -> None:
    """No serial number, MAC, contract or network, no device's name and no power is in what leaves."""
    data = concatenated(run.sent)
    assert names(data) == set()
    assert PLUG.encode() not in data
    assert HEAD.encode() not in data
    assert traces_in(data) == set()


def test_nothing_that_identifies_is_logged(run: Run) -> None:
    """The log names no device and holds none of their texts or powers."""
    assert names(run.log.encode()) == set()
    assert traces_in(run.log.encode()) == set()


def test_nothing_that_identifies_is_kept(run: Run) -> None:
    """The store holds neither texts nor powers of messages, after kill -9 nor after a stop."""
    for kept in (run.killed, run.stopped):
        data = concatenated(kept.values())
        assert traces_in(data) == set()
        assert names(data) - {"mac"} == set(), (
            "the plug's name holds its MAC: by it the agent knows the meter"
        )
        assert HEAD.encode() not in data
