"""Registers: readings of a meter's running count, differenced on the grid before anything else (law 5).

Theory of operation
-------------------
Two consecutive readings (t0, r0), (t1, r1) mean that r1 - r0 was used evenly over [t0, t1]. At each slot
boundary b, the register r(b) is interpolated and rounded down to a whole unit of the accumulator: W(b) =
floor(r(b) * c), where c converts registers to accumulator units. A slot gets W(end) - W(start). So a slot's
value is a weighted sum of the power, in which the weights within each span sum to the overlap of the slot and
the span. The map from load curves to slot vectors is 1-Lipschitz up to two units of the accumulator (about
10^-12 of a default quantum in Wh). Over a stretch without gaps and clamping, the values of the slots add up
to r(end) - r(start). A reading's span lies between that reading and the next one. When a slot closes, its
time after the newest reading is gap. When the next reading arrives, only the part of its span after the split
(`integrated_until_ms`) is used, at the span's mean power.

Which readings are used is judged in `register_judgement`: a register that falls, or rises faster than any
load could make it, is doubted until later readings show a glitch, a reset or a jump. Until then the split
stays at the last good reading, so nothing of a doubted reading is on disk. The span of a reset or a jump is
gap, which the promise does not hide. Any other use is clamped to the range, plus one step of the register and
one second.

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
registers and noises differ by the same amount have the same M. After a restart the first good reading (t, r)
of the slot gives A = r * c - M, whether this reading is r0, delivered again, or a later one. The distribution
of the use over [t0, t] does not matter, because all of it lies in the slot.

If the first good reading lies beyond the slot's end, or none arrives before the slot closes, M and r give
only the sum of the use in the slot, the use after it and the noise. Counting this sum in the slot would
include the power of other slots, so the map would not be 1-Lipschitz. Counting a part of it would release a
part of the noise. So the slot is lost: it is gap throughout, and M is forgotten along with its noise. The
slot is released nevertheless (law 4), with noise from a new noise bound, which masks a constant.

Accumulators are stored unchanged in two cases. If the clock closed a slot after the newest reading, the next
slot contains no energy from the register yet. In bands, peaks, weighted windows and shares, an outage without
redelivery is gap. A band consists of many stretches: if a boundary fell into an outage, losing the band would
cost half a month of readings.

A copy of the disk made while a slot is open reveals, once the slot is released, the register at the slot's
end, to within a quantum. A copy of a power meter's state reveals the energy used in the slot since the copy
was made. Two copies reveal the use between the ends of their slots. The threat model states this.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from meteragent.core.largest import integrable_until_ms
from meteragent.core.pending import Pending
from meteragent.core.phases import RegisterPhases
from meteragent.core.register_judgement import HELD_MAX, Change, droppable_doubts, is_within, next_change
from meteragent.core.timeline import Timeline
from meteragent.core.window import RegisterUse, Window
from meteragent.domain.reading import Token


@dataclass(slots=True, eq=False)
class RegisterTimeline(Timeline):
    """The pending readings and open windows of one meter of a register stream; the oldest reading is good."""

    _counts: list[str] = field(default_factory=list)
    _stood: list[Pending] = field(default_factory=list)
    _is_proven: bool = False  # whether one reading has continued another since the start

    def _standing_register(self) -> tuple[int, int] | None:
        if not self.pending or self.pending[0].time_ms != self.integrated_until_ms:
            return None
        return self.integrated_until_ms, self.pending[0].value_u * self.terms.readings.interval_ms

    def _is_integrated(self, reading: Pending) -> bool:
        return self.standing_ms is not None and reading.time_ms < self.standing_ms

    def _gives_way(self, pending: Pending) -> bool:
        """Return whether the time up to `pending` is not yet integrated, so that it may be replaced."""
        return pending.time_ms > self.integrated_until_ms

    def take_counts(self) -> Sequence[str]:
        """Return the names of the counters to increase for the spans integrated since the last call."""
        counts, self._counts = self._counts, []
        return counts

    # --- judging -------------------------------------------------------------------------------

    def _changes(self, count: int | None = None) -> Iterator[tuple[int, Change]]:
        """Yield (index of the start, change) for each change among the first `count` pending readings."""
        items = self.pending if count is None else self.pending[:count]
        readings, start = self._reading_terms.readings, 0
        while (end := start + 1) < len(items):
            shift_u = items[end].shift_u  # set in sums, which were judged phase by phase
            change = next_change(items, start, readings) if shift_u is None else Change(end, end, shift_u)
            if change is None:
                return
            yield start, change
            start = change.end

    def _settled_until_ms(self, watermark_ms: int) -> int | None:
        """Return the time of the newest reading that is confirmed as good by readings up to the watermark."""
        count = self._count_up_to(watermark_ms)
        ends = [change.end for _, change in self._changes(count) if change.settled_by < count]
        return self.pending[max(ends, default=0)].time_ms if count else None

    def _spans(self, until_ms: int) -> Iterator[tuple[int, int, RegisterUse | None]]:
        """Yield the spans between good readings from before `until_ms`; use is None for a reset or a jump."""
        interval_ms = self._reading_terms.readings.interval_ms
        for index, change in self._changes():
            start, end = self.pending[index], self.pending[change.end]
            if start.time_ms >= until_ms:
                return
            units = (end.value_u - start.value_u - change.shift_u) * interval_ms
            use = RegisterUse(start.time_ms, end.time_ms - start.time_ms, units)
            yield start.time_ms, end.time_ms, None if change.is_gap else use

    def _retire(self) -> list[Token]:
        """Drop and count the pending readings whose span is wholly integrated; return their tokens."""
        if not self.pending or self.pending[0].time_ms > self.integrated_until_ms:
            return []
        good = 0
        for index, change in self._changes():
            if self.pending[change.end].time_ms > self.integrated_until_ms:
                break
            self._count_change(index, change)
            good = change.end
        self.standing_ms = max(self.standing_ms or 0, self.pending[good].time_ms)
        return self._discard(range(good))

    def _discard_glitches(self, indices: range) -> list[Token]:
        self._counts += ["register_glitch"] * len(indices)
        return self._discard(indices)

    def _count_change(self, index: int, change: Change) -> None:
        readings, start, end = self._reading_terms.readings, self.pending[index], self.pending[change.end]
        self._counts += ["register_glitch"] * (change.end - index - 1)
        self._counts += change.counter_names(is_proven=self._is_proven)
        self._is_proven = True
        if not change.is_gap and not is_within(readings, start, end, change.shift_u):
            self._counts.append("clamped")

    # --- integrating ---------------------------------------------------------------------------

    def integrate_to_watermark(self, clock_ms: int) -> list[Token]:
        """Integrate the spans that are settled by the watermark; return the freed tokens."""
        watermark_ms = min((self.newest_ms or 0) - self._reading_terms.lateness_ms, clock_ms)
        tokens = [*self._hold_phases(watermark_ms, is_slot_end=False), *self._resume(watermark_ms)]
        if self._masked_window is not None:
            return tokens
        integrated_tokens = Timeline.integrate_to_watermark(self, clock_ms)
        return [*tokens, *integrated_tokens, *self._drop_needless(watermark_ms)]

    def _hold_phases(self, until_ms: int, *, is_slot_end: bool) -> list[Token]:
        """Take phases that have been silent up to `until_ms` as unchanged; return the freed tokens."""
        if not isinstance(self.phases, RegisterPhases):
            return []
        result = self.phases.standing_sums(until_ms, is_slot_end=is_slot_end)
        self._counts += result.counters
        sums, _, tokens = self.add_sums(result)
        self._stood += sums
        return tokens

    def take_standing_sums(self) -> Sequence[Pending]:
        """Return the new sums in which silent phases were taken as unchanged."""
        stood, self._stood = self._stood, []
        return stood

    def _drop_needless(self, watermark_ms: int) -> list[Token]:
        count = self._count_up_to(watermark_ms)
        if count <= 1 + HELD_MAX or integrable_until_ms(self.windows, watermark_ms) < watermark_ms:
            return []  # in a peak, good readings wait, too, until their part ends
        good, unsettled = 0, None
        for _, change in self._changes(count):
            good, unsettled = (change.end, None) if change.settled_by < count else (good, change)
        return self._discard_glitches(droppable_doubts(count, good, unsettled))

    def integrate_until(self, until_ms: int) -> list[Token]:
        """Add all time up to `until_ms` to the slots; return the freed tokens."""
        is_new = until_ms > self.integrated_until_ms
        tokens = self._hold_phases(until_ms, is_slot_end=True) if is_new else []
        tokens += self._resume(until_ms)
        if self._masked_window is None:
            tokens += Timeline.integrate_until(self, until_ms)
        return tokens

    # --- after a restart -----------------------------------------------------------------------

    @property
    def _masked_window(self) -> Window | None:
        for window in self.windows:
            if window.masked_slot is not None:
                return window
        return None

    def _resume(self, until_ms: int) -> list[Token]:
        """Recover the masked slot's accumulator, if any, or lose the slot; return the freed tokens.

        The slot resumes at the reading at which it was stored, if that is delivered again, or else at the
        first of two consecutive readings that the slot explains. If neither arrives before the slot ends or
        the register continues at another level, it resumes at the highest reading that it explains.
        """
        if (window := self._masked_window) is None:
            return []
        end_ms = window.slot_end_ms(window.masked_slot or 0)
        is_over = until_ms >= end_ms
        items = self.pending if is_over else self.pending[: self._count_up_to(until_ms)]
        added = [self._added_u(window, reading) for reading in items]
        explained = [index for index, added_u in enumerate(added) if added_u is not None]
        within = [index for index in explained if items[index].time_ms <= end_ms]
        first = next((a for a, b in pairwise(explained) if a in within and self._continues(a, b)), None)
        if explained[:1] == [0] and items[0].time_ms == self.standing_ms:
            first = 0  # the reading at which the slot was stored, delivered again
        is_over = is_over or any(
            added[index : index + 2] == [None, None] and self._continues(index, index + 1)
            for index in range(len(items) - 1)
        )
        if first is None and is_over:
            # A wrong reading is more often too low than too high.
            first = max(within, key=lambda index: items[index].value_u, default=None)
        if first is not None:
            return self._resume_at(window, first, added[first] or 0)
        if is_over:
            return self._lose_slot(window, end_ms)
        count = max(len(items) - HELD_MAX, 0)  # but never the first that the slot explains
        before = min([*explained[:1], count])
        return self._discard_glitches(range(before)) + self._discard_glitches(range(1, count - before))

    def _added_u(self, window: Window, reading: Pending) -> int | None:
        """Return what to add to a reading that the masked slot then explains: 0 or the modulus; else None."""
        readings = window.terms.readings
        for added_u in (0,) if readings.modulus_u is None else (0, readings.modulus_u):
            if window.explains(reading.time_ms, (reading.value_u + added_u) * readings.interval_ms):
                return added_u
        return None

    def _continues(self, first: int, second: int) -> bool:
        """Return whether a pending reading continues an earlier one, by use within the range and no shift."""
        readings, start, end = self._reading_terms.readings, self.pending[first], self.pending[second]
        if any(item.shift_u for item in self.pending[first + 1 : second + 1]):
            return False
        # A register that does not move confirms nothing: a faulty one may show zero all night.
        has_moved = end.value_u > start.value_u or (readings.low_u < 0 and end.value_u != start.value_u)
        return has_moved and is_within(readings, start, end)

    def _resume_at(self, window: Window, index: int, added_u: int) -> list[Token]:
        tokens = self._discard_glitches(range(index))
        [reading, *_] = self.pending
        window.unmask_slot((reading.value_u + added_u) * window.terms.readings.interval_ms)
        self._counts += ["rolled_over"] if added_u else []
        self._is_proven = True
        self.integrated_until_ms = reading.time_ms
        return tokens + self._retire()

    def _lose_slot(self, window: Window, end_ms: int) -> list[Token]:
        if self.pending and self.pending[0].time_ms <= end_ms:
            self._counts.append("register_reset")
        window.give_up_masked_slot()
        self.integrated_until_ms = end_ms
        return self._retire()
