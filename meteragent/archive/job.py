"""An input cut into jobs, each of which fits in memory, and is read on its own.

A job has the windows that start in a stretch of time and whose meters lie in a range of names and in one of
several parts of a stable hash of the name under which they leave; each window is in exactly one job. Where
that is a pseudonym there are no ranges: which part of the output a meter is in would tell of its own name.
Archives are mostly in order of time or of meters: then the statistics of row groups say which few of them a
job needs, and each is read about once. Of an archive in no order every job reads all of it.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from meteragent.archive.form import meters
from meteragent.archive.number import Flags, milliseconds
from meteragent.archive.policy import FIRST_MS, LAST_MS, Integers, Policy
from meteragent.archive.source import Group, Source
from meteragent.domain.errors import ArchiveError

T = TypeVar("T", int, str)

_AT_ONCE = 1 << 18
_EVER_MS = (FIRST_MS - (1 << 40), LAST_MS)


@dataclass(frozen=True)
class Job:
    """Some row groups, and which rows of them count."""

    groups: tuple[int, ...]
    starts_ms: tuple[int, int] = _EVER_MS
    names: tuple[str, str | None] = ("", None)
    part: int = 0
    parts: int = 1

    def has(self, name: str, policy: Policy) -> bool:
        """Whether a meter is of this job."""
        first, end = self.names
        return (
            first <= name
            and (end is None or name < end)
            and (self.parts == 1 or zlib.crc32(policy.label(name).encode()) % self.parts == self.part)
        )


def jobs(source: Source, limit: int) -> list[Job]:
    """Jobs of about so many rows at most, those that read the least."""
    groups = source.groups
    everything = tuple(range(len(groups)))
    wanted = math.ceil(source.rows / limit)
    if wanted <= 1:
        return [Job(everything)]
    ways = [_split([Job(everything)], groups, limit)]
    if all(group.times_ms is not None for group in groups):
        ways.append(_split(_by_time(source, limit), groups, limit))
    own_names = source.policy.stream.sink.pseudonym_key_file is None
    if own_names and all(group.meters is not None for group in groups):
        ways.append(_split(_by_meter(groups, limit), groups, limit))
    return min(ways, key=lambda way: sum(groups[at].rows for job in way for at in job.groups))


def _split(found: Sequence[Job], groups: Sequence[Group], limit: int) -> list[Job]:
    """Jobs that are too large, in parts by a hash of the meter."""
    made = []
    for job in found:
        parts = max(1, math.ceil(sum(groups[at].rows for at in job.groups) / limit))
        made += [Job(job.groups, job.starts_ms, job.names, part, parts) for part in range(parts)]
    return made


def _by_time(source: Source, limit: int) -> list[Job]:
    """Stretches of time."""
    policy, spans = source.policy, [group.times_ms or (0, 0) for group in source.groups]
    lead_ms, reach_ms = (policy.lead_ms, policy.reach_ms) if source.form == "long" else (0, 0)
    firsts = _cuts([span[0] - lead_ms for span in spans], source.groups, limit)
    starts: list[int] = policy.starts(np.array(firsts, np.int64)).tolist()
    edges = [_EVER_MS[0], *sorted(set(starts) - {min(starts)}), _EVER_MS[1]]

    def needed(begin_ms: int, end_ms: int) -> tuple[int, ...]:
        """Groups with readings whose span may lie in that time, if only in part."""
        begins = ((at, first - lead_ms, last - lead_ms) for at, (first, last) in enumerate(spans))
        return tuple(at for at, first, last in begins if first < end_ms and last + reach_ms >= begin_ms)

    return [Job(needed(*span), starts_ms=span) for span in pairwise(edges)]


def _by_meter(groups: Sequence[Group], limit: int) -> list[Job]:
    """Ranges of names."""
    spans = [group.meters or ("", "") for group in groups]
    firsts = _cuts([span[0] for span in spans], groups, limit)
    names = sorted(set(firsts) - {firsts[0]})
    made = []
    for begin, end in pairwise(["", *names, None]):
        spanned = enumerate(spans)
        needed = tuple(at for at, (a, b) in spanned if (end is None or a < end) and b >= (begin or ""))
        made.append(Job(needed, names=(begin or "", end)))
    return made


def _cuts(firsts: list[T], groups: Sequence[Group], limit: int) -> list[T]:
    """The first time or name of every so many rows, in order: half the limit, since ends are read twice."""
    found, rows = list[T](), limit
    for at in sorted(range(len(groups)), key=firsts.__getitem__):
        if rows >= limit // 2:
            found.append(firsts[at])
            rows = 0
        rows += groups[at].rows
    return found


class Rows(NamedTuple):
    """Rows of a job: their numbers in the input, their meters' numbers, times in ms; values, if asked for."""

    row: Integers
    meter: Integers
    time_ms: Integers
    value: pa.Array | None


def read(source: Source, job: Job, names: dict[str, int], *, values: bool = False) -> Iterator[Rows]:
    """The rows of a job; `names` are numbered as they come.

    Raises ArchiveError for a row without a meter or a time, and when a file cannot be read.
    """
    columns = source.policy.columns
    wanted = list(columns) if values else [columns.meter, columns.time]
    before = np.cumsum([0, *(group.rows for group in source.groups)])
    for at in job.groups:
        row = int(before[at])
        for batch in source.read([source.groups[at]], wanted, _AT_ONCE, coded=True):
            meter = _numbered(batch.column(columns.meter), names, job, source.policy)
            time_ms = milliseconds(batch.column(columns.time), columns.time)
            kept = np.flatnonzero((meter >= 0) & _inside(time_ms, source, job))
            value = batch.column(columns.value).take(pa.array(kept)) if values else None
            yield Rows(row + kept, meter[kept], time_ms[kept], value)
            row += batch.num_rows


def _inside(time_ms: Integers, source: Source, job: Job) -> Flags:
    """Which rows may have a part in a window of the job."""
    first, end = job.starts_ms
    if source.form == "wide":
        return (first <= time_ms) & (time_ms < end)
    begin = time_ms - source.policy.lead_ms
    return (first < begin + source.policy.reach_ms) & (begin < end)


def _numbered(column: pa.Array, names: dict[str, int], job: Job, policy: Policy) -> Integers:
    """The number of each row's meter; -1 of those that are not of the job."""
    if not pa.types.is_dictionary(column.type):
        column = meters(column, policy).dictionary_encode()
    if column.null_count:
        raise ArchiveError(f"column {policy.columns.meter!r}: {column.null_count} rows name no meter")
    known = meters(column.dictionary, policy).to_pylist()
    own = [names.setdefault(name, len(names)) if job.has(name, policy) else -1 for name in known]
    return np.asarray(np.array(own, np.int64).take(column.indices.to_numpy(zero_copy_only=False)))
