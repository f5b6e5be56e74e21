"""Accumulators on the grid: one meter of one stream, its readings and its open windows.

Theory of operation
-------------------
A timeline turns readings into integrals over slots. `covered_ms` splits time in two: what came
before has been added to the accumulators of its slots and is never looked at again; what comes
after is still decided by the pending readings, kept in order of their time. Covering moves the
split forward. Time passes only as an argument; the timeline says when it wants to be woken
(`next_open_ms`, `next_close_ms`).

An accumulator counts in millionths of the unit times milliseconds and is born as noise * lattice,
before any reading is added to it (THEORY 3.4): at no time does it hold the energy alone. What a copy
of it tells at one moment is the energy modulo lattice = quantum * slot length, because the noise is a
multiple of that. It cannot be helped while rounding is exact: what is stored decides for every
energy still to come where the rounding jumps, and that is this remainder.

The rules
---------
1. A power reading stands until the next one, for at most `hold`; an interval reading covers the
   `interval` that ends at its time, but nothing that an earlier one covers. The rest is gap.
2. Time is covered once: a reading whose span is wholly covered is refused, one whose span is
   partly covered counts from there (law 7).
3. A reading's token is given back when its whole span is covered, never before.
4. At most n noise values are ever drawn for one window, each slot's when it opens (THEORY 2.1).
5. A slot is covered only after it was opened: `covered_ms` never passes the clock.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from meteragent.errors import MeteragentError
from meteragent.reading import Token
from meteragent.release import Kind, OpenWindow, Slot, Terms, TimelineState

_SEEN = 32
"""How many times of covered readings are remembered, to tell `duplicate` from `late`."""


class Outcome(StrEnum):
    """What became of a reading; the name of its counter."""

    ACCEPTED = "accepted"
    LATE = "late"
    DUPLICATE = "duplicate"
    EARLY = "early"


class Pending(NamedTuple):
    """A reading whose span is not wholly covered, and the token that acknowledges it."""

    time_ms: int
    value_u: int
    token: Token


@dataclass(slots=True)
class Window:
    """An open window: the secret R, how many slots were drawn from it, the open accumulators."""

    start_ms: int
    terms: Terms
    terms_id: str
    topic: str
    label: str
    radius: int
    drawn: int = 0
    slots: dict[int, int] = field(default_factory=dict)
    fed: set[int] = field(default_factory=set)

    @property
    def end_ms(self) -> int:
        """Where the window ends."""
        return self.start_ms + self.terms.length_ms

    def slot_start_ms(self, index: int) -> int:
        """Where a slot starts."""
        return self.start_ms + self.terms.stretches(index)[0][0]

    def slot_end_ms(self, index: int) -> int:
        """Where a slot ends."""
        return self.start_ms + self.terms.stretches(index)[-1][1]

    @property
    def next_slot(self) -> int:
        """The open slot that ends first."""
        if self.terms.bands:
            return min(self.slots, key=self.slot_end_ms)
        return next(iter(self.slots))

    def draw(self, noise: int, covered_ms: int) -> None:
        """Open the next slot with its noise; time of it that is covered already is gap.

        Raises MeteragentError when all n slots were drawn (rule 4).
        """
        if self.drawn >= self.terms.n:
            raise MeteragentError("more draws than slots from one radius")
        index, self.drawn = self.drawn, self.drawn + 1
        skipped_ms = self.terms.slot_ms(index) - self._left_ms(index, covered_ms)
        self.slots[index] = noise * self.terms.lattice(index) + self.terms.gap_u * skipped_ms

    def add(self, start_ms: int, end_ms: int, value_u: int | None) -> None:
        """Add a value (None: the gap's) over a stretch of time to the slots it touches."""
        start_ms, end_ms = max(start_ms, self.start_ms), min(end_ms, self.end_ms)
        if start_ms >= end_ms:
            return
        terms = self.terms
        value = terms.gap_u if value_u is None else min(max(value_u, terms.low_u), terms.high_u)
        for index, duration_ms in self._touched(start_ms - self.start_ms, end_ms - self.start_ms):
            self.slots[index] += value * duration_ms
            if value_u is not None:
                self.fed.add(index)

    def _touched(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
        """The slots that a stretch of the window's time lies in, and how long in each."""
        terms, step_ms = self.terms, self.terms.step_ms
        if not terms.bands:
            for index in range(from_ms // step_ms, (to_ms - 1) // step_ms + 1):
                yield index, min(to_ms, (index + 1) * step_ms) - max(from_ms, index * step_ms)
            return
        for index, (_, stretches) in enumerate(terms.bands):
            at = bisect_right(stretches, from_ms, key=itemgetter(1))
            while at < len(stretches) and stretches[at][0] < to_ms:
                yield index, min(to_ms, stretches[at][1]) - max(from_ms, stretches[at][0])
                at += 1

    def _left_ms(self, index: int, time_ms: int) -> int:
        """How much of a slot comes at or after a time."""
        at_ms = time_ms - self.start_ms
        return sum(max(end - max(start, at_ms), 0) for start, end in self.terms.stretches(index))

    def seal(self, covered_ms: int) -> None:
        """Fill what is not covered of the open slots with gap."""
        for index in self.slots:
            self.slots[index] += self.terms.gap_u * self._left_ms(index, covered_ms)

    def close(self, index: int) -> int:
        """Take a slot out: its released value in quanta, floor(A / lattice + 1/2) (THEORY 3.4)."""
        accumulator = self.slots.pop(index)
        lattice = self.terms.lattice(index)
        return (2 * accumulator + lattice) // (2 * lattice)

    def state(self) -> OpenWindow:
        """What the store keeps of it."""
        slots = tuple(Slot(index, accumulator) for index, accumulator in self.slots.items())
        return OpenWindow(
            self.start_ms,
            self.terms_id,
            self.topic,
            self.label,
            self.radius,
            self.drawn,
            slots,
        )


class Timeline:
    """One meter of one stream: pending readings and open windows (see the module's theory)."""

    __slots__ = (
        "covered_ms",
        "idle",
        "newest_ms",
        "next_ms",
        "pending",
        "seen",
        "standing_ms",
        "terms",
        "windows",
    )

    def __init__(self, terms: Terms, first_ms: int) -> None:
        """A meter first seen: its first window starts at `first_ms`, a boundary of its grid."""
        self.terms = terms
        self.covered_ms = first_ms
        self.next_ms: int | None = first_ms
        self.standing_ms: int | None = None
        self.newest_ms: int | None = None
        self.idle = 0
        self.pending: list[Pending] = []
        self.windows: list[Window] = []
        self.seen: deque[int] = deque(maxlen=_SEEN)

    @classmethod
    def restore(cls, terms: Terms, next_ms: int, state: TimelineState, known: dict[str, Terms]) -> "Timeline":
        """The timeline as the store kept it, with today's terms; old windows keep theirs.

        Where the readings no longer mean the same (kind, unit or interval differ), what is left
        of the open windows is gap.
        """
        self = cls(terms, next_ms)
        self.covered_ms = state.covered_ms
        self.standing_ms = state.standing_ms
        self.newest_ms = state.newest_ms
        self.idle = state.idle
        for w in state.windows:
            slots = {slot.place: slot.accumulator for slot in w.slots}
            old = terms if known[w.terms] == terms else known[w.terms]
            window = Window(w.start_ms, old, w.terms, w.topic, w.label, w.radius, w.drawn, slots)
            self.windows.append(window)
        if any(_meaning(w.terms) != _meaning(terms) for w in self.windows):
            self._seal()
        return self

    def _seal(self) -> None:
        """Fill the open windows with gap to their ends: no reading can speak for them."""
        for window in self.windows:
            window.seal(self.covered_ms)
        self.covered_ms = max(self.covered_ms, self.windows[-1].end_ms)

    def state(self) -> TimelineState:
        """What the store keeps of it."""
        windows = tuple(window.state() for window in self.windows)
        next_ms = self.next_ms if self.next_ms is not None else self.covered_ms
        return TimelineState(self.covered_ms, self.standing_ms, self.newest_ms, next_ms, self.idle, windows)

    @property
    def _rules(self) -> Terms:
        """How readings count now: as the oldest open window says (law 1), else today's terms."""
        if not self.windows or self.windows[0].terms is self.terms:
            return self.terms
        oldest = self.windows[0].terms
        return oldest if _meaning(oldest) == _meaning(self.terms) else self.terms

    # --- readings in ---------------------------------------------------------------------------

    def accept(self, reading: Pending) -> tuple[Outcome, list[Token]]:
        """Take in a reading; says what became of it and which tokens are free."""
        time_ms = reading.time_ms
        if self._wholly_covered(time_ms):
            return self._refusal(time_ms), [reading.token]
        at = bisect_left(self.pending, time_ms, key=itemgetter(0))
        if at < len(self.pending) and self.pending[at].time_ms == time_ms:
            return Outcome.DUPLICATE, [self._again(at, reading)]
        insort(self.pending, reading, key=itemgetter(0))
        self.newest_ms = time_ms if self.newest_ms is None else max(self.newest_ms, time_ms)
        self.idle = 0
        return Outcome.ACCEPTED, self._free() if time_ms <= self.covered_ms else []

    def _wholly_covered(self, time_ms: int) -> bool:
        if self._rules.kind is Kind.INTERVAL_ENERGY:
            return time_ms <= self.covered_ms
        older = self.standing_ms is not None and time_ms < self.standing_ms
        return older or time_ms + self._rules.hold_ms <= self.covered_ms

    def _refusal(self, time_ms: int) -> Outcome:
        if time_ms in self.seen:
            return Outcome.DUPLICATE
        waits = not self.windows and self.next_ms == self.covered_ms
        return Outcome.EARLY if waits else Outcome.LATE

    def _again(self, at: int, reading: Pending) -> Token:
        """A pending time seen again: the token to acknowledge at once.

        A redelivery takes the place of its first delivery, whose connection may be gone; a
        correction (another value) is refused.
        """
        held = self.pending[at]
        if held.value_u != reading.value_u:
            return reading.token
        self.pending[at] = reading
        return held.token

    # --- covering ------------------------------------------------------------------------------

    def cover_spans(self, clock_ms: int) -> list[Token]:
        """Cover the spans that the newest time has passed by `lateness` (rule 5: to the clock).

        Returns the tokens that are free.
        """
        if self.newest_ms is None:
            return []
        frontier_ms = min(self.newest_ms - self._rules.lateness_ms, clock_ms)
        passed = bisect_right(self.pending, frontier_ms, key=itemgetter(0))
        if passed == 0:
            return []
        until_ms = self.pending[passed - 1].time_ms
        if self._rules.kind is Kind.POWER and until_ms + self._rules.hold_ms <= frontier_ms:
            until_ms += self._rules.hold_ms
        return self.cover(until_ms)

    def cover(self, until_ms: int) -> list[Token]:
        """Add everything up to a time to the slots; returns the tokens that are free."""
        if until_ms <= self.covered_ms:
            return []
        at_ms = self.covered_ms
        for start_ms, end_ms, value_u in self._spans():
            if at_ms >= until_ms:
                break
            begin, end = min(max(start_ms, at_ms), until_ms), min(end_ms, until_ms)
            self._add(at_ms, begin, None)
            self._add(begin, end, value_u)
            at_ms = max(begin, end)
        self._add(at_ms, until_ms, None)
        self.covered_ms = until_ms
        return self._free()

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        """The pending readings as (start, end, value), in order; only starts may overlap.

        One by one: a long `lateness` keeps thousands pending, and covering needs the first few.
        """
        if self._rules.kind is Kind.INTERVAL_ENERGY:
            interval = self._rules.interval_ms
            return ((p.time_ms - interval, p.time_ms, p.value_u) for p in self.pending)
        return ((p.time_ms, self._end_ms(at), p.value_u) for at, p in enumerate(self.pending))

    def _end_ms(self, at: int) -> int:
        """Where the span of a pending reading ends."""
        time_ms = self.pending[at].time_ms
        if self._rules.kind is Kind.INTERVAL_ENERGY:
            return time_ms
        end_ms = time_ms + self._rules.hold_ms
        if at + 1 < len(self.pending):
            end_ms = min(end_ms, self.pending[at + 1].time_ms)
        return end_ms

    def _add(self, start_ms: int, end_ms: int, value_u: int | None) -> None:
        if start_ms < end_ms:
            for window in self.windows:
                window.add(start_ms, end_ms, value_u)

    def _free(self) -> list[Token]:
        """Drop the pending readings whose span is wholly covered; returns their tokens (rule 3)."""
        done = bisect_right(self.pending, self.covered_ms, key=itemgetter(0))
        if done == 0:
            return []
        self.standing_ms = max(self.standing_ms or 0, self.pending[done - 1].time_ms)
        if self._end_ms(done - 1) > self.covered_ms:
            done -= 1
        free, self.pending = self.pending[:done], self.pending[done:]
        self.seen.extend(p.time_ms for p in free)
        return [p.token for p in free]

    # --- the schedule --------------------------------------------------------------------------

    def next_open_ms(self) -> int | None:
        """When the next slot or window opens; None when the meter is to be forgotten."""
        if self.windows and self.windows[-1].drawn < self.windows[-1].terms.n:
            return self.windows[-1].slot_start_ms(self.windows[-1].drawn)
        return self.next_ms

    def next_close_ms(self) -> int | None:
        """When the next slot closes: its end + lateness; None when no slot is open."""
        for window in self.windows:
            if window.slots:
                return window.slot_end_ms(window.next_slot) + window.terms.lateness_ms
        return None


def _meaning(terms: Terms) -> tuple[Kind, str, int]:
    return terms.kind, terms.unit, terms.interval_ms
