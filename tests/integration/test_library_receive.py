"""The three programs for receivers in docs/library.md run as a reader runs them."""

import asyncio
import csv
import math
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from meteragent import cli
from meteragent.consume import Rules, Slots, by_feeder, collect, mean_energy, mean_value
from simulators import __main__ as simulators
from tests.collect.test_collect_answers import fill
from tests.integration.service import LIMIT_S, count_in_log, until
from tests.support.broker import Broker
from tests.support.collecting import record_messages, terms_message, topic
from tests.support.messages import HALF_HOUR_MS, NOON_MS, described, recorded
from tests.support.not_run import ROOT
from tests.support.stores import TERMS

PAGE = (ROOT / "docs" / "library.md").read_text("utf-8").partition("\n## Receive\n")[2].partition("\n## ")[0]
LIVE, MONTH, FEEDERS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
START_MS, END_MS = 1_790_805_600_000, 1_793_487_600_000
"""October 2026 in Amsterdam, which has 31 days and one hour."""
SLOTS = (END_MS - START_MS) // HALF_HOUR_MS
HOMES = {"m1": [300, 500], "m2": [700, 100]}


def printed(program: str, *arguments: str, folder: Path) -> list[str]:
    """Return the lines that a program prints; it ends with 0."""
    command = [sys.executable, "-c", program, *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@contextmanager
def running(program: str, *arguments: str) -> Iterator[IO[str]]:
    """Run a program until the end of the context; return what it prints, which ends after a time at most."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        try:
            yield process.stdout
        finally:
            limit.cancel()
            process.kill()


@contextmanager
def publisher(broker: Broker) -> Iterator[Client]:
    """Return a connected client."""
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


async def test_live_numbers_become_a_mean(broker: Broker) -> None:
    """After the records of two homes, the program prints their mean with its interval."""
    payloads = [described(TERMS, meter) for meter in HOMES]
    with publisher(broker) as client:
        for meter, payload in zip(HOMES, payloads, strict=True):
            client.publish(f"{topic(meter)}/privacy", payload, qos=1, retain=True).wait_for_publish(LIMIT_S)
        with running(LIVE, "127.0.0.1", str(broker.port)) as output:
            await until(lambda: count_in_log(broker, re.escape("power/privacy/#")) > 0)
            for slot in range(2):
                for meter, quanta in HOMES.items():
                    [payload] = recorded(TERMS, quanta[slot : slot + 1], meter, slot)
                    payloads.append(payload)
                    client.publish(topic(meter), payload, qos=1).wait_for_publish(LIMIT_S)
            lines = [await asyncio.to_thread(output.readline) for _ in range(4)]
    homes = collect(payloads)
    mean = mean_value(homes.values(), NOON_MS + HALF_HOUR_MS)
    assert lines[0].startswith("1 homes: 300 W (")
    assert lines[-1] == f"2 homes: {mean.value:.0f} W ({mean.low:.0f} to {mean.high:.0f})\n"


async def test_a_month_comes_from_the_database(table_url: str, tmp_path: Path) -> None:
    """The program prints each home's month with its interval, and the mean, as consume computes them."""
    first = (START_MS - NOON_MS) // HALF_HOUR_MS
    messages = []
    for number, meter in enumerate(HOMES):
        quanta = [300 + 10 * number + slot % 7 for slot in range(SLOTS)]
        messages += [terms_message(TERMS, meter), *record_messages(TERMS, quanta, meter, first)]
    await fill(table_url, messages)
    homes = collect(message.payload for message in messages)
    used = {meter: home.energy(START_MS, END_MS) for meter, home in homes.items()}
    mean = mean_energy(homes.values(), START_MS, END_MS)
    assert math.isclose(mean.value, sum(one.value for one in used.values()) / len(used))
    assert printed(MONTH, table_url, folder=tmp_path) == [
        *(f"{m}: {one.value:.1f} kWh, between {one.low:.1f} and {one.high:.1f}" for m, one in used.items()),
        f"mean: {mean.value:.1f} ± {mean.sd:.1f} kWh",
    ]


def test_an_archive_becomes_feeders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program writes the cells of the archive that the tutorial on archives releases."""
    monkeypatch.chdir(tmp_path)
    tutorial = (ROOT / "docs" / "tutorials" / "archive.md").read_text("utf-8")
    [settings, *_] = re.findall(r"^```toml\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    Path("archive.toml").write_text(settings)
    simulated = ["generate", "--seed", "1", "--homes", "50", "--days", "1", "--out", "homes.parquet"]
    assert simulators.main(simulated) == 0
    assert cli.main(["key", "new", "archive.key", "--tenant", "example", "--from", "2025-01-01"]) == 0
    assert cli.main(["sanitise", "homes.parquet", "private.parquet", "--config", "archive.toml"]) == 0
    assert printed(FEEDERS, "private.parquet", folder=tmp_path) == []
    slots = Slots.read(Path("private.parquet"))
    feeder_of = {meter: "north" if number % 2 else "south" for number, meter in enumerate(slots.meters)}
    cells = by_feeder(slots, feeder_of, Rules(at_least=15))
    with Path("feeders.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["feeder"] for row in rows] == [str(name) for name in cells.feeder]
    assert {row["feeder"] for row in rows} == {"north", "south"}
    assert [float(row["total"]) for row in rows] == pytest.approx(cells.total.tolist())
