"""Raw values are nowhere but in memory: canaries are looked for in every byte that is kept or sent (law 3).

What may match by right, and why it does not: names of meters and times are public, so the canaries are
no names and no times. An accumulator is noise * q * T + energy; with a radius of 20 kW on a lattice of
1 mW the noise is 0 with a probability of 2.5e-8 per slot, so no accumulator and no released value shows
the energy. Chance: of some 10^3 numbers in the files each is a multiple of one of the three canaries
(above 10^10) with a probability of 3e-10, and holds the 8 digits of one with 3e-7; the shortest binary
patterns have 4 bytes, three for each canary, at some 2 * 10^5 places with 2^-32. Together below 0.1%.

The same meters also feed an agent without dither whose noise is 0 but for once in 10^43: the search must
find them there, in an accumulator, or it could not find them anywhere.
"""

import asyncio
import sqlite3
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.canary import NOTE, WATTS, concatenated, files, traces_in
from tests.integration.service import (
    TELL_ALL,
    Meters,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until_ms,
    utility,
)
from tests.support.broker import Broker

LENGTH_MS = 1000
UNDITHERED = ("tests.integration.altered", "undithered")
WINDOW = 'length = "1s"\nlateness = "200ms"\ncatch_up = "500ms"'


class Run(NamedTuple):
    """Every byte that was kept or sent: after kill -9 in a window, after a stop, and on the way."""

    killed: dict[str, bytes]
    stopped: dict[str, bytes]
    messages: list[bytes]
    log: str
    bare: dict[str, bytes]


@pytest.fixture(scope="module")
def run(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two agents on the same meters, one that hides and one that does not."""
    with mosquitto(settings=TELL_ALL) as broker:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("canary")))


async def _run(broker: Broker, folder: Path) -> Run:
    hides = stream(broker.url, window=WINDOW, privacy="radius = 20000\nquantum = 0.001")
    bare = stream(broker.url, name="bare", window=WINDOW)
    async with utility(broker) as inbox, meters(broker) as line:
        with (
            service(folder / "hides", hides) as agent,
            service(folder / "bare", bare, program=UNDITHERED) as naked,
        ):
            agent.start()
            naked.start()
            await subscribed(broker, 2)
            sending = asyncio.create_task(send(line))
            await until_ms((now_ms() // LENGTH_MS + 3) * LENGTH_MS + 700)
            await agent.kill()
            await naked.kill()
            killed, seen_bare = files(agent), files(naked)
            agent.start()
            await subscribed(broker, 3)
            await until_ms((now_ms() // LENGTH_MS + 2) * LENGTH_MS + 700)
            await agent.stop()
            sending.cancel()
            sent = [c.topic.encode() + b"\n" + c.payload for c in inbox.messages if "/main/" in c.topic]
            return Run(killed, files(agent), sent, agent.log, seen_bare)


async def send(line: Meters) -> None:
    """Each meter its canary, ten times a second."""
    for _ in count():
        for meter, watts in WATTS.items():
            payload = f'{{"power": {watts}, "t": {now_ms()}, "note": "{NOTE}"}}'
            await line.raw(f"meters/{meter}/power", payload)
        await asyncio.sleep(0.1)


def test_the_run_is_one(run: Run) -> None:
    """There is something to be searched: open windows in the store, and records of every meter."""
    assert {"db", "db-wal", "db-shm", "db.gen"} <= set(run.killed)
    assert b'"slots":[[' in run.killed["db"]
    assert len(run.messages) >= 4 * len(WATTS)


def test_after_kill_in_a_window_no_raw_value_is_in_the_store(run: Run) -> None:
    """The SQLite file, its log and index, and the generation hold no raw value, however written."""
    assert traces_in(concatenated(run.killed.values())) == set()


def test_after_a_stop_no_raw_value_is_in_the_store(run: Run) -> None:
    """Nor are there any when the agent has gone on and was stopped in an orderly way."""
    assert traces_in(concatenated(run.stopped.values())) == set()


def test_no_raw_value_leaves(run: Run) -> None:
    """No message, record or descriptor, topic or payload, holds a raw value."""
    assert traces_in(concatenated(run.messages)) == set()


def test_no_raw_value_is_logged(run: Run) -> None:
    """The log holds none, nor the note that came with them."""
    assert traces_in(run.log.encode()) == set()


def test_without_noise_the_search_finds_them(run: Run) -> None:
    """In the store of the agent whose noise is 0, the energy so far shows the canaries."""
    assert "a multiple of 13371.337" in traces_in(concatenated(run.bare.values()))


@pytest.mark.parametrize("value", [13371337, 13371337000, 13371.337, "13371.337", NOTE])
def test_the_search_finds_what_sqlite_writes(value: object, tmp_path: Path) -> None:
    """A canary in a column of a SQLite file is found, as integer, real or text; without it nothing is."""
    path = tmp_path / "db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (value)")
    connection.close()
    assert traces_in(path.read_bytes()) == set()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO t VALUES (?)", (value,))
    connection.close()
    assert traces_in(path.read_bytes())
