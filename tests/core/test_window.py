"""Accumulators on the grid: what a slot's value is made of, and when a reading has said all it has."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.factory import make_timeline
from meteragent.core.pending import Outcome, Pending
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from tests.core.strategies import VALUES, all_terms
from tests.support.terms import terms_with
from tests.support.windows import restored_timeline
from tests.support.witness import TERMS

ENERGY = terms_with(TERMS, kind=Kind.INTERVAL_ENERGY, unit="Wh", hold_ms=0, interval_ms=4)
NONE: list[str] = []


def opened(terms: Terms, start_ms: int = 0, noise: int = 0, dither: int = 0) -> Window:
    """A window with all its slots open."""
    window = Window(start_ms, terms, terms.id, (), "m1", noise_bound=7)
    for _ in range(terms.n):
        window.open_slot(noise, start_ms, dither)
    return window


def timeline(terms: Terms = TERMS, windows: int = 1) -> Timeline:
    """A meter whose first windows are open, without noise."""
    meter = make_timeline(terms, 0)
    meter.windows = [opened(terms, k * terms.length_ms) for k in range(windows)]
    meter.next_ms = windows * terms.length_ms
    return meter


def take(meter: Timeline, time_ms: int, watts: int, token: str = "") -> tuple[Outcome, list[str]]:
    """A reading in whole units; its token is its time unless said."""
    return meter.accept_reading(Pending(time_ms, watts * MICRO, token or str(time_ms)))


def sums(meter: Timeline) -> list[Fraction]:
    """Sum of value * ms of every slot of every window, in the unit."""
    return [Fraction(total, MICRO) for window in meter.windows for total in window.slots.values()]


# --- windows ----------------------------------------------------------------------------------------


def test_no_more_draws_than_slots() -> None:
    """The n+1st draw from one radius is an error: it would cost many times epsilon (THEORY 2.1)."""
    window = opened(TERMS)
    with pytest.raises(AssertionError, match="more draws than slots"):
        window.open_slot(0, 0, 0)
    assert window.draws == TERMS.n == 3


@given(all_terms, st.integers(-(10**20), 10**20), st.integers(-(10**20), 10**20), st.integers(0, 99))
def test_a_slot_closes_at_its_noise_and_its_rounded_mean(
    terms: Terms, noise: int, energy: int, percent: int
) -> None:
    """floor(A / L) = z + floor((S + u) / L), also below zero (THEORY A.1)."""
    dither = terms.steps_per_quantum[0] * percent // 100
    window = opened(terms, noise=noise, dither=dither)
    window.slots[0] += energy
    assert window.close_slot(0) == noise + Fraction(energy + dither, terms.steps_per_quantum[0]) // 1
    assert 0 not in window.slots


@pytest.mark.parametrize(("energy", "quanta"), [(2, 1), (1, 0), (-2, 0), (-3, -1), (6, 2), (-6, -1)])
def test_halves_go_up(energy: int, quanta: int) -> None:
    """With half a quantum as dither, a mean of 1/2 quantum is 1, of -1/2 is 0, of 3/2 is 2, of -3/2 is -1."""
    window = opened(TERMS, dither=TERMS.steps_per_quantum[0] // 2)
    window.slots[0] += energy * MICRO
    assert window.close_slot(0) == quanta


def test_a_slot_is_born_with_its_noise() -> None:
    """An accumulator is noise * lattice + dither before anything is added (law 3)."""
    window = Window(0, TERMS, TERMS.id, (), "m1", noise_bound=7)
    window.open_slot(-5, 0, 3)
    assert window.slots == {0: -5 * TERMS.steps_per_quantum[0] + 3}
    assert TERMS.steps_per_quantum[0] == MICRO * TERMS.step_ms


def test_time_covered_before_a_slot_opens_is_gap() -> None:
    """A slot that opens late takes the gap for what is covered already, at most its own length."""
    terms = terms_with(TERMS, gap_u=3)
    window = Window(0, terms, terms.id, (), "m1", noise_bound=7)
    for _ in range(3):
        window.open_slot(0, 6, 0)
    assert window.slots == {0: 3 * 4, 1: 3 * 2, 2: 0}


def test_a_stretch_is_shared_by_the_slots_it_touches() -> None:
    """Each slot takes the part of a stretch that lies in it; what lies outside the window is ignored."""
    window = opened(TERMS)
    window.add_value(-5, 100, 10)
    assert window.slots == {0: 40, 1: 40, 2: 40}
    window.add_value(3, 9, 1)
    assert window.slots == {0: 41, 1: 44, 2: 41}
    window.add_value(12, 20, 1)
    window.add_value(-3, 0, 1)
    window.add_value(5, 5, 1)
    assert window.slots == {0: 41, 1: 44, 2: 41}


def test_values_are_clamped_to_the_range_and_gaps_are_not() -> None:
    """A value beyond the range counts as its end; time without one as the gap."""
    window = opened(terms_with(TERMS, low_u=-2, high_u=5, gap_u=1))
    window.add_value(0, 4, 100)
    window.add_value(4, 8, -100)
    window.add_value(8, 12, None)
    assert window.slots == {0: 20, 1: -8, 2: 4}
    assert window.reading_bits == 0b11


# --- power ------------------------------------------------------------------------------------------


def test_a_power_reading_stands_until_the_next_for_at_most_hold() -> None:
    """Time-weighted sample-and-hold: until the next reading, then for hold (5 ms), then gap."""
    meter = timeline()
    take(meter, 0, 100)
    take(meter, 3, 200)
    take(meter, 9, 400)
    meter.integrate_until(12)
    assert sums(meter) == [3 * 100 + 200, 4 * 200, 3 * 400]


def test_a_reading_before_the_first_window_counts_from_its_start() -> None:
    """A reading that stands into the first window counts there, one that does not is early."""
    meter = Timeline(TERMS, 12)
    assert take(meter, 7, 100) == (Outcome.EARLY, ["7"])
    assert take(meter, 8, 100) == (Outcome.ACCEPTED, NONE)
    meter.windows, meter.next_ms = [opened(TERMS, 12)], 24
    meter.integrate_until(24)
    assert sums(meter) == [100, 0, 0]


def test_of_several_readings_before_the_first_window_the_newest_counts() -> None:
    """The one before it is acknowledged at once, an older one that comes after it is early."""
    meter = Timeline(TERMS, 12)
    take(meter, 9, 100)
    assert take(meter, 11, 200) == (Outcome.ACCEPTED, ["9"])
    assert take(meter, 10, 300) == (Outcome.EARLY, ["10"])


def test_a_token_is_given_back_when_its_span_is_covered() -> None:
    """A message is free when the next reading or the end of its hold has closed its span (rule 3)."""
    meter = timeline()
    assert take(meter, 0, 100)[1] == []
    assert meter.integrate_to_watermark(12) == []
    take(meter, 3, 200)
    assert meter.integrate_to_watermark(12) == ["0"]
    assert meter.integrate_until(7) == []
    assert meter.integrate_until(8) == ["3"]


def test_nothing_is_covered_twice() -> None:
    """A reading whose span is wholly covered is refused, one partly covered counts from there (rule 2)."""
    meter = timeline()
    take(meter, 0, 100)
    meter.integrate_until(4)
    assert take(meter, 2, 200) == (Outcome.ACCEPTED, ["0"])
    assert take(meter, 1, 300) == (Outcome.LATE, ["1"])
    meter.integrate_until(12)
    assert sums(meter) == [400, 3 * 200, 0]
    assert take(meter, 7, 300) == (Outcome.LATE, ["7"])
    assert take(meter, 8, 300)[0] is Outcome.ACCEPTED


def test_a_covered_reading_that_comes_again_is_a_duplicate() -> None:
    """A time that was seen is `duplicate`, one that was not is `late`; both are acknowledged."""
    meter = timeline()
    take(meter, 0, 100)
    meter.integrate_until(12)
    assert take(meter, 0, 100, "again") == (Outcome.DUPLICATE, ["again"])
    assert take(meter, 1, 100) == (Outcome.LATE, ["1"])


def test_a_redelivery_takes_the_place_of_its_first_delivery() -> None:
    """The first token is acknowledged (its connection may be gone), the second when the span is covered."""
    meter = timeline()
    take(meter, 0, 100, "first")
    assert take(meter, 0, 100, "second") == (Outcome.DUPLICATE, ["first"])
    assert meter.integrate_until(12) == ["second"]


def test_a_correction_is_refused() -> None:
    """Another value for a time that is held is acknowledged and changes nothing (law 1)."""
    meter = timeline()
    take(meter, 0, 100, "first")
    assert take(meter, 0, 900, "correction") == (Outcome.DUPLICATE, ["correction"])
    assert meter.integrate_until(12) == ["first"]
    assert sums(meter) == [400, 100, 0]


def test_spans_wait_for_the_lateness() -> None:
    """A span is added once the newest time has passed its end by `lateness`, never beyond the clock."""
    meter = timeline(replace(TERMS, lateness_ms=2))
    take(meter, 0, 100)
    take(meter, 2, 200)
    assert meter.integrate_to_watermark(12) == []
    take(meter, 3, 300)
    assert meter.integrate_to_watermark(12) == []
    take(meter, 4, 400)
    assert meter.integrate_to_watermark(1) == []
    assert meter.integrate_to_watermark(2) == ["0"]
    assert meter.integrated_until_ms == 2


def test_covering_ends_at_its_time() -> None:
    """What pending readings say of later time is not looked at: its gap counts once, when it is covered."""
    meter = timeline(terms_with(TERMS, hold_ms=2, gap_u=MICRO))
    take(meter, 0, 100)
    take(meter, 10, 200)
    for until_ms in (3, 5, 12):
        meter.integrate_until(until_ms)
    assert sums(meter) == [2 * 100 + 2, 4, 2 + 2 * 200]


def test_a_hold_that_has_ended_closes_its_span() -> None:
    """The last reading's span ends with its hold once the newest time has passed that by lateness."""
    meter = timeline()
    take(meter, 0, 100)
    take(meter, 5, 200)
    assert meter.integrate_to_watermark(12) == ["0"]
    take(meter, 11, 300)
    assert meter.integrate_to_watermark(9) == []
    assert meter.integrate_to_watermark(10) == ["5"]
    assert meter.integrated_until_ms == 10


