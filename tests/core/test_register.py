"""Registers: differenced on the grid, kept as register minus noise, found again after a stop."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.charges import Spending
from meteragent.core.pending import Outcome, Pending
from meteragent.core.pipeline import Pipeline
from meteragent.core.register import RegisterTimeline
from meteragent.core.timeline import Timeline
from meteragent.core.window import RegisterUse, Window
from meteragent.domain.commit import Destination, OpenWindow, Snapshot, TimelineState
from meteragent.domain.counters import Counts
from meteragent.domain.grid import Band
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.privacy import SeededBits
from tests.support.terms import in_bands, terms_with
from tests.support.windows import restored_timeline
from tests.support.witness import TERMS
from tests.support.world import stream

HOUR = 4
"""What rates are per: milliseconds, here."""
REGISTER = terms_with(
    TERMS,
    kind=Kind.REGISTER,
    unit="Wh",
    level=Fraction(1),
    hold_ms=0,
    interval_ms=HOUR,
    low_u=0,
    high_u=100 * MICRO,
)
COUNTER = terms_with(REGISTER, modulus_u=10**6 * MICRO)
SLOW = terms_with(REGISTER, length_ms=12_000, step_ms=4000, interval_ms=4000)
"""As REGISTER, but a thousand times slower: the second that limits allow is less than a slot."""


def opened(terms: Terms, start_ms: int = 0, noise: int = 0) -> Window:
    """A window with all its slots open, whose noise is within its bound."""
    window = Window(start_ms, terms, terms.id, (Destination("main", "t"),), "m1", noise_bound=abs(noise) + 1)
    for _ in range(terms.n):
        window.open_slot(noise, start_ms, 0)
    return window


def register(terms: Terms = REGISTER, windows: int = 1, noise: int = 0) -> RegisterTimeline:
    """A meter whose first windows are open."""
    meter = RegisterTimeline(terms, 0)
    meter.windows = [opened(terms, k * terms.length_ms, noise) for k in range(windows)]
    meter.next_ms = windows * terms.length_ms
    return meter


def read(meter: Timeline, *readings: tuple[int, float]) -> list[str]:
    """Take in and cover readings (time, register in the unit); the times of those that are free."""
    free: list[str] = []
    for time_ms, value in readings:
        free += meter.accept_reading(Pending(time_ms, int(value * MICRO), str(time_ms)))[1]
        free += meter.integrate_to_watermark(max(time_ms, 100))
    return free


def used(meter: Timeline, noise: int = 0) -> list[Fraction]:
    """What was used in every slot of every window, in the unit."""
    lattice = meter.terms.steps_per_quantum[0]
    slots = [total for window in meter.windows for total in window.slots.values()]
    return [Fraction(total - noise * lattice, meter.terms.readings.interval_ms * MICRO) for total in slots]


def restarted(meter: Timeline, terms: Terms | None = None) -> Timeline:
    """The meter after a crash."""
    known = {window.terms_id: window.terms for window in meter.windows}
    return restored_timeline(terms or meter.terms, meter.next_ms or 0, meter.stored_state(), known)


# --- differences ------------------------------------------------------------------------------------


def test_a_register_is_interpolated_at_the_boundaries() -> None:
    """What was used between two readings is spread evenly, exactly, over the slots between them."""
    meter = register()
    read(meter, (0, 5), (3, 8), (10, 15))
    assert used(meter) == [3 + 1, 4, 2]
    meter.integrate_until(12)
    assert used(meter) == [4, 4, 2]


def test_thirds_are_rounded_down_at_the_boundaries() -> None:
    """A register that moves by 1 in 3 ms leaves no fraction in an accumulator, and nothing is lost."""
    meter = register()
    read(meter, (2, 0), (5, 1), (12, 2))
    unit = HOUR * MICRO
    before_4, before_8 = unit * 2 // 3, unit * 3 // 7
    slots = meter.windows[0].slots
    assert slots == {0: before_4, 1: (unit - before_4) + before_8, 2: unit - before_8}
    assert all(type(total) is int for total in slots.values())
    assert sum(used(meter)) == 2


@given(st.integers(-(10**9), 10**9), st.integers(1, 40), st.lists(st.integers(0, 40), max_size=5))
def test_the_parts_of_a_span_add_up(moved: int, span_ms: int, cuts: list[int]) -> None:
    """However a span is cut, its parts are whole, add up to it, and none is a unit off its share."""
    used, edges = RegisterUse(7, span_ms, moved), sorted({0, span_ms, *(cut % (span_ms + 1) for cut in cuts)})
    parts = [used.use_between(7 + start, 7 + end) for start, end in pairwise(edges)]
    assert sum(parts) == moved
    for part, (start, end) in zip(parts, pairwise(edges), strict=True):
        assert type(part) is int
        assert abs(part - Fraction(moved * (end - start), span_ms)) < 1
        assert part * moved >= 0, "a register that rises falls at a boundary"


def test_what_lies_after_the_newest_reading_when_a_slot_closes_is_gap() -> None:
    """Of the next span only what is not covered counts, at the span's even rate."""
    meter = register(terms_with(REGISTER, gap_u=2 * MICRO))
    read(meter, (0, 0), (2, 6))
    meter.integrate_until(4)
    assert used(meter)[0] == 6 + Fraction(2 * 2, HOUR)
    read(meter, (6, 10))
    assert used(meter)[1] == 2


