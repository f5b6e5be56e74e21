"""One meter of one stream: pending readings and open windows (the package says how it works)."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from meteragent.core.window import Used, Window
from meteragent.domain.commit import OpenWindow, TimelineState
from meteragent.domain.reading import Token
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind

_SEEN, _FORGOTTEN = 144, 16
"""So many times of covered readings are remembered, to tell `duplicate` from `late`; how many go at once."""
PENDING = 4096
"""Pending readings of a meter at most: a sender may stamp one for each millisecond of `ahead`."""


class Outcome(StrEnum):
    """What became of a reading; the name of its counter."""

    ACCEPTED = "accepted"
    LATE = "late"
    DUPLICATE = "duplicate"
    EARLY = "early"


class Pending(NamedTuple):
    """A reading whose span is not wholly covered, and the token that acknowledges it.

    `since_ms` is from when on it may stand for `hold`, if that is not its time: of a sum, the time of
    the oldest reading in it. `stamped` says that its time follows from its arrival.
    """

    time_ms: int
    value_u: int
    token: Token
    since_ms: int | None = None
    stamped: bool = False


class Timeline:
    """One meter of one stream, of power or of interval energy: pending readings and open windows."""

    __slots__ = (
        "covered_ms",
        "idle",
        "newest_ms",
        "next_ms",
        "observe",
        "pending",
        "seen",
        "standing_ms",
        "terms",
        "thinned",
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
        self.thinned = 0
        self.pending: list[Pending] = []
        self.windows: list[Window] = []
        self.seen = array("q")
        self.observe: Callable[[int, int, int | Used | None], None] | None = None

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
            old = terms if known[w.terms] == terms else known[w.terms]
            window = Window(w.start_ms, old, w.terms, w.topic, w.label, w.noise_bound, w.drawn, dict(w.slots))
            window.masked = w.masked
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
        windows = tuple([self._kept(window) for window in self.windows])
        next_ms = self.next_ms if self.next_ms is not None else self.covered_ms
        return TimelineState(self.covered_ms, self.standing_ms, self.newest_ms, next_ms, self.idle, windows)

    def _kept(self, window: Window) -> OpenWindow:
        return window.state()

    def counts(self) -> list[str]:
        """What is to be counted of the readings whose spans were covered since the last call."""
        return []

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
        if self._wholly_covered(reading):
            return self.refusal(time_ms), [reading.token]
        pending = self.pending
        if pending and time_ms <= pending[-1].time_ms:
            at = bisect_left(pending, time_ms, key=itemgetter(0))
            held = pending[at]
            if held.time_ms == time_ms:
                if reading.stamped and self._gives_way(held):
                    pending[at] = reading
                    return Outcome.ACCEPTED, [held.token]
                return Outcome.DUPLICATE, [self._again(at, reading)]
            pending.insert(at, reading)
        else:
            pending.append(reading)
        self.hear(time_ms)
        free = self._thin() if len(pending) > PENDING else []
        return Outcome.ACCEPTED, [*free, *self._free()] if time_ms <= self.covered_ms else free

    def _thin(self) -> list[Token]:
        """Drop the pending readings that follow another most closely; return their tokens.

        Those that stay are about a 2,048th of their time apart or more, but for the last. Which ones go
        depends on times alone, never on a value. A power stands a little longer for that, a register loses
        nothing but when it was used; an interval's energy that no other covers is gap.
        """
        first, *between, last = self.pending
        apart_ms = 2 * (last.time_ms - first.time_ms) // PENDING
        kept, tokens = [first], []
        for reading in between:
            if reading.time_ms - kept[-1].time_ms < apart_ms:
                tokens.append(reading.token)
            else:
                kept.append(reading)
        self.pending[:] = *kept, last
        self.thinned += len(tokens)
        return tokens

    def _gives_way(self, _held: Pending) -> bool:
        """Whether a pending reading gives way to a newer one that its arrival stamps with the same time."""
        return True

    def revise(self, reading: Pending) -> tuple[Outcome, list[Token]]:
        """Take in the sum of a meter's phases: a later one of the same time takes the place of the first."""
        if self.pending and self.pending[-1].time_ms == reading.time_ms:
            held, self.pending[-1] = self.pending[-1], reading
            return Outcome.ACCEPTED, [held.token]
        return self.accept(reading)

    def hear(self, time_ms: int) -> None:
        """Note that the meter said something: its clock, and that it is not silent."""
        if self.newest_ms is None or self.newest_ms < time_ms:
            self.newest_ms = time_ms
        self.idle = 0

    def _wholly_covered(self, reading: Pending) -> bool:
        time_ms, rules = reading.time_ms, self._rules
        if rules.kind is Kind.INTERVAL_ENERGY:
            return time_ms <= self.covered_ms
        older = self.standing_ms is not None and time_ms < self.standing_ms
        from_ms = time_ms if reading.since_ms is None else reading.since_ms
        return older or from_ms + rules.hold_ms <= self.covered_ms

    def refusal(self, time_ms: int) -> Outcome:
        """Why a reading of time that is covered is refused."""
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

    def follow(self, reading: Pending, clock_ms: int) -> Pending | None:
        """`accept` and `cover_spans` in one step, of a power after the one that stands, in the same slot.

        Gives the one that stood, whose token is free. None: it is another case, and nothing has changed.
        """
        if len(self.pending) != 1 or len(self.windows) != 1:
            return None
        [held], [window], time_ms, from_ms = self.pending, self.windows, reading.time_ms, self.covered_ms
        end_ms = held.time_ms + window.terms.hold_ms
        if not (
            held.time_ms == self.newest_ms
            and held.time_ms <= from_ms < min(time_ms, end_ms)
            and time_ms <= clock_ms
            and (place := window.holding(from_ms, time_ms)) is not None
            and held.since_ms is None
        ):
            return None
        window.put(place, min(time_ms, end_ms) - from_ms, held.value_u)
        if end_ms < time_ms:
            window.put(place, time_ms - end_ms, None)
        if self.observe is not None:
            self.observe(from_ms, min(time_ms, end_ms), held.value_u)
            self.observe(min(time_ms, end_ms), time_ms, None)
        self.covered_ms = self.standing_ms = self.newest_ms = time_ms
        self.idle = 0
        self._remember(held.time_ms)
        self.pending[0] = reading
        return held

    # --- covering ------------------------------------------------------------------------------

    def cover_spans(self, clock_ms: int) -> list[Token]:
        """Cover the spans that the newest time has passed by `lateness` (rule 5: to the clock).

        Returns the tokens that are free.
        """
        if self.newest_ms is None:
            return []
        frontier_ms = min(self.newest_ms - self._rules.lateness_ms, clock_ms)
        if frontier_ms <= self.covered_ms:
            return self.cover(frontier_ms)  # nothing, but for a register that finds its slot again
        passed = self._up_to(frontier_ms)
        if passed == 0:
            return []
        until_ms, end_ms = self.pending[passed - 1].time_ms, self._end_ms(passed - 1)
        return self.cover(max(until_ms, end_ms) if end_ms <= frontier_ms else until_ms)

    def cover(self, until_ms: int) -> list[Token]:
        """Add everything up to a time to the slots; returns the tokens that are free."""
        at_ms = self.covered_ms
        if until_ms <= at_ms:
            return []
        for start_ms, end_ms, value in self._spans(until_ms):
            if at_ms < start_ms:
                self._add(at_ms, start_ms, None)
                at_ms = start_ms
            if at_ms < end_ms:
                self._add(at_ms, min(end_ms, until_ms), value)
                at_ms = min(end_ms, until_ms)
        if at_ms < until_ms:
            self._add(at_ms, until_ms, None)
        self.covered_ms = until_ms
        return self._free()

    def _add(self, start_ms: int, end_ms: int, value: int | Used | None) -> None:
        for window in self.windows:
            window.add(start_ms, end_ms, value)
        if self.observe is not None:
            self.observe(start_ms, end_ms, value)

    def _spans(self, until_ms: int) -> Iterator[tuple[int, int, int | Used | None]]:
        """What pending readings say of time before `until_ms`: (start, end, value), in order of both."""
        rules = self._rules
        before_ms = rules.interval_ms if rules.kind is Kind.INTERVAL_ENERGY else 0
        for at, reading in enumerate(self.pending):
            start_ms = reading.time_ms - before_ms
            if start_ms >= until_ms:
                return
            yield start_ms, self._end_ms(at), reading.value_u

    def _up_to(self, time_ms: int) -> int:
        """How many of the pending readings are of a time or before: few, for then they are done with."""
        passed = 0
        for reading in self.pending:
            if reading.time_ms > time_ms:
                break
            passed += 1
        return passed

    def _end_ms(self, at: int) -> int:
        """Where the span of a pending reading ends."""
        reading, rules = self.pending[at], self._rules
        if rules.kind is Kind.INTERVAL_ENERGY:
            return reading.time_ms
        since_ms = reading.since_ms
        end_ms = (reading.time_ms if since_ms is None else since_ms) + rules.hold_ms
        if at + 1 < len(self.pending):
            return min(end_ms, self.pending[at + 1].time_ms)
        return end_ms

    def _free(self) -> list[Token]:
        """Drop the pending readings whose span is wholly covered; returns their tokens (rule 3)."""
        done = self._up_to(self.covered_ms)
        if done == 0:
            return []
        self.standing_ms = max(self.standing_ms or 0, self.pending[done - 1].time_ms)
        if self._end_ms(done - 1) > self.covered_ms:
            done -= 1
        free, self.pending = self.pending[:done], self.pending[done:]
        for reading in free:
            self._remember(reading.time_ms)
        return [p.token for p in free]

    def _remember(self, time_ms: int) -> None:
        """Note the time of a reading whose span is covered."""
        if len(self.seen) == _SEEN:
            del self.seen[:_FORGOTTEN]
        self.seen.append(time_ms)

    # --- the schedule --------------------------------------------------------------------------

    def next_open_ms(self) -> int | None:
        """When the next slot or window opens; None when the meter is to be forgotten."""
        if self.windows and self.windows[-1].drawn < self.windows[-1].terms.n:
            return self.windows[-1].slot_start_ms(self.windows[-1].drawn)
        return self.next_ms

    def next_close_ms(self) -> int | None:
        """When the next slot closes: its end + lateness; None when no slot is open."""
        closing = self.closing()
        return None if closing is None else closing[0]

    def closing(self) -> tuple[int, Window, int] | None:
        """When the next slot closes, its window and its place there; None when no slot is open."""
        for window in self.windows:
            if window.slots:
                place = window.next_slot
                return window.slot_end_ms(place) + window.terms.lateness_ms, window, place
        return None


def _meaning(terms: Terms) -> tuple[Kind, str, int]:
    return terms.kind, terms.unit, terms.interval_ms
