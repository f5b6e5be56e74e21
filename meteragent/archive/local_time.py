"""Convert local times to UTC, and distinguish the two occurrences of a repeated hour by the order of rows.

Times in an hour that clocks skip are refused. In an hour that clocks repeat, a time means its second
occurrence if an earlier row of the meter has the same time. The file is refused unless the meter's rows from
an hour before to an hour after are in order of time and have each time in the repeated hour twice.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meteragent.archive.number import Flags
from meteragent.archive.policy import Integers
from meteragent.domain.errors import ArchiveError
from meteragent.domain.units import DAY_MS, HOUR_MS


def to_utc(local_ms: Integers, zone: str) -> tuple[Integers, Integers]:
    """Return times in UTC, and the ms to a second occurrence (0: none; -1: clocks skip this local time)."""
    distinct, inverse = np.unique(local_ms, return_inverse=True)
    times = pa.array(distinct).view(pa.timestamp("ms"))
    try:
        first_ms, second_ms = (
            pc.assume_timezone(times, zone, ambiguous=choice, nonexistent=choice).cast(pa.int64()).to_numpy()
            for choice in ("earliest", "latest")
        )
    except pa.ArrowException:
        raise ArchiveError(f"this system has no rules of the time zone {zone!r}: install tzdata") from None
    apart_ms = second_ms - first_ms  # 1 ms where clocks skip a time
    return first_ms[inverse], np.where(apart_ms == 1, -1, apart_ms)[inverse]


class RowsAroundRepeats(NamedTuple):
    """Rows around repeated hours: block, row, hash of the meter, day of the hour, and results of `to_utc`."""

    block: Integers
    row: Integers
    meter: Integers
    day: Integers
    time_ms: Integers
    repeat_ms: Integers


def rows_around_repeats(local_ms: Integers, zone: str, meter: Any, block: int) -> RowsAroundRepeats:
    """Return the rows of a block within an hour of repeated hours."""
    time_ms, repeat_ms = to_utc(local_ms, zone)
    day = np.where(repeat_ms > 0, local_ms // DAY_MS, -1)
    for step_ms in (-HOUR_MS, HOUR_MS):
        is_near = (day < 0) & (to_utc(local_ms + step_ms, zone)[1] > 0)
        day[is_near] = (local_ms[is_near] + step_ms) // DAY_MS
    row = np.flatnonzero(day >= 0)
    hashes = np.array([hash(name) for name in meter.take(pa.array(row)).to_pylist()], np.int64)
    return RowsAroundRepeats(np.full(row.size, block), row, hashes, day[row], time_ms[row], repeat_ms[row])


def second_occurrences(rows: RowsAroundRepeats) -> tuple[Flags, Flags]:
    """Return whether each row is the second occurrence of its time, and whether this cannot be decided."""
    order = np.lexsort((rows.day, rows.meter))  # stable: within a meter and a day, the order is the file's
    meter, day, time_ms, repeat_ms = (column[order] for column in rows[2:])
    is_same = (meter[1:] == meter[:-1]) & (day[1:] == day[:-1])
    group = np.append(0, np.cumsum(~is_same))[: meter.size]
    _, first, inverse, copies = np.unique(np.stack([group, time_ms]), True, True, True, axis=1)
    is_second = (repeat_ms > 0) & (np.arange(meter.size) != first[inverse.ravel()])
    is_back = is_same & (np.diff(time_ms + is_second * repeat_ms) <= 0)
    is_wrong = (np.bincount(group) <= 2) | (np.bincount(group[1:], is_back, group.max(initial=0) + 1) > 0)
    flags = np.zeros((2, meter.size), np.bool_)
    flags[0, order] = is_second
    flags[1, order] = (repeat_ms > 0) & (is_wrong[group] | (copies[inverse.ravel()] != 2))
    return flags[0], flags[1]
