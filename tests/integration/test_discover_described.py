"""`discover` on a real broker with descriptions of devices: what it proposes runs as pasted."""

import asyncio
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeBroker
from tests.integration.service import LIMIT_S, TELL_ALL, Meters, Scenarios, end_tasks, meters
from tests.support.broker import Broker
from tests.support.not_run import ROOT

PLUGS = 300
"""Devices in the list of Zigbee2MQTT, which makes it larger than a reading may be."""
ENERGY = {"Time": "2026-01-02T10:00:00", "ENERGY": {"Total": 7712.25, "Power": 412}}
SENT = [
    ("p1/sensor/power_consumed/state", "0.5"),
    ("p1/sensor/energy_consumed_tariff_1/state", "1200.5"),
    ("p1/sensor/energy_consumed_tariff_2/state", "900.25"),
    ("z2m/desk", json.dumps({"state": "ON", "power": 57.5, "energy": 3.25})),
    ("home/cellar/tele/SENSOR", json.dumps(ENERGY)),
    ("cellar/sml", json.dumps({"SML": {"Power_curr": 73155}})),
]


def described() -> list[tuple[str, Any]]:
    """Return the retained descriptions of a P1 reader, of many plugs and of a Tasmota device."""
    names = ("power_consumed", "energy_consumed_tariff_1", "energy_consumed_tariff_2")
    sensors = [
        (
            f"homeassistant/sensor/p1/{name}/config",
            {
                "name": name.replace("_", " "),
                "stat_t": f"~/{name}/state",
                "~": "p1/sensor",
                "unit_of_meas": "kW" if name.startswith("power") else "kWh",
                "dev_cla": name.partition("_")[0],
                "stat_cla": "measurement" if name.startswith("power") else "total_increasing",
                "dev": {"ids": "p1", "name": "P1 reader"},
            },
        )
        for name in names
    ]
    exposes = [
        {"type": "switch", "features": []},
        {"type": "numeric", "name": "power", "property": "power", "unit": "W", "description": "x" * 200},
    ]
    plugs = [
        {"friendly_name": name, "type": "Router", "definition": {"model": "P", "exposes": exposes}}
        for name in ("desk", *(f"plug{i}" for i in range(PLUGS)))
    ]
    topics = {"t": "cellar", "ft": "home/%topic%/%prefix%/", "tp": ["cmnd", "stat", "tele"], "rl": [0]}
    return [*sensors, ("z2m/bridge/devices", plugs), ("tasmota/discovery/C0FFEE4D7731/config", topics)]


async def send(line: Meters) -> None:
    """Send readings until cancelled."""
    while True:
        for topic, payload in SENT:
            await line.raw(topic, payload)
        await asyncio.sleep(0.3)


async def program(*arguments: str, folder: Path = ROOT) -> tuple[str, str]:
    """Run a command of meteragent to its end; return its output and its errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "meteragent", *arguments),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return out.decode(), err.decode()


async def first_reading(folder: Path, text: str = "the first reading has arrived") -> str:
    """Run the agent in a folder until a reading has arrived, or it logs `text`; return what it has logged."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "meteragent", "run", "home.toml"), cwd=folder, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    log = ""
    try:
        async with asyncio.timeout(LIMIT_S):
            while text not in log and not process.stderr.at_eof():
                log += (await process.stderr.readline()).decode()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()
    return log


def pasted_into(folder: Path, report: str) -> list[Path]:
    """Paste each configuration of one meter into a folder of its own; return the folders."""
    folders: list[Path] = []
    blocks = re.findall(r"a configuration to start with:\n\n((?: {7}.*\n?)+)", report)
    for block in [block for block in blocks if "{meter}" not in block.partition("[sink]")[0]]:
        folders.append(folder / str(len(folders)))
        folders[-1].mkdir()
        (folders[-1] / "home.toml").write_text(textwrap.dedent(block))
    return folders


@pytest.fixture(scope="module")
def runs(interruptible: None, mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """The report, and what the agent logs with each of its configurations."""

    async def pasted(folder: Path) -> tuple[str, Sequence[str], str]:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _pasted(broker, folder)

    scenarios = Scenarios(tmp_path_factory.mktemp("described"), pasted)
    asyncio.run(scenarios.run())
    return scenarios


async def _pasted(broker: Broker, folder: Path) -> tuple[str, Sequence[str], str]:
    async with meters(broker) as line:
        for topic, fields in described():
            await line.raw(topic, json.dumps(fields), retain=True)
        sending = asyncio.create_task(send(line))
        try:
            report, errors = await program("discover", "--url", broker.url, "--seconds", "3")
            folders = pasted_into(folder, report)
            logs = await asyncio.gather(*map(first_reading, folders))
            for topic, fields in described()[:3]:
                await line.raw(topic, json.dumps(fields | {"unit_of_meas": "W"}), retain=True)
            [text] = [text for path in folders if "unit_topic" in (text := (path / "home.toml").read_text())]
            anew = folder / "anew"  # where no meter is known, so that refusals are told at once
            anew.mkdir()
            (anew / "home.toml").write_text(text)
            logs.append(await first_reading(anew, "(refused_unit)"))
        finally:
            await end_tasks(sending)
    return report, logs, errors


def test_what_is_proposed_runs_as_pasted(runs: Scenarios) -> None:
    """Each configuration of the report is accepted by the agent, which reads the device with it."""
    report, logs, errors = runs["pasted"]
    assert len(logs) == 4, report + errors
    assert all("the first reading has arrived" in log for log in logs[:3]), logs


def test_a_unit_in_a_discovery_message_is_followed(runs: Scenarios) -> None:
    """After an update of the device, its message states another unit: readings are refused."""
    report, logs, _ = runs["pasted"]
    assert 'unit_topic = "homeassistant/sensor/p1/power_consumed/config"' in report
    assert "source.unit_topic states a unit other than the configured one (refused_unit)" in logs[3], logs[3]


def test_descriptions_state_kind_and_unit(runs: Scenarios) -> None:
    """Unit, class and topic come from discovery messages, from a list of many plugs and from Tasmota."""
    report, _, _ = runs["pasted"]
    words = " ".join(report.split())
    assert "P1 reader (Home Assistant's discovery message): power in kW, drawn" in words
    assert 'topic = "home/cellar/tele/SENSOR"' in report
    assert "role sub-meter of a device" in words
    assert f"which of the {PLUGS} are yours" in words
    assert "described on the broker, but no message came while listening" in words


def test_what_is_not_understood_is_listed_without_values(runs: Scenarios) -> None:
    """A topic without a unit is listed beside the proposals, with what is missing and without its value."""
    report, _, _ = runs["pasted"]
    assert "cellar/sml" in report
    assert "SML.Power_curr: its name refers to power, but not to the unit: W or kW?" in " ".join(
        report.split()
    )
    assert "73155" not in report
