"""Where the effects of messages are kept: the protocol of a sink, and the sink that a configuration names."""

import importlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from meteragent.collect.configuration import Settings
from meteragent.collect.core import Batch, Row, Waiting
from meteragent.consume.message import Descriptor


class Content(NamedTuple):
    """What the core needs of a sink: descriptors, terms of streams, numbers of waiting records."""

    descriptors: list[Descriptor]
    terms: list[tuple[str, str]]
    waiting: dict[tuple[str, str], int]


class Outcome(NamedTuple):
    """The result of a commit: rows written, rows that already existed, refusals by stream and reason."""

    written: int
    repeated: int
    refused: Counter[tuple[str, str]]


class Sink(Protocol):
    """Durable tables. Each operation raises LinkError if it may succeed later, DatabaseError if it cannot."""

    async def migrate(self) -> int:
        """Create or update the tables; return the number of changes."""
        ...

    async def begin(self, *, is_first: bool) -> Content:
        """Prepare the connection; return the tables' content. At first, begin the collector's counts."""
        ...

    async def waiting(self, ids: Iterable[str]) -> list[Waiting]:
        """Return the records that wait for descriptors, in order of arrival."""
        ...

    async def write(
        self, batch: Batch, messages: int, now_ms: int, overlapping: Sequence[str] = ()
    ) -> Outcome:
        """Commit a batch, all of it or nothing; it is on disk on return.

        `overlapping` are the streams whose slots are on more than one grid.
        """
        ...


def connect(settings: Settings) -> AbstractAsyncContextManager[Sink]:
    """Return the sink that a configuration names, to be entered."""
    name = settings.source.client_id
    module: Any = importlib.import_module("meteragent.collect.database")  # needs an extra
    keys = settings.database
    sink: AbstractAsyncContextManager[Sink] = module.Database.connect(
        keys.url, settings.password(), name, keys.partition
    )
    return sink


def apart(rows: Sequence[Row], streams: set[str]) -> Iterator[Row]:
    """Yield the rows of a batch, except those in these streams that overlap an earlier row of their meter."""
    ends: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.stream not in streams:
            yield row
            continue
        meter_rows = ends.setdefault((row.stream, row.meter), [])
        if not any(_overlap(row, other_row) for other_row in meter_rows):
            meter_rows.append(row)
            yield row


def _overlap(row: Row, other_row: Row) -> bool:
    """Return whether two slots overlap; equal slots are one slot; the bands of a window do not overlap."""
    is_same = (row.time_ms, row.until_ms, bool(row.band)) == (
        other_row.time_ms,
        other_row.until_ms,
        bool(other_row.band),
    )
    return not is_same and row.time_ms < other_row.until_ms and other_row.time_ms < row.until_ms
