"""Windows of the local calendar (meteragent.domain.grid), against a clock seen every quarter of an hour."""

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meteragent.domain.grid import CALENDAR_UNITS, EVERY_DAY, Band, BandRule, Calendar, Hours, parse_time
from meteragent.domain.schedule import BandRules
from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = {
    "Europe/Amsterdam": 2026,  # 02:00 -> 03:00 and 03:00 -> 02:00
    "America/New_York": 2028,  # a leap year
    "Australia/Lord_Howe": 2026,  # half an hour
    "Asia/Kathmandu": 2026,  # +05:45
    "America/Sao_Paulo": 2017,  # midnight is skipped, and 24:00 -> 23:00
    "America/Havana": 2026,  # 00:00 -> 01:00 and 01:00 -> 00:00
    "Asia/Beirut": 2026,  # 00:00 -> 01:00 and 24:00 -> 23:00
    "Pacific/Apia": 2011,  # the 30th of December was skipped
    "Africa/Casablanca": 2026,
}
UNITS: dict[str, Callable[[date], object]] = {
    "1d": lambda d: d,
    "1w": lambda d: d.isocalendar()[:2],
    "1mo": lambda d: (d.year, d.month),
}


def ms(when: datetime) -> int:
    """A time in ms since the Unix epoch."""
    return (when - EPOCH) // timedelta(milliseconds=1)


@cache
def local_minutes(zone: str, year: int) -> list[tuple[int, datetime]]:
    """Every quarter of an hour from the end of the year before to the start of the next: ms, local time."""
    start = datetime(year - 1, 12, 20, tzinfo=UTC)
    times = [start + timedelta(minutes=15 * i) for i in range(390 * 96)]
    return [(ms(one), one.astimezone(ZoneInfo(zone))) for one in times]


@pytest.mark.parametrize("unit", CALENDAR_UNITS)
@pytest.mark.parametrize("zone", ZONES)
def test_a_window_starts_where_the_date_first_changes(zone: str, unit: str) -> None:
    """Over a year, windows start exactly where a local day, week (Monday) or month begins."""
    name, minutes = UNITS[unit], local_minutes(zone, ZONES[zone])
    begun = {name(minutes[0][1].date())}
    expected = []
    for at_ms, clock in minutes:
        key = name(clock.date())
        if key not in begun:
            begun.add(key)
            expected.append(at_ms)
    calendar = Calendar(zone, unit)
    found = [calendar.first_start_ms(expected[0])]
    while found[-1] < expected[-1]:
        found.append(calendar.end_ms(found[-1]))
    assert found == expected
    assert len(found) > {"1d": 360, "1w": 50, "1mo": 11}[unit]


@given(
    zone=st.sampled_from(list(ZONES)),
    unit=st.sampled_from(CALENDAR_UNITS),
    time_ms=st.integers(0, parse_time("2050-01-01T00:00:00Z")),
)
def test_windows_tile_the_time(zone: str, unit: str, time_ms: int) -> None:
    """The first start at or after a time is a start, none lies between, and each window ends at the next."""
    calendar = Calendar(zone, unit)
    start_ms = calendar.first_start_ms(time_ms)
    assert time_ms <= start_ms == calendar.first_start_ms(start_ms)
    end_ms = calendar.end_ms(start_ms)
    assert start_ms < end_ms == calendar.first_start_ms(start_ms + 1)
    assert {"1d": 22, "1w": 6 * 24, "1mo": 27 * 24}[unit] * HOUR_MS <= end_ms - start_ms <= 32 * DAY_MS


@pytest.mark.parametrize(
    ("zone", "start", "hours"),
    [
        ("Europe/Amsterdam", "2026-03-28T23:00:00Z", 23),
        ("Europe/Amsterdam", "2026-10-24T22:00:00Z", 25),
        ("Europe/Amsterdam", "2026-11-20T23:00:00Z", 24),
        ("Australia/Lord_Howe", "2026-04-04T13:00:00Z", "24.5"),
        ("UTC", "2028-02-29T00:00:00Z", 24),
    ],
)
def test_days_of_23_24_and_25_hours(zone: str, start: str, hours: float | str) -> None:
    """A local day lasts what it lasts."""
    start_ms, day = parse_time(start), Calendar(zone, "1d")
    assert day.first_start_ms(start_ms) == start_ms
    assert day.end_ms(start_ms) - start_ms == Fraction(hours) * HOUR_MS


