"""Time and slots: the epoch grid, the local calendar, and times and durations as text.

Theory of operation
-------------------
Times are whole milliseconds since the Unix epoch. Both grids are determined by the configuration and public
time-zone rules alone, so a window's boundaries reveal nothing. `EpochGrid` cuts time at multiples of a fixed
length, `Calendar` at local midnights: a window is a day, a week (from Monday) or a month, from the first
instant of its first day to the first instant of the next window.

Some local times occur twice, and some never occur. `_instant_ms` decides what they mean:

- an ambiguous time (clocks are set back) means its first occurrence;
- a time that never occurs (clocks are set forward) means the instant of the change. So a day whose midnight
  is skipped starts at that instant, and two bands that meet inside the skipped hour meet at that instant;
- a day that a country skipped, as Samoa skipped 2011-12-30, has no instants. So it has no window, and its
  bands are empty.

In any zone, the windows of a grid do not overlap and leave no gap, and `first_start_ms` returns the start of
a window. Law 1 relies on both facts, because a mark is the end of a window. If the time-zone data change,
windows under the old and new rules may overlap; the mark then prevents the overlapping window from opening.
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
RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
"""The form of a time in a message: RFC 3339 with a zone."""


def round_down(time_ms: int, step_ms: int) -> int:
    """Round `time_ms` down to a multiple of `step_ms`, a boundary of the epoch grid."""
    return time_ms - time_ms % step_ms


def round_up(time_ms: int, step_ms: int) -> int:
    """Round `time_ms` up to a multiple of `step_ms`, a boundary of the epoch grid."""
    return time_ms + -time_ms % step_ms


class Grid(Protocol):
    """A division of time into windows."""

    def first_start_ms(self, time_ms: int) -> int:
        """Return the start of the first window that starts at or after `time_ms`."""
        ...

    def start_ms(self, time_ms: int) -> int:
        """Return the start of the window that contains `time_ms`."""
        ...

    def end_ms(self, start_ms: int) -> int:
        """Return the end of the window that starts at `start_ms`, which is the start of the next window."""
        ...


@dataclass(frozen=True, slots=True)
class EpochGrid:
    """Windows of one length, aligned to the Unix epoch."""

    length_ms: int

    def first_start_ms(self, time_ms: int) -> int:
        """Return the first multiple of the length at or after `time_ms`."""
        return round_up(time_ms, self.length_ms)

    def start_ms(self, time_ms: int) -> int:
        """Return the last multiple of the length at or before `time_ms`."""
        return round_down(time_ms, self.length_ms)

    def end_ms(self, start_ms: int) -> int:
        """Return the time one length after `start_ms`."""
        return start_ms + self.length_ms


CALENDAR_UNITS = ("1d", "1w", "1mo")
"""The lengths of windows on the local calendar, as written in a configuration."""


class Hours(NamedTuple):
    """Hours of the local day, in minutes after midnight; they span midnight if `from_min` >= `to_min`."""

    from_min: int
    to_min: int

    @property
    def name(self) -> str:
        """The hours as written in records: ``00:00/06:00``."""
        return "/".join(f"{minute // 60:02}:{minute % 60:02}" for minute in self)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The hours as (from, to) in minutes, in order: one part, or two parts if midnight divides them."""
        if self.from_min < self.to_min:
            return ((self.from_min, self.to_min),)
        return tuple(part for part in ((0, self.to_min), (self.from_min, 24 * 60)) if part[0] < part[1])


WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = frozenset(range(7))
_SUNDAY = 6


