"""Time <-> slot arithmetic: the epoch grid, the local calendar, and how times and durations are written.

Times are whole milliseconds since the Unix epoch, durations whole milliseconds; both are exact. On the
calendar a window is a local day, week (from Monday) or month: from its first midnight to the next one's.
Where clocks are put forward over midnight, the day starts at that moment; where midnight comes twice, at
the first; a day that a country skipped has no time, and so no window. All of it is public.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DURATION_MS = {"ms": 1, "s": 1000, "min": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_DURATION = re.compile(r"(\d{1,12})(ms|s|min|h|d)", re.ASCII)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def floor(time_ms: int, step_ms: int) -> int:
    """The last boundary of the epoch grid at or before a time."""
    return time_ms - time_ms % step_ms


def ceil(time_ms: int, step_ms: int) -> int:
    """The first boundary of the epoch grid at or after a time."""
    return time_ms + -time_ms % step_ms


class Grid(Protocol):
    """Where windows start and end."""

    def first_ms(self, time_ms: int) -> int:
        """The first start of a window at or after a time."""
        ...

    def start_ms(self, time_ms: int) -> int:
        """The start of the window that a time lies in."""
        ...

    def end_ms(self, start_ms: int) -> int:
        """The end of the window that starts at `start_ms`: the next one's start."""
        ...


@dataclass(frozen=True, slots=True)
class Epoch:
    """Windows of one length, aligned to the Unix epoch."""

    length_ms: int

    def first_ms(self, time_ms: int) -> int:
        """The first multiple of the length at or after a time."""
        return ceil(time_ms, self.length_ms)

    def start_ms(self, time_ms: int) -> int:
        """The multiple of the length at or before a time."""
        return floor(time_ms, self.length_ms)

    def end_ms(self, start_ms: int) -> int:
        """One length later."""
        return start_ms + self.length_ms


CALENDAR_UNITS = ("1d", "1w", "1mo")
"""The windows that follow the local calendar, as they are written."""


class Hours(NamedTuple):
    """Hours of the local day, in minutes after midnight; `from_min` > `to_min` runs over midnight."""

    from_min: int
    to_min: int

    @property
    def name(self) -> str:
        """As records say it: ``00:00/06:00``."""
        return "/".join(f"{minute // 60:02}:{minute % 60:02}" for minute in self)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The same without midnight inside: one part, or two."""
        if self.from_min < self.to_min:
            return ((self.from_min, self.to_min),)
        return tuple(part for part in ((0, self.to_min), (self.from_min, 24 * 60)) if part[0] < part[1])


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows on the local calendar of a time zone: one day, one week or one month each.

    `unit` is one of CALENDAR_UNITS. A zone's rules may change; what was opened is not opened again,
    because windows open only at or after the end of the last one (law 1).
    """

    timezone: str
    unit: str

    def first_ms(self, time_ms: int) -> int:
        """The first start of a unit at or after a time."""
        day = self._first_day(self._date(time_ms))
        while (start_ms := self._instant_ms(day)) < time_ms:
            day = self._next(day)
        return start_ms

    def start_ms(self, time_ms: int) -> int:
        """The start of the unit that a time lies in."""
        return self._instant_ms(self._first_day(self._date(time_ms)))

    def end_ms(self, start_ms: int) -> int:
        """The start of the next unit that has any time in it."""
        day = self._next(self._first_day(self._date(start_ms)))
        while (end_ms := self._instant_ms(day)) <= start_ms:
            day = self._next(day)
        return end_ms

    def stretches(self, start_ms: int, hours: Hours) -> tuple[tuple[int, int], ...]:
        """Where hours of the day lie in a window: (from, to) in ms after its start, one or two a day."""
        found: list[tuple[int, int]] = []
        for day in self._days(start_ms):
            minutes = [minute for part in hours.parts for minute in part]
            instants_ms = [self._instant_ms(day, minute) for minute in minutes]
            for from_ms, to_ms in zip(instants_ms[::2], instants_ms[1::2], strict=True):
                if from_ms < to_ms:
                    found.append((from_ms - start_ms, to_ms - start_ms))
        return tuple(found)

    def _days(self, start_ms: int) -> Iterator[date]:
        """Yield the local days of a window."""
        day, end_ms = self._date(start_ms), self.end_ms(start_ms)
        while (begin_ms := self._instant_ms(day)) < end_ms:
            if self._date(begin_ms) == day:  # else a change of zone skipped it, as Samoa did 2011-12-30
                yield day
            day += timedelta(days=1)

    def _date(self, time_ms: int) -> date:
        return (_EPOCH + timedelta(milliseconds=time_ms)).astimezone(ZoneInfo(self.timezone)).date()

    def _first_day(self, day: date) -> date:
        """The first day of the unit that a day lies in."""
        if self.unit == "1mo":
            return day.replace(day=1)
        return day - timedelta(days=day.weekday()) if self.unit == "1w" else day

    def _next(self, day: date) -> date:
        """The first day of the next unit."""
        if self.unit == "1mo":
            return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
        return day + timedelta(days=7 if self.unit == "1w" else 1)

    def _instant_ms(self, day: date, minute: int = 0) -> int:
        """Return when a local day has got so far; a time that is skipped is when clocks were put forward."""
        zone = ZoneInfo(self.timezone)
        local, ahead = datetime.combine(day, time(), zone) + timedelta(minutes=minute), timedelta(0)
        # Of a time that is skipped: one minute after the last time before it that is not.
        while (moment := local.astimezone(UTC)).astimezone(zone) != local:
            local, ahead = local - timedelta(minutes=1), timedelta(minutes=1)
        return (moment + ahead - _EPOCH) // _MILLISECOND