def rule(
    *hours: Hours, weekdays: frozenset[int] = EVERY_DAY, holidays: frozenset[date] = frozenset()
) -> BandRule:
    """The rule of a band with these hours."""
    return BandRule("band", hours, weekdays, holidays)


BANDS = (Hours(0, 6 * 60), Hours(6 * 60, 17 * 60), Hours(17 * 60, 21 * 60), Hours(21 * 60, 24 * 60))


@pytest.mark.parametrize("zone", ZONES)
def test_bands_are_the_hours_that_clocks_show(zone: str) -> None:
    """A moment of a month counts in the band whose hours local clocks show, every quarter of an hour."""
    calendar, minutes = Calendar(zone, "1mo"), local_minutes(zone, ZONES[zone])
    first_ms = start_ms = calendar.first_start_ms(minutes[0][0])
    bands = defaultdict[int, list[Hours]](list)
    while (end_ms := calendar.end_ms(start_ms)) < minutes[-1][0]:
        for hours in BANDS:
            for a, b in calendar.stretches(start_ms, rule(hours)):
                for at_ms in range(start_ms + a, start_ms + b, 15 * MINUTE_MS):
                    bands[at_ms].append(hours)
        start_ms = end_ms
    for at_ms, clock in minutes:
        if first_ms <= at_ms < start_ms:
            shown = clock.hour * 60 + clock.minute
            assert bands.pop(at_ms) == [hours for hours in BANDS if hours.from_min <= shown < hours.to_min]
    assert not bands


@given(
    zone=st.sampled_from(list(ZONES)),
    cuts=st.lists(st.integers(1, 1439), min_size=1, max_size=6, unique=True).map(sorted),
    time_ms=st.integers(0, parse_time("2040-01-01T00:00:00Z")),
    unit=st.sampled_from(CALENDAR_UNITS),
)
@example(zone="America/New_York", cuts=[1, 121, 180], time_ms=5_115_600_001, unit="1mo")
def test_bands_that_fill_the_day_fill_the_window(zone: str, cuts: list[int], time_ms: int, unit: str) -> None:
    """Whatever the minutes and however clocks change, each moment of a window is in exactly one band."""
    calendar = Calendar(zone, unit)
    start_ms = calendar.first_start_ms(time_ms)
    ends = [*cuts, cuts[0] + 24 * 60]
    hours = [Hours(a, b if b <= 24 * 60 else b - 24 * 60) for a, b in pairwise(ends)]
    parts = sorted(part for one in hours for part in calendar.stretches(start_ms, rule(one)))
    assert parts[0][0] == 0
    assert parts[-1][1] == calendar.end_ms(start_ms) - start_ms
    assert all(one[1] == other[0] for one, other in pairwise(parts))


def test_hours_over_midnight_are_two_parts_of_a_day() -> None:
    """22-06 is the start and the end of each day; its name is as records say it."""
    night = Hours(22 * 60, 6 * 60)
    assert night.name == "22:00/06:00"
    assert night.parts == ((0, 360), (1320, 1440))
    assert Hours(0, 1440).name == "00:00/24:00"
    found = Calendar("UTC", "1w").stretches(parse_time("2026-11-16T00:00:00Z"), rule(night))
    assert found[:3] == ((0, 6 * HOUR_MS), (22 * HOUR_MS, 24 * HOUR_MS), (24 * HOUR_MS, 30 * HOUR_MS))


@pytest.mark.parametrize("unit", ["1d", "1w", "1mo"])
@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "Pacific/Apia"])
def test_every_time_lies_in_the_window_that_starts_before_it(zone: str, unit: str) -> None:
    """From any time of a year the start of its window is found, also where a day was left out."""
    calendar = Calendar(zone, unit)
    first_ms = calendar.first_start_ms(parse_time("2011-11-15T00:00:00Z"))
    while first_ms < parse_time("2012-02-15T00:00:00Z"):
        end_ms = calendar.end_ms(first_ms)
        times_ms = range(first_ms, end_ms, 3_000_000)
        assert {calendar.start_ms(time_ms) for time_ms in (*times_ms, end_ms - 1)} == {first_ms}
        first_ms = end_ms


