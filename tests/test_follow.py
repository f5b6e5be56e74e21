"""The ordinary case in one step: what the core does is what it does without that step, draw for draw."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from meteragent.health import Counts
from meteragent.pipeline import Effects, Pipeline, Spending
from meteragent.privacy import SeededBits
from meteragent.reading import Message
from meteragent.release import MICRO, UNITS, Clock, Kind, Snapshot, Terms
from meteragent.window import Outcome, Pending, Timeline
from tests.strategies import all_terms
from tests.test_window import timeline
from tests.witness import TERMS
from tests.world import BASE_MS, message, stream

LONG = replace(TERMS, length_ms=40, step_ms=20)


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
        with patch.object(Timeline, "follow", lambda *_: None):
            other = self.plain.feed(batch, now_ms, closing_ms)
        assert told(one) == told(other)
        assert self.counts[0] == self.counts[1]
        for closing in (True, False):
            assert self.short.deadline_ms(closing=closing) == self.plain.deadline_ms(closing=closing)


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
    lambda kind, clock, hold_ms: replace(
        LONG, kind=kind, unit=UNITS[kind][0], clock=clock, hold_ms=hold_ms, interval_ms=5
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


def waiting(terms: Terms = LONG) -> Timeline:
    """A meter with a reading that stands in an open slot."""
    meter = timeline(terms)
    for place in list(meter.windows[0].slots)[1:]:
        del meter.windows[0].slots[place]
    meter.windows[0].drawn = 1
    assert meter.accept(Pending(3, 7 * MICRO, "stood")) == (Outcome.ACCEPTED, [])
    assert meter.cover_spans(3) == []
    return meter


def test_an_ordinary_reading_takes_one_step() -> None:
    """One after the one that stands, in the same slot, by the clock: the one that stood is free."""
    meter = waiting()
    stood = meter.follow(Pending(6, 9 * MICRO, "new"), 6)
    assert stood is not None
    assert stood.token == "stood"
    assert [p.token for p in meter.pending] == ["new"]
    assert meter.windows[0].slots == {0: 3 * 7 * MICRO}
    assert (meter.covered_ms, meter.standing_ms, meter.newest_ms) == (6, 6, 6)


def test_what_is_not_ordinary_changes_nothing() -> None:
    """Older, of the same time, beyond the slot or the clock, with `lateness`, of a register: another way."""
    others = [
        (waiting(), 3, 50),
        (waiting(), 2, 50),
        (waiting(), 20, 50),
        (waiting(), 6, 5),
        (waiting(replace(LONG, lateness_ms=1)), 6, 50),
        (waiting(replace(LONG, kind=Kind.REGISTER, unit="Wh")), 6, 50),
    ]
    for meter, time_ms, clock_ms in others:
        before, held = meter.state(), [*meter.pending]
        assert meter.follow(Pending(time_ms, 9 * MICRO, "new"), clock_ms) is None
        assert (meter.state(), meter.pending) == (before, held)
