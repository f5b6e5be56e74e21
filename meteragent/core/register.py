"""Registers: readings of a meter's counter, differenced on the grid before anything else (law 5).

Theory of operation
-------------------
A pair of consecutive readings (t0, r0), (t1, r1) says that r1 - r0 was used in [t0, t1], spread evenly:
the register is interpolated at the boundaries of the slots, and rounded down there to a whole unit of the
accumulator, W(b) = floor(r(b) * c); a slot gets W(end) - W(start). So a slot's value is a mean of the power
whose weights, span by span, sum to what the slot has of the span: the map from load curves to slot vectors
is 1-Lipschitz but for two units, 10^-12 of a quantum by default, and over a run without gaps the
values telescope to r(end) - r(start). A fraction of a unit must not be kept: neither noise nor dither has
one, so it would tell the energy of the span that the boundary cuts (THEORY-2 A.4). A reading's span lies
between it and the next one. What of a slot lies after the newest reading when the slot closes is gap;
when the next reading comes, only the part of its span that is not covered counts, at the span's rate.

Rates are per `interval_ms` (an hour), in millionths of the unit, and clamped to the range. A register
that falls further than the range allows has begun again at 0 if `modulus_u` makes the rate one of the
range, else it was reset or replaced and the span is gap: an event that nothing protects.

What the store keeps
--------------------
Power that is used while nobody listens is in the register afterwards. To find it again the register of
before is needed, but neither it nor two numbers from which it follows may be on disk (law 3). So when
everything is covered up to the newest reading (t0, r0) that took part, the store has of the slot that
holds t0 not its accumulator A = noise * L + dither + used since the slot's start, but

    M = r0 * c - A    (c: from registers to accumulators)

which is the register at the slot's start minus noise and dither, and stays the same while the slot lasts (but
for clamping and gap). It tells no more of the register than A tells of the energy: two homes whose
registers and noises differ by the same have the same M. After a restart the first reading (t, r) of
the slot gives A = r * c - M: whether it is r0, delivered again, or a later one, nothing is lost, and how
the use in [t0, t] was spread does not matter, for all of it lies in the slot.

If the first reading lies beyond the slot's end, or none comes before the slot closes, what was used in
the slot cannot be told from what was used after it: M and r give only their sum with the noise. All of
it in one slot would be the power of another slot in this one (no 1-Lipschitz map: curves that differ by
d there move this slot by d * (longer than a slot)), and a part of it would be a part of the noise. So the
slot is lost: gap throughout, and M with its noise is forgotten. The slot leaves nevertheless (law 4), with
a noise of its own from a new noise bound of the same law: no bound gives more than n values, nothing that was
drawn before ever leaves, and what is masked is a constant.

Whether a register fell during an outage cannot be told from M alone. r * c - M must be noise + energy for
some |noise| <= K * L and some energy that the range allows for the time since the slot's start; else it
rolled over, or was reset and the slot is lost. K is public: noise is beyond it in fewer than one of 2^40
slots, which are then lost, too. What is within these bounds counts: garbage of a reset is never larger
than the noise could be.

Where the slot was closed by the clock, past the newest reading, nothing of the register is in the next one
yet and accumulators are stored as they are; likewise those of bands, each of which is many stretches:
a boundary within an outage would lose half a month. There an outage without redelivery is gap.

A copy of the disk made while a slot is open, together with the slot's release, tells the register at
the slot's end, as that of a power meter tells the energy since the copy: two such copies, what was used
between the slots' ends. The threat model says so.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

from meteragent.core.timeline import Pending, Timeline
from meteragent.core.window import Used, Window
from meteragent.domain.commit import OpenWindow
from meteragent.domain.reading import Token
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind

_FOREVER_MS = 1 << 63


class Read(Protocol):
    """A register's reading."""

    @property
    def time_ms(self) -> int:
        """When it was read."""

    @property
    def value_u(self) -> int:
        """What it said, in millionths of the unit."""


def used_u(one: Read, other: Read, rules: Terms) -> tuple[int | None, bool]:
    """What was used between two readings, in millionths (None: a reset), and whether it rolled over."""
    span_ms, moved_u = other.time_ms - one.time_ms, other.value_u - one.value_u
    if moved_u >= 0 or moved_u * rules.interval_ms >= rules.low_u * span_ms:
        return moved_u, False
    if rules.modulus_u is not None:
        rolled_u = moved_u + rules.modulus_u
        if rules.low_u * span_ms <= rolled_u * rules.interval_ms <= rules.high_u * span_ms:
            return rolled_u, True
    return None, False


