"""Find the windows that the readings of many meters open, and integrate the readings into their slots."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from meteragent.archive.number import Counts, Flags
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.slots import Ragged, integrate
from meteragent.domain.errors import ArchiveError
from meteragent.domain.units import Kind

_INT64_BITS = 63


class Readings(NamedTuple):
    """Readings as columns: the meter's number, time in ms, value in millionths, and whether it is valid."""

    meter: Integers
    time_ms: Integers
    value_u: Integers
    valid: Flags

    def rows(self, index: Flags | Integers) -> "Readings":
        """Return the selected rows."""
        return Readings(self.meter[index], self.time_ms[index], self.value_u[index], self.valid[index])


class Windows(NamedTuple):
    """Windows as columns: the meter's number and the start in ms."""

    meter: Integers
    start_ms: Integers

    def rows(self, index: Flags | slice) -> "Windows":
        """Return the selected rows."""
        return Windows(self.meter[index], self.start_ms[index])


def opened_windows(meter: Integers, time_ms: Integers, policy: Policy) -> Windows:
    """Return the distinct windows in which the spans of readings begin, sorted by meter and start."""
    starts = policy.starts(time_ms - policy.lead_ms)
    change = np.ones(meter.size, np.bool_)  # most readings open the same window as the reading before
    change[1:] = (meter[1:] != meter[:-1]) | (starts[1:] != starts[:-1])
    meter, starts = meter[change], starts[change]
    order = np.lexsort((starts, meter))
    meter, starts = meter[order], starts[order]
    first = np.ones(meter.size, np.bool_)
    first[1:] = (meter[1:] != meter[:-1]) | (starts[1:] != starts[:-1])
    return Windows(meter[first], starts[first])


def integrate_windows(
    readings: Readings, windows: Windows, policy: Policy, batch_windows: int
) -> Iterator[tuple[Windows, Ragged]]:
    """Yield windows and the slots into which merged readings are integrated, `batch_windows` at a time."""
    first, last = _reading_ranges(readings, windows, policy)
    for begin in range(0, windows.meter.size, batch_windows):
        part = slice(begin, begin + batch_windows)
        batch, lengths = windows.rows(part), last[part] - first[part]
        shift = np.repeat(first[part] - (np.cumsum(lengths) - lengths), lengths)
        index = shift + np.arange(shift.size)
        yield (
            batch,
            integrate(batch.start_ms, lengths, readings.time_ms[index], readings.value_u[index], policy),
        )


class MergedReadings(NamedTuple):
    """Sorted readings, one per meter and time; repetitions of a time; and readings with other values."""

    readings: Readings
    repeated: Readings
    conflicting: Readings

    def counts(self, names: pa.Array, is_own: Callable[[Readings], Flags]) -> Counts:
        """Count the dropped readings for which `is_own` is true; `names` are the meters' names."""
        repeated, conflicting = (rows.rows(is_own(rows)) for rows in self[1:])
        meters, first_rows = np.unique(conflicting.meter, return_index=True)
        times_ms = conflicting.time_ms[first_rows].tolist()
        first = min(zip(names.take(pa.array(meters)).to_pylist(), times_ms, strict=True), default=None)
        return Counts(repeated=repeated.meter.size, conflicting=conflicting.meter.size, first_conflict=first)


def merge_equal_times(readings: Readings) -> MergedReadings:
    """Sort readings that have a value by meter and time; of several at one time, keep the smallest."""
    if not readings.valid.all():
        readings = readings.rows(readings.valid)
    meter_steps = np.diff(readings.meter)
    if ((meter_steps < 0) | ((meter_steps == 0) & (np.diff(readings.time_ms) < 0))).any():
        readings = readings.rows(np.lexsort((readings.time_ms, readings.meter)))
    meter, time_ms, value_u, valid = readings
    is_repeated = np.zeros(meter.size, np.bool_)
    is_repeated[1:] = (meter[1:] == meter[:-1]) & (time_ms[1:] == time_ms[:-1])
    repeated = readings.rows(is_repeated)
    if not repeated.meter.size:
        return MergedReadings(readings, repeated, repeated)
    first_rows = np.flatnonzero(~is_repeated)
    smallest_u = np.minimum.reduceat(value_u, first_rows)
    conflicting = readings.rows(value_u != np.repeat(smallest_u, np.diff(np.append(first_rows, meter.size))))
    distinct_readings = Readings(meter[first_rows], time_ms[first_rows], smallest_u, valid[first_rows])
    return MergedReadings(distinct_readings, repeated, conflicting)


def _reading_ranges(readings: Readings, windows: Windows, policy: Policy) -> tuple[Integers, Integers]:
    """Return, for each window, the index of its first reading and the index after its last reading."""
    start_ms, end_ms = windows.start_ms, policy.ends(windows.start_ms)
    usual = policy.usual
    if usual.readings.kind is Kind.INTERVAL_ENERGY:
        return (
            _position(readings, windows.meter, start_ms + 1),
            _position(readings, windows.meter, end_ms + usual.readings.interval_ms),
        )
    first, last = (_position(readings, windows.meter, start_ms), _position(readings, windows.meter, end_ms))
    previous_index = np.maximum(first - 1, 0)  # this reading may hold into the window
    if not readings.meter.size:
        return first, last
    overlaps = (readings.meter[previous_index] == windows.meter) & (
        readings.time_ms[previous_index] + usual.readings.hold_ms > start_ms
    )
    return first - (overlaps & (first > 0)), last


def _position(readings: Readings, meter: Integers, time_ms: Integers) -> Integers:
    """Return, for each meter and time, the index at which a reading with that time would be inserted."""
    origin_ms = (
        min(int(column.min()) for column in (readings.time_ms, time_ms) if column.size) if time_ms.size else 0
    )
    last_ms = max((int(column.max()) for column in (readings.time_ms, time_ms) if column.size), default=0)
    width = (last_ms - origin_ms).bit_length()
    keys = meter_sort_keys(readings.meter, width) + (readings.time_ms - origin_ms)
    return np.searchsorted(keys, meter_sort_keys(meter, width) + (time_ms - origin_ms)).astype(np.int64)


def meter_sort_keys(meter: Integers, width: int) -> Integers:
    """Shift meters' numbers left, so that times can be added. Raises ArchiveError beyond 64 bits."""
    if meter.size and int(meter.max()).bit_length() + width >= _INT64_BITS:
        raise ArchiveError("the times are too far apart for this many meters: release each year separately")
    return meter << width
