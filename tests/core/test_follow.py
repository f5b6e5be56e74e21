"""The ordinary case in one step: what the core does is what it does without that step, draw for draw."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.charges import Spending
from meteragent.core.pending import Outcome, Pending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.core.timeline import Timeline, extend_standing
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, UNITS, Kind
from meteragent.privacy import SeededBits
from tests.core.strategies import all_terms
from tests.core.test_pipeline import SLOT, core, feed
from tests.core.test_window import timeline
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, message, stream

LONG = terms_with(TERMS, length_ms=40, step_ms=20)


class Pair:
    """Two cores from the same bits, one of which takes no short way."""

    def __init__(self, terms: Terms) -> None:
        known = stream(terms)
        self.counts = Counts(), Counts()
        self.short, self.plain = (
            Pipeline(known, Snapshot({}, {}, {}), Spending(), SeededBits(3), counts) for counts in self.counts
        )

    def feed(self, batch: Sequence[Message], now_ms: int, closing_ms: int) -> None:
        """The same to both; they must answer alike."""
        one = self.short.feed(batch, now_ms, closing_ms)
        with patch("meteragent.core.pipeline.extend_standing", lambda *_: None):
            other = self.plain.feed(batch, now_ms, closing_ms)
        assert told(one) == told(other)
        assert self.counts[0] == self.counts[1]
        for closing in (True, False):
            assert self.short.deadline_ms(includes_closings=closing) == self.plain.deadline_ms(
                includes_closings=closing
            )


def told(effects: Effects) -> tuple[Any, ...]:
    """What the shell is told, and in which order."""
    return effects.commit, [*effects.commit.states], effects.acknowledge


readings = st.tuples(
    st.sampled_from(["m1", "m1", "m2"]),
    st.sampled_from([1, 1, 2, 3, 7, 0, 30]),  # so long after the one before
    st.sampled_from([0, 0, 0, 1, 3, -1, -4, 20]),  # its time after its arrival
    st.sampled_from(["0", "1", "2.5", "-3", "0.0000005", "1e15", "x"]),
)
batches = st.lists(
    st.tuples(st.lists(readings, max_size=6), st.sampled_from([0, 0, 1, 5]), st.sampled_from([0, 0, 0, 4])),
    min_size=2,
    max_size=10,
)


long_terms = st.builds(
    lambda kind, clock, hold_ms: terms_with(
        LONG,
        kind=kind,
        unit=UNITS[kind][0],
        clock=clock,
        hold_ms=hold_ms if kind is Kind.POWER else 0,
        interval_ms=0 if kind is Kind.POWER else 5,
    ),
    st.sampled_from([Kind.POWER, Kind.POWER, Kind.INTERVAL_ENERGY, Kind.REGISTER]),
    st.sampled_from(Clock),
    st.sampled_from([5, 9, 50]),
)
"""Slots that hold several readings."""


@given(st.one_of(all_terms, long_terms), batches)
def test_the_short_way_is_the_plain_one(terms: Terms, program: list[Any]) -> None:
    """Commits, acknowledgements, counters and deadlines are the same, whatever comes in whichever order."""
    pair, now_ms, token = Pair(terms), 0, 0
    for batch, pause_ms, waits_ms in program:
        messages = []
        for meter, after_ms, off_ms, value in batch:
            now_ms, token = now_ms + after_ms, token + 1
            messages.append(message(now_ms + off_ms, value, meter=meter, received_ms=now_ms, token=token))
        now_ms += pause_ms
        pair.feed(messages, BASE_MS + now_ms, BASE_MS + now_ms - waits_ms)


class Meter:
    """A meter with one open slot, and the spans that it integrates."""

    def __init__(self, terms: Terms) -> None:
        self.timeline = timeline(terms)
        window = self.timeline.windows[0]
        window.draws, window.slots = 1, {0: 0}
        self.spans: list[tuple[int, int, object]] = []
        self.timeline.observe = self.note

    def note(self, start_ms: int, end_ms: int, value: object) -> None:
        """Note a span, unless it is empty."""
        if start_ms < end_ms:
            self.spans.append((start_ms, end_ms, value))

    def all(self) -> tuple[Any, ...]:
        """All that a later reading may meet."""
        meter = self.timeline
        times = meter.integrated_until_ms, meter.standing_ms, meter.newest_ms, meter.idle_windows
        sums = [(window.slots, window.reading_bits) for window in meter.windows]
        return times, sums, meter.pending, list(meter.recent_ms), self.spans


@given(
    hold_ms=st.sampled_from([2, 5, 50]),
    gap_u=st.sampled_from([0, 2 * MICRO]),
    restarted_ms=st.none() | st.integers(0, 30),
    steps=st.lists(
        st.tuples(st.integers(-3, 9), st.integers(-1, 5), st.integers(0, 9), st.integers(0, 2)), max_size=60
    ),
)
def test_a_step_leaves_what_the_plain_way_leaves(
    hold_ms: int, gap_u: int, restarted_ms: int | None, steps: list[tuple[int, int, int, int]]
) -> None:
    """Where the short way is taken, it leaves all sums, times and readings as the plain way does."""
    short, plain = (
        Meter(terms_with(LONG, length_ms=400, step_ms=200, hold_ms=hold_ms, gap_u=gap_u)) for _ in range(2)
    )
    for meter in (short, plain):
        meter.timeline.newest_ms = restarted_ms
    now_ms = 0
    for token, (after_ms, ahead_ms, watts, idle) in enumerate(steps):
        reading = Pending(max(now_ms + after_ms, 0), watts * MICRO, token)
        now_ms = max(now_ms, reading.time_ms)
        clock_ms = min(now_ms + ahead_ms, 199)  # the slot is open
        freed = []
        for meter, is_short in ((short, True), (plain, False)):
            line = meter.timeline
            line.idle_windows = idle
            stood = extend_standing(line, reading, clock_ms) if is_short else None
            if stood is None:
                _, tokens = line.accept_reading(reading)
                freed.append([*tokens, *line.integrate_to_watermark(clock_ms)])
            else:
                freed.append([stood.token])
        assert freed[0] == freed[1]
        assert short.all() == plain.all()


def waiting(terms: Terms = LONG, slots: int = 1) -> Timeline:
    """A meter with a reading of 7 W at 3 ms, which stands in the first of several open slots."""
    meter = timeline(terms)
    window = meter.windows[0]
    window.draws, window.slots = slots, dict.fromkeys(range(slots), 0)
    assert meter.accept_reading(Pending(3, 7 * MICRO, "stood")) == (Outcome.ACCEPTED, [])
    meter.integrate_until(3)
    assert [p.time_ms for p in meter.pending] == [3]
    return meter


def test_an_ordinary_reading_takes_one_step() -> None:
    """One after the one that stands, in the same slot, by the clock: the one that stood is free and known."""
    meter = waiting()
    stood = extend_standing(meter, Pending(6, 9 * MICRO, "new"), 6)
    assert stood is not None
    assert stood.token == "stood"
    assert [p.token for p in meter.pending] == ["new"]
    assert meter.windows[0].slots == {0: 3 * 7 * MICRO}
    assert (meter.integrated_until_ms, meter.standing_ms, meter.newest_ms) == (6, 6, 6)
    assert meter.refusal_outcome(3) is Outcome.DUPLICATE


def test_what_stood_for_hold_is_followed_by_gap() -> None:
    """A reading that comes after `hold` finds the rest of the time at the gap's value."""
    meter = waiting(terms_with(LONG, hold_ms=4, gap_u=2 * MICRO))
    before = meter.windows[0].slots[0]
    assert extend_standing(meter, Pending(10, 9 * MICRO, "new"), 10) is not None
    assert meter.windows[0].slots[0] - before == 4 * 7 * MICRO + 3 * 2 * MICRO