def test_a_reading_resets_how_long_a_meter_was_silent() -> None:
    """`idle_windows` counts windows since the last accepted reading; refused readings do not count."""
    meter = timeline()
    meter.idle_windows = 3
    meter.integrate_until(12)
    take(meter, 1, 1)
    assert meter.idle_windows == 3
    take(meter, 12, 1)
    assert meter.idle_windows == 0


# --- interval energy --------------------------------------------------------------------------------


def test_interval_energy_is_spread_over_the_interval_before_its_time() -> None:
    """A reading covers (time - interval, time]; a slot's value is the energy in the slot (law 5)."""
    meter = timeline(ENERGY)
    assert take(meter, 6, 8) == (Outcome.ACCEPTED, NONE)
    assert meter.integrate_to_watermark(6) == ["6"]
    take(meter, 10, 40)
    meter.integrate_until(12)
    assert [total / ENERGY.readings.interval_ms for total in sums(meter)] == [4, 4 + 20, 20]
    assert [window.close_slot(index) for window in meter.windows for index in (0, 1, 2)] == [4, 24, 20]


def test_an_interval_covers_nothing_that_an_earlier_one_covers() -> None:
    """Overlapping intervals count from the end of the one before; a covered end is late."""
    meter = timeline(ENERGY)
    take(meter, 4, 40)
    take(meter, 6, 80)
    meter.integrate_until(8)
    assert sums(meter) == [4 * 40, 2 * 80, 0]
    assert take(meter, 8, 1) == (Outcome.LATE, ["8"])
    assert take(meter, 9, 400) == (Outcome.ACCEPTED, NONE)
    meter.integrate_until(12)
    assert sums(meter) == [4 * 40, 2 * 80, 400]


