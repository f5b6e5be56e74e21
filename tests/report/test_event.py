"""What happens in a home, and how far it changes the values of a window."""

from collections import Counter, defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind
from meteragent.privacy import LInfLaplace
from meteragent.privacy.inference import success_bound
from meteragent.report.event import EVENTS, Event, distance_runs, parse_event, window_distances
from tests.support.configurations import energy, settled
from tests.support.terms import terms_with

KETTLE = next(event for event in EVENTS if event.name == "a kettle")
APPLIANCE = settled()

small_grids = st.builds(
    lambda n, step_ms: terms_with(APPLIANCE, length_ms=n * step_ms, step_ms=step_ms),
    st.integers(1, 4),
    st.integers(1, 8),
)
small_events = st.builds(
    lambda power_w, duration_ms: Event("small", power_w, duration_ms, "made up"),
    st.sampled_from([1, 3, 840]),
    st.integers(1, 40),
)


def every_way(event: Event, terms: Terms) -> set[tuple[Fraction, ...]]:
    """Return d_inf of each window touched, for each millisecond of a window at which the event can start."""
    ways = set()
    for start_ms in range(terms.length_ms):
        slots = Counter(ms // terms.step_ms for ms in range(start_ms, start_ms + event.duration_ms))
        windows: dict[int, int] = defaultdict(int)
        for slot, filled_ms in slots.items():
            windows[slot // terms.n] = max(windows[slot // terms.n], filled_ms)
        found = (Fraction(event.power_w * filled_ms, terms.step_ms) for filled_ms in windows.values())
        ways.add(tuple(sorted(found, reverse=True)))
    return ways


def squares(way: tuple[Fraction, ...]) -> Fraction:
    """Return the sum of the squares of distances."""
    return sum((distance**2 for distance in way), Fraction(0))


# Where it lies ------------------------------------------------------------------------------------


@given(event=small_events, terms=small_grids)
def test_the_ways_are_real_and_the_worst_is_among_them(event: Event, terms: Terms) -> None:
    """Each way has some start, and no start changes a window, all, or their squares by more."""
    ways, every = window_distances(event, terms), every_way(event, terms)
    assert ways <= every
    assert max(map(max, ways)) == max(map(max, every))
    assert max(map(sum, ways)) == max(map(sum, every))
    assert max(map(squares, ways)) == max(map(squares, every))


@given(event=small_events.filter(lambda event: event.power_w == 840), terms=small_grids)
def test_no_start_can_be_told_better_than_the_ways(event: Event, terms: Terms) -> None:
    """The best chance to guess right, over all starts, is that of one of the ways (in whole quanta)."""
    mechanism = LInfLaplace(epsilon=Fraction(1, 400), quantum=Fraction(1), n=terms.n)
    every = max(success_bound(mechanism, way) for way in every_way(event, terms))
    assert max(success_bound(mechanism, way) for way in window_distances(event, terms)) >= every - 1e-9


@given(
    power_w=st.integers(1, 5000),
    duration=st.integers(1, 10_000),
    step=st.integers(1, 1440),
    unit=st.sampled_from(["W", "kW", "Wh", "kWh"]),
)
def test_energy_is_conserved(power_w: int, duration: int, step: int, unit: str) -> None:
    """With one slot per window, the windows' distances add up to the event's energy, however it lies."""
    event = Event("long", power_w, duration * MINUTE_MS, "made up")
    kind = Kind.POWER if unit in ("W", "kW") else Kind.INTERVAL_ENERGY
    terms = terms_with(APPLIANCE, kind=kind, unit=unit, length_ms=step * MINUTE_MS, step_ms=step * MINUTE_MS)
    per_unit_wh = Fraction(1000 if unit in ("kW", "kWh") else 1)
    if kind is Kind.POWER:
        per_unit_wh = per_unit_wh * step / 60
    assert {sum(way) * per_unit_wh for way in window_distances(event, terms)} == {event.energy_wh}


@given(event=small_events, terms=small_grids)
def test_no_slot_moves_by_more_than_the_power(event: Event, terms: Terms) -> None:
    """A slot's mean changes by at most the event's power, and exactly by it once a slot is filled."""
    ways = window_distances(event, terms)
    assert all(0 < distance <= event.power_w for way in ways for distance in way)
    assert all(way == tuple(sorted(way, reverse=True)) for way in ways)
    if event.duration_ms >= 2 * terms.step_ms:
        assert all(way[0] == event.power_w for way in ways)


def test_a_kettle_in_half_an_hour() -> None:
    """A kettle changes the mean of its half hour by 220 W, the radius of the default."""
    assert window_distances(KETTLE, APPLIANCE) == {(Fraction(220),)}
    assert KETTLE.energy_wh == APPLIANCE.hides_wh == 110
    assert window_distances(KETTLE, settled(source="unit = 'kW'")) == {(Fraction(22, 100),)}
    assert window_distances(KETTLE, settled(source=energy("Wh"))) == {(Fraction(110),)}


def test_a_long_event_lies_across_windows() -> None:
    """Three hours from any boundary fill six half hours; hours of six slots are changed once each."""
    evening = Event("evening", 100, 3 * HOUR_MS, "made up")
    assert window_distances(evening, APPLIANCE) == {(Fraction(100),) * 6}
    hours = settled(window="length = '1h'\nstep = '10min'")
    assert window_distances(evening, hours) == {(Fraction(100),) * 3, (Fraction(100),) * 4}


def test_a_week_of_one_second_windows_is_a_few_runs() -> None:
    """Windows that change alike are counted, not listed, and as many as if they were listed."""
    seconds = terms_with(APPLIANCE, length_ms=1000, step_ms=1000)
    hold_s = seconds.readings.longest_hold_ms // 1000
    week = Event("a week away", 250, 7 * 24 * HOUR_MS, "made up")
    assert distance_runs(week, seconds) == {((Fraction(250), 604_800 + hold_s),)}
    odd = Event("five and a half", 250, 5500, "made up")
    assert distance_runs(odd, seconds) == {((Fraction(250), 5 + hold_s), (Fraction(125), 1))}
    assert window_distances(odd, seconds) == {((Fraction(250),) * (5 + hold_s) + (Fraction(125),))}


# What it is ---------------------------------------------------------------------------------------


def test_an_event_changes_a_peak_by_what_it_adds_to_a_part() -> None:
    """A peak is the mean of a quarter hour, so an event that fills one changes it by its power."""
    peak = settled(privacy="preset = 'peak'", window="length = '30d'")
    way = max(window_distances(Event("evening", 100, 3 * HOUR_MS, "made up"), peak))
    assert way == (Fraction(100),)


def test_the_public_examples() -> None:
    """The examples of law 8 are there, each with its energy, its source, and whether it repeats daily."""
    found = {event.name: (float(event.energy_wh), event.is_daily) for event in EVENTS}
    assert found == {
        "which programme was on, 1 h": (38, True),
        "a kettle": (110, True),
        "a TV evening": (300, True),
        "a washing machine": (800, True),
        "the oven, 45 min": (1200, True),
        "8 h away": (2000, True),
        "a day away": (6000, False),
        "a week away": (42_000, False),
    }
    assert all(event.source for event in EVENTS)


@pytest.mark.parametrize(
    ("text", "name", "duration_ms", "daily"),
    [
        ("2000W 30min", "2000 W for 30 min", 1_800_000, True),
        (" 60 W  86399s ", "60 W for 23 h 59 min 59 s", 86_399_000, True),
        ("1W 24h", "1 W for 1 day", 86_400_000, False),
        ("999999W 7d", "999999 W for 7 days", 604_800_000, False),
    ],
)
def test_an_event_of_one_s_own(text: str, name: str, duration_ms: int, daily: bool) -> None:
    """A power and a duration are an event; it can happen daily if it is shorter than a day."""
    event = parse_event(text)
    assert (event.name, event.duration_ms, event.is_daily) == (name, duration_ms, daily)
    assert event.energy_wh == Fraction(event.power_w * duration_ms, HOUR_MS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2000W",
        "30min",
        "2kW 30min",
        "-5W 30min",
        "2.5W 1h",
        "0W 1h",
        "5W 0s",
        "5W 1mo",
        "5W1h",
        "5W 1h 2",
    ],
)
def test_what_is_no_event_is_refused(text: str) -> None:
    """Anything but a power above 0 and a duration above 0 is refused, with what is expected."""
    with pytest.raises(ValueError, match=r"^a power and a duration, such as '2000W 30min'$"):
        parse_event(text)
