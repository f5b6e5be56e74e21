"""Many hostile senders beside honest meters: what each sends in a minute, and what must come of it."""

import random
import resource
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import psycopg

from meteragent.collect.core import Message
from meteragent.domain.grid import iso_time
from tests.support.collect_life import Played, database_table, dataset_table, life_of
from tests.support.collecting import NOW_MS, record_messages, terms_message, topic
from tests.support.messages import HALF_UP, NOON_MS, changed, described, recorded
from tests.support.stores import TERMS
from tests.support.terms import terms_with

MINUTE_MS = 60_000
MINUTE = terms_with(TERMS, length_ms=MINUTE_MS, step_ms=MINUTE_MS)
LATER = replace(MINUTE, level=Fraction(2))
"""Terms of honest meters: slots of a minute, and what some of them change to."""
START_MS = NOW_MS - NOW_MS % MINUTE_MS - 60 * MINUTE_MS


class Scene(NamedTuple):
    """How many senders there are, and for how many minutes they send."""

    hostile: int
    honest: int
    minutes: int

    def messages(self, rng: random.Random) -> Iterator[Message]:
        """Yield the messages of all senders, minute by minute; the honest ones announce their terms first."""
        for number in range(self.honest):
            yield terms_message(MINUTE, f"honest{number}")
        for minute in range(self.minutes):
            for number in range(max(self.hostile, self.honest)):
                if number < self.hostile:
                    yield hostile(rng, number, minute)
                if number < self.honest:
                    yield from self._honest(number, minute)

    def _honest(self, number: int, minute: int) -> Iterator[Message]:
        """Yield what an honest meter sends; every tenth one changes its terms after half of the time."""
        meter, has_changed = f"honest{number}", number % 10 == 0 and minute >= self.minutes // 2
        terms = LATER if has_changed else MINUTE
        if has_changed and minute == self.minutes // 2:
            yield terms_message(terms, meter)
        first = (START_MS - NOON_MS) // MINUTE_MS + minute
        yield from record_messages(terms, [self.quanta(number, minute)], meter, first)

    @staticmethod
    def quanta(number: int, minute: int) -> int:
        """Return the value of an honest meter in a minute."""
        return number * 1000 + minute

    @property
    def expected(self) -> set[tuple[str, int, int]]:
        """The rows of honest meters: name, start and value."""
        return {
            (f"honest{number}", START_MS + minute * MINUTE_MS, self.quanta(number, minute))
            for number in range(self.honest)
            for minute in range(self.minutes)
        }


def hostile(rng: random.Random, number: int, minute: int) -> Message:
    """Return what one hostile sender sends: whatever could be kept, or cost."""
    return rng.choice(
        (_new_terms, _known_terms, _waiting, _stranger, _short_slots, _other, _garbage, _value)
    )(rng, f"evil{number}", minute)


def _new_terms(rng: random.Random, meter: str, _: int) -> Message:
    """Return terms that nobody else has."""
    nonce = "x" * rng.choice([1, 1, 1000]) + str(rng.random())
    return Message(f"{topic(meter)}/privacy", changed(described(HALF_UP, meter), is_sealed=True, nonce=nonce))


def _known_terms(rng: random.Random, meter: str, _: int) -> Message:
    """Return terms that others have, too, some of them on another grid."""
    return terms_message(rng.choice([MINUTE, HALF_UP, LATER]), meter)


def _waiting(rng: random.Random, meter: str, _: int) -> Message:
    """Return a record that waits for terms that never come."""
    [payload] = recorded(TERMS, [1], meter, rng.randrange(-1000, 40))
    return Message(topic(meter), changed(payload, d=f"{rng.randrange(1 << 32):08x}", z="y" * 500))


def _stranger(rng: random.Random, _meter: str, _: int) -> Message:
    """Return a record of a meter that nobody knows."""
    stranger = f"nobody{rng.randrange(1 << 40)}"
    return record_messages(TERMS, [1], stranger)[0]


def _short_slots(_rng: random.Random, meter: str, _: int) -> Message:
    """Return terms whose slots last a millisecond."""
    return terms_message(terms_with(TERMS, length_ms=1000, step_ms=1), meter)


def _other(rng: random.Random, meter: str, _: int) -> Message:
    """Return a record of an honest meter, on a topic that is not its own."""
    return Message(rng.choice([topic(meter), "elsewhere"]), recorded(MINUTE, [9], "honest0")[0])


def _garbage(rng: random.Random, meter: str, _: int) -> Message:
    """Return bytes."""
    return Message(topic(meter), rng.randbytes(rng.choice([10, 100, 20_000])))


