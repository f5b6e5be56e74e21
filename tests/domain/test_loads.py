"""What a change of the load moves in all, over many slots: bounds that hold, and are nearly attained."""

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain import loads
from meteragent.domain.terms import Terms
from meteragent.privacy import LInfLaplace
from meteragent.privacy.in_all import kappa
from meteragent.privacy.loads import counted_change_bound_in_all, sampled_change_bound_in_all
from tests.support.configurations import energy, settled

DAY, MONTH = 48, 1440
REGISTER = "kind = 'register'\nunit = 'Wh'\ndead_band = {}"

small = st.integers(0, 7)


def register(step: object, **sections: str) -> Terms:
    """The terms of a register that shows whole steps, in Wh."""
    return settled(source=REGISTER.format(step), **sections)


def at(times: list[Fraction], shown: list[int]) -> list[Fraction]:
    """Readings at 0, 1, 2 .., interpolated at other times."""
    found = []
    for time in times:
        before = min(int(time), len(shown) - 2)
        found.append(shown[before] + (time - before) * (shown[before + 1] - shown[before]))
    return found


# Counts -------------------------------------------------------------------------------------------


@given(
    used=st.lists(st.tuples(small, st.integers(-5, 5)), min_size=2, max_size=14),
    step=st.integers(1, 6),
    phase=small,
    between=st.integers(1, 4),
    offset=st.fractions(0, 1, max_denominator=5),
)
def test_counts_never_move_more_in_all(
    used: list[tuple[int, int]], step: int, phase: int, between: int, offset: Fraction
) -> None:
    """Whatever the load, phase and grid: with k - 1 turns, slots move by at most X + (m + k - 1) s."""
    change = [max(more, -usual) for usual, more in used]
    usual = [0, *accumulate(base for base, _ in used)]
    changed = [0, *accumulate(base + more for (base, _), more in zip(used, change, strict=True))]
    ends = [Fraction(0), *(offset + i * between for i in range(len(used)))]
    times = [time for time in ends if time < len(used)] + [Fraction(len(used))]
    shown = [at(times, [(sum_ + phase) // step * step for sum_ in sums]) for sums in (usual, changed)]
    apart = [a - b for a, b in zip(*shown, strict=True)]
    moved = sum(abs(b - a) for a, b in pairwise(apart))
    signs = [more > 0 for more in change if more]
    turns = sum(a != b for a, b in pairwise(signs))
    assert moved <= counted_change_bound_in_all(sum(map(abs, change)), step, len(times) - 1, turns + 1)


@pytest.mark.parametrize("slots", [1, 2, 7])
def test_the_bound_of_counts_is_attained_but_for_a_step(slots: int) -> None:
    """A change of 11 in steps of 10 shifts the count; later slots differ by a step each, to and fro."""
    step, change = 10, 11
    # Slots end by turns just below and just at the step that only the changed register has reached.
    usual = [0, 9, *(9 + 10 * i + 9 * (i % 2) for i in range(1, slots))]
    shown = [
        [sum_ // step * step for sum_ in sums] for sums in (usual, [0, *(u + change for u in usual[1:])])
    ]
    apart = [b - a for a, b in zip(*shown, strict=True)]
    moved = sum(abs(b - a) for a, b in pairwise(apart))
    assert moved == 20 + step * (slots - 1) > counted_change_bound_in_all(change, step, slots) - step


def test_turns_add_a_step_each() -> None:
    """A change to and fro across a step, 2 each time, moves each slot by two steps: more than X + m s."""
    step, slots = 10, 6
    usual = [0, *(10 * i + 9 * (i % 2) for i in range(slots))]
    changed = [0, *(u + (11 if i % 2 else 9) for i, u in enumerate(usual[1:]))]
    shown = [[sum_ // step * step for sum_ in sums] for sums in (usual, changed)]
    apart = [b - a for a, b in zip(*shown, strict=True)]
    moved = sum(abs(b - a) for a, b in pairwise(apart))
    energy_moved, turns = 9 + 2 * (slots - 1), slots - 2
    assert counted_change_bound_in_all(energy_moved, step, slots) < moved
    assert moved <= counted_change_bound_in_all(energy_moved, step, slots, turns + 1)


# Samples ------------------------------------------------------------------------------------------

bump = st.tuples(
    st.lists(st.integers(1, 9), min_size=1, max_size=4).map(sorted),
    st.lists(st.integers(0, 9), max_size=4).map(lambda falls: sorted(falls, reverse=True)),
    st.sampled_from([-1, 1]),
)


@given(
    bumps=st.lists(bump, min_size=1, max_size=3), gaps=st.lists(st.integers(1, 4), min_size=1, max_size=20)
)
def test_samples_never_move_more_in_all(
    bumps: list[tuple[list[int], list[int], int]], gaps: list[int]
) -> None:
    """However readings lie and whatever the slots: k bumps move samples by at most X + k p T in all."""
    change = [sign * height for ups, downs, sign in bumps for height in (*ups, *downs)]
    times = [time for time in accumulate(gaps, initial=0) if time < len(change)]
    holds = [after - before for before, after in pairwise([*times, times[-1] + max(gaps)])]
    moved = sum(hold * abs(change[time]) for time, hold in zip(times, holds, strict=True))
    height = max(map(abs, change))
    assert moved <= sampled_change_bound_in_all(sum(map(abs, change)), height, max(gaps), len(bumps))


def test_what_is_no_change_is_refused() -> None:
    """Energies are not negative, and a change rises; nothing moved moves nothing."""
    with pytest.raises(ValueError, match="rises at least once, not 0 times"):
        sampled_change_bound_in_all(1, 1, 1, 0)
    with pytest.raises(ValueError, match="rises at least once, not 0 times"):
        counted_change_bound_in_all(1, 1, 1, 0)
    with pytest.raises(ValueError, match="slots must not be negative"):
        counted_change_bound_in_all(1, 1, -1)
    assert counted_change_bound_in_all(0, 5, 1440) == 0
    assert loads.level_in_all(register(10), Fraction(0), MONTH) == 0


# Terms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "slots"), [(1, DAY), (1, MONTH), (10, MONTH)])
def test_a_register_costs_a_step_in_each_slot(step: int, slots: int) -> None:
    """Level (X + m s)/hide times kappa: 110 Wh in steps of 1 Wh cost 14.1 in a month, of 10 Wh 132."""
    terms = register(step)
    moved = 110 + slots * step
    assert loads.in_all_wh(terms, Fraction(110), slots) == moved
    expected = kappa(terms.mechanism.a) * Fraction(moved, 110)
    assert loads.level_in_all(terms, Fraction(110), slots) == expected
    assert loads.level_in_all(terms, Fraction(110), slots, 3) == expected / moved * (moved + 2 * step)


def test_what_follows_the_load_costs_what_it_moves() -> None:
    """Without steps and dead bands, 110 Wh cost kappa over any number of slots; each Wh the same."""
    for source in ("every = '0s'\ndead_band = 0", energy("kWh"), REGISTER.format(0)):
        terms = settled(source=source)
        levels = {loads.level_in_all(terms, Fraction(110), slots) for slots in (1, DAY, 10**6)}
        assert levels == {min(kappa(terms.mechanism.a), loads.level_in_all(terms, Fraction(110), 1))}
        assert loads.level_in_all(terms, Fraction(330), MONTH) == 3 * loads.level_in_all(
            terms, Fraction(110), MONTH
        )


def test_power_pays_its_dead_band_in_each_slot_and_its_period_once() -> None:
    """Within 10 W, two bands make 10 Wh a half hour; read every 10 s, 20 kW count 55.6 Wh for each rise."""
    band, period = (settled(source=f"every = '{s}s'\ndead_band = {b}") for s, b in ((0, 10), (10, 0)))
    assert loads.in_all_wh(band, Fraction(110), MONTH) == 110 + MONTH * 10
    once = 110 + Fraction(20_000 * 10, 3600)
    assert {loads.in_all_wh(period, Fraction(110), slots) for slots in (1, MONTH)} == {once}
    assert loads.in_all_wh(period, Fraction(110), 1, 2) == 2 * once - 110


def test_several_counts_add_their_steps() -> None:
    """Two counters of a P1 port, and six intervals in a slot: each count has a step of its own."""
    intervals = settled(source=f"{energy('Wh', '5min')}\ndead_band = 10")
    assert loads.step_wh(intervals) == 60
    assert loads.in_all_wh(intervals, Fraction(110), 3) == 290
    assert loads.step_wh(register(1000, window="lateness = '1min'")) == 1000
    fast = settled(source=REGISTER.format(1000) + "\nevery = '1min'")
    assert loads.step_wh(fast) == 1000  # the range limits what is used, never a step of the count


def test_rounding_half_up_adds_a_quantum_in_each_slot() -> None:
    """In an archive each slot may be rounded the other way: level (X + m q T)/hide, without kappa."""
    terms = replace(settled(), rounding="half-up")
    assert loads.rounding_wh(terms) == Fraction(1, 2)
    assert loads.level_in_all(terms, Fraction(110), MONTH) == (110 + MONTH * Fraction(1, 2)) / 110


def test_a_coarse_lattice_is_rounded_up() -> None:
    """Where kappa is large, the loss of values that are rounded up to quanta is the smaller bound."""
    terms = settled(privacy="radius = 100\nquantum = 100\nlevel = 4")
    assert isinstance(terms.mechanism, LInfLaplace)
    assert terms.mechanism.a == 4
    assert loads.level_in_all(terms, Fraction(50), 1) == 8
    assert loads.level_in_all(terms, Fraction(50), MONTH) == 4 * kappa(4)
    huge = settled(privacy="radius = 100\nquantum = 100\nlevel = 100")
    assert loads.level_in_all(huge, Fraction(50), MONTH) == 100 * (MONTH + 1)
