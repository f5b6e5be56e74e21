"""Partitions of the table `record`: one for each UTC month or day, selected by the start of the slot."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from meteragent.domain.units import DAY_MS

Length = Literal["month", "day", "none"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD_MS: dict[Length, int] = {"month": 62 * DAY_MS, "day": 7 * DAY_MS, "none": 0}
"""How far ahead of the current time partitions are created."""


class Partition(NamedTuple):
    """A partition of the table `record`; `end` is the first instant after it."""

    name: str
    start: datetime
    end: datetime


def partition_of(time_ms: int, length: Length) -> Partition:
    """Return the partition that contains `time_ms`; `length` must be "month" or "day"."""
    time = _EPOCH + timedelta(milliseconds=time_ms)
    day = time.replace(hour=0, minute=0, second=0, microsecond=0)
    if length == "day":
        return Partition(f"record_{day:%Y_%m_%d}", day, day + timedelta(days=1))
    start = day.replace(day=1)
    end = (start + timedelta(days=31)).replace(day=1)
    return Partition(f"record_{start:%Y_%m}", start, end)


def partitions_covering(times_ms: Iterable[int], now_ms: int, length: Length) -> set[Partition]:
    """Return the partitions, if any, of the given times and of the days up to `_AHEAD_MS` from now."""
    if length == "none":
        return set()
    days = {time_ms // DAY_MS for time_ms in times_ms}
    days_ahead = range(now_ms // DAY_MS, (now_ms + _AHEAD_MS[length]) // DAY_MS + 1)
    return {partition_of(day * DAY_MS, length) for day in [*days, *days_ahead]}
