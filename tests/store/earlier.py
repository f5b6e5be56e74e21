"""An agent's hour over a store: played once by each earlier version, whose store is a fixture.

`python -m tests.store.earlier FOLDER` in a work tree of that version, with this file put there, writes the
store as SQL with its generation, and what that version releases when it goes on (`earlier_store/README.md`).
"""

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.privacy import SeededBits
from meteragent.store import Store
from tests.support.stores import persist

NOON_MS = 1_795_176_000_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000
STOP_MS, END_MS = NOON_MS + 65 * MINUTE_MS, NOON_MS + 125 * MINUTE_MS
"""The version stops within open windows; what is released from then on is compared."""

METERS = {"m1": 1, "m2": 3}
STREAM = """
[[stream]]
name = "{name}"
[stream.source]
topic = "home/{{meter}}/{name}"
profile = "json"
value = "said"
time = "t"
{source}
[stream.window]
length = "30min"
{window}
[stream.privacy]
hide = "110Wh"
[stream.sink]
topic = "out/{{meter}}/{name}"
"""
CONFIG = "".join(
    STREAM.format(name=name, source=source, window=window)
    for name, source, window in (
        ("power", 'kind = "power"\nunit = "W"', 'step = "10min"'),
        ("energy", 'kind = "interval_energy"\nunit = "Wh"\ninterval = "15min"', ""),
        ("register", 'kind = "register"\nunit = "Wh"', 'lateness = "10min"'),
    )
)
"""Three slots of a window that are drawn one by one; an energy; a register whose spans the slots cut."""

EVERY_MS = {"power": 20_000, "energy": 15 * MINUTE_MS, "register": 20_026}


class Step(NamedTuple):
    """A stream is fed at a time, with a reading or none."""

    now_ms: int
    stream: str
    message: Message | None


def _said(stream: str, meter: str, time_ms: int, now_ms: int) -> Step:
    k, since_ms = METERS[meter], time_ms - NOON_MS
    said = {
        "power": 300 * k + since_ms // 20_000 % 7 * 111.5,
        "energy": 77.25 * k + since_ms // MINUTE_MS,
        "register": 100_000 * k + since_ms // 3000,
    }
    payload = json.dumps({"said": said[stream], "t": time_ms / 1000}).encode()
    return Step(now_ms, stream, Message(f"home/{meter}/{stream}", payload, False, now_ms, None))


def steps(from_ms: int, until_ms: int) -> Iterator[Step]:
    """Readings as they come, and a turn of each stream every minute."""
    periods_ms = {*EVERY_MS.values(), MINUTE_MS}
    times_ms = {t for p in periods_ms for t in range(from_ms + (NOON_MS - from_ms) % p, until_ms, p)}
    for now_ms in sorted(times_ms):
        for stream, every_ms in EVERY_MS.items():
            if (now_ms - NOON_MS) % every_ms == 0:
                yield from (_said(stream, meter, now_ms, now_ms) for meter in METERS)
            if (now_ms - NOON_MS) % MINUTE_MS == 0:
                yield Step(now_ms, stream, None)


def delivered_again() -> Iterator[Step]:
    """The register's readings that were not acknowledged when the agent stopped, after a start."""
    every_ms = EVERY_MS["register"]
    first_ms = STOP_MS - 12 * MINUTE_MS
    for time_ms in range(first_ms - (first_ms - NOON_MS) % every_ms, STOP_MS, every_ms):
        yield from (_said("register", meter, time_ms, STOP_MS) for meter in METERS)


def cores(store: Store, seed: int) -> dict[str, Pipeline]:
    """The streams as a start makes them."""
    made = {}
    for item in config.parse(CONFIG).stream:
        stream = Stream(
            name=item.name,
            source=config.topic_of(item.source),
            sink_topic=item.sink.topic,
            decode=config.decoder(item.source),
            schedule=config.schedule(item),
            ahead_ms=item.window.ahead,
            forget_ms=DAY_MS,
            spread_ms=0,
            max_meters=item.source.max_meters,
            max_payload=item.source.max_payload,
            secret=b"",
        )
        known = store.snapshot(item.name)
        made[item.name] = Pipeline(stream, known, Spending(), SeededBits(seed), Counts())
    return made


def play(store: Store, running: dict[str, Pipeline], told: Iterator[Step]) -> list[tuple[str, str]]:
    """Feed the streams and commit what they ask for; topic and payload of the records."""
    left = []
    for now_ms, name, message in told:
        commit = running[name].feed([] if message is None else [message], now_ms, now_ms).commit
        if commit:
            persist(store, commit, now_ms=now_ms)
        left += [(row.topic, row.payload.decode()) for row in commit.outgoing if not row.retain]
    return left


def _main(folder: Path) -> None:
    path = folder / "db"
    with Store.open(path, now_ms=NOON_MS, recovery_floor_ms=None) as store:
        play(store, cores(store, 1), steps(NOON_MS - 5 * MINUTE_MS, STOP_MS))
    generation = Path(f"{path}.gen").read_text()
    connection = sqlite3.connect(path)
    pragmas = [f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};" for name in _PRAGMAS]
    (folder / "store.sql").write_text("\n".join([*pragmas, *connection.iterdump(), ""]))
    connection.close()
    with Store.open(path, now_ms=NOON_MS, recovery_floor_ms=None) as store:
        second = cores(store, 2)
        released = play(store, second, delivered_again()) + play(store, second, steps(STOP_MS, END_MS))
    actual = {"generation": generation, "released": released}
    (folder / "released.json").write_text(json.dumps(actual, indent=1) + "\n")


_PRAGMAS = ("application_id", "user_version")

if __name__ == "__main__":
    _main(Path(sys.argv[1]))
