"""Read an input's numbers and count them; the counts are private, for people who may see the readings."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from meteragent.archive.admission import ProgressCallback
from meteragent.archive.job import Job, rows_of
from meteragent.archive.layout import row_fits_and_lengths
from meteragent.archive.number import Counts, count_own, to_millionths, to_milliseconds
from meteragent.archive.readings import Readings, merge_equal_times
from meteragent.archive.source import Group, Source

_BATCH_NUMBERS = 1 << 20
"""The approximate number of values in a batch."""


class Checked(NamedTuple):
    """The number of rows checked, how many of them are not windows (if wide), and the counts of numbers."""

    rows: int
    misfits: int
    counts: Counts


def total(parts: Iterable[Checked], progress: ProgressCallback) -> Checked:
    """Return the sum of the results for parts of an input."""
    rows, misfits, counts = 0, 0, Counts()
    for part in parts:
        progress(part.rows)
        rows, misfits = rows + part.rows, misfits + part.misfits
        counts.add(part.counts)
    return Checked(rows, misfits, counts)


def check_groups(source: Source, groups: Iterable[Group]) -> Iterator[Checked]:
    """Yield the result for each batch of wide row groups. Raises ArchiveError if a row cannot be read."""
    names, policy = source.policy.columns, source.policy
    batch_rows = max(1, _BATCH_NUMBERS // source.numbers)
    for batch in source.read(groups, [names.time, names.value], batch_rows):
        column, starts = batch.column(names.value), to_milliseconds(batch.column(names.time), names.time)
        misfits = int((~row_fits_and_lengths(starts, column, policy)[0]).sum())
        counts = Counts.of(to_millionths(column.flatten(), policy), policy.usual)
        yield Checked(batch.num_rows, misfits, counts)


def count_job(source: Source, job: Job) -> Iterator[Checked]:
    """Yield the counts of the numbers of a job of the long layout."""
    names, counts, rows = dict[str, int](), Counts(), list[int]()
    readings = merge_equal_times(read_job(source, job, names, counts, rows.append))
    counts.add(readings.counts(names_of(names), lambda rows: job.opens(rows.time_ms, source.policy)))
    yield Checked(sum(rows), 0, counts)


def read_job(
    source: Source, job: Job, names: dict[str, int], counts: Counts, progress: ProgressCallback
) -> Readings:
    """Return and count the readings of a job; its meters are numbered in the order of the output."""
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
