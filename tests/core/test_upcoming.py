"""The number that leaves next, as the page announces it, against what the pipeline then releases."""

import json
from dataclasses import replace
from typing import Any

import pytest

from meteragent.core.charges import Spending
from meteragent.core.deadlines import Upcoming
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy import SeededBits
from tests.core.test_calendar_stream import schedule
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, message, stream

LATE = replace(TERMS, lateness_ms=3)
"""Windows of 12 ms in slots of 4 ms, which close 3 ms after their end."""


def core(known: Any = LATE, **changes: Any) -> Pipeline:
    """A core that has heard nothing."""
    spending, bits = Spending(), SeededBits(1)
    return Pipeline(stream(known, **changes), Snapshot({}, {}, {}), spending, bits, Counts())


def slot(start_ms: int, end_ms: int, leaves_ms: int) -> Upcoming:
    """A slot in milliseconds after the start of the world."""
    return Upcoming(BASE_MS + start_ms, BASE_MS + end_ms, BASE_MS + leaves_ms)


def test_the_first_number_is_that_of_the_first_whole_window() -> None:
    """A meter that is first heard in mid-slot has its first number after the next window's first slot."""
    pipeline = core()
    assert pipeline.upcoming_slot("m1") is None
    pipeline.feed([message(1, 5)], BASE_MS + 1, BASE_MS + 1)
    assert pipeline.upcoming_slot("m1") == slot(12, 16, 19)


@pytest.mark.parametrize("delay_ms", [0, 5])
def test_what_is_announced_is_what_leaves(delay_ms: int) -> None:
    """Step by step: the next record is that of the announced slot, at the announced time and not before."""
    pipeline = core(spread_ms=delay_ms)
    own_ms = pipeline._running.names["m1"].delay_ms
    assert 0 <= own_ms <= delay_ms
    announced, left = None, []
    for now_ms in range(1, 40):
        now = BASE_MS + now_ms
        effects = pipeline.feed([message(now_ms, 5)], now, now)
        for row in effects.commit.outgoing:
            if row.retain:
                continue
            assert announced is not None
            assert json.loads(row.payload)["t"] == iso_time(announced.start_ms)
            assert (now + own_ms, row.due_ms) == (announced.leaves_ms, announced.leaves_ms)
            left.append(announced.start_ms - BASE_MS)
        announced = pipeline.upcoming_slot("m1")
        assert announced is not None
        assert announced.leaves_ms > now
    assert left == [12, 16, 20, 24, 28, 32]


def test_under_the_event_clock_records_have_no_delay() -> None:
    """A meter's delay is that of the wall clock, so it is not announced where readings close the slots."""
    pipeline = core(replace(LATE, clock=Clock.EVENT), spread_ms=5)
    assert pipeline._running.names["m1"].delay_ms > 0
    pipeline.feed([message(1, 5)], BASE_MS + 1, BASE_MS + 1)
    assert pipeline.upcoming_slot("m1") == slot(12, 16, 19)


def test_of_a_mean_day_it_is_the_band_that_ends_first() -> None:
    """Of a month's mean day the band that ends first leaves first, not the one that begins first."""
    bands = "length = '1mo'\nbands = ['22-06', '06-22']"
    pipeline = core(schedule("space = 'profile'\nradius = 100", bands))
    heard_ms = parse_time("2026-11-10T09:00:00Z")
    pipeline.feed([message(heard_ms - BASE_MS, 5)], BASE_MS, BASE_MS)
    month_ms = parse_time("2026-11-30T23:00:00Z")
    start_ms, end_ms = month_ms + 6 * HOUR_MS, month_ms + 31 * DAY_MS - 2 * HOUR_MS
    assert pipeline.upcoming_slot("m1") == Upcoming(start_ms, end_ms, end_ms)


def test_a_meter_that_is_forgotten_has_none() -> None:
    """Once its stream has ended no number is due."""
    pipeline = core(forget_ms=24)
    pipeline.feed([message(1, 5)], BASE_MS + 1, BASE_MS + 1)
    for now_ms in range(2, 200):
        pipeline.feed([], BASE_MS + now_ms, BASE_MS + now_ms)
    assert not pipeline.meters()
    assert pipeline.upcoming_slot("m1") is None