@dataclass(frozen=True, slots=True)
class BandRule:
    """The hours of a band and its days of the week, 0 for Monday; `holidays` are treated as Sundays."""

    name: str
    hours: tuple[Hours, ...]
    weekdays: frozenset[int] = EVERY_DAY
    holidays: frozenset[date] = frozenset()

    def holds_on(self, day: date) -> bool:
        """Return whether the band has hours on the given day."""
        return (_SUNDAY if day in self.holidays else day.weekday()) in self.weekdays

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The stretches of a day that belong to the band, as (from, to) in minutes, in order."""
        return tuple(sorted(part for hours in self.hours for part in hours.parts))


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows on the local calendar of a time zone; `unit` is one of CALENDAR_UNITS."""

    timezone: str
    unit: str

    def first_start_ms(self, time_ms: int) -> int:
        """Return the start of the first unit that starts at or after `time_ms`."""
        day = self._first_day(self._date(time_ms))
        while (start_ms := self._instant_ms(day)) < time_ms:
            day = self._next(day)
        return start_ms

    def start_ms(self, time_ms: int) -> int:
        """Return the start of the unit that contains `time_ms`."""
        start_ms = self._instant_ms(self._first_day(self._date(time_ms)))
        # Where clocks go back across midnight, the previous date recurs for up to an hour; that time belongs
        # to the day that has already begun.
        while (end_ms := self.end_ms(start_ms)) <= time_ms:
            start_ms = end_ms
        return start_ms

    def end_ms(self, start_ms: int) -> int:
        """Return the start of the next unit, passing over a day that the time zone skips as a whole."""
        day = self._next(self._first_day(self._date(start_ms)))
        while (end_ms := self._instant_ms(day)) <= start_ms:
            day = self._next(day)
        return end_ms

    def stretches(self, start_ms: int, rule: BandRule) -> tuple[tuple[int, int], ...]:
        """Return a band's stretches in a window, in order: (from, to) in ms after the window's start.

        If hours span midnight, each of their two parts belongs to the day on which it falls: on a Saturday,
        22:00/06:00 means 00:00 to 06:00 and 22:00 to 24:00.
        """
        stretches: list[tuple[int, int]] = []
        minutes = [minute for part in rule.parts for minute in part]
        for day in filter(rule.holds_on, self._days(start_ms)):
            instants_ms = [self._instant_ms(day, minute) for minute in minutes]
            for from_ms, to_ms in zip(instants_ms[::2], instants_ms[1::2], strict=True):
                if from_ms < to_ms:
                    stretches.append((from_ms - start_ms, to_ms - start_ms))
        return tuple(stretches)

    def _days(self, start_ms: int) -> Iterator[date]:
        """Yield the local days of the window that starts at `start_ms`."""
        day, end_ms = self._date(start_ms), self.end_ms(start_ms)
        while (begin_ms := self._instant_ms(day)) < end_ms:
            if self._date(begin_ms) == day:  # false for a day that the country skipped
                yield day
            day += timedelta(days=1)

    def _date(self, time_ms: int) -> date:
        return (_EPOCH + timedelta(milliseconds=time_ms)).astimezone(ZoneInfo(self.timezone)).date()

    def _first_day(self, day: date) -> date:
        """Return the first day of the unit that contains `day`."""
        if self.unit == "1mo":
            return day.replace(day=1)
        return day - timedelta(days=day.weekday()) if self.unit == "1w" else day

    def _next(self, day: date) -> date:
        """Return the first day of the unit after the unit that begins on `day`."""
        if self.unit == "1mo":
            return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
        return day + timedelta(days=7 if self.unit == "1w" else 1)

    def _instant_ms(self, day: date, minute: int = 0) -> int:
        """Convert a minute of a local day to an instant; a skipped time becomes the instant of the change."""
        zone = ZoneInfo(self.timezone)
        local, ahead = datetime.combine(day, time(), zone) + timedelta(minutes=minute), timedelta(0)
        # A skipped time is changed by the round trip through UTC. Step back to the last minute that is not
        # skipped; the clocks were set forward at its end.
        while (moment := local.astimezone(UTC)).astimezone(zone) != local:
            local, ahead = local - timedelta(minutes=1), timedelta(minutes=1)
        return (moment + ahead - _EPOCH) // _MILLISECOND


