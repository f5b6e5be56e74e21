"""Cut an input into jobs, each of which fits in memory and is read separately.

1. A job consists of the windows that start in a certain period and whose meters have names in a certain range
   or, if jobs are split further, public names with certain hashes. Each window is in exactly one job. A
   reading near a cut may be read by two jobs.
2. If an archive is sorted by time or by meter, the statistics of the row groups show the few groups that a
   job needs. If the archive is unsorted, every job reads all of it.
3. If meters have pseudonyms, jobs are not cut by names: a meter's place in the output would reveal its name.
4. In the long layout, the cuts follow from the input's content, the policy and `manifest.CUT`. So a resumed
   run has the same jobs: job k writes part k, and is skipped if that part exists.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from meteragent.archive.layout import meters
from meteragent.archive.number import Flags, to_milliseconds
from meteragent.archive.policy import FIRST_MS, LAST_MS, Integers, Policy
from meteragent.archive.source import Group, Source
from meteragent.domain.errors import ArchiveError

T = TypeVar("T", int, str)

_BATCH_ROWS = 1 << 18
_ALL_TIMES_MS = (FIRST_MS - (1 << 40), LAST_MS)


@dataclass(frozen=True)
class Job:
    """The indices of the row groups to read, and the conditions under which their rows belong to the job.

    A row belongs to the job if its window starts in `starts_ms`, its meter's name lies in `names`, and the
    hash of the public name is `part` modulo `parts`. Ranges include their first value, but not their end.
    """

    groups: tuple[int, ...]
    starts_ms: tuple[int, int] = _ALL_TIMES_MS
    names: tuple[str, str | None] = ("", None)
    part: int = 0
    parts: int = 1

    def has(self, name: str, policy: Policy) -> bool:
        """Return whether a meter belongs to this job."""
        first, end = self.names
        return (
            first <= name
            and (end is None or name < end)
            and (self.parts == 1 or zlib.crc32(policy.public_id(name).encode()) % self.parts == self.part)
        )

    def opens(self, times_ms: Integers, policy: Policy) -> Flags:
        """Return, for each reading, whether the window in which its span begins belongs to this job."""
        begin_ms, (first, end) = times_ms - policy.lead_ms, self.starts_ms
        return np.asarray((first <= begin_ms) & (begin_ms < end))


def cut_jobs(source: Source, limit: int) -> list[Job]:
    """Return jobs of at most about `limit` rows, cut by time, meter or hash so that few rows are read."""
    groups = source.groups
    all_groups = tuple(range(len(groups)))
    count = math.ceil(source.rows / limit)
    if count <= 1:
        return [Job(all_groups)]
    plans = [_split_jobs([Job(all_groups)], groups, limit)]
    if all(group.times_ms is not None for group in groups):
        plans.append(_split_jobs(_time_jobs(source, limit), groups, limit))
    has_own_names = source.policy.stream.sink.pseudonym_key_file is None
    if has_own_names and all(group.meters is not None for group in groups):
        plans.append(_split_jobs(_meter_jobs(groups, limit), groups, limit))
    return min(plans, key=lambda plan: sum(groups[index].rows for job in plan for index in job.groups))


def _split_jobs(jobs: Sequence[Job], groups: Sequence[Group], limit: int) -> list[Job]:
    """Split each job of more than `limit` rows into parts, by a hash of the meter's public name."""
    pieces = []
    for job in jobs:
        parts = max(1, math.ceil(sum(groups[index].rows for index in job.groups) / limit))
        pieces += [Job(job.groups, job.starts_ms, job.names, part, parts) for part in range(parts)]
    return pieces


