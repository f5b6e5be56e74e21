"""Read an input's numbers and count them; the counts are private, for people who may see the readings."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from meteragent.archive.admission import ProgressCallback, ProgressReporter
from meteragent.archive.job import Job, rows_of
from meteragent.archive.number import Counts, count_own, to_millionths
from meteragent.archive.policy import Policy
from meteragent.archive.readings import Readings, merge_equal_times
from meteragent.archive.source import Source
from meteragent.domain.errors import ArchiveError

_BATCH_NUMBERS = 1 << 20
"""The approximate number of values in a batch."""


def count_numbers(source: Source, jobs: Iterable[Job], show: ProgressReporter) -> Counts:
    """Count all numbers of an input, whose `jobs` are read one by one if it is long."""
    counts = Counts()
    with show("count", source.rows, "row") as progress:
        if source.layout == "wide":
            for part, rows in _counts_by_part(source):
                counts.add(part)
                progress(rows)
            return counts
        for job in jobs:
            names: dict[str, int] = {}
            readings = merge_equal_times(read_job(source, job, names, counts, progress))
            counts.add(readings.counts(names_of(names), lambda rows: job.opens(rows.time_ms, source.policy)))  # noqa: B023
    return counts


def read_job(
    source: Source, job: Job, names: dict[str, int], counts: Counts, progress: ProgressCallback
) -> Readings:
    """Return the readings of a job, with its meters numbered in the order in which they leave; count them."""
    policy, empty = source.policy, np.empty(0, np.int64)
    parts = [Readings(empty, empty, empty, np.empty(0, np.bool_))]
    for rows in rows_of(source, job, names, needs_values=True):
        values, is_own = to_millionths(rows.value, policy), job.opens(rows.time_ms, policy)
        parts.append(Readings(rows.meter, rows.time_ms, values.values_u, values.valid))
        counts.add(count_own(values, is_own, policy.usual))
        progress(rows.row.size)
    rank = np.empty(len(names), np.int64)
    # Sort by public id: the order of the meters' own names would help to link pseudonyms to them.
    order = sorted(names, key=policy.public_id)
    rank[[names[name] for name in order]] = np.arange(len(order))
    names.update({name: i for i, name in enumerate(order)})
    meter, time_ms, value_u, valid = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Readings(rank.take(meter), time_ms, value_u, valid)


def names_of(names: dict[str, int]) -> pa.Array:
    """Return the meters' names in the order of their numbers."""
    return pa.array(sorted(names, key=names.__getitem__), pa.string())


def require_range(source: Source, show: ProgressReporter) -> None:
    """Raise ArchiveError if most of an input's numbers are outside `window.range`.

    Reading stops once at least half of the numbers are known to be within the range.
    """
    total, counts = sum(group.values for group in source.groups), Counts()
    with show("check", source.rows, "row") as progress:
        rows = 0
        for part, part_rows in _counts_by_part(source):
            counts.add(part)
            rows += part_rows
            progress(part_rows)
            if 2 * (counts.present - counts.clamped) >= total:
                break
        progress(source.rows - rows)
    require_unclamped(counts, source.policy)


def require_unclamped(counts: Counts, policy: Policy) -> None:
    """Raise ArchiveError if most of the numbers that were counted are outside the range."""
    if counts.are_mostly_clamped:
        raise ArchiveError(
            "more than half of the numbers are outside window.range and would be clamped to it: are they in"
            f" {policy.usual.readings.unit}? Correct source.unit, source.scale or window.range, or add"
            " --clamp if this is meant (nothing was charged or written)"
        )


def _counts_by_part(source: Source) -> Iterator[tuple[Counts, int]]:
    """Yield the counts of an input's numbers and the number of rows, batch by batch."""
    policy, name = source.policy, source.policy.columns.value
    for batch in source.read(source.groups, [name], max(1, _BATCH_NUMBERS // source.numbers)):
        column = batch.column(name)
        values = to_millionths(column.flatten() if source.layout == "wide" else column, policy)
        yield Counts.of(values, policy.usual), batch.num_rows