def test_the_last_readings_are_remembered() -> None:
    """128 readings back a time that comes again is a duplicate; far back it may be late."""
    meter = waiting(terms_with(LONG, length_ms=2000, step_ms=1000))
    for time_ms in range(4, 600):
        assert extend_standing(meter, Pending(time_ms, MICRO, ""), time_ms) is not None
    assert all(meter.refusal_outcome(time_ms) is Outcome.DUPLICATE for time_ms in range(471, 599))
    assert meter.refusal_outcome(3) is Outcome.LATE
    assert len(meter.recent_ms) < 200


def not_ordinary() -> list[tuple[str, Timeline, int, int]]:
    """Why another way, a meter, and a reading's time and the clock."""
    told_more, ended = waiting(), waiting(terms_with(LONG, hold_ms=2))
    told_more.newest_ms = 9
    ended.integrated_until_ms = 6
    return [
        ("its time is known", waiting(), 3, 50),
        ("older", waiting(), 2, 50),
        ("at the end of the slot", waiting(), 20, 50),
        ("beyond the clock", waiting(), 6, 5),
        ("lateness", waiting(replace(LONG, lateness_ms=1)), 6, 50),
        ("a register", waiting(terms_with(LONG, kind=Kind.REGISTER, unit="Wh")), 6, 50),
        ("two slots are open", waiting(slots=2), 6, 50),
        ("a newer one was told before a stop", told_more, 6, 50),
        ("what stands has ended, by the terms of now", ended, 8, 50),
    ]


@pytest.mark.parametrize(
    ("meter", "time_ms", "clock_ms"), [pytest.param(*c, id=why) for why, *c in not_ordinary()]
)
def test_what_is_not_ordinary_changes_nothing(meter: Timeline, time_ms: int, clock_ms: int) -> None:
    """It takes the other way: nothing is covered, nothing is free."""
    before, held = meter.stored_state(), [*meter.pending]
    assert extend_standing(meter, Pending(time_ms, 9 * MICRO, "new"), clock_ms) is None
    assert (meter.stored_state(), meter.pending) == (before, held)


def test_slots_close_before_a_later_message_of_the_same_batch() -> None:
    """Also where nothing opens any more: a meter that is gone by then is a new one (law 4)."""
    pipeline = core(replace(SLOT, lateness_ms=3), forget_ms=8)
    feed(pipeline, message(1, 1))
    feed(pipeline, now_ms=13)
    assert pipeline.deadline_ms(includes_closings=False) is None
    assert pipeline.deadline_ms(includes_closings=True) == BASE_MS + 15
    feed(pipeline, message(17, 1))
    assert pipeline._counts["forgotten"] == 1
