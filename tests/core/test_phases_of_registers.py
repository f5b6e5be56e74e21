"""Registers of phases: each is interpolated, and summed at a time that all have told."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.core.phases import phases_of
from meteragent.core.share import give_back
from meteragent.core.timeline import Pending
from meteragent.domain.grid import parse_time
from meteragent.domain.units import MICRO
from tests.core.test_phases import END_MS, REGISTER, Home, Said, phased, released
from tests.support.world import BASE_MS


def test_registers_that_are_told_one_after_the_other_lose_nothing() -> None:
    """A phase's use lies in the time since that phase spoke, not since another did."""
    home = Home(phased(replace(REGISTER, high_u=7 * MICRO, lateness_ms=20)))
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
    home = Home(phased(replace(REGISTER, modulus_u=1000 * MICRO, lateness_ms=20), "ab"))
    said = [
        Said(ms + k, phase, (970 + k + 2 * ms) % 1000)
        for ms in range(0, 40, 4)
        for k, phase in enumerate("ab")
    ]
    for ms in range(70):
        home.feed([one for one in said if one.time_ms == ms], ms)
    assert [released(home)[ms] for ms in range(4, 36, 4)] == [2 * 2 * 4] * 8
    assert (home.counts["rolled_over"], home.counts["register_reset"]) == (2, 0)


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
    home = Home(phased(replace(REGISTER, lateness_ms=1000, high_u=10**9 * MICRO), "ab"))
    home.feed([Said(0, "a", 0), Said(0, "b", 0)], 1)
    for ms in range(1, 601):
        home.feed([Said(ms, "a", ms)], ms)
    assert 32 < len(home.waiting) <= 66
    home.feed([Said(600, "b", 600)], 600)
    home.feed([], 10_000)
    assert {value for start, value in home.left.items() if parse_time(start) < BASE_MS + 600} == {8}


def test_a_meter_that_is_forgotten_gives_its_readings_back() -> None:
    """Those that wait for a phase that never speaks are no longer kept from the broker."""
    phases = phases_of("abc", REGISTER)
    waiting = [Pending(at_ms, at_ms, f"{phase}{at_ms}") for phase in "ab" for at_ms in (1, 2)]
    for one in waiting:
        assert phases.accept(str(one.token)[0], one).sum is None
    assert give_back(phases.forget()) == [one.token for one in waiting]
