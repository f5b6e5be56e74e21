"""What the sinks share: the outcome of a commit, the content from which a core is built, and overlaps."""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from meteragent.collect.core import ORIGIN_MAX, AnnouncedTerms, Link, Meter, Refusal, Row
from meteragent.consume.message import Descriptor
from meteragent.domain.errors import DatabaseError, RecordError

SLICE_MAX: Final = 5_000
"""The largest number of descriptors, or of waiting records, that are read at once."""

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
    """The content of a sink from which a core is built: see `Core`."""

    announced_terms: list[AnnouncedTerms]
    links: list[Link]
    waiting: dict[Meter, int]


class Outcome(NamedTuple):
    """The result of a commit: rows written, rows that already existed, and refusals by stream and reason."""

    written: int
    repeated: int
    refusal_counts: Counter[tuple[str, str]]
    refusals: Sequence[Refusal] = ()


def expiry_outcome(rows: Iterable[tuple[str, int, str]]) -> Outcome:
    """Return the outcome of refusing waiting records; a row is a stream, a count and one topic."""
    refusals = {Refusal(stream, "no_descriptor", topic[:ORIGIN_MAX]): count for stream, count, topic in rows}
    counts = Counter({refusal.key: count for refusal, count in refusals.items()})
    return Outcome(0, 0, counts, list(refusals))


_terms: dict[str, AnnouncedTerms | None] = {}
"""The terms of stored descriptors, by digest: each is parsed once in the life of a process."""


def unparsed_digests(digests: Iterable[str]) -> Iterator[list[str]]:
    """Yield the digests of descriptors that `cache_terms` has not parsed yet, in slices."""
    new_digests = [digest for digest in digests if digest not in _terms]
    for start in range(0, len(new_digests), SLICE_MAX):
        yield new_digests[start : start + SLICE_MAX]


def cache_terms(texts: Iterable[tuple[str, str]]) -> None:
    """Parse stored descriptors, each given by its digest and its facts."""
    for digest, text in texts:
        _terms[digest] = None
        try:
            _terms[digest] = AnnouncedTerms(digest, len(text), Descriptor.parse_stored(text).record_check)
        except (RecordError, *DATA_FAULTS) as error:
            reason = str(error) if isinstance(error, RecordError) else type(error).__name__
            _log.warning("a stored descriptor is left out: %s", reason)


def announced_terms(digests: Iterable[str]) -> list[AnnouncedTerms]:
    """Return the terms of stored descriptors, without those that this version cannot parse."""
    return [terms for digest in digests if (terms := _terms.get(digest)) is not None]


def without_overlaps(rows: Iterable[tuple[int, Row]], mixed: Collection[Meter]) -> Iterator[tuple[int, Row]]:
    """Yield numbered rows in order, except those that overlap an earlier row of the same meter in `mixed`."""
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