def test_the_gap_of_interval_energy_is_per_interval() -> None:
    """Time without a reading takes the gap's energy in proportion: a slot of one interval takes one."""
    window = opened(terms_with(ENERGY, gap_u=2 * MICRO))
    window.add_value(0, 6, None)
    assert [window.close_slot(index) for index in (0, 1, 2)] == [2, 1, 0]


# --- restarts ---------------------------------------------------------------------------------------


def restarted(meter: Timeline, terms: Terms) -> Timeline:
    """The timeline after a stop, with the terms of the start."""
    known = {window.terms_id: window.terms for window in meter.windows}
    return restored_timeline(terms, meter.next_ms or 0, meter.stored_state(), known)


readings = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(VALUES)), max_size=12)


@given(all_terms, readings, readings, st.integers(0, 30))
def test_a_stop_changes_nothing(
    terms: Terms, before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]], stop_ms: int
) -> None:
    """State and unacknowledged readings, delivered again, give what would have been without the stop."""
    one = timeline(terms, windows=40 // terms.length_ms + 1)
    freed: list[tuple[int, int]] = []
    for reading in before:
        freed += one.accept_reading(Pending(*reading, reading))[1]
        freed += one.integrate_to_watermark(stop_ms)
    one.idle_windows = stop_ms
    other = restarted(one, terms)
    assert other.stored_state() == one.stored_state()
    for held in one.pending:
        assert other.accept_reading(held)[0] is Outcome.ACCEPTED
    for reading in after:
        assert (
            one.accept_reading(Pending(*reading, reading))[1]
            == other.accept_reading(Pending(*reading, reading))[1]
        )
    assert one.integrate_until(40) == other.integrate_until(40)
    assert one.stored_state()._replace(idle_windows=0) == other.stored_state()._replace(idle_windows=0)


def test_an_older_reading_is_late_after_a_stop_too() -> None:
    """Also where the newer one was acknowledged early and does not come again: its span is gap."""
    meter = timeline()
    take(meter, 2, 100)
    meter.integrate_until(3)
    other = restarted(meter, TERMS)
    assert take(other, 1, 900) == (Outcome.LATE, ["1"])
    other.integrate_until(12)
    assert sums(other) == [100, 0, 0]


def test_a_window_finishes_under_the_rules_it_opened_with() -> None:
    """After a restart with another hold and lateness, open windows keep theirs (law 1)."""
    old = terms_with(TERMS, hold_ms=2, lateness_ms=3)
    meter = restarted(timeline(old), terms_with(TERMS, hold_ms=12, lateness_ms=0))
    take(meter, 0, 100)
    take(meter, 5, 200)
    assert meter.integrate_to_watermark(12) == ["0"]
    assert meter.next_close_ms() == 4 + 3
    meter.integrate_until(12)
    assert sums(meter) == [2 * 100, 2 * 200, 0]


@pytest.mark.parametrize(
    "changed", [{"unit": "kW"}, {"kind": Kind.INTERVAL_ENERGY, "unit": "Wh", "interval_ms": 4}]
)
def test_a_window_whose_readings_mean_something_else_is_gap_to_its_end(changed: dict[str, object]) -> None:
    """Another kind, unit or interval: what is covered stays, the rest of open windows is gap."""
    meter = timeline(terms_with(TERMS, gap_u=7 * MICRO))
    take(meter, 0, 100)
    meter.integrate_until(2)
    other = restarted(meter, terms_with(TERMS, **changed))
    assert sums(other) == [2 * 100 + 2 * 7, 4 * 7, 4 * 7]
    assert take(other, 5, 1)[0] is Outcome.LATE
    assert sums(restarted(other, terms_with(TERMS, **changed))) == sums(other)


def test_slots_that_open_after_the_meaning_changed_are_gap() -> None:
    """A sealed window still draws its other slots on time, and they hold nothing but gap."""
    terms = terms_with(TERMS, gap_u=7)
    meter = Timeline(terms, 0)
    meter.windows = [Window(0, terms, terms.id, (), "m1", noise_bound=7)]
    meter.windows[0].open_slot(0, 0, 0)
    meter.next_ms = 12
    other = restarted(meter, terms_with(terms, unit="kW"))
    assert other.next_open_ms() == 4
    other.windows[0].open_slot(0, other.integrated_until_ms, 0)
    assert other.windows[0].slots == {0: 28, 1: 28}


def test_what_is_kept_of_a_window() -> None:
    """The radius, the number of draws and the accumulators come back: nothing is drawn again."""
    meter = Timeline(TERMS, 0)
    meter.windows = [Window(0, TERMS, TERMS.id, (), "m1", noise_bound=7)]
    meter.windows[0].open_slot(3, 0, 1)
    meter.windows[0].open_slot(-3, 4, 2)
    meter.windows[0].close_slot(0)
    other = restarted(meter, TERMS)
    assert other.windows == meter.windows
    assert other.next_open_ms() == 8
    assert other.next_close_ms() == 8


def test_what_is_neither_masked_nor_lost_stays() -> None:
    """Without a register no slot is masked: none is given up, redrawn or withheld."""
    window = opened(replace(TERMS, lateness_ms=0))
    slots = dict(window.slots)
    window.give_up_masked_slot()
    window.redraw_noise(5, 0)
    assert (window.slots, window.masked_slot, window.lost_slot) == (slots, None, None)
