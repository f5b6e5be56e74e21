"""What an archive's windows hold: the same whole quanta as the agent's, from the same readings."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.archive import readings as archive
from meteragent.archive.policy import Policy
from meteragent.core.pending import Pending
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain.errors import ArchiveError
from tests.support.archives import (
    AUTUMN_MS,
    BANDS,
    DAY_MS,
    ENERGY,
    HALF_HOUR,
    LOCAL_DAY,
    QUARTERS,
    SPRING_MS,
    policy,
    readings,
)

Row = tuple[int, int, int | None]

POLICIES = {
    "power by half hours": policy(window=HALF_HOUR, source="hold = '20min'"),
    "power that stands for hours": policy(window=HALF_HOUR, source="hold = '2h'"),
    "slots of a day": policy(window=QUARTERS),
    "energies": policy(source=ENERGY, window=f"{QUARTERS}\ngap = 20"),
    "energies across boundaries": policy(source=ENERGY.replace("15min", "1h"), window=HALF_HOUR),
    "local days": policy(window=LOCAL_DAY, privacy="preset = 'day'", source="hold = '3h'"),
    "months": policy(window="length = '1mo'\ntimezone = 'UTC'", privacy="preset = 'bill'"),
    "hours of mean days": policy(window=BANDS, privacy="space = 'profile'\nhide = '6kWh'"),
    "a typical day": policy(window="timezone = 'Europe/Amsterdam'", privacy="preset = 'typical-day'"),
    "fine values": policy(window=f"{HALF_HOUR}\nrange = [-50, 300]\ngap = 7", privacy="quantum = 0.0001"),
}
SPAN_MS = {"months": 40 * DAY_MS, "hours of mean days": 40 * DAY_MS, "a typical day": 40 * DAY_MS}


def of_the_agent(rows: Sequence[Row], under: Policy, starts_ms: Sequence[int]) -> dict[int, list[int]]:
    """What the agent's windows hold of one meter, without noise; all windows from the first to the last.

    A dither of half a quantum rounds half up, as an archive does.
    """
    schedule, actual = under.schedule, {}
    timeline, start_ms = Timeline(under.usual, starts_ms[0]), starts_ms[0]
    while start_ms <= starts_ms[-1]:
        terms = schedule.terms_at(start_ms)
        window = Window(start_ms, terms, terms.id, (), "", noise_bound=0)
        for slot in range(terms.n):
            window.open_slot(0, start_ms, terms.steps_per_quantum[slot] // 2)
        timeline.windows.append(window)
        start_ms = window.end_ms
    for _, time_ms, value_u in sorted(row for row in rows if row[2] is not None):
        timeline.accept_reading(Pending(time_ms, value_u or 0, None))
    timeline.integrate_until(start_ms)
    for window in timeline.windows:
        actual[window.start_ms] = [window.close_slot(place) for place in range(window.terms.n)]
    return actual


def of_the_archive(
    rows: Sequence[Row], under: Policy, at_once: int = 1000
) -> dict[tuple[int, int], list[int]]:
    """What the archive's windows hold, by meter and start."""
    item = readings(list(rows))
    opened, actual = archive.opened_windows(item.meter, item.time_ms, under), {}
    low, high = under.usual.readings.low_u, under.usual.readings.high_u
    clamped = archive.Readings(item.meter, item.time_ms, np.clip(item.value_u, low, high), item.valid)
    for some, ragged in archive.integrate_windows(
        archive.merge_equal_times(clamped).readings, opened, under, at_once
    ):
        ends = np.cumsum(ragged.lengths)
        for place in range(some.meter.size):
            own = ragged.numbers[ends[place] - ragged.lengths[place] : ends[place]]
            actual[int(some.meter[place]), int(some.start_ms[place])] = own.tolist()
    return actual