def day(time_ms: int) -> int:
    """The start of the UTC day that holds a time."""
    return floor(time_ms, DAY_MS)


def parse_duration(text: str) -> int:
    """A duration such as ``30min``, ``10s``, ``24h`` or ``30d`` in milliseconds.

    Raises ValueError when it is not a whole number followed by ms, s, min, h or d.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("a whole number and ms, s, min, h or d, such as '30min'")
    return int(match[1]) * _DURATION_MS[match[2]]


def format_duration(duration_ms: int) -> str:
    """A duration as people write it in the configuration: the largest unit that fits, ``30min``."""
    for unit in ("d", "h", "min", "s"):
        if duration_ms and duration_ms % _DURATION_MS[unit] == 0:
            return f"{duration_ms // _DURATION_MS[unit]}{unit}"
    return f"{duration_ms}ms" if duration_ms else "0s"


@lru_cache(maxsize=256)  # records say few different ones
def iso_duration(duration_ms: int) -> str:
    """A duration in ISO 8601 with time designators only: ``PT30M``, ``PT24H``, ``PT0.5S``."""
    hours, rest = divmod(duration_ms, HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    seconds, millis = divmod(rest, 1000)
    fraction = f".{millis:03d}".rstrip("0") if millis else ""
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    parts.append(f"{seconds}{fraction}S" if seconds or fraction else "")
    return "PT" + ("".join(parts) or "0S")


@lru_cache(maxsize=256)  # all meters' slots start at the same times
def iso_time(time_ms: int) -> str:
    """A time in RFC 3339, UTC, with milliseconds only where there are any."""
    seconds, millis = divmod(time_ms, 1000)
    text = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    return f"{text}.{millis:03d}Z" if millis else f"{text}Z"


def parse_time(text: str) -> int:
    """An RFC 3339 time with its zone, in milliseconds (rounded down).

    Raises ValueError for anything else, a time without a zone included.
    """
    if _RFC3339.fullmatch(text) is None:
        raise ValueError("not an RFC 3339 time with a zone, such as 2026-11-20T12:00:00Z")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MILLISECOND