def day_ms(time_ms: int) -> int:
    """Return the start of the UTC day that contains `time_ms`."""
    return time_ms - time_ms % DAY_MS


def parse_duration(text: str) -> int:
    """Parse a duration such as ``30min`` or ``30d`` to ms. Raises ValueError for any other string."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("a whole number and ms, s, min, h or d, such as '30min'")
    return int(match[1]) * _DURATION_MS[match[2]]


def format_duration(duration_ms: int) -> str:
    """Format a duration as in a configuration, in the largest unit that divides it, such as ``30min``."""
    for unit in ("d", "h", "min", "s"):
        if duration_ms and duration_ms % _DURATION_MS[unit] == 0:
            return f"{duration_ms // _DURATION_MS[unit]}{unit}"
    return f"{duration_ms}ms" if duration_ms else "0s"


_PARTS_MS = (("day", DAY_MS), ("h", HOUR_MS), ("min", MINUTE_MS), ("s", 1000), ("ms", 1))


def duration_parts(duration_ms: int, units: int = len(_PARTS_MS)) -> list[tuple[str, int]]:
    """Split a duration into units, largest first; drop what is smaller than its `units` largest units."""
    parts: list[tuple[str, int]] = []
    remainder_ms, units_left = duration_ms, units
    for unit, unit_ms in _PARTS_MS:
        count, remainder_ms = divmod(remainder_ms, unit_ms)
        if count:
            parts.append((unit, count))
        units_left -= bool(parts)
        if units_left == 0:
            break
    return parts or [("s", 0)]


def duration_text(duration_ms: int, units: int = len(_PARTS_MS)) -> str:
    """Format a duration for people, rounded down to its largest `units` units: ``2,191 days 23 h``."""
    parts = duration_parts(duration_ms, units)
    return " ".join(f"{count:,} {unit}{'s' if unit == 'day' and count > 1 else ''}" for unit, count in parts)


@lru_cache(maxsize=256)  # records have few distinct durations
def iso_duration(duration_ms: int) -> str:
    """Format a duration in ISO 8601 with time designators only: ``PT30M``, ``PT24H``, ``PT0.5S``."""
    hours, remainder_ms = divmod(duration_ms, HOUR_MS)
    minutes, remainder_ms = divmod(remainder_ms, MINUTE_MS)
    seconds, millis = divmod(remainder_ms, 1000)
    fraction = f".{millis:03d}".rstrip("0") if millis else ""
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    parts.append(f"{seconds}{fraction}S" if seconds or fraction else "")
    return "PT" + ("".join(parts) or "0S")


@lru_cache(maxsize=256)  # the slots of all meters start at the same times
def iso_time(time_ms: int) -> str:
    """Format a time in RFC 3339, UTC, with milliseconds only if they are not 0."""
    seconds, millis = divmod(time_ms, 1000)
    text = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    return f"{text}.{millis:03d}Z" if millis else f"{text}Z"


def parse_time(text: str) -> int:
    """Parse an RFC 3339 time with a zone to Unix ms, rounded down. Raises ValueError for any other string."""
    if RFC3339.fullmatch(text) is None:
        raise ValueError("not an RFC 3339 time with a zone, such as 2026-11-20T12:00:00Z")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MILLISECOND


FIRST_MS, END_MS = parse_time("1990-01-01T00:00:00Z"), parse_time("2101-01-01T00:00:00Z")
"""The first millisecond of the years 1990 to 2100, and the first one after them: a time in a file outside
this period is in another unit, or wrong."""


class Band(NamedTuple):
    """Hours of the day that form one slot; `stretches` are (from, to) in ms after the window's start.

    The band for energy whose time of use is unknown has one stretch, of length 0, at the window's end.
    """

    name: str
    stretches: tuple[tuple[int, int], ...]

    @property
    def duration_ms(self) -> int:
        """The total duration of the band's stretches."""
        return sum(end_ms - start_ms for start_ms, end_ms in self.stretches)
