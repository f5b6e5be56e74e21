"""Registers: readings of a meter's counter, differenced on the grid before anything else (law 5).

Theory of operation
-------------------
A pair of consecutive readings (t0, r0), (t1, r1) says that r1 - r0 was used in [t0, t1], spread evenly:
the register is interpolated at the boundaries of the slots and rounded down there to a whole unit of the
accumulator, W(b) = floor(r(b) * c); a slot gets W(end) - W(start). So a slot's value is a mean of the power
whose weights, span by span, sum to the slot's part of the span: the map from load curves to slot vectors
is 1-Lipschitz except for two units, 10^-12 of a quantum by default, and over a run without gaps the
values telescope to r(end) - r(start). A fraction of a unit must not be kept: neither noise nor dither has
one, so it would reveal the energy of the span that the boundary cuts (THEORY-2 A.4). A reading's span lies
between that reading and the next one. The part of a slot after the newest reading is gap when the slot
closes; when the next reading arrives, only the part of its span after the split counts, at the span's rate.

Rates are per `interval_ms` (an hour), in millionths of the unit, and clamped to the range. A register
that falls further than the range allows has begun again at 0 if `modulus_u` brings the rate within the range;
else it was reset or replaced and the span is gap: an event that nothing protects.

What the store keeps
--------------------
The register still shows power that was used while nobody listened. To recover that use, the earlier register
is needed, but neither that register nor two numbers from which it follows may be on disk (law 3). So when
everything is integrated up to the newest reading (t0, r0) that took part, the store keeps for the slot that
holds t0 not its accumulator A = noise * L + dither + use since the slot's start, but

    M = r0 * c - A    (c: from registers to accumulators)

which is the register at the slot's start minus noise and dither, and stays the same throughout the slot
(except for clamping and gap). It reveals no more of the register than A reveals of the energy: two homes
whose registers and noises differ by the same amount have the same M. After a restart the first reading (t, r)
of the slot gives A = r * c - M. Whether it is r0, delivered again, or a later one, nothing is lost, and how
the use in [t0, t] was spread does not matter, for all of it lies in the slot.

If the first reading lies beyond the slot's end, or none arrives before the slot closes, the use in the slot
cannot be told from the use after it: M and r give only their sum with the noise. All of it in one slot
would count the power of another slot in this one (no 1-Lipschitz map: curves that differ by d there move
this slot by d * (longer than a slot)), and a part of it would be a part of the noise. So the slot is lost:
gap throughout, and M with its noise is forgotten. The slot is released nevertheless (law 4), with noise from
a new noise bound of the same law: no bound gives more than n values, nothing that was drawn before is ever
released, and what is masked is a constant.

Whether a register fell during an outage cannot be told from M alone. r * c - M must be noise + energy for
some |noise| <= K * L and some energy that the range allows for the time since the slot's start; else it
rolled over, or was reset and the slot is lost. K is public: noise exceeds K * L in fewer than one of 2^40
slots, which are then lost, too. A value within these bounds counts: garbage from a reset is never larger than
the noise could be.

If the clock closed the slot, past the newest reading, nothing of the register is in the next slot yet, and
accumulators are stored as they are; so are those of bands, each of which consists of many stretches: a
boundary within an outage would lose half a month. There an outage without redelivery is gap.

A copy of the disk made while a slot is open reveals, together with the slot's release, the register at
the slot's end, as a copy of a power meter's state reveals the energy since then; two such copies reveal the
use between the ends of their slots. The threat model says so.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

from meteragent.core.timeline import Pending, Timeline
from meteragent.core.window import RegisterUse, Window
from meteragent.domain.commit import OpenWindow
from meteragent.domain.reading import Token
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind

_FOREVER_MS = 1 << 63


class Read(Protocol):
    """A register's reading."""

    @property
    def time_ms(self) -> int:
        """The time of the reading."""

    @property
    def value_u(self) -> int:
        """The register, in millionths of the unit."""


