"""Count how many numbers an input has, and how many of them are missing, outside the range, or tiny.

An input is refused if most of its numbers are outside the range. The counts are private: show them only to
people who may see the readings.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from meteragent.archive.account import ProgressReporter
from meteragent.archive.layout import Counts
from meteragent.archive.number import micro
from meteragent.archive.source import Source
from meteragent.domain.errors import ArchiveError

_BATCH_NUMBERS = 1 << 20
"""The approximate number of values in a batch."""


class Numbers(NamedTuple):
    """The counts of the numbers in some rows.

    `small_count` is the count of numbers whose absolute value, after clamping, is less than a thousandth of
    the largest absolute value in the range. `rows` is the number of rows.
    """

    counts: Counts
    small_count: int
    rows: int


def count_numbers(source: Source, show: ProgressReporter) -> Numbers:
    """Count all numbers of an input."""
    counts, small_count = Counts(), 0
    with show("count", source.rows, "row") as progress:
        for part in _parts(source):
            counts.add(part.counts)
            small_count += part.small_count
            progress(part.rows)
    return Numbers(counts, small_count, source.rows)


def require_range(source: Source, show: ProgressReporter, *, clamp: bool) -> None:
    """Raise ArchiveError if most of an input's numbers are outside `window.range`, unless `clamp` is true.

    Missing numbers do not count. Such an input is probably in another unit, and no release can be corrected.
    Reading stops once at least half of the numbers are known to be within the range.
    """
    if clamp:
        return
    total, counts = sum(group.values for group in source.groups), Counts()
    with show("check", source.rows, "row") as progress:
        rows = 0
        for part in _parts(source):
            counts.add(part.counts)
            rows += part.rows
            progress(part.rows)
            if 2 * (counts.present - counts.clamped) >= total:
                break
        progress(source.rows - rows)
    if counts.are_mostly_clamped:
        raise ArchiveError(
            "more than half of the numbers are outside window.range and would be clamped to it: are they in"
            f" {source.policy.usual.readings.unit}? Correct source.unit, source.scale or window.range, or add"
            " --clamp if this is meant (nothing was charged or written)"
        )


def _parts(source: Source) -> Iterator[Numbers]:
    """Yield the counts of an input's numbers, batch by batch."""
    policy = source.policy
    usual, name = policy.usual, policy.columns.value
    largest_u = max(abs(usual.readings.low_u), abs(usual.readings.high_u))
    for batch in source.read(source.groups, [name], max(1, _BATCH_NUMBERS // source.numbers)):
        column = batch.column(name)
        values = micro(column.flatten() if source.layout == "wide" else column, policy)
        counts = Counts(values.valid.size, int((~values.valid).sum()), values.clamped_count)
        is_small = values.valid & (1000 * np.abs(values.values_u) < largest_u)
        yield Numbers(counts, int(is_small.sum()), batch.num_rows)