def test_a_band_has_hours_on_its_days_and_holidays_are_sundays() -> None:
    """Of the week with a holiday on Thursday: three working days until it, then Friday."""
    day = rule(Hours(7 * 60, 23 * 60), weekdays=frozenset(range(5)), holidays=frozenset({date(2026, 12, 24)}))
    week_ms = parse_time("2026-12-21T00:00:00Z")
    stretches = Calendar("UTC", "1w").stretches(week_ms, day)
    assert [(start // DAY_MS, start % DAY_MS, end - start) for start, end in stretches] == [
        (number, 7 * HOUR_MS, 16 * HOUR_MS) for number in (0, 1, 2, 4)
    ]
    sunday = rule(Hours(0, 24 * 60), weekdays=frozenset({6}), holidays=day.holidays)
    assert [start // DAY_MS for start, _ in Calendar("UTC", "1w").stretches(week_ms, sunday)] == [3, 6]


@given(
    zone=st.sampled_from(list(ZONES)),
    days=st.lists(st.frozensets(st.integers(0, 6)), min_size=1, max_size=3),
    hours=st.tuples(st.integers(0, 1439), st.integers(0, 1439)).filter(lambda ends: ends[0] != ends[1]),
    time_ms=st.integers(0, parse_time("2040-01-01T00:00:00Z")),
    unit=st.sampled_from(CALENDAR_UNITS),
    holidays=st.frozensets(st.dates(date(1970, 1, 1), date(2039, 12, 31)), max_size=3),
)
def test_bands_and_the_rest_fill_the_window_once(
    zone: str,
    days: list[frozenset[int]],
    hours: tuple[int, int],
    time_ms: int,
    unit: str,
    holidays: frozenset[date],
) -> None:
    """Whatever the days, each moment of a window is in one band, and the unknown band has none."""
    calendar = Calendar(zone, unit)
    start_ms = calendar.first_start_ms(time_ms)
    free, rules = EVERY_DAY, []
    for number, weekdays in enumerate(days):
        rules.append(BandRule(f"band {number}", (Hours(*hours),), weekdays & free, holidays))
        free -= weekdays
    bands = BandRules(tuple(rules), "rest", has_unknown=True).bands(calendar, start_ms)
    length_ms = calendar.end_ms(start_ms) - start_ms
    parts = sorted(part for band in bands for part in band.stretches)
    assert parts[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    assert bands[-1] == Band(UNKNOWN_BAND, ((length_ms, length_ms),))
    assert sum(band.duration_ms for band in bands) == length_ms


GOOSE_BAY_MS = parse_time("2010-11-07T03:30:00Z")
"""Half an hour into the second 23:01 to 24:00 of a day: clocks went back at 00:01 of the next."""


@given(
    zone=st.sampled_from(sorted(available_timezones())),
    unit=st.sampled_from(CALENDAR_UNITS),
    time_ms=st.integers(parse_time("1970-02-01T00:00:00Z"), parse_time("2037-12-01T00:00:00Z")),
)
@example("America/Goose_Bay", "1d", GOOSE_BAY_MS)
@example("America/St_Johns", "1d", parse_time("2006-10-29T02:45:00Z"))
@example("Pacific/Apia", "1d", parse_time("2011-12-30T12:00:00Z"))
@example("America/Goose_Bay", "1mo", parse_time("1988-11-01T03:30:00Z"))
def test_each_time_is_in_the_unit_that_starts_before_it(zone: str, unit: str, time_ms: int) -> None:
    """Starts increase strictly, start <= t < next start, and every start is the start of its unit."""
    calendar = Calendar(zone, unit)
    start_ms = calendar.start_ms(time_ms)
    end_ms = calendar.end_ms(start_ms)
    next_ms = calendar.end_ms(end_ms)
    assert start_ms <= time_ms < end_ms < next_ms
    assert calendar.start_ms(start_ms) == calendar.start_ms(end_ms - 1) == start_ms
    assert calendar.start_ms(end_ms) == end_ms
    assert calendar.first_start_ms(time_ms) == (start_ms if time_ms == start_ms else end_ms)
    whole = BandRule("day", (Hours(0, 24 * 60),))
    stretches = calendar.stretches(start_ms, whole)
    assert (stretches[0][0], stretches[-1][1]) == (0, end_ms - start_ms)
    assert all(end == start for (_, end), (start, _) in pairwise(stretches))


def test_a_repeated_hour_belongs_to_the_day_that_has_begun() -> None:
    """In Goose Bay until 2011 clocks went back from 00:01 to 23:01, after the new day had begun."""
    calendar = Calendar("America/Goose_Bay", "1d")
    midnight_ms = parse_time("2010-11-07T03:00:00Z")
    assert calendar.start_ms(GOOSE_BAY_MS) == calendar.start_ms(midnight_ms) == midnight_ms
    assert calendar.end_ms(midnight_ms) - midnight_ms == 25 * HOUR_MS