def use_between(first: Read, second: Read, rules: Terms) -> tuple[int | None, bool]:
    """Return the use between two readings, in millionths (None: a reset), and whether it rolled over."""
    span_ms, moved_u = second.time_ms - first.time_ms, second.value_u - first.value_u
    if moved_u >= 0 or moved_u * rules.interval_ms >= rules.low_u * span_ms:
        return moved_u, False
    if rules.modulus_u is not None:
        rolled_u = moved_u + rules.modulus_u
        if rules.low_u * span_ms <= rolled_u * rules.interval_ms <= rules.high_u * span_ms:
            return rolled_u, True
    return None, False


class RegisterTimeline(Timeline):
    """The pending readings and open windows of one meter of one stream of registers."""

    __slots__ = ("_counts",)

    def __init__(self, terms: Terms, first_ms: int) -> None:
        """Begin a meter whose first window starts at `first_ms`, a boundary of its grid."""
        super().__init__(terms, first_ms)
        self._counts: list[str] = []

    def counts(self) -> list[str]:
        """Return the counters to increase for the spans integrated since the last call."""
        counts, self._counts = self._counts, []
        return counts

    def _window_state(self, window: Window) -> OpenWindow:
        standing = self.pending[0] if self.pending else None
        if standing is None or standing.time_ms != self.integrated_until_ms:
            return window.state()
        return window.state((standing.time_ms, standing.value_u * self.terms.interval_ms))

    def _is_integrated(self, reading: Pending) -> bool:
        return self.standing_ms is not None and reading.time_ms < self.standing_ms

    def _gives_way(self, pending: Pending) -> bool:
        """Return whether the span of `pending` is still to be integrated.

        Otherwise the reading before it would count for nothing. The use between the two is included in the
        next reading.
        """
        return pending.time_ms > self.integrated_until_ms

    def _end_ms(self, index: int) -> int:
        """Return where the span of a pending reading ends: at the next one."""
        return self.pending[index + 1].time_ms if index + 1 < len(self.pending) else _FOREVER_MS

    def _spans(self, until_ms: int) -> Iterator[tuple[int, int, RegisterUse | None]]:
        """Yield the spans between the pending readings as (start, end, use), in order; None: a reset."""
        rules = self._rules
        for first, second in pairwise(self.pending):
            if first.time_ms >= until_ms:
                return
            moved_u, _ = use_between(first, second, rules)
            span_ms = second.time_ms - first.time_ms
            use = (
                None if moved_u is None else RegisterUse(first.time_ms, span_ms, moved_u * rules.interval_ms)
            )
            yield first.time_ms, second.time_ms, use

    def _free(self) -> list[Token]:
        """Drop the pending readings whose span is wholly integrated, and count what their spans were."""
        pending = self.pending
        tokens = super()._free()
        for first, second in pairwise(pending[: len(tokens) + 1]):
            self._count(first, second)
        return tokens

    def _count(self, first: Pending, second: Pending) -> None:
        rules, span_ms = self._rules, second.time_ms - first.time_ms
        moved_u, rolled = use_between(first, second, rules)
        if moved_u is None:
            self._counts.append("register_reset")
        elif not rules.low_u * span_ms <= moved_u * rules.interval_ms <= rules.high_u * span_ms:
            self._counts.append("clamped")
        if rolled:
            self._counts.append("rolled_over")

    # --- after a restart -----------------------------------------------------------------------

    def integrate_until(self, until_ms: int) -> list[Token]:
        """Add all time up to `until_ms` to the slots; return the tokens that are free.

        After a restart the masked slot is resumed first, or lost.
        """
        masked = next((window for window in self.windows if window.masked is not None), None)
        if masked is None:
            return super().integrate_until(until_ms)
        return self._resume(masked, until_ms) + super().integrate_until(until_ms)

    def _resume(self, window: Window, until_ms: int) -> list[Token]:
        """Recover the masked slot's accumulator, or lose the slot; return the tokens that are free."""
        end_ms = window.slot_end_ms(window.masked or 0)
        first = self.pending[0] if self.pending else None
        if first is not None and first.time_ms <= min(until_ms, end_ms):
            if self._unmask(window, first):
                self.integrated_until_ms = first.time_ms
                return self._free()
            self._counts.append("register_reset")
        elif until_ms <= self.integrated_until_ms:
            return []  # the slot is not over: its reading may still come
        window.lose()
        self.integrated_until_ms = end_ms
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
