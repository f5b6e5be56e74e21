"""The protocol that every sink implements, the choice of a sink, and what the sinks share."""

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
    """The content of a sink from which a core is built.

    `terms` holds pairs of a stream and the id of a descriptor that its rows name. `waiting` is the number of
    waiting records by stream and meter.
    """

    descriptors: list[Descriptor]
    terms: list[tuple[str, str]]
    waiting: dict[tuple[str, str], int]


class Outcome(NamedTuple):
    """The result of a commit: rows written, rows that already existed, and refusals by stream and reason.

    `refusals` has an entry for each message that the core refused, but not necessarily for each row that the
    sink refused.
    """

    written: int
    repeated: int
    refused: Counter[tuple[str, str]]
    refusals: Sequence[Refusal] = ()


class Numbers(NamedTuple):
    """The numbers of a descriptor that are stored beside its facts, so that SQL can use them.

    `quantum_u` is the quantum in millionths of the unit, and `variance` the variance of a value's noise in
    unit². `joules` is one unit in J, or in W if values are powers; it is None if no energy follows from
    the values.
    """

    space: str
    unit: str
    quantum_u: int
    variance: Any
    joules: int | None
    is_energy: bool


def numbers_of(descriptor: Descriptor) -> Numbers:
    """Return the numbers of a descriptor, with the variance as a float."""
    joules = None
    if descriptor.space not in _WITHOUT_ENERGY:
        joules = UNIT_FACTOR[descriptor.unit] * (_JOULES_PER_WH if descriptor.is_energy else 1)
    quantum_u, variance = int(descriptor.mechanism.quantum * MICRO), float(descriptor.variance)
    return Numbers(str(descriptor.space), descriptor.unit, quantum_u, variance, joules, descriptor.is_energy)


class Sink(Protocol):
    """Durable tables.

    An operation that fails raises LinkError if another attempt may succeed, and DatabaseError otherwise.
    """

    async def migrate(self) -> int:
        """Create or update the tables, and return the number of migrations applied."""
        ...

    async def begin(self, *, is_first: bool) -> Content:
        """Prepare the connection, and return the content of the tables.

        If `is_first`, reset the collector's counts to 0.
        """
        ...

    async def waiting(self, ids: Iterable[str]) -> list[Waiting]:
        """Return the records that wait for one of the given descriptors, in order of arrival."""
        ...

    async def write(
        self, batch: Batch, messages: int, now_ms: int, overlapping: Sequence[str] = ()
    ) -> Outcome:
        """Commit a whole batch or nothing. On return, the batch is on disk.

        `messages` is the number of messages in the batch. `overlapping` holds the streams in which slots of a
        meter could overlap. The outcome may include results of earlier batches.
        """
        ...


def connect(settings: Settings) -> AbstractAsyncContextManager[Sink]:
    """Return the context manager of the sink that a configuration names.

    Raises:
        ImportError: the libraries of the sink's extra are not installed.
        ConfigError: the file with the database's password cannot be read.
    """
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


def without_overlaps(rows: Iterable[tuple[int, Row]], streams: set[str]) -> Iterator[tuple[int, Row]]:
    """Yield numbered rows in order, except rows of `streams` that overlap an earlier row of the same meter.

    Rows of the same slot do not overlap, nor do rows of different bands of the same window.
    """
    slots: dict[tuple[str, str], list[tuple[int, int, bool]]] = {}
    for number, row in rows:
        if row.stream in streams:
            accepted_slots = slots.setdefault((row.stream, row.meter), [])
            slot = row.time_ms, row.until_ms, bool(row.band)
            index = bisect_left(accepted_slots, (row.time_ms,))
            before, after = accepted_slots[max(index - 1, 0) : index], accepted_slots[index : index + 1]
            if slot not in after:
                if any(end_ms > row.time_ms for _, end_ms, _ in before):
                    continue
                if any(start_ms < row.until_ms for start_ms, _, _ in after):
                    continue
                accepted_slots.insert(index, slot)
        yield number, row