def rows_of(span_ms: int) -> st.SearchStrategy[list[Row]]:
    """Readings of three meters around a change of the clocks; some at the same time, some without value."""
    minute_ms = st.integers(0, span_ms // 60_000).map(lambda minute: minute * 60_000)
    time_ms = st.one_of(minute_ms, st.integers(0, span_ms), st.sampled_from([0, span_ms // 2]))
    value_u = st.one_of(st.none(), st.integers(-(10**9), 3 * 10**10), st.sampled_from([0, 500_000]))
    return st.lists(st.tuples(st.integers(0, 2), time_ms, value_u), min_size=1, max_size=25)


@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
def test_windows_hold_what_the_agents_do(name: str, data: st.DataObject) -> None:
    """Same readings, same quanta: holds and intervals across windows, short and long days, months, bands."""
    under, first_ms = POLICIES[name], data.draw(st.sampled_from([SPRING_MS, AUTUMN_MS])) - DAY_MS // 2
    rows = [(m, first_ms + t, v) for m, t, v in data.draw(rows_of(SPAN_MS.get(name, 2 * DAY_MS)))]
    actual = of_the_archive(rows, under)
    for meter in {row[0] for row in rows}:
        starts_ms = sorted(start_ms for item, start_ms in actual if item == meter)
        expected = of_the_agent([row for row in rows if row[0] == meter], under, starts_ms)
        assert {start_ms: actual[meter, start_ms] for start_ms in starts_ms} == {
            start_ms: expected[start_ms] for start_ms in starts_ms
        }


@given(rows=rows_of(DAY_MS), data=st.data())
def test_the_order_of_rows_means_nothing(rows: list[Row], data: st.DataObject) -> None:
    """Any order of readings, and any number of windows at once, gives the same quanta."""
    under = POLICIES["power that stands for hours"]
    moved = [(meter, SPRING_MS + time_ms, value) for meter, time_ms, value in rows]
    shuffled = data.draw(st.permutations(moved))
    assert of_the_archive(shuffled, under, data.draw(st.integers(1, 9))) == of_the_archive(moved, under)


@given(rows=rows_of(DAY_MS))
def test_a_window_is_there_if_a_reading_begins_in_it(rows: list[Row]) -> None:
    """Whether it has a value or not: which windows there are does not depend on what was measured."""
    for under in (POLICIES["power that stands for hours"], POLICIES["energies across boundaries"]):
        lead_ms = under.usual.readings.interval_ms
        length_ms = under.usual.length_ms
        begins = {(meter, (time_ms - lead_ms) // length_ms * length_ms) for meter, time_ms, _ in rows}
        assert set(of_the_archive(rows, under)) == begins


def test_what_stands_at_the_end_opens_no_window() -> None:
    """The last reading of a year is held into the next one, and opens nothing there."""
    under = POLICIES["power that stands for hours"]
    actual = of_the_archive([(0, SPRING_MS - 60_000, 10**6)], under)
    assert list(actual) == [(0, SPRING_MS - 1_800_000)]


def test_a_window_is_given_what_stands_at_its_beginning() -> None:
    """A reading counts in the next window too, as long as it is held and no other comes."""
    under, half_ms = POLICIES["power that stands for hours"], 1_800_000
    rows: list[Row] = [(0, SPRING_MS, 10**9), (0, SPRING_MS + 3 * half_ms + half_ms // 2, 2 * 10**9)]
    actual = of_the_archive(rows, under)
    assert actual == {(0, SPRING_MS): [1000], (0, SPRING_MS + 3 * half_ms): [1500]}


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_windows_follow_the_calendar(minutes: list[int]) -> None:
    """Each time lies in the window that the schedule's own calendar says."""
    under = POLICIES["local days"]
    times = np.array([SPRING_MS - 300 * DAY_MS + minute % (600 * DAY_MS) for minute in minutes], np.int64)
    starts = under.starts(times)
    for time_ms, start_ms, end_ms in zip(times, starts, under.ends(starts), strict=True):
        assert start_ms <= time_ms < end_ms
        assert under.schedule.first_start_ms(int(start_ms)) == start_ms
        assert under.schedule.grid.end_ms(int(start_ms)) == end_ms


def test_days_of_23_and_25_hours_have_terms_of_their_own() -> None:
    """As the agent's: another length, and another epsilon where the energy hidden is the same."""
    under = POLICIES["local days"]
    starts = np.array([SPRING_MS - DAY_MS, SPRING_MS, AUTUMN_MS], np.int64)
    places, terms = under.terms(starts)
    lengths = [terms[place].length_ms // 3_600_000 for place in places]
    assert lengths == [24, 23, 25]
    assert all(
        item.epsilon < other.epsilon for item, other in pairwise(sorted(terms, key=lambda t: t.epsilon))
    )


def test_what_stands_for_a_moment_counts() -> None:
    """A reading that is held for one millisecond of a window is in it, and one that is not is not."""
    under, half_ms, hold_ms = POLICIES["fine values"], 1_800_000, 900_000
    for stands_ms in (0, 1, 18):
        rows: list[Row] = [
            (0, SPRING_MS - hold_ms + stands_ms, 300 * 10**6),
            (0, SPRING_MS + half_ms - 1, None),
        ]
        more = round(stands_ms * (300 - 7) * 10**4 / half_ms)  # in quanta of 0.0001 W, beyond the gap of 7 W
        assert of_the_archive(rows, under)[0, SPRING_MS] == [7 * 10**4 + more]


def test_a_month_of_the_greatest_power_is_exact() -> None:
    """Sums beyond 64 bits: 20 kW for all of a month, in hundredths of a watt."""
    under = policy(
        window="length = '1mo'\ntimezone = 'UTC'", privacy="preset = 'bill'", source="hold = '40d'"
    )
    first_ms = int(under.starts(np.array([SPRING_MS], np.int64))[0])
    assert of_the_archive([(0, first_ms, 20_000 * 10**6)], under) == {(0, first_ms): [2_000_000]}


def test_what_would_not_fit_is_refused() -> None:
    """Two centuries of a million meters at once: an error, not another meter's readings."""
    meter = np.array([0, 2**20], np.int64)
    with pytest.raises(ArchiveError, match="too far apart"):
        archive.meter_sort_keys(meter, 43)
    assert archive.meter_sort_keys(meter, 41).tolist() == [0, 2**61]
