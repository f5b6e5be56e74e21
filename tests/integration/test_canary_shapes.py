"""Month-long windows, days and curves hold no raw value either: canaries over weeks of timestamps (law 3).

The search is that of test_canary, and so is the argument why nothing matches by right or by chance: names and
times are public and no canaries; an accumulator is noise * q * T + energy, and with a radius of 20 kW on a
lattice of 1 mW its noise is 0 with a chance below 1e-7, in each of some 50. By the event clock a month passes
in a moment; the kill comes in the middle of a month, of a day, of a block and of a band.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.canary import NOTE, WATTS, concatenated, files, traces_in
from tests.integration.plan import SOURCE_TOPIC, time_ms
from tests.integration.service import TELL_ALL, Service, service, stream, subscribed, until
from tests.integration.shapes import HOUR_MS
from tests.integration.wire import LIMIT_S, Publication, Receiver, feed
from tests.support.broker import Broker
from tests.support.stores import stored_states

FIRST_MS = time_ms("2024-02-29T20:00:00Z")
KILLED, STOPPED = 24 * 18 + 13, 24 * 34 + 7
"""Hours of readings until the agent is killed, and until it is stopped."""
HIDES = "radius = 20000\nquantum = 0.001"
BARE = "level = 1000000000"
MONTH = 'length = "1mo"\nbands = ["00-07", "07-17", "17-21", "21-24"]'
SHAPES = {
    "month": ('length = "1mo"', HIDES),
    "typical": (MONTH, f"{HIDES}\nspace = 'profile'"),
    "day": ('length = "1d"', HIDES),
    "curve": ('length = "1d"\nblocks = 4', f"{HIDES}\nspace = 'curve'"),
}
"""The window and the privacy of each stream that hides."""


class Run(NamedTuple):
    """Every byte that was kept or sent: after kill -9 in all windows, after a stop, and on the way."""

    killed: dict[str, bytes]
    stopped: dict[str, bytes]
    messages: dict[str, list[bytes]]
    log: str
    bare: dict[str, bytes]


def toml(url: str, name: str, window: str, privacy: str) -> str:
    """A stream of readings that stand for an hour."""
    window = f'{window}\ntimezone = "Europe/Amsterdam"\nclock = "event"\nlateness = "30min"'
    return stream(url, name=name, source='hold = "1h"', window=window, privacy=privacy)


def canaries(from_hour: int, to_hour: int) -> Iterator[Publication]:
    """Each meter its canary, every hour."""
    for hour in range(from_hour, to_hour):
        for meter, watts in WATTS.items():
            text = f'{{"power": {watts}, "t": {FIRST_MS + hour * HOUR_MS}, "note": "{NOTE}"}}'
            yield Publication(SOURCE_TOPIC.replace("{meter}", meter), text.encode())


@pytest.fixture(scope="module")
def run(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two agents on the same meters, one that hides and one that does not."""
    with mosquitto(settings=TELL_ALL) as broker:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("canary")))


async def _run(broker: Broker, folder: Path) -> Run:
    hides = "".join(toml(broker.url, name, *how) for name, how in SHAPES.items())
    bare = toml(broker.url, "bare", MONTH, f"{BARE}\nspace = 'profile'")
    with (
        service(folder / "hides", hides) as agent,
        service(folder / "bare", bare, program=("tests.integration.altered", "undithered")) as naked,
    ):
        agent.start()
        naked.start()
        async with Receiver(broker) as receiver:
            await subscribed(broker, len(SHAPES) + 1)
            await feed(broker.url, list(canaries(0, KILLED)))
            await until(lambda: reached(agent, len(SHAPES), KILLED) and reached(naked, 1, KILLED), LIMIT_S)
            await agent.kill()
            await naked.kill()
            killed, seen_bare = files(agent), files(naked)
            agent.start()
            await feed(broker.url, list(canaries(KILLED, STOPPED)))
            await until(lambda: reached(agent, len(SHAPES), STOPPED), LIMIT_S)
            await agent.stop()
            await receiver.flush(broker.url)
        return Run(killed, files(agent), dict(receiver.messages), agent.log, seen_bare)


def reached(agent: Service, streams: int, hours: int) -> bool:
    """Whether the store says that every meter of every stream has come so far."""
    newest_ms = [state.newest_ms for _, _, state in stored_states(agent.store)]
    return newest_ms == [FIRST_MS + (hours - 1) * HOUR_MS] * streams * len(WATTS)


def test_the_run_is_one(run: Run) -> None:
    """There is something to be searched: open windows of all shapes, and records of every meter and shape."""
    assert {"db", "db-wal", "db-shm", "db.gen"} <= set(run.killed)
    assert b'"slots":[[' in run.killed["db"]
    records = {topic.removeprefix("private/"): len(set(sent)) for topic, sent in run.messages.items()}
    for meter in WATTS:
        counts = {"month": 1, "typical": 4, "day": 34, "curve": 34 * 4}
        assert {name: records[f"{name}/{meter}"] for name in SHAPES} == counts


def test_after_kill_in_all_windows_no_raw_value_is_in_the_store(run: Run) -> None:
    """The SQLite file, its log and index, and the generation hold no raw value, however written."""
    assert traces_in(concatenated(run.killed.values())) == set()


def test_after_a_stop_no_raw_value_is_in_the_store(run: Run) -> None:
    """Nor are there any when the agent has gone on through a month's end and was stopped."""
    assert traces_in(concatenated(run.stopped.values())) == set()


def test_no_raw_value_leaves(run: Run) -> None:
    """No message of a stream that hides, record or descriptor, topic or payload, holds a raw value."""
    sent = [b"\n".join([topic.encode(), *payloads]) for topic, payloads in run.messages.items()]
    assert traces_in(concatenated(text for text in sent if b"/bare/" not in text)) == set()


def test_no_raw_value_is_logged(run: Run) -> None:
    """The log holds none, nor the note that came with them."""
    assert traces_in(run.log.encode()) == set()


def test_without_noise_the_search_finds_them(run: Run) -> None:
    """In the store of the agent whose noise is 0, the energy so far of a month's bands shows the canaries."""
    assert traces_in(concatenated(run.bare.values())) == {
        f"a multiple of {watts}" for watts in WATTS.values()
    }
