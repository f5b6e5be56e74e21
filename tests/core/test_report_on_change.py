"""Meters that report on change: what their dead band makes of the promise, and of the schedule."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.pending import Pending
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain.commit import Outgoing
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO
from simulators.homes.meter import Meter, Readings
from tests.core.test_pipeline import core
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, message

SECONDS = 60
LONGEST_S = 15
ON_CHANGE = terms_with(TERMS, length_ms=30_000, step_ms=10_000, hold_ms=LONGEST_S * 1000)


def reported(watts: list[int], dead_band_w: float) -> Readings:
    """What a meter says of a curve by the second, from time 0."""
    return Meter().on_change(watts, 0, 1, dead_band_w, LONGEST_S)


def means(readings: Readings, terms: Terms) -> list[Fraction]:
    """The exact means of the slots of a minute."""
    meter = Timeline(terms, 0)
    for start_ms in range(0, 1000 * SECONDS, terms.length_ms):
        window = Window(start_ms, terms, terms.id, (), "m1", noise_bound=0)
        for _ in range(terms.n):
            window.open_slot(0, start_ms, 0)
        meter.windows.append(window)
    for time_ms, value in zip(readings.times_ms.tolist(), readings.values.tolist(), strict=True):
        meter.accept_reading(Pending(time_ms, round(value) * MICRO, None))
        meter.integrate_to_watermark(time_ms)
    meter.integrate_until(1000 * SECONDS)
    return [
        Fraction(total, terms.steps_per_quantum[0])
        for window in meter.windows
        for total in window.slots.values()
    ]


curves = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3000)), min_size=1, max_size=20).map(
    lambda parts: [watts for seconds, watts in parts for _ in range(seconds)]
)


@given(curves, st.lists(st.integers(-100, 100), min_size=1, max_size=SECONDS), st.integers(0, 60))
def test_curves_within_r_give_slots_within_r_and_two_dead_bands(
    curve: list[int], moved: list[int], dead_band_w: int
) -> None:
    """However the times of the reports depend on the load: what stands is within the band of the power."""
    one = (curve * SECONDS)[:SECONDS]
    other = [watts + more for watts, more in zip(one, moved * SECONDS, strict=False)]
    radius = max(abs(a - b) for a, b in zip(one, other, strict=True))
    wide = terms_with(ON_CHANGE, low_u=-(10**12))
    slots = [means(reported(watts, dead_band_w), wide) for watts in (one, other)]
    assert max(abs(a - b) for a, b in zip(*slots, strict=True)) <= radius + 2 * dead_band_w
    for watts, found in zip((one, other), slots, strict=True):
        exact = [Fraction(sum(watts[at : at + 10]), 10) for at in range(0, SECONDS, 10)]
        assert max(abs(a - b) for a, b in zip(exact, found, strict=True)) <= dead_band_w


def test_a_dead_band_moves_slots_by_more_than_the_curves() -> None:
    """A watt more is said where a watt less is not: the allowance for the dead band is needed."""
    one, other = [90] + [100] * 59, [90] + [101] * 59
    slots = [means(reported(watts, 10), ON_CHANGE) for watts in (one, other)]
    assert abs(slots[0][1] - slots[1][1]) > 1 + 2


FLAT = [80] * SECONDS
BUSY = [80 if second % 7 else 2000 + 37 * second for second in range(SECONDS)]


def left(watts: list[int], terms: Terms) -> list[Outgoing]:
    """What the core lets leave of a home, woken by readings and by its own deadlines."""
    pipeline, rows = core(terms, spread_ms=5000), list[Outgoing]()
    readings = reported(watts, 10)
    arrivals = [
        message(time_ms + 1, value, token=time_ms)
        for time_ms, value in zip(readings.times_ms.tolist(), readings.values.tolist(), strict=True)
    ]
    wakes_ms = sorted({one.received_ms for one in arrivals} | set(range(BASE_MS, BASE_MS + 90_000, 9000)))
    for before_ms, now_ms in pairwise([BASE_MS - 1, *wakes_ms]):
        while (due_ms := pipeline.deadline_ms(includes_closings=True)) is not None and due_ms <= now_ms:
            rows += pipeline.feed([], due_ms, due_ms).commit.outgoing
        batch = [one for one in arrivals if before_ms < one.received_ms <= now_ms]
        rows += pipeline.feed(batch, now_ms, now_ms).commit.outgoing
    return rows


@pytest.mark.parametrize("lateness_ms", [0, 4000])
def test_a_flat_and_a_busy_home_leave_the_same_schedule(lateness_ms: int) -> None:
    """Times, topics, kinds and number of what leaves are identical; so is all in them but the values."""
    terms = replace(ON_CHANGE, lateness_ms=lateness_ms, clock=Clock.WALL)
    assert len(reported(BUSY, 10)) > 3 * len(reported(FLAT, 10))
    flat, busy = left(FLAT, terms), left(BUSY, terms)
    assert [row._replace(payload=b"") for row in flat] == [row._replace(payload=b"") for row in busy]
    assert len([row for row in flat if not row.retain]) >= 4
    assert [row.payload for row in flat] != [row.payload for row in busy]
    for one, other in zip(flat, busy, strict=True):
        facts = [json.loads(row.payload) | {"value": None} for row in (one, other)]
        assert facts[0] == facts[1]
        assert [*facts[0]] == [*facts[1]]
