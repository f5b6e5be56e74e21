"""Registers: readings of a meter's running count, differenced on the grid before anything else (law 5).

Theory of operation
-------------------
Two consecutive readings (t0, r0), (t1, r1) mean that r1 - r0 was used evenly over [t0, t1]. At each slot
boundary b, the register r(b) is interpolated and rounded down to a whole unit of the accumulator: W(b) =
floor(r(b) * c), where c converts registers to accumulator units. A slot gets W(end) - W(start). So a slot's
value is a weighted sum of the power, in which the weights within each span sum to the overlap of the slot and
the span. The map from load curves to slot vectors is 1-Lipschitz up to two units of the accumulator (about
10^-12 of a default quantum in Wh). Over a stretch without gaps and clamping, the values of the slots add up
to r(end) - r(start). Fractions of a unit must not be kept: neither noise nor dither has fractions, so a
fraction would reveal the energy of the span that the boundary cuts (THEORY-2 A.4). A reading's span lies
between that reading and the next one. When a slot closes, its time after the newest reading is gap. When the
next reading arrives, the span counts only from the split on, at the span's rate.

Rates are per `interval_ms` (an hour), in millionths of the unit, and clamped to the range. If a register
falls further than the range allows and adding `modulus_u` brings the rate within the range, the register is
taken to have rolled over to 0. Otherwise it was reset or replaced, and the span is gap. The promise does not
hide a reset or a replacement.

What the store keeps
--------------------
After an outage, the register includes the energy that was used during the outage. This use can be computed
only from the earlier register, but neither that register nor two numbers that determine it may be on disk
(law 3). Let (t0, r0) be the newest reading that was integrated. If everything is integrated up to t0, the
slot that contains t0 is stored not as the accumulator A = noise * L + dither + use since the slot's start,
but as

    M = r0 * c - A

which is the register at the slot's start minus noise and dither, and is constant throughout the slot (except
for clamping and gap). M reveals no more about the register than A does about the energy: two homes whose
registers and noises differ by the same amount have the same M. After a restart the first reading (t, r) of
the slot gives A = r * c - M. Nothing is lost, whether this reading is r0, delivered again, or a later one.
The distribution of the use over [t0, t] does not matter, because all of it lies in the slot.

If the first reading lies beyond the slot's end, or no reading arrives before the slot closes, the use in the
slot cannot be separated from the use after the slot, because M and r give only the sum of the two uses and
the noise. Counting this sum in the slot would include the power of other slots. The map would then not be
1-Lipschitz: curves that differ by d in the other slots would change this slot's energy by more than d times
the slot's length. Counting a part of the sum would release a part of the noise. So the slot is lost: it is
gap throughout, and M is forgotten along with its noise. The slot is released nevertheless (law 4), with noise
from a new noise bound with the same distribution. No bound yields more than n values, the earlier draw is
never released, and the new noise masks a constant.

M alone does not show whether a register fell during an outage. The difference r * c - M must equal noise * L
+ dither + energy for some |noise| <= K and some energy that the range allows for the time since the slot's
start. Otherwise the register either rolled over, or was reset and the slot is lost. K is public: |noise|
exceeds K in fewer than one in 2^40 slots, and these slots are lost, too. A reading within these bounds
counts. So even after an unnoticed reset, the accumulator stays within what the range and the noise allow.

If the clock closed the slot after the newest reading, the next slot contains no energy from the register yet,
and accumulators are stored unchanged. So are the accumulators of bands, because a band consists of many
stretches: if a boundary fell into an outage, losing the band would cost half a month of readings. The
accumulators of peaks, weighted windows and shares are stored unchanged, too. In all these windows, an outage
without redelivery is gap.

A copy of the disk made while a slot is open reveals the register at the slot's end, to within a quantum, once
the slot is released. In the same way, a copy of a power meter's state reveals the energy used in the slot
since the copy was made. Two copies of a register meter's state reveal the use between the ends of their
slots. The threat model states this.
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
    """A reading of a register."""

    @property
    def time_ms(self) -> int:
        """The time of the reading."""

    @property
    def value_u(self) -> int:
        """The register, in millionths of the unit."""


def use_between(start: Read, end: Read, terms: Terms) -> tuple[int | None, bool]:
    """Return the use between two readings, and whether the register rolled over between them.

    The use is in millionths of the unit; None if the register was reset or replaced.
    """
    span_ms, use_u = end.time_ms - start.time_ms, end.value_u - start.value_u
    if use_u >= 0 or use_u * terms.interval_ms >= terms.low_u * span_ms:
        return use_u, False
    if terms.modulus_u is not None:
        use_u += terms.modulus_u
        if terms.low_u * span_ms <= use_u * terms.interval_ms <= terms.high_u * span_ms:
            return use_u, True
    return None, False


class RegisterTimeline(Timeline):
    """The pending readings and open windows of one meter of a stream of registers."""

    __slots__ = ("_counts",)

    def __init__(self, terms: Terms, first_ms: int) -> None:
        """Start without readings; the meter's first window starts at `first_ms`, a boundary of the grid."""
        super().__init__(terms, first_ms)
        self._counts: list[str] = []

    def counts(self) -> list[str]:
        """Return the names of the counters to increase for the spans integrated since the last call."""
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
        """Return whether the time up to `pending` is still to be integrated.

        If so, a newer reading with the same time replaces `pending`. Otherwise the newer reading is refused,
        and the use since `pending` counts with the next reading.
        """
        return pending.time_ms > self.integrated_until_ms

    def _end_ms(self, index: int) -> int:
        """Return where a pending reading's span ends: at the next reading; `_FOREVER_MS` if there is none."""
        return self.pending[index + 1].time_ms if index + 1 < len(self.pending) else _FOREVER_MS

    def _spans(self, until_ms: int) -> Iterator[tuple[int, int, RegisterUse | None]]:
        """Yield the spans between pending readings as (start, end, use), in order.

        Spans that start at `until_ms` or later are left out. The use is None if the register was reset.
        """
        terms = self._reading_terms
        for start, end in pairwise(self.pending):
            if start.time_ms >= until_ms:
                return
            use_u, _ = use_between(start, end, terms)
            span_ms = end.time_ms - start.time_ms
            use = None if use_u is None else RegisterUse(start.time_ms, span_ms, use_u * terms.interval_ms)
            yield start.time_ms, end.time_ms, use

    def _free(self) -> list[Token]:
        """Drop the pending readings whose span is wholly integrated; return their tokens.

        Clamped rates, resets and rollovers are counted.
        """
        pending = self.pending
        tokens = super()._free()
        for start, end in pairwise(pending[: len(tokens) + 1]):
            self._count(start, end)
        return tokens

    def _count(self, start: Pending, end: Pending) -> None:
        terms, span_ms = self._reading_terms, end.time_ms - start.time_ms
        use_u, is_rollover = use_between(start, end, terms)
        if use_u is None:
            self._counts.append("register_reset")
        elif not terms.low_u * span_ms <= use_u * terms.interval_ms <= terms.high_u * span_ms:
            self._counts.append("clamped")
        if is_rollover:
            self._counts.append("rolled_over")

    # --- after a restart -----------------------------------------------------------------------

    def integrate_until(self, until_ms: int) -> list[Token]:
        """Add all time up to `until_ms` to the slots; return the freed tokens.

        After a restart, the masked slot is first resumed or lost, unless a reading that resumes it may still
        arrive.
        """
        window = next((window for window in self.windows if window.masked_slot is not None), None)
        if window is None:
            return super().integrate_until(until_ms)
        return self._resume(window, until_ms) + super().integrate_until(until_ms)

    def _resume(self, window: Window, until_ms: int) -> list[Token]:
        """Recover the masked slot's accumulator, or lose the slot once it has ended without a reading.

        The slot is also lost if its first reading is implausible. Returns the freed tokens.
        """
        end_ms = window.slot_end_ms(window.masked_slot or 0)
        oldest = self.pending[0] if self.pending else None
        if oldest is not None and oldest.time_ms <= min(until_ms, end_ms):
            if self._unmask(window, oldest):
                self.integrated_until_ms = oldest.time_ms
                return self._free()
            self._counts.append("register_reset")
        elif until_ms <= self.integrated_until_ms:
            return []  # the slot has not ended, so a reading within it may still arrive
        window.lose()
        self.integrated_until_ms = end_ms
        return self._free()

    def _unmask(self, window: Window, reading: Pending) -> bool:
        c, modulus_u = window.terms.interval_ms, window.terms.modulus_u
        if window.unmask(reading.time_ms, reading.value_u * c):
            return True
        if modulus_u is None or not window.unmask(reading.time_ms, (reading.value_u + modulus_u) * c):
            return False
        self._counts.append("rolled_over")
        return True


def timeline_of(terms: Terms) -> type[Timeline]:
    """Return the class of timeline for readings under these terms."""
    return RegisterTimeline if terms.kind is Kind.REGISTER else Timeline