def _time_jobs(source: Source, limit: int) -> list[Job]:
    """Return jobs for successive stretches of time with about `limit` / 2 rows each."""
    policy, spans = source.policy, [group.times_ms or (0, 0) for group in source.groups]
    lead_ms, reach_ms = (policy.lead_ms, policy.reach_ms) if source.layout == "long" else (0, 0)
    firsts = _cut_points([span[0] - lead_ms for span in spans], source.groups, limit)
    starts: list[int] = policy.starts(np.array(firsts, np.int64)).tolist()
    edges = [_ALL_TIMES_MS[0], *sorted(set(starts) - {min(starts)}), _ALL_TIMES_MS[1]]

    def overlapping_groups(begin_ms: int, end_ms: int) -> tuple[int, ...]:
        """Return the indices of groups that may have rows for windows from `begin_ms` to `end_ms`."""
        begins = ((index, first - lead_ms, last - lead_ms) for index, (first, last) in enumerate(spans))
        return tuple(index for index, first, last in begins if first < end_ms and last + reach_ms >= begin_ms)

    return [Job(overlapping_groups(*span), starts_ms=span) for span in pairwise(edges)]


def _meter_jobs(groups: Sequence[Group], limit: int) -> list[Job]:
    """Return jobs for successive ranges of meters' names with about `limit` / 2 rows each."""
    spans = [group.meters or ("", "") for group in groups]
    firsts = _cut_points([span[0] for span in spans], groups, limit)
    names = sorted(set(firsts) - {firsts[0]})
    jobs = []
    for begin, end in pairwise(["", *names, None]):
        indexed_spans = enumerate(spans)
        group_indices = tuple(
            i for i, (a, b) in indexed_spans if (end is None or a < end) and b >= (begin or "")
        )
        jobs.append(Job(group_indices, names=(begin or "", end)))
    return jobs


def _cut_points(firsts: list[T], groups: Sequence[Group], limit: int) -> list[T]:
    """Return the times or names, in order, at which jobs begin: one after about every `limit` / 2 rows.

    `firsts` holds the first time or name of each group. The factor 1/2 allows for rows near a cut, which the
    jobs on both sides of it read.
    """
    cuts, rows = list[T](), limit
    for index in sorted(range(len(groups)), key=firsts.__getitem__):
        if rows >= limit // 2:
            cuts.append(firsts[index])
            rows = 0
        rows += groups[index].rows
    return cuts


class Rows(NamedTuple):
    """Rows of a job: their indices in the input, meters' numbers, times in ms, and values or None."""

    row: Integers
    meter: Integers
    time_ms: Integers
    value: pa.Array | None


def rows_of(source: Source, job: Job, names: dict[str, int], *, needs_values: bool = False) -> Iterator[Rows]:
    """Yield the rows that may be used in a job's windows; add meters to `names`. Raises ArchiveError."""
    columns = source.policy.columns
    column_names = list(columns) if needs_values else [columns.meter, columns.time]
    offsets = np.cumsum([0, *(group.rows for group in source.groups)])
    for index in job.groups:
        row = int(offsets[index])
        for batch in source.read([source.groups[index]], column_names, _BATCH_ROWS, needs_dictionary=True):
            meter = _meter_numbers(batch.column(columns.meter), names, job, source.policy)
            time_ms = to_milliseconds(batch.column(columns.time), columns.time)
            indices = np.flatnonzero((meter >= 0) & _may_belong(time_ms, source, job))
            value = batch.column(columns.value).take(pa.array(indices)) if needs_values else None
            yield Rows(row + indices, meter[indices], time_ms[indices], value)
            row += batch.num_rows


def _may_belong(time_ms: Integers, source: Source, job: Job) -> Flags:
    """Return, for each row, whether its time allows its use in a window of the job."""
    first, end = job.starts_ms
    if source.layout == "wide":
        return (first <= time_ms) & (time_ms < end)
    begin = time_ms - source.policy.lead_ms
    return (first < begin + source.policy.reach_ms) & (begin < end)


def _meter_numbers(column: pa.Array, names: dict[str, int], job: Job, policy: Policy) -> Integers:
    """Return meters' numbers, -1 if not in the job; add new meters to `names`. Raises as `layout.meters`."""
    if not pa.types.is_dictionary(column.type):
        column = meters(column, policy).dictionary_encode()
    if column.null_count:
        raise ArchiveError(f"column {policy.columns.meter!r}: rows without a meter name: {column.null_count}")
    meter_names = meters(column.dictionary, policy).to_pylist()
    numbers = [names.setdefault(name, len(names)) if job.has(name, policy) else -1 for name in meter_names]
    return np.asarray(np.array(numbers, np.int64).take(column.indices.to_numpy(zero_copy_only=False)))
