"""Time <-> slot arithmetic: boundaries of the epoch grid, and how times and durations are written."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain import grid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
times = st.integers(-(10**15), 10**15)
steps = st.one_of(st.integers(1, 100), st.integers(1, 10**11))
years = st.integers(0, 253_402_300_799_999)
"""1970 to 9999, in milliseconds."""


@given(time_ms=times, step_ms=steps)
def test_floor_is_the_last_boundary(time_ms: int, step_ms: int) -> None:
    """`round_down` is the one multiple of the step in (time - step, time], before 1970 too."""
    boundary_ms = grid.round_down(time_ms, step_ms)
    assert boundary_ms % step_ms == 0
    assert time_ms - step_ms < boundary_ms <= time_ms


@given(time_ms=times, step_ms=steps)
def test_ceil_is_the_first_boundary(time_ms: int, step_ms: int) -> None:
    """`round_up` is the one multiple of the step in [time, time + step), before 1970 too."""
    boundary_ms = grid.round_up(time_ms, step_ms)
    assert boundary_ms % step_ms == 0
    assert time_ms <= boundary_ms < time_ms + step_ms


@given(at=st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001  naive by design of Hypothesis
def test_a_day_starts_at_midnight_utc(at: datetime) -> None:
    """`day` is midnight UTC of the day that holds a time."""
    moment = at.replace(tzinfo=UTC)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    assert grid.day_ms((moment - EPOCH) // MILLISECOND) == (midnight - EPOCH) // MILLISECOND


# Durations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("30min", 1_800_000),
        ("24h", 86_400_000),
        ("30d", 2_592_000_000),
        ("0s", 0),
        ("007s", 7_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, duration_ms: int) -> None:
    """A duration in the configuration is a whole number followed by ms, s, min, h or d."""
    assert grid.parse_duration(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "min",
        "1.5h",
        "-1s",
        "+1s",
        "1 h",
        " 1h",
        "1h ",
        "1h30min",
        "1H",
        "1m",
        "1w",
        "٣s",
        "1e3s",
        "1" * 13 + "s",
        "1s\n",
        "PT1H",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Fractions, signs, spaces, other units and numbers without one are refused, and told what to write."""
    with pytest.raises(ValueError, match=r"^a whole number and ms, s, min, h or d, such as '30min'$"):
        grid.parse_duration(text)


@given(duration_ms=st.one_of(st.integers(0, 10**12 - 1), st.integers(0, 10**4).map(lambda n: n * 60_000)))
def test_a_duration_survives_being_written(duration_ms: int) -> None:
    """What `format_duration` writes is read back as the same duration."""
    assert grid.parse_duration(grid.format_duration(duration_ms)) == duration_ms


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0s"), (1, "1ms"), (1500, "1500ms"), (60_000, "1min"), (90_000, "90s"), (86_400_000, "1d")],
)
def test_a_duration_is_written_in_the_largest_unit(duration_ms: int, text: str) -> None:
    """A duration is shown in the largest unit of which it is a whole number."""
    assert grid.format_duration(duration_ms) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (1_800_000, "PT30M"),
        (86_400_000, "PT24H"),
        (30 * 86_400_000, "PT720H"),
        (500, "PT0.5S"),
        (1, "PT0.001S"),
        (10_250, "PT10.25S"),
        (5_400_000, "PT1H30M"),
        (3_600_010, "PT1H0.01S"),
        (3_661_000, "PT1H1M1S"),
        (0, "PT0S"),
    ],
)
def test_iso_durations(duration_ms: int, text: str) -> None:
    """Messages write durations in ISO 8601 with hours, minutes and seconds only."""
    assert grid.iso_duration(duration_ms) == text


# Times --------------------------------------------------------------------------------------------


@given(time_ms=years)
def test_a_time_survives_being_written(time_ms: int) -> None:
    """What `iso_time` writes is read back as the same millisecond."""
    assert grid.parse_time(grid.iso_time(time_ms)) == time_ms


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_176_000_000, "2026-11-20T12:00:00Z"),
        (1_795_176_000_050, "2026-11-20T12:00:00.050Z"),
    ],
)
def test_iso_times(time_ms: int, text: str) -> None:
    """Messages write times in RFC 3339 and UTC, with milliseconds only where there are any."""
    assert grid.iso_time(time_ms) == text


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-20T13:00:00+01:00", 1_795_176_000_000),
        ("2026-11-20T06:30:00-05:30", 1_795_176_000_000),
        ("2026-11-20 12:00:00z", 1_795_176_000_000),
        ("2026-11-20T12:00:00.0019Z", 1_795_176_000_001),
        ("2026-11-20T12:00:00.000999999Z", 1_795_176_000_000),
        ("1969-12-31T23:59:59.9999Z", -1),
    ],
)
def test_times_are_read_with_their_zone(text: str, time_ms: int) -> None:
    """An RFC 3339 time is read in its zone and rounded down to a millisecond."""
    assert grid.parse_time(text) == time_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1795176000",
        "2026-11-20",
        "2026-11-20T12:00:00",
        "2026-11-20T12:00Z",
        "20261120T120000Z",
        "2026-W47-5T12:00:00Z",
        "2026-13-20T12:00:00Z",
        "2026-11-31T12:00:00Z",
        "2026-11-20T24:00:01Z",
        "2026-11-20T12:00:60Z",
        "2026-11-20T12:00:00,5Z",
        "2026-11-20T12:00:00+0100",
        "2026-11-20T12:00:00.Z",
        "2026-11-20T12:00:00+99:00",
        "٢٠٢٦-11-20T12:00:00Z",
        " 2026-11-20T12:00:00Z",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    """A time without a zone, and anything else that is not RFC 3339, is a ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011  its text is not the user's to read
        grid.parse_time(text)


@given(time_ms=times, length_ms=steps)
def test_windows_of_the_epoch_follow_each_other(time_ms: int, length_ms: int) -> None:
    """A time lies in one window, which ends where the next begins; `first_ms` is one of these."""
    windows = grid.EpochGrid(length_ms)
    start_ms = windows.start_ms(time_ms)
    assert start_ms <= time_ms < windows.end_ms(start_ms)
    assert windows.start_ms(windows.end_ms(start_ms)) == windows.end_ms(start_ms)
    assert windows.first_start_ms(time_ms) in {start_ms, windows.end_ms(start_ms)}
    assert windows.first_start_ms(time_ms) >= time_ms
