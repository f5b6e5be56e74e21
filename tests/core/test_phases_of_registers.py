"""Registers of phases: each is interpolated, and summed at a time that all have told."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.core.pending import Pending, give_back_tokens
from meteragent.core.phases import RegisterPhases, make_phases
from meteragent.domain.grid import parse_time
from meteragent.domain.units import MICRO
from tests.core.test_phases import END_MS, REGISTER, Home, Said, phased, register_at, released
from tests.support.terms import terms_with
from tests.support.world import BASE_MS


def test_registers_that_are_told_one_after_the_other_lose_nothing() -> None:
    """A phase's use lies in the time since that phase spoke, not since another did."""
    home = Home(phased(terms_with(REGISTER, high_u=7 * MICRO, lateness_ms=20)))
    said = [
        Said(ms + k, phase, 100 + 2 * (ms + k)) for ms in range(0, 60, 10) for k, phase in enumerate("abc")
    ]
    for ms in range(90):
        home.feed([one for one in said if one.time_ms == ms], ms)
    assert [released(home)[ms] for ms in range(4, 40, 4)] == [6 * 4] * 9
    assert home.counts["clamped"] == 0


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 50)), min_size=20, max_size=20),
    st.lists(st.tuples(st.integers(0, END_MS - 1), st.sampled_from("abc")), max_size=40, unique=True),
    st.sampled_from("abc"),
    st.integers(0, 19),
)
def test_sums_of_registers_are_1_lipschitz(
    used: list[tuple[int, int]], heard: list[tuple[int, str]], which: str, quiet: int
) -> None:
    """A phase that takes at most 7 more at any time moves no slot by more than its length times that."""
    times = [*((0, phase) for phase in "abc"), *heard, *((END_MS, phase) for phase in "abc")]
    slots = []
    for more in (0, 7):
        rates = {p: [r + more * (p == which and at > quiet) for at, (_, r) in enumerate(used)] for p in "abc"}
        said = [
            Said(ms, p, 2 * sum(rates[p][: ms // 2]) + ms % 2 * rates[p][min(ms // 2, 19)]) for ms, p in times
        ]
        home = Home(phased(replace(REGISTER, lateness_ms=END_MS)))
        for one in sorted(set(said)):
            home.feed([one], one.time_ms)
        home.feed([], 3 * END_MS)
        slots.append(released(home))
    assert len(slots[0]) > 5
    assert all(0 <= slots[1][ms] - slots[0][ms] <= 4 * 7 + 1 for ms in slots[0])


def test_a_register_of_a_phase_may_roll_over() -> None:
    """Between the readings around its rollover it goes on; the sum falls once, by the modulus."""
    home = Home(phased(terms_with(REGISTER, modulus_u=1000 * MICRO, lateness_ms=20), "ab"))
    said = [
        Said(ms + k, phase, (970 + k + 2 * ms) % 1000)
        for ms in range(0, 40, 4)
        for k, phase in enumerate("ab")
    ]
    for ms in range(70):
        home.feed([one for one in said if one.time_ms == ms], ms)
    assert [released(home)[ms] for ms in range(4, 36, 4)] == [2 * 2 * 4] * 8
    assert (home.counts["rolled_over"], home.counts["register_reset"]) == (2, 0)


@pytest.mark.parametrize("beside_ms", [0, 1])
@pytest.mark.parametrize("first", [0, 10**9])
def test_a_wrong_first_reading_of_a_phase_after_a_restart_is_no_jump(beside_ms: int, first: int) -> None:
    """It is a glitch, whether it was in a sum or not; what was used is there, and a later reset is one."""
    home = Home(phased(terms_with(REGISTER, lateness_ms=20), "ab"))
    level = 50_000_000
    for ms in range(0, 80, 2):
        if ms == 20:
            home.start()
            home.again.clear()
        wrong = first if ms == 20 else level + ms
        home.feed([Said(ms, "a", wrong), Said(ms + beside_ms, "b", level + ms)], ms + beside_ms)
    left = released(home)
    assert [left[ms] for ms in range(24, 36, 4)] == [8] * 3
    assert (home.counts["register_jump"], home.counts["register_reset"]) == (0, 0)
    assert home.counts["register_glitch"] == 1
    for ms in (80, 82, 84):
        home.feed([Said(ms, "a", ms - 80), Said(ms + beside_ms, "b", level + ms)], ms + beside_ms)
    assert home.counts["register_reset"] == 1


def test_a_register_older_than_its_phase_is_late() -> None:
    """Another phase's may be: it says what that phase was at a time."""
    home = Home(phased(REGISTER, "ab"))
    home.feed([Said(0, "a", 0), Said(4, "a", 4), Said(1, "b", 0)], 5)
    assert home.counts["accepted"] == 3
    home.feed([Said(2, "a", 9)], 5)
    assert (home.counts["accepted"], home.counts["late"]) == (3, 1)
    assert Said(2, "a", 9) not in [one for _, one in home.waiting]


@pytest.mark.slow("sends until nothing more is kept")
def test_readings_that_wait_for_a_phase_are_bounded() -> None:
    """Of many every other is dropped and acknowledged; when the phase speaks, all that was used is there."""
    home = Home(phased(terms_with(REGISTER, lateness_ms=1000, high_u=10**9 * MICRO), "ab"))
    home.feed([Said(0, "a", 0), Said(0, "b", 0)], 1)
    for ms in range(1, 601):
        home.feed([Said(ms, "a", ms)], ms)
    assert 32 < len(home.waiting) <= 66
    home.feed([Said(600, "b", 600)], 600)
    home.feed([], 10_000)
    assert {value for start, value in home.left.items() if parse_time(start) < BASE_MS + 600} == {8}


def test_a_meter_that_is_forgotten_gives_its_readings_back() -> None:
    """Those that wait for a phase that never speaks are no longer kept from the broker."""
    phases = make_phases("abc", REGISTER)
    waiting = [Pending(at_ms, at_ms, f"{phase}{at_ms}") for phase in "ab" for at_ms in (1, 2)]
    for one in waiting:
        assert phases.accept_reading(str(one.token)[0], one).sums == []
    assert give_back_tokens(phases.forget_readings()) == [one.token for one in waiting]


# Registers that report on change ----------------------------------------------------------------

TARIFFS = terms_with(REGISTER, every_ms=0, high_u=1000 * MICRO, lateness_ms=8)
"""A register that is silent has not moved."""


def test_a_tariff_that_is_silent_stands() -> None:
    """By day the register of the night is silent, and by night that of the day: neither makes a gap.

    The first step of the night is a line from where its register last stood for sure, the lateness before.
    """
    home = Home(phased(TARIFFS, "ab"))
    said = [Said(0, "b", 7000), *(Said(ms, "a", 500 + 3 * ms) for ms in range(1, 21))]
    said += [Said(ms, "b", 7000 + 5 * (ms - 20)) for ms in range(21, 60)]
    for ms in range(70):
        home.feed([one for one in said if one.time_ms == ms], ms)
    assert [released(home)[ms] for ms in (4, 8)] == [3 * 4] * 2
    assert [released(home)[ms] for ms in (12, 16, 20)] == [15, 14, 16]
    assert [released(home)[ms] for ms in (24, 28, 32, 36)] == [5 * 4] * 4
    assert not {"register_glitch", "register_reset", "clamped"} & home.counts.keys()
    assert sorted(one for _, one in home.waiting) == [Said(20, "a", 560), Said(59, "b", 7195)]


def test_a_register_that_is_not_said_to_stand_stops_the_sum() -> None:
    """It may have moved: what it used is counted when it speaks."""
    home = Home(phased(terms_with(TARIFFS, every_ms=None), "ab"))
    for ms in range(40):
        home.feed([Said(ms, "a", ms)] if ms else [Said(0, "a", 0), Said(0, "b", 7000)], ms)
    assert set(released(home).values()) == {3 * 4}


def test_a_phase_that_never_spoke_makes_no_sum_of_registers() -> None:
    """Nobody knows where it stands."""
    home = Home(phased(TARIFFS, "abc"))
    for ms in range(40):
        home.feed([Said(ms, phase, ms) for phase in "ab"], ms)
    assert set(released(home).values()) == {3 * 4}


moves = st.dictionaries(
    st.tuples(st.integers(1, END_MS - 1), st.sampled_from("ab")), st.integers(0, 40), max_size=40
)
"""What a register shows more, by the time and the phase; all other times it is silent."""


def shown(moved: dict[tuple[int, str], int]) -> list[Said]:
    """The readings of registers that report on change."""
    totals, said = {"a": 0, "b": 700}, [Said(0, "a", 0), Said(0, "b", 700)]
    for (ms, phase), more in sorted(moved.items()):
        totals[phase] += 100 * more
        said.append(Said(ms, phase, totals[phase]))
    return said


def sums(said: list[Said], order: list[bool], *ends_ms: int) -> dict[int, int]:
    """The sums of readings, of which those of one phase may come before those of another."""
    phases, told = make_phases("ab", TARIFFS), dict[int, int]()
    assert isinstance(phases, RegisterPhases)
    left = {p: [one for one in said if one.phase == p] for p in "ab"}
    for is_b in [*order, *[False] * len(said), *[True] * len(said)]:
        if waiting := left["ab"[is_b]]:
            one = waiting.pop(0)
            told |= {r.time_ms: r.value_u for r in phases.accept_reading(one.phase, reading(one)).sums}
    for end_ms in ends_ms:
        told |= {r.time_ms: r.value_u for r in phases.standing_sums(end_ms, is_slot_end=True).sums}
    return told


def reading(said: Said) -> Pending:
    """What the core makes of it."""
    return Pending(said.time_ms, said.value * MICRO, said)


@given(moves, st.lists(st.booleans(), max_size=80), st.integers(1, END_MS))
def test_the_order_of_phases_does_not_matter(
    moved: dict[tuple[int, str], int], order: list[bool], end_ms: int
) -> None:
    """Whichever phase comes first: at each reading and slot's end the sum is that of the registers."""
    said = shown(moved)
    assert sums(said, order, end_ms) == sums(said, [], end_ms)
    for ms, value_u in sums(said, order, end_ms).items():
        lines = [register_at(said, p, ms) for p in "ab"]
        last = [max(one for one in said if one.phase == p and one.time_ms <= ms).value for p in "ab"]
        exact = sum(b if a is None else a for a, b in zip(lines, last, strict=True))
        assert abs(Fraction(value_u, MICRO) - exact) <= Fraction(1, MICRO)


@given(moves, st.lists(st.booleans(), max_size=80), st.data())
def test_a_reading_moves_no_sum_by_more_than_itself(
    moved: dict[tuple[int, str], int], order: list[bool], data: st.DataObject
) -> None:
    """One reading of one phase that shows 50 less moves no sum by more, and each down."""
    said = shown({key: more + 1 for key, more in moved.items()})
    index = data.draw(st.integers(0, len(said) - 1))
    other = [one._replace(value=one.value - 50 * (k == index)) for k, one in enumerate(said)]
    ends = sorted(data.draw(st.sets(st.integers(1, END_MS))))
    one, two = sums(said, order, *ends), sums(other, order, *ends)
    assert one.keys() == two.keys()
    assert all(0 <= one[ms] - two[ms] <= 50 * MICRO for ms in one)


@settings(max_examples=20)
@given(moves, st.dictionaries(st.integers(2, END_MS), st.sampled_from(["before", "after"]), max_size=4))
def test_what_registers_that_stand_have_used_is_counted_once(
    moved: dict[tuple[int, str], int], turns: dict[int, str]
) -> None:
    """While one moves and the other stands, all slots add up to what both show, through any crash."""
    said = shown(
        moved | {(ms, "a"): 1 for ms in range(1, END_MS)} | {(ms, "a"): 0 for ms in range(END_MS, 60)}
    )
    home = Home(phased(terms_with(TARIFFS, high_u=10**6 * MICRO, gap_u=0), "ab"))
    for ms in range(70):
        home.feed([one for one in said if one.time_ms == ms], ms, turns.get(ms, ""))
    used = sum(max(one.value for one in said if one.phase == p) for p in "ab") - 700
    assert abs(sum(released(home).values()) - used) <= 5, "each of ten slots is rounded"