class RegisterTimeline(Timeline):
    """One meter of one stream of registers: pending readings and open windows."""

    __slots__ = ("_counts",)

    def __init__(self, terms: Terms, first_ms: int) -> None:
        """A meter first seen: its first window starts at `first_ms`, a boundary of its grid."""
        super().__init__(terms, first_ms)
        self._counts: list[str] = []

    def counts(self) -> list[str]:
        """What is to be counted of the readings whose spans were covered since the last call."""
        counts, self._counts = self._counts, []
        return counts

    def _kept(self, window: Window) -> OpenWindow:
        standing = self.pending[0] if self.pending else None
        if standing is None or standing.time_ms != self.covered_ms:
            return window.state()
        return window.state((standing.time_ms, standing.value_u * self.terms.interval_ms))

    def _wholly_covered(self, reading: Pending) -> bool:
        return self.standing_ms is not None and reading.time_ms < self.standing_ms

    def _gives_way(self, held: Pending) -> bool:
        """Whether its span is still to be counted; else the newest reading but one would count for nothing.

        What was used between the two is in the next reading.
        """
        return held.time_ms > self.covered_ms

    def _end_ms(self, at: int) -> int:
        """Where the span of a pending reading ends: at the next one."""
        return self.pending[at + 1].time_ms if at + 1 < len(self.pending) else _FOREVER_MS

    def _spans(self, until_ms: int) -> Iterator[tuple[int, int, Used | None]]:
        """The spans between the pending readings as (start, end, use), in order; None: a reset."""
        rules = self._rules
        for one, other in pairwise(self.pending):
            if one.time_ms >= until_ms:
                return
            moved_u, _ = used_u(one, other, rules)
            span_ms = other.time_ms - one.time_ms
            used = None if moved_u is None else Used(one.time_ms, span_ms, moved_u * rules.interval_ms)
            yield one.time_ms, other.time_ms, used

    def _free(self) -> list[Token]:
        """As for power; and count what the spans were that are wholly covered."""
        held = self.pending
        free = super()._free()
        for one, other in pairwise(held[: len(free) + 1]):
            self._count(one, other)
        return free

    def _count(self, one: Pending, other: Pending) -> None:
        rules, span_ms = self._rules, other.time_ms - one.time_ms
        moved_u, rolled = used_u(one, other, rules)
        if moved_u is None:
            self._counts.append("register_reset")
        elif not rules.low_u * span_ms <= moved_u * rules.interval_ms <= rules.high_u * span_ms:
            self._counts.append("clamped")
        if rolled:
            self._counts.append("rolled_over")

    # --- after a restart -----------------------------------------------------------------------

    def cover(self, until_ms: int) -> list[Token]:
        """Add everything up to a time to the slots; returns the tokens that are free.

        After a restart the masked slot is found again first, or lost.
        """
        masked = next((window for window in self.windows if window.masked is not None), None)
        if masked is None:
            return super().cover(until_ms)
        return self._resume(masked, until_ms) + super().cover(until_ms)

    def _resume(self, window: Window, until_ms: int) -> list[Token]:
        """Find the masked slot's accumulator, or lose it; the tokens that are free by that."""
        end_ms = window.slot_end_ms(window.masked or 0)
        first = self.pending[0] if self.pending else None
        if first is not None and first.time_ms <= min(until_ms, end_ms):
            if self._unmask(window, first):
                self.covered_ms = first.time_ms
                return self._free()
            self._counts.append("register_reset")
        elif until_ms <= self.covered_ms:
            return []
        window.lose()
        self.covered_ms = end_ms
        return self._free()

    def _unmask(self, window: Window, first: Pending) -> bool:
        c, modulus_u = window.terms.interval_ms, window.terms.modulus_u
        if window.unmask(first.time_ms, first.value_u * c):
            return True
        if modulus_u is None or not window.unmask(first.time_ms, (first.value_u + modulus_u) * c):
            return False
        self._counts.append("rolled_over")
        return True


def timeline_of(terms: Terms) -> type[Timeline]:
    """Return the timeline of readings under these terms."""
    return RegisterTimeline if terms.kind is Kind.REGISTER else Timeline