def test_a_readings_message_is_free_when_the_next_is_covered() -> None:
    """One reading stands; older ones are late, the same time again is a duplicate."""
    meter = register()
    assert read(meter, (1, 1), (5, 2)) == ["1"]
    assert meter.accept_reading(Pending(3, 0, "old")) == (Outcome.LATE, ["old"])
    assert meter.accept_reading(Pending(5, 2 * MICRO, "again")) == (Outcome.DUPLICATE, ["5"])
    assert meter.accept_reading(Pending(1, 0, "first")) == (Outcome.DUPLICATE, ["first"])
    assert meter.integrate_until(12) == []
    assert [p.token for p in meter.pending] == ["again"]


def test_readings_in_any_order_within_the_lateness() -> None:
    """A span is what lies between neighbours in time, however they arrived."""
    meter = register(replace(REGISTER, lateness_ms=9))
    read(meter, (10, 10), (0, 0), (4, 1), (7, 8), (19, 19))
    unit = HOUR * MICRO  # of accumulators; two thirds of the last span lie in the third slot
    assert meter.windows[0].slots == {0: unit, 1: 7 * unit + 2 * unit // 3, 2: 2 * unit - 2 * unit // 3}


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 60 * MICRO)), min_size=1, max_size=20))
def test_values_telescope_to_the_register(steps: Sequence[tuple[int, int]]) -> None:
    """Over a run without gaps the sum of the values is r(end) - r(start), to the last millionth."""
    times = list(accumulate((ms for ms, _ in steps), initial=0))
    registers = list(accumulate((min(moved, 20 * MICRO * ms) for ms, moved in steps), initial=77 * MICRO))
    meter = register(windows=times[-1] // REGISTER.length_ms + 1)
    for time_ms, value_u in zip(times, registers, strict=True):
        meter.accept_reading(Pending(time_ms, value_u, None))
        meter.integrate_to_watermark(time_ms)
    assert sum(used(meter)) * MICRO == registers[-1] - registers[0]


@given(st.data())
def test_two_curves_within_r_give_slots_within_r(data: st.DataObject) -> None:
    """Registers read at the same times: the map from load curves to slot vectors is 1-Lipschitz (law 5)."""
    end_ms = 2 * REGISTER.length_ms
    powers = data.draw(st.lists(st.integers(0, 20), min_size=end_ms, max_size=end_ms))
    moved = data.draw(st.lists(st.integers(-3, 3), min_size=end_ms, max_size=end_ms))
    inner = data.draw(st.sets(st.integers(1, end_ms - 1)))
    gaps = data.draw(st.booleans())
    other = [max(power + more, 0) for power, more in zip(powers, moved, strict=True)]
    radius = max(abs(a - b) for a, b in zip(powers, other, strict=True))
    slots = []
    for curve in (powers, other):
        meter = register(windows=2)
        registers = list(accumulate(curve, initial=0))  # in the unit: a power of 1 is HOUR an hour
        for time_ms in sorted({0, end_ms} | inner):
            meter.accept_reading(Pending(time_ms, registers[time_ms] * MICRO, None))
            meter.integrate_to_watermark(time_ms)
            if gaps:
                meter.integrate_until(time_ms // REGISTER.step_ms * REGISTER.step_ms)
        slots.append(used(meter))
    assert max(abs(a - b) for a, b in zip(*slots, strict=True)) <= radius * REGISTER.step_ms


# --- registers that fall ----------------------------------------------------------------------------


def test_a_register_rolls_over_at_its_modulus() -> None:
    """A fall that the modulus makes a possible use is one, once the next reading goes on, and counted."""
    meter = register(COUNTER)
    read(meter, (0, 999_995), (4, 5))
    assert used(meter) == [0, 0, 0]
    read(meter, (8, 15))
    assert used(meter) == [10, 10, 0]
    assert meter.take_counts() == ["rolled_over"]
    assert meter.take_counts() == []


@pytest.mark.parametrize(("terms", "fallen"), [(REGISTER, 5), (COUNTER, 500), (COUNTER, 0)])
def test_a_reset_is_gap(terms: Terms, fallen: float) -> None:
    """Without a modulus, or where it would be more than any load, the span is gap and counted."""
    meter = register(terms_with(terms, gap_u=MICRO))
    read(meter, (0, 590), (4, 600), (8, fallen), (12, fallen + 10))
    assert used(meter) == [10, 1, 10]
    assert meter.take_counts() == ["register_reset"]


def test_a_jump_is_gap() -> None:
    """A rise by more than any load is counted, once the register goes on there."""
    meter = register(terms_with(REGISTER, gap_u=MICRO))
    read(meter, (0, 590), (4, 600), (8, 10**9), (12, 10**9 + 10))
    assert used(meter) == [10, 1, 10]
    assert meter.take_counts() == ["register_jump"]


@pytest.mark.parametrize("first", [10**9, 0, 60])
def test_a_first_reading_on_another_level_was_wrong(first: int) -> None:
    """Nothing speaks for it: it is neither a reset nor a jump."""
    meter = register(terms_with(REGISTER, gap_u=MICRO))
    read(meter, (0, first), (4, 10**6), (8, 10**6 + 10), (12, 0))
    assert used(meter) == [1, 10, 0]
    assert meter.take_counts() == ["register_glitch"]
    read(meter, (16, 10))
    assert meter.take_counts() == ["register_reset"]


def test_rates_are_clamped_to_the_range() -> None:
    """A register that rises faster than the range, in a second more, counts as its end, and is counted."""
    meter = register()
    read(meter, (0, 0), (8, 25_300), (12, 25_310))
    assert used(meter) == [12_600, 12_600, 10]
    assert meter.take_counts() == ["clamped"]


def test_a_slot_that_closes_does_not_wait_for_the_next_reading() -> None:
    """A rise above the range counts by its limit, not as gap: what leaves moves no further than the load."""
    meter = register()
    read(meter, (0, 0), (4, 25_400))
    assert used(meter) == [0, 0, 0]
    meter.integrate_until(4)
    assert used(meter) == [25_100, 0, 0]


def test_a_register_that_rises_less_than_the_range_is_clamped() -> None:
    """A rise is never taken for a reset."""
    meter = register(terms_with(SLOW, low_u=20 * MICRO))
    read(meter, (0, 0), (4000, 3), (8000, 3))
    meter.integrate_until(12_000)
    assert used(meter) == [15, 15, 0]
    assert meter.take_counts() == ["clamped", "clamped"]


def test_a_register_may_run_backward_within_the_range() -> None:
    """Where the range has negative powers a fall within it is what was fed in."""
    meter = register(terms_with(COUNTER, low_u=-10 * MICRO))
    read(meter, (0, 9000), (4, 8990), (8, 5000), (12, 4990))
    assert used(meter) == [-10, 0, -10]
    assert meter.take_counts() == ["register_reset"]


# --- doubted readings -------------------------------------------------------------------------------


def test_a_glitch_costs_nothing() -> None:
    """It is dropped, counted and given back when the next good reading is covered."""
    meter = register()
    assert read(meter, (0, 600), (2, 0)) == []
    assert read(meter, (5, 615)) == ["0", "2"]
    assert used(meter) == [12, 3, 0]
    assert meter.take_counts() == ["register_glitch"]
    assert meter.newest_ms == 5


def test_what_is_kept_tells_nothing_of_a_doubted_reading() -> None:
    """While it is doubted the state is that after the good one, but for its time (law 3)."""
    meter = register(noise=9)
    read(meter, (0, 100), (1, 107))
    state = meter.stored_state()
    for time_ms, value in ((2, 10**6), (3, 10**6)):
        read(meter, (time_ms, value))
        assert meter.stored_state() == state._replace(newest_ms=time_ms)


def test_doubted_readings_of_a_night_are_bounded() -> None:
    """Of many zeros two are kept; the others are given back, and the use is right in the end."""
    meter = register(windows=10)
    read(meter, (0, 600))
    free = [token for ms in range(1, 100) for token in read(meter, (ms, 0))]
    assert free == [str(ms) for ms in range(1, 98)]
    assert len(meter.pending) == 3
    assert read(meter, (100, 700)) == ["0", "98", "99"]
    assert used(meter)[:25] == [4] * 25
    assert meter.take_counts() == ["register_glitch"] * 99


def test_a_slot_that_closes_on_doubt_is_gap_after_the_good_reading() -> None:
    """What was used since counts from the slot's end on, at the span's rate."""
    meter = register(terms_with(REGISTER, gap_u=MICRO))
    read(meter, (0, 600), (2, 606), (3, 0))
    meter.integrate_until(4)
    assert used(meter)[0] == 6 + Fraction(2, HOUR)
    read(meter, (8, 618))
    assert used(meter)[1] == 8


@given(st.data())
def test_the_order_of_arrival_does_not_matter(data: st.DataObject) -> None:
    """Readings that come late by less than the lateness, with two to spare, leave the same in every slot."""
    steps = data.draw(st.lists(st.integers(0, 20), min_size=12, max_size=40))
    readings = list(enumerate(accumulate(steps, initial=1000)))
    wrong = data.draw(
        st.dictionaries(st.integers(2, len(steps) - 2), st.sampled_from([0, 950, 10**6]), max_size=4)
    )
    said = [(time_ms, wrong.get(time_ms, value)) for time_ms, value in readings]
    late = [data.draw(st.integers(0, 5)) for _ in said]
    arrivals = sorted(said, key=lambda item: (item[0] + late[item[0]], late[item[0]]))
    slots = []
    for order in (said, arrivals):
        meter = register(replace(REGISTER, lateness_ms=9), windows=5)
        for time_ms, value in order:
            read(meter, (time_ms, value))
            for end_ms in range(4, 60, 4):
                if end_ms + 9 <= (meter.newest_ms or 0):
                    meter.integrate_until(end_ms)
        meter.integrate_until(60)
        slots.append((used(meter), sorted(meter.take_counts())))
    assert slots[0] == slots[1]


# --- what is kept -----------------------------------------------------------------------------------


def kept(meter: Timeline) -> OpenWindow:
    """The first window as the store has it."""
    return meter.stored_state().windows[0]


@given(st.integers(-(10**12), 10**12), st.integers(-50, 50), st.integers(0, 10**9), st.integers(0, 10**6))
def test_homes_whose_registers_and_noises_differ_by_the_same_are_kept_the_same(
    more: int, noise: int, first: int, moved: int
) -> None:
    """What is stored does not tell the register: another one with another noise is stored as this (law 3)."""
    states: list[TimelineState] = []
    for shift in (0, more):
        window = Window(0, REGISTER, REGISTER.id, (), "m1", noise_bound=10**13)
        window.open_slot(noise + shift, 0, 0)
        meter = RegisterTimeline(REGISTER, 0)
        meter.windows, meter.next_ms = [window], 12
        quantum = shift * REGISTER.quantum_u
        for time_ms, value_u in ((0, first), (2, first + moved), (3, first + moved + 5)):
            meter.accept_reading(Pending(time_ms, value_u + quantum, None))
            meter.integrate_to_watermark(3)
        states.append(meter.stored_state())
    assert states[0] == states[1]
    assert states[0].windows[0].masked_slot == 0


def test_a_masked_slot_is_the_register_at_its_start_minus_its_noise() -> None:
    """It is the same at every commit of a slot, whatever is used in it."""
    meter = register(noise=9)
    for time_ms, value in ((0, 100), (1, 107), (3, 110)):
        read(meter, (time_ms, value))
        masked = kept(meter)
        assert masked.masked_slot == 0
        assert masked.slots[0].accumulator == (100 - 9) * MICRO * HOUR
    read(meter, (6, 113))
    assert kept(meter).masked_slot == 1
    assert kept(meter).slots[1].accumulator == (111 - 9) * MICRO * HOUR
    assert kept(meter).slots[0].accumulator == (11 + 9) * MICRO * HOUR


def test_a_slot_with_nothing_in_it_is_kept_as_it_is() -> None:
    """After the clock closed a slot past the newest reading, nothing of the register is in the next."""
    meter = register(noise=9)
    read(meter, (0, 100), (3, 107))
    meter.integrate_until(4)
    assert kept(meter).masked_slot is None
    assert kept(meter).slots[1].accumulator == 9 * MICRO * HOUR


def test_bands_are_kept_as_they_are() -> None:
    """Of a band half a month could be lost: there an outage is gap."""
    bands = (Band("a", ((0, 4), (8, 12))), Band("b", ((4, 8),)))
    meter = register(in_bands(REGISTER, bands))
    read(meter, (0, 100), (3, 107))
    assert kept(meter).masked_slot is None
    other = restarted(meter)
    read(other, (7, 110), (9, 112))
    assert used(other) == [7 + 1, 1]


# --- after a stop -----------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [((3, 107), (5, 109)), ((4, 108), (5, 109)), ((5, 109),)])
def test_a_power_cut_costs_nothing(again: Sequence[tuple[int, float]]) -> None:
    """Whether the reading that stood is delivered again or not: what was used is in the slot."""
    terms = terms_with(REGISTER, step_ms=6, gap_u=MICRO)
    meter, other = register(terms, noise=9), register(terms, noise=9)
    read(meter, (0, 100), (3, 107), (5, 109), (12, 116))
    read(other, (0, 100), (3, 107))
    other = restarted(other)  # type: ignore[assignment]
    read(other, *again)
    read(other, (12, 116))
    assert used(other, 9) == used(meter, 9) == [10, 6]


def test_a_slot_is_lost_when_nothing_comes_before_its_end() -> None:
    """The use in the slot cannot be separated from later use: it is gap throughout, with new noise."""
    meter = register(terms_with(REGISTER, gap_u=MICRO), noise=9)
    read(meter, (0, 100), (3, 107))
    for readings in ([(5, 109), (7, 115)], []):
        other = restarted(meter)
        read(other, *readings)
        other.integrate_until(4)
        [window] = other.windows
        assert window.lost_slot == 0
        with pytest.raises(AssertionError, match="the slot has no noise"):
            window.close_slot(0)
        with pytest.raises(AssertionError, match="the slot has no noise"):
            other.stored_state()
        window.redraw_noise(5, 0)
        assert window.slots[0] == (5 + 1) * MICRO * HOUR
        assert window.close_slot(0) == 5 + 1
        assert used(other, 9)[:1] == [6 + Fraction(1, HOUR) if readings else 0]


def test_noise_cannot_leave_while_its_slot_is_masked() -> None:
    """A slot closes only after it was found again or lost."""
    meter = register(noise=9)
    read(meter, (0, 100), (3, 107))
    [window] = restarted(meter).windows
    with pytest.raises(AssertionError, match="the slot has no noise"):
        window.close_slot(0)


def test_a_reset_during_an_outage_is_seen_if_it_is_larger_than_the_noise() -> None:
    """A use that range and radius do not allow loses the slot; the next slot continues."""
    meter = register(noise=9)
    read(meter, (0, 100_000), (2, 100_007))
    other = restarted(meter)
    read(other, (3, 1), (8, 11))
    assert other.windows[0].lost_slot == 0
    assert other.take_counts() == ["register_reset"]
    assert used(other, 9)[1] == 8
    small = restarted(meter)
    read(small, (2, 100_000), (3, 100_001))
    assert small.windows[0].masked_slot is None


def test_a_glitch_after_an_outage_loses_no_slot() -> None:
    """Two readings that agree resume it; one does when the slot ends."""
    terms = terms_with(REGISTER, step_ms=12)
    meter = register(terms, noise=9)
    read(meter, (0, 100_000), (2, 100_007))
    other = restarted(meter)
    assert read(other, (3, 0), (5, 100_010)) == []
    assert other.stored_state() == meter.stored_state()._replace(newest_ms=5)
    assert read(other, (6, 100_020)) == ["3", "5"]
    assert used(other, 9) == [20]
    assert other.take_counts() == ["register_glitch"]
    single = restarted(meter)
    read(single, (3, 0), (5, 100_010))
    single.integrate_until(12)
    assert used(single, 9) == [10]


def test_a_reset_after_an_outage_loses_the_slot_at_once() -> None:
    """When the register goes on at another level: the slot does not wait for its end."""
    meter = register(terms_with(REGISTER, step_ms=12), noise=9)
    read(meter, (0, 100_000), (2, 100_007))
    other = restarted(meter)
    read(other, (3, 1))
    assert other.windows[0].masked_slot == 0
    read(other, (4, 3))
    assert other.windows[0].lost_slot == 0
    assert other.take_counts() == ["register_reset"]


def test_a_register_that_rolled_over_during_an_outage_goes_on() -> None:
    """By its modulus, if that makes the use plausible."""
    meter = register(COUNTER, noise=9)
    read(meter, (0, 999_990), (2, 999_998))
    other = restarted(meter)
    read(other, (3, 4))
    other.integrate_until(4)
    assert other.take_counts() == ["rolled_over"]
    assert used(other, 9)[0] == 14


def test_a_masked_slot_is_lost_when_the_readings_mean_something_else() -> None:
    """With another unit or kind after a restart nothing can find it: gap, and noise of its own."""
    meter = register(terms_with(REGISTER, gap_u=3 * MICRO), noise=9)
    read(meter, (0, 100), (3, 107))
    for changed in (terms_with(meter.terms, unit="kWh"), TERMS):
        [window] = restored_timeline(changed, 12, meter.stored_state(), {meter.terms.id: meter.terms}).windows
        assert window.lost_slot == 0
        assert window.masked_slot is None
        window.redraw_noise(4, 0)
        assert [window.close_slot(place) for place in range(3)] == [4 + 3, 9 + 3, 9 + 3]


def test_a_lost_slot_leaves_although_the_stream_is_of_power_now() -> None:
    """A register's open slot, which nothing can resume, is redrawn by a stream without a register."""
    meter = register(REGISTER, noise=9)
    read(meter, (0, 100), (3, 107))
    snapshot = Snapshot({"m1": 12}, {"m1": meter.stored_state()}, {REGISTER.id: REGISTER})
    core = Pipeline(stream(TERMS), snapshot, Spending(), SeededBits(1), Counts())
    effects = core.feed([], 4, 4)
    assert core._counts == {"register_lost": 1, "released": 1, "gap_slots": 1}
    assert len(effects.commit.outgoing) == 1
    assert effects.commit.states["m1"] is not None


@given(st.lists(st.integers(1, 25), min_size=12, max_size=12), st.data())
def test_stops_at_any_time_change_nothing(powers: list[int], data: st.DataObject) -> None:
    """With what was not acknowledged delivered again, the state is that of an uninterrupted run."""
    registers = list(accumulate(powers, initial=1000))
    times = sorted(data.draw(st.sets(st.integers(0, 12), min_size=2)))
    stops = data.draw(st.sets(st.sampled_from(times)))
    one, other = register(noise=3), register(noise=3)
    for time_ms in times:
        read(one, (time_ms, registers[time_ms]))
        read(other, (time_ms, registers[time_ms]))
        if time_ms in stops:
            waiting = other.pending
            other = restarted(other)  # type: ignore[assignment]
            read(other, *((held.time_ms, held.value_u // MICRO) for held in waiting))
        assert other.stored_state() == one.stored_state()


@given(st.lists(st.integers(0, 25), min_size=12, max_size=12), st.data())
def test_what_a_slot_used_is_found_by_any_of_its_readings(powers: list[int], data: st.DataObject) -> None:
    """Without redelivery, too: stops between readings of one slot change no slot."""
    terms = terms_with(REGISTER, step_ms=12)
    registers = list(accumulate(powers, initial=1000))
    times = sorted(data.draw(st.sets(st.integers(0, 12))) | {0, 12})
    stops = data.draw(st.sets(st.sampled_from(times)))
    meter: Timeline = register(terms, noise=3)
    for time_ms in times:
        read(meter, (time_ms, registers[time_ms]))
        meter = restarted(meter) if time_ms in stops - {12} else meter
    assert used(meter, 3) == [registers[12] - 1000]
