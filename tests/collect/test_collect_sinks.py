"""Both sinks come to the same verdicts as a plain model that judges rows one at a time."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from meteragent.collect.core import Core, Limits, Message, Row
from meteragent.collect.database import Database
from meteragent.collect.dataset_sink import ParquetSink
from meteragent.collect.sink import Sink
from meteragent.collect.topic import StreamTopic
from meteragent.consume import read_table
from tests.support.collecting import NOW_MS, TEMPLATE, core, record_messages, rows, terms_message
from tests.support.messages import HALF_UP, HOURLY, TEN_MIN_MS
from tests.support.stores import TERMS

GRIDS = (TERMS, HALF_UP, HOURLY)
"""Slots of half an hour, twice, and of ten minutes."""
DESCRIPTORS = [terms_message(terms, meter) for terms in GRIDS for meter in ("m1", "m2")]
EXAMPLES = itertools.count()


class Sent(NamedTuple):
    """A record: the index of its terms, its meter, ten minutes in its slot, and its value."""

    grid: int
    meter: str
    slot: int
    quanta: int

    def messages(self) -> list[Message]:
        """Return the record as a message."""
        terms = GRIDS[self.grid]
        return record_messages(terms, [self.quanta], self.meter, self.slot * TEN_MIN_MS // terms.step_ms)


RECORDS = st.builds(
    Sent,
    st.integers(0, len(GRIDS) - 1),
    st.sampled_from(["m1", "m2"]),
    st.integers(0, 8),
    st.integers(0, 1),
)
BATCHES = st.lists(st.lists(RECORDS, min_size=1, max_size=8), min_size=1, max_size=4)


class Verdicts(NamedTuple):
    """The rows that are written, by meter, start and value, and the refusals by reason."""

    rows: list[tuple[str, int, int]]
    refusal_counts: dict[str, int]


def judged(messages: Sequence[Message]) -> Verdicts:
    """Judge one row after another: it is a new interval, or one that is there, or it is refused."""
    accepted: dict[str, list[Row]] = {}
    refused = Counter[str]()
    for row in core().take_messages([*DESCRIPTORS, *messages], NOW_MS).rows:
        slots = accepted.setdefault(row.meter, [])
        same = [item for item in slots if (item.time_ms, item.until_ms) == (row.time_ms, row.until_ms)]
        if same:
            refused["twice"] += row not in same
        elif any(item.time_ms < row.until_ms and row.time_ms < item.until_ms for item in slots):
            refused["overlap"] += 1
        else:
            slots.append(row)
    kept = sorted((row.meter, row.time_ms, row.quanta) for slots in accepted.values() for row in slots)
    return Verdicts(kept, dict(+refused))


async def written(sink: Sink, stream: str, batches: Sequence[Sequence[Message]]) -> None:
    """Write the descriptors and then each batch, as one life of `collect` does."""
    await sink.create_tables()
    judge = Core([StreamTopic.parse(stream, TEMPLATE)], Limits(), *await sink.begin_service(is_first=True))
    for messages in [DESCRIPTORS, *batches]:
        await sink.write_batch(judge.take_messages(messages, NOW_MS), len(messages), NOW_MS)


async def in_tables(url: str, stream: str, batches: Sequence[Sequence[Message]]) -> Verdicts:
    """Return the verdicts of PostgreSQL, in a stream of its own."""
    async with Database.connect(url, None, "test", "none") as database:
        await written(database, stream, batches)
    with psycopg.connect(url) as connection:
        query = "SELECT reason, count FROM meteragent.refused WHERE stream = %s"
        refused: dict[str, int] = dict(connection.execute(query, (stream,)).fetchall())
        return Verdicts([(meter, time_ms, z) for meter, time_ms, _, z in rows(connection, stream)], refused)


async def in_files(folder: Path, stream: str, batches: Sequence[Sequence[Message]]) -> Verdicts:
    """Return the verdicts of the dataset, whose rows are moved into files after each batch."""
    async with ParquetSink.connect(folder, "test", "day", 3600) as sink:
        for end in range(len(batches) + 1):
            await written(sink, stream, batches[max(end - 1, 0) : end])
            await sink.flush()
        refused = dict(sink._staging._fetch("SELECT reason, count FROM refused"))
    homes = read_table(folder, stream, 0, NOW_MS)
    records = [(meter, record) for meter, home in homes.items() for record in home.records]
    return Verdicts(sorted((meter, item.time_ms, int(item.value)) for meter, item in records), refused)


async def in_files_at_once(folder: Path, stream: str, batches: Sequence[Sequence[Message]]) -> Verdicts:
    """Return the verdicts of the dataset, whose rows are moved into files only at the end."""
    return await in_files(folder, stream, [list(itertools.chain(*batches))])


SPANS = [
    [Sent(2, "m1", 0, 1)],
    [Sent(0, "m1", 0, 1), Sent(2, "m1", 2, 1)],
]
"""A half hour that overlaps a slot in the table, and ten minutes that overlap only this half hour."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BATCHES)
@example(SPANS)
def test_a_refused_row_refuses_no_other(table_url: str, tmp_path: Path, batches: list[list[Sent]]) -> None:
    """In PostgreSQL and in files, a row is judged by the rows that were accepted before it, and no others."""
    stream = f"stream{next(EXAMPLES)}"
    sent = [[message for record in batch for message in record.messages()] for batch in batches]
    expected = judged(list(itertools.chain(*sent)))
    assert asyncio.run(in_tables(table_url, stream, sent)) == expected
    assert asyncio.run(in_files(tmp_path / stream, stream, sent)) == expected
    assert asyncio.run(in_files_at_once(tmp_path / f"{stream} at once", stream, sent)) == expected
