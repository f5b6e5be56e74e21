"""Readings of many meters -> windows: which there are, and which readings each is given.

Columns are numpy arrays, a meter is its number in a list of names. Windows come out by meter and start,
whatever the order of the readings.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from meteragent.archive.number import Flags
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.slots import Ragged, windows
from meteragent.domain.errors import ArchiveError
from meteragent.domain.units import Kind

_INT64_BITS = 63


class Readings(NamedTuple):
    """Readings as columns: the number of the meter, the time in ms; value in millionths; if there is one."""

    meter: Integers
    time_ms: Integers
    value_u: Integers
    valid: Flags

    def rows(self, which: Flags | Integers) -> "Readings":
        """Some of them."""
        return Readings(self.meter[which], self.time_ms[which], self.value_u[which], self.valid[which])


class Windows(NamedTuple):
    """Windows as columns: the number of the meter, the start in ms."""

    meter: Integers
    start_ms: Integers

    def rows(self, which: Flags | slice) -> "Windows":
        """Some of them."""
        return Windows(self.meter[which], self.start_ms[which])


def opened(meter: Integers, time_ms: Integers, policy: Policy) -> Windows:
    """The windows in which the spans of readings begin, each once, by meter and start."""
    starts = policy.starts(time_ms - policy.lead_ms)
    change = np.ones(meter.size, np.bool_)  # most readings lie in the window of the one before
    change[1:] = (meter[1:] != meter[:-1]) | (starts[1:] != starts[:-1])
    meter, starts = meter[change], starts[change]
    order = np.lexsort((starts, meter))
    meter, starts = meter[order], starts[order]
    first = np.ones(meter.size, np.bool_)
    first[1:] = (meter[1:] != meter[:-1]) | (starts[1:] != starts[:-1])
    return Windows(meter[first], starts[first])


def slots(
    readings: Readings, chosen: Windows, policy: Policy, at_once: int
) -> Iterator[tuple[Windows, Ragged]]:
    """The slots of windows from the readings of their meters, so many windows at once."""
    one = _ordered(readings)
    first, last = _given(one, chosen, policy)
    for begin in range(0, chosen.meter.size, at_once):
        part = slice(begin, begin + at_once)
        some, lengths = chosen.rows(part), last[part] - first[part]
        moved = np.repeat(first[part] - (np.cumsum(lengths) - lengths), lengths)
        at = moved + np.arange(moved.size)
        yield some, windows(some.start_ms, lengths, one.time_ms[at], one.value_u[at], policy)


def _ordered(readings: Readings) -> Readings:
    """Those that have a value, by meter and time, the least of several at the same time."""
    if not readings.valid.all():
        readings = readings.rows(readings.valid)
    if not _in_order(readings.meter, readings.time_ms):
        readings = readings.rows(np.lexsort((readings.time_ms, readings.meter)))
    meter, time_ms, value_u, valid = readings
    again = (meter[1:] == meter[:-1]) & (time_ms[1:] == time_ms[:-1])
    if not again.any():
        return readings
    begins = np.flatnonzero(np.append(True, ~again))
    return Readings(meter[begins], time_ms[begins], np.minimum.reduceat(value_u, begins), valid[begins])


def _in_order(meter: Integers, time_ms: Integers) -> bool:
    step = np.diff(meter)
    return not ((step < 0) | ((step == 0) & (np.diff(time_ms) < 0))).any()


def _given(one: Readings, chosen: Windows, policy: Policy) -> tuple[Integers, Integers]:
    """Of each window the first of its readings and the one after its last, among those in order."""
    start_ms, end_ms = chosen.start_ms, policy.ends(chosen.start_ms)
    usual = policy.usual
    if usual.kind is Kind.INTERVAL_ENERGY:
        return _at(one, chosen.meter, start_ms + 1), _at(one, chosen.meter, end_ms + usual.interval_ms)
    first, last = _at(one, chosen.meter, start_ms), _at(one, chosen.meter, end_ms)
    before = np.maximum(first - 1, 0)  # what stands when the window begins
    if not one.meter.size:
        return first, last
    stands = (one.meter[before] == chosen.meter) & (one.time_ms[before] + usual.hold_ms > start_ms)
    return first - (stands & (first > 0)), last


def _at(one: Readings, meter: Integers, time_ms: Integers) -> Integers:
    """Where the first reading of a meter at or after a time is, or would be."""
    least = min(int(column.min()) for column in (one.time_ms, time_ms) if column.size) if time_ms.size else 0
    greatest = max((int(column.max()) for column in (one.time_ms, time_ms) if column.size), default=0)
    width = (greatest - least).bit_length()
    own = ranked(one.meter, width) + (one.time_ms - least)
    return np.searchsorted(own, ranked(meter, width) + (time_ms - least)).astype(np.int64)


def ranked(meter: Integers, width: int) -> Integers:
    """Meters' numbers with room for times of so many bits: sums are in order of meter and time.

    Raises ArchiveError where 64 bits do not hold both.
    """
    if meter.size and int(meter.max()).bit_length() + width >= _INT64_BITS:
        raise ArchiveError("times that lie too far apart for so many meters: release the years apart")
    return meter << width
