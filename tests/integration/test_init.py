"""From a broker's address alone: `init --yes`, `check`, `run --rehearse` and `run`, for five families."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meteragent import config
from tests.conftest import MakeBroker
from tests.integration.service import Scenarios, end_tasks, meters, now_ms, until, until_ms
from tests.integration.terminal import terminal
from tests.support.broker import Broker
from tests.support.not_run import ROOT
from tests.support.profile_fixtures.dsmr import telegram

Messages = Callable[[int, int], Iterator[tuple[str, str | bytes]]]
"""A function from the load in W and the register in Wh to the topics and payloads of one reading."""


def shelly(watts: int, register_wh: int) -> Iterator[tuple[str, str]]:
    """A Shelly Pro 3EM: the power, and the registers of both directions."""
    device = "shellypro3em-c0ffee4d1177"
    yield f"{device}/status/em:0", json.dumps({"id": 0, "total_act_power": watts})
    yield f"{device}/status/emdata:0", json.dumps({"id": 0, "total_act": register_wh, "total_act_ret": 0})


def tasmota(watts: int, register_wh: int) -> Iterator[tuple[str, str]]:
    """A Tasmota meter: telemetry with power and register."""
    energy = {"TotalStartTime": "2026-01-01T00:00:00", "Total": register_wh / 1000, "Power": watts}
    yield (
        "tele/meter/SENSOR",
        json.dumps({"Time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}", "ENERGY": energy}),
    )


def dsmr(watts: int, register_wh: int) -> Iterator[tuple[str, bytes]]:
    """A P1 port: telegrams with a checksum, in winter time."""
    local = datetime.now(UTC) + timedelta(hours=1)
    yield (
        "p1/telegram",
        telegram(
            "XMX5LGBBFG1009325446",
            "1-3:0.2.8(50)",
            f"0-0:1.0.0({local:%y%m%d%H%M%S}W)",
            f"1-0:1.8.1({register_wh / 1000:010.3f}*kWh)",
            "1-0:1.8.2(000000.000*kWh)",
            "1-0:2.8.1(000000.000*kWh)",
            "1-0:2.8.2(000000.000*kWh)",
            f"1-0:1.7.0({watts / 1000:06.3f}*kW)",
            "1-0:2.7.0(00.000*kW)",
        ),
    )


def zigbee2mqtt(watts: int, register_wh: int) -> Iterator[tuple[str, str]]:
    """A clamp on Zigbee2MQTT."""
    yield "zigbee2mqtt/clamp", json.dumps({"power": watts, "energy": register_wh / 1000, "voltage": 230})


def statestream(watts: int, _: int) -> Iterator[tuple[str, str]]:
    """A sensor of Home Assistant, with its unit beside it."""
    yield "homeassistant/sensor/grid_power/unit_of_measurement", '"W"'
    yield "homeassistant/sensor/grid_power/state", str(watts)


FAMILIES: dict[str, tuple[Messages, str]] = {
    "shelly-gen2-em": (shelly, "W"),
    "tasmota": (tasmota, "W"),
    "dsmr-p1": (dsmr, "W"),
    "zigbee2mqtt": (zigbee2mqtt, "W"),
    "homeassistant-statestream": (statestream, "W"),
}


def home_w(second: int) -> int:
    """The load of the home: a fridge, and a kettle for a quarter of the time."""
    return 312 + 2000 * (second % 20 < 5)


@dataclass
class Way:
    """What a new user of one family has seen: exit codes, outputs, the configuration and the agent's log."""

    init: "subprocess.CompletedProcess[str]"
    check: "subprocess.CompletedProcess[str]"
    shown: str
    log: str
    folder: Path


async def command(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command of meteragent, without a terminal."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "meteragent", *arguments),
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode or 0, out.decode(), err.decode())


async def replay(broker: Broker, messages: Messages) -> None:
    """Replay the home, a reading a second, until cancelled."""
    async with meters(broker) as line:
        register_mwh, second = 5_000_000_000, 0
        while True:
            for topic, payload in messages(home_w(second), register_mwh // 1000):
                await line.raw(topic, payload, retain="unit_of" in topic)
            register_mwh, second = register_mwh + home_w(second) * 1000 // 3600, second + 1
            await until_ms(now_ms() + 1000)


async def first_hour(broker: Broker, messages: Messages, folder: Path) -> Way:
    """From the address of a broker to a running agent."""
    replaying = asyncio.ensure_future(replay(broker, messages))
    try:
        init = await command(folder, "init", "--url", broker.url, "--seconds", "8", "--yes")
        check = await command(folder, "check", "home.toml")
        with terminal("run", "home.toml", "--rehearse", folder=folder) as shown:
            await until(lambda: bool(shown.shows(r"home +\d\d:\d\d:\d\d +\S+ +\S+")), 60)
            shown.process.send_signal(signal.SIGINT)
            await until(lambda: shown.process.poll() is not None)
        with (folder / "log").open("wb") as log:
            agent = subprocess.Popen(  # noqa: ASYNC220  it returns at once
                [sys.executable, "-m", "meteragent", "run", "home.toml"],
                cwd=folder,
                env={"PYTHONPATH": str(ROOT)},
                stderr=log,
            )
            try:
                path = folder / "log"
                await until(lambda: "the first reading has arrived" in path.read_text(), 60)
            finally:
                agent.send_signal(signal.SIGTERM)
                await until(lambda: agent.poll() is not None)
        return Way(init, check, shown.text, path.read_text(), folder)
    finally:
        await end_tasks(replaying)


@pytest.fixture(scope="module")
def ways(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """The ways of all families, side by side: each mostly listens and waits."""

    def of_family(family: str) -> Callable[[Path], Awaitable[Way]]:
        async def scenario(folder: Path) -> Way:
            with mosquitto() as broker:
                return await first_hour(broker, FAMILIES[family][0], folder)

        scenario.__name__ = family
        return scenario

    scenarios = Scenarios(tmp_path_factory.mktemp("homes"), *map(of_family, FAMILIES))
    asyncio.run(scenarios.run())
    return scenarios


@pytest.fixture
def way(request: pytest.FixtureRequest, ways: Scenarios) -> Way:
    """The way of a family."""
    found = ways[request.param]
    assert isinstance(found, Way)
    return found


each_family = pytest.mark.parametrize("way", FAMILIES, indirect=True)


@each_family
def test_from_an_address_to_a_running_agent(way: Way, request: pytest.FixtureRequest) -> None:
    """Without an answer: a configuration of the family, that `check` accepts, is shown and runs."""
    family = request.node.callspec.params["way"]
    assert way.init.returncode == 0, way.init.stderr
    assert way.check.returncode == 0, way.check.stderr
    stream = config.load(way.folder / "home.toml").stream[0]
    assert (stream.source.profile, stream.source.unit) == (family, FAMILIES[family][1])
    assert (stream.source.kind, stream.source.meter) == ("power", "home")
    values = [float(value.replace(",", "")) for value in re.findall(r"home +\d\d:\S+ +(\S+)", way.shown)]
    assert values
    assert all(311 <= value <= 2313 for value in values), values
    assert "Nothing is sent, and nothing is written." in " ".join(way.shown.split())
    assert "WARNING" not in way.log, way.log
    assert f"stream main: sends to {stream.source.url}, topic private/{{meter}}/power" in way.log
    assert "first number leaves at" in way.log
