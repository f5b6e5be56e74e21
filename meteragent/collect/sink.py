"""Where the effects of messages are kept: the protocol of a sink, and the sink that a configuration names."""

import importlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from meteragent.collect.configuration import Settings
from meteragent.collect.core import Batch, Refusal, Row, Waiting
from meteragent.consume.message import Descriptor
from meteragent.domain.shape import Space
from meteragent.domain.units import MICRO, UNIT_FACTOR

_JOULES_PER_WH = 3600
_WITHOUT_ENERGY = {Space.PEAK, Space.ABOVE, Space.WEIGHTED}


class Content(NamedTuple):
    """What the core needs from a sink: descriptors, terms of streams, numbers of waiting records."""

    descriptors: list[Descriptor]
    terms: list[tuple[str, str]]
    waiting: dict[tuple[str, str], int]


class Outcome(NamedTuple):
    """The result of a commit: rows written, rows that already existed, refusals by stream and reason.

    `refusals` are refused messages with their origin; the sink need not name each one that it refuses itself.
    """

    written: int
    repeated: int
    refused: Counter[tuple[str, str]]
    refusals: Sequence[Refusal] = ()


class Numbers(NamedTuple):
    """The numbers of a descriptor, stored beside its facts, so that SQL can compute with its records.

    `joules` is the energy of one unit: joules (energies), or joules a second (powers); None if no energy
    follows from values.
    """

    space: str
    unit: str
    quantum_u: int
    variance: Any
    joules: int | None
    is_energy: bool


def numbers_of(descriptor: Descriptor) -> Numbers:
    """Return the numbers of a descriptor; the variance is a float."""
    joules = None
    if descriptor.space not in _WITHOUT_ENERGY:
        joules = UNIT_FACTOR[descriptor.unit] * (_JOULES_PER_WH if descriptor.is_energy else 1)
    quantum_u, variance = int(descriptor.mechanism.quantum * MICRO), float(descriptor.variance)
    return Numbers(str(descriptor.space), descriptor.unit, quantum_u, variance, joules, descriptor.is_energy)


class Sink(Protocol):
    """Durable tables. Each operation raises LinkError if it may succeed later, DatabaseError if it cannot."""

    async def migrate(self) -> int:
        """Create or update the tables; return the number of changes."""
        ...

    async def begin(self, *, is_first: bool) -> Content:
        """Prepare the connection; return the tables' content. If `is_first`, begin the collector's counts."""
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
    """Return the sink that a configuration names, to be entered; it needs its extra."""
    name, keys = settings.source.client_id, settings.dataset
    sink: AbstractAsyncContextManager[Sink]
    if keys is not None:
        files: Any = importlib.import_module("meteragent.collect.parquet")
        sink = files.ParquetSink.connect(keys.folder, name, keys.partition, keys.delay / 1000)
        return sink
    tables: Any = importlib.import_module("meteragent.collect.database")
    database = settings.database
    assert database is not None  # noqa: S101 -- the configuration has exactly one sink
    sink = tables.Database.connect(database.url, settings.password(), name, database.partition)
    return sink


def apart(rows: Iterable[tuple[int, Row]], streams: set[str]) -> Iterator[tuple[int, Row]]:
    """Yield numbered rows in order, except those in these streams that overlap an earlier row of their meter.

    Equal slots are one slot, and the bands of a window do not overlap.
    """
    slots: dict[tuple[str, str], list[tuple[int, int, bool]]] = {}
    for place, row in rows:
        if row.stream in streams:
            accepted = slots.setdefault((row.stream, row.meter), [])
            slot = row.time_ms, row.until_ms, bool(row.band)
            index = bisect_left(accepted, (row.time_ms,))
            before, after = accepted[max(index - 1, 0) : index], accepted[index : index + 1]
            if slot not in after:
                if any(end_ms > row.time_ms for _, end_ms, _ in before):
                    continue
                if any(start_ms < row.until_ms for start_ms, _, _ in after):
                    continue
                accepted.insert(index, slot)
        yield place, row
