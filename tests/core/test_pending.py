"""One sender cannot fill the memory: what waits for its time is bounded, and what goes is counted."""

import tracemalloc
from typing import Any

import pytest

from meteragent.core.charges import Spending
from meteragent.core.factory import make_timeline
from meteragent.core.pending import PENDING_MAX, Outcome, Pending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO, Kind
from meteragent.privacy import SeededBits
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, stream

LONG = terms_with(TERMS, length_ms=100_000, step_ms=100_000, hold_ms=100_000, high_u=10**6 * MICRO)
REGISTER = terms_with(LONG, kind=Kind.REGISTER, unit="Wh", hold_ms=0, interval_ms=HOUR_MS)
INTERVAL = terms_with(LONG, kind=Kind.INTERVAL_ENERGY, unit="Wh", hold_ms=0, interval_ms=1000)


def opened(terms: Terms) -> Timeline:
    """A meter whose first window is open, without noise."""
    timeline = make_timeline(terms, 0)
    window = Window(0, terms, terms.id, (), "m1", noise_bound=0)
    window.open_slot(0, 0, 0)
    timeline.windows = [window]
    timeline.next_ms = terms.length_ms
    return timeline


@pytest.mark.parametrize("terms", [LONG, REGISTER, INTERVAL], ids=str)
def test_pending_readings_are_bounded_and_those_dropped_are_given_back(terms: Terms) -> None:
    """Of very many the first and the last stay, in order of time; each other token is given back once."""
    timeline, free, most = opened(terms), list[Any](), 0
    for time_ms in range(1, 20_001):
        outcome, tokens = timeline.accept_reading(Pending(time_ms, time_ms, time_ms))
        assert outcome is Outcome.ACCEPTED
        free += tokens
        most = max(most, len(timeline.pending))
    held = [reading.time_ms for reading in timeline.pending]
    assert most == PENDING_MAX
    assert (held[0], held[-1]) == (1, 20_000)
    assert held == sorted(held)
    assert len(free) == timeline.thinned_count == len(set(free))
    assert sorted([*free, *held]) == list(range(1, 20_001))


def test_thinning_keeps_a_slot_nearly_right() -> None:
    """A ramp of power keeps its mean to a part in a thousand, and a register's slot is exact."""
    cases: list[tuple[Terms, int]] = [(LONG, 99_995 * 100_000 // 2), (REGISTER, 99_995 * HOUR_MS)]
    for terms, expected in cases:
        timeline = opened(terms)
        for time_ms in range(0, 100_000, 5):
            timeline.accept_reading(Pending(time_ms, time_ms, None))
        assert timeline.thinned_count > 10_000
        timeline.integrate_until(100_000)
        [energy] = timeline.windows[0].slots.values()
        off = expected // 1000 if terms is LONG else 0
        assert expected - off <= energy <= expected + off


def thousands(stream_: Stream, topics: list[str], many: int) -> tuple[Counts, int]:
    """So many readings of one meter, each of another millisecond to come: counts, and tokens given back."""
    counts, returned = Counts(), 0
    pipeline = Pipeline(stream_, Snapshot({}, {}, {}), Spending(), SeededBits(1), counts)
    first = Message(topics[0], b'{"t":%d,"power":1}' % BASE_MS, False, BASE_MS, None)
    pipeline.feed([first], BASE_MS, BASE_MS)
    now_ms = BASE_MS + TERMS.length_ms
    for at in range(0, many, 500):
        batch = [
            Message(
                topics[k % len(topics)], b'{"t":%d,"power":1}' % (now_ms + 1 + k), False, now_ms, object()
            )
            for k in range(at, at + 500)
        ]
        returned += len(pipeline.feed(batch, now_ms, now_ms).acknowledge)
    return counts, returned


@pytest.mark.slow("sends until nothing more is kept")
def test_readings_of_the_future_do_not_fill_the_memory() -> None:
    """Twenty thousand readings that a meter stamps ahead take 2 MB at most, are counted and given back."""
    tracemalloc.start()
    try:
        counts, returned = thousands(stream(ahead_ms=10**6), ["meters/m1/power"], 20_000)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2 * 2**20
    assert returned - 1 == counts["thinned"] >= 20_000 - PENDING_MAX
    assert counts["accepted"] == 20_001


@pytest.mark.slow("sends until nothing more is kept")
@pytest.mark.parametrize("kind", [Kind.POWER, Kind.REGISTER])
@pytest.mark.parametrize("speaking", ["a", "abc"])
def test_phases_of_the_future_do_not_fill_the_memory(kind: Kind, speaking: str) -> None:
    """Nor do those of phases, whether all speak or one: sums are dropped, and what they were made of."""
    unit, interval_ms = ("W", 0) if kind is Kind.POWER else ("Wh", HOUR_MS)
    terms = terms_with(TERMS, kind=kind, unit=unit, interval_ms=interval_ms)
    source = SourceTopic.parse("meters/{meter}/{phase}/power", phases=("a", "b", "c"))
    topics = [f"meters/m1/{phase}/power" for phase in speaking]
    _, returned = thousands(stream(terms, source=source, ahead_ms=10**6), topics, 30_000)
    assert returned >= 30_000 - 2 * 3 * PENDING_MAX  # a sum is of two readings of each phase at most
