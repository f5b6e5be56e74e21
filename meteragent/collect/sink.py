"""The protocol that every sink implements, and what the sinks share."""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from meteragent.collect.core import Batch, Key, Link, Refusal, Row, Waiting, numbers_of
from meteragent.consume.message import Descriptor
from meteragent.domain.errors import DatabaseError, RecordError

_log = logging.getLogger("meteragent")


class UnstorableError(DatabaseError):
    """A batch whose data cannot be stored: the same batch would be refused again."""


DATA_FAULTS: Final = (
    UnstorableError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a sink raises if it cannot store the data of a batch: its own error, or Python's."""


class Content(NamedTuple):
    """The content of a sink from which a core is built.

    `links` holds the descriptors that meters have announced. `waiting` is the number of waiting records by
    stream and meter.
    """

    descriptors: list[Descriptor]
    links: list[Link]
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


def known(texts: Iterable[str]) -> list[Descriptor]:
    """Return stored descriptors, without those that this version cannot read."""
    return [descriptor for descriptor in map(_known, texts) if descriptor is not None]


@lru_cache(maxsize=4096)  # after a message that cannot be stored, all are read again
def _known(text: str) -> Descriptor | None:
    try:
        descriptor = Descriptor.stored(text)
        numbers_of(descriptor)
    except (RecordError, *DATA_FAULTS) as error:
        reason = str(error) if isinstance(error, RecordError) else type(error).__name__
        _log.warning("a stored descriptor is left out: %s", reason)
        return None
    return descriptor


class Sink(Protocol):
    """Durable tables.

    An operation that fails raises LinkError if another attempt may succeed, one of DATA_FAULTS if the data of
    a batch cannot be stored, and DatabaseError otherwise.
    """

    async def create(self) -> bool:
        """Create the tables unless they exist, and return whether they were created."""
        ...

    async def begin(self, *, is_first: bool) -> Content:
        """Prepare the connection, and return the content of the tables.

        If `is_first`, reset the collector's counts to 0.
        """
        ...

    async def waiting(self, keys: Collection[Key]) -> list[Waiting]:
        """Return the records that wait for one of the given descriptors, in order of arrival."""
        ...

    async def write(self, batch: Batch, messages: int, now_ms: int) -> Outcome:
        """Commit a whole batch or nothing. On return, the batch is on disk.

        `messages` is the number of messages in the batch. The outcome may include results of earlier batches.
        """
        ...


def without_overlaps(
    rows: Iterable[tuple[int, Row]], mixed: Collection[tuple[str, str]]
) -> Iterator[tuple[int, Row]]:
    """Yield numbered rows in order, except rows that overlap an earlier row of the same meter.

    Only the streams and meters in `mixed` are examined. Rows of the same slot do not overlap, nor do rows of
    different bands of the same window.
    """
    slots: dict[tuple[str, str], list[tuple[int, int, bool]]] = {}
    for number, row in rows:
        if (row.stream, row.meter) in mixed:
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