def _value(rng: random.Random, meter: str, minute: int) -> Message:
    """Return a record of this minute, perhaps with a value that is too large."""
    time, value = iso_time(START_MS + minute * MINUTE_MS), rng.choice([1, -1, 10**12, 10**18])
    return Message(topic(meter), changed(recorded(MINUTE, [1], meter)[0], t=time, value=value))


class Watched(Played):
    """A source that notes how much memory the process has after each batch."""

    def __init__(self, messages: Iterable[Message]) -> None:
        super().__init__(messages)
        self.count = 0
        self.memory_mib: list[float] = []

    async def acknowledge(self, messages: Any) -> None:
        """Count what is acknowledged, and note the memory."""
        self.count += len(messages)
        self.memory_mib.append(_memory_mib())

    def growth_mib(self) -> float:
        """Return by how much the last tenth needs more than the middle of the time."""
        size = max(1, len(self.memory_mib) // 10)
        middle = self.memory_mib[len(self.memory_mib) // 2 :][:size]
        return max(self.memory_mib[-size:]) - max(middle)


def _memory_mib() -> float:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def refusals(source: Played) -> Counter[str]:
    """Return what a collector says it refused, by reason."""
    assert source.vitals is not None
    return Counter(dict(source.vitals.refusals))


class Sink(NamedTuple):
    """A sink to attack: PostgreSQL or Parquet, with empty tables."""

    kind: str
    table_url: str
    folder: Path

    @property
    def table(self) -> str:
        """The table of the configuration."""
        return database_table(self.table_url) if self.kind == "PostgreSQL" else dataset_table(self.folder)

    def honest(self) -> set[tuple[str, int, int]]:
        """Return the rows of honest meters: name, start and value."""
        query = "SELECT meter, (extract(epoch FROM t) * 1000)::bigint, value FROM meteragent.value"
        if self.kind == "PostgreSQL":
            with psycopg.connect(self.table_url) as connection:
                rows = connection.execute(f"{query} WHERE meter LIKE 'honest%'".encode()).fetchall()
        else:
            query = "SELECT meter, epoch_ms(t), value FROM read_parquet(?) WHERE meter LIKE 'honest%'"
            rows = duckdb.connect().execute(query, [f"{self.folder}/record/**/*.parquet"]).fetchall()
        assert len(rows) == len(set(rows))
        return {(meter, time_ms, int(value)) for meter, time_ms, value in rows}

    def kept(self) -> dict[str, int]:
        """Return how many descriptors, meters and waiting records are kept."""
        if self.kind == "PostgreSQL":
            with psycopg.connect(self.table_url) as connection:
                return {
                    name: connection.execute(f"SELECT count(*) FROM meteragent.{name}".encode()).fetchall()[
                        0
                    ][0]
                    for name in KEPT
                }
        with closing(sqlite3.connect(self.folder / "collect.db")) as database:
            return {name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in KEPT}


KEPT = ("descriptor", "terms", "waiting")


class Attack(NamedTuple):
    """The outcome of an attack."""

    source: Watched
    honest: set[tuple[str, int, int]]
    counts: dict[str, int]
    refused: Counter[str]


async def newcomers(
    scene: Scene, sink: Sink, max_meters: int
) -> tuple[Counter[str], set[tuple[str, int, int]]]:
    """Let ten new honest meters send after an attack: without a list of meters, then with one.

    Return what was refused without it, and the rows of new meters in the end.
    """
    meters = [f"honest{scene.honest + number}" for number in range(10)]
    messages = [
        message
        for meter in meters
        for message in (terms_message(MINUTE, meter), *record_messages(MINUTE, [1, 2], meter))
    ]
    refused = Watched(messages)
    await life_of(refused, sink.table, f"[accept]\nmax_meters = {max_meters}")
    path = sink.folder.parent / f"{sink.folder.name}.meters"
    path.write_text("\n".join([*(f"honest{number}" for number in range(scene.honest)), *meters]))
    await life_of(Watched(messages), sink.table, f"[accept]\nmeters_file = '{path}'")
    path.unlink()
    return refusals(refused), {row for row in sink.honest() if row[0] in meters}


async def attacked(scene: Scene, sink: Sink, max_meters: int, seed: int) -> Attack:
    """Let all senders of a scene send to `collect`, and return what became of it."""
    source = Watched(scene.messages(random.Random(seed)))
    await life_of(source, sink.table, f"[accept]\nmax_meters = {max_meters}", limit_s=7200)
    return Attack(source, sink.honest(), sink.kept(), refusals(source))
