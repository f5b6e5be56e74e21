"""A window's accumulators, one for each open slot.

Theory of operation
-------------------
An accumulator counts in millionths of the readings' unit times milliseconds (and, in a weighted window, times
the price). Before any reading is added, it is z * L + u, where L is one quantum in this unit (quantum * slot
length for a mean power), z is the slot's noise in quanta and u is uniform on {0, ..., L - 1}. With S the
energy so far,

    A = z * L + u + S,    released: floor(A / L)

So A modulo L is uniform whatever the use, and one copy of A, at any time, hides whole quanta as well as a
record does: a change in S by d quanta changes the odds of A by a factor of at most e^(a * ceil(d)), where a =
epsilon * quantum. A second copy reveals the use since the first, as in every scheme that survives a crash
without a secret kept elsewhere (THEORY-2 A.1, A.2). On average, the released value is exactly S / L. Windows
opened by an earlier version have no u:

    A = z * L + S,    released: floor(A / L + 1/2)
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from meteragent.domain.commit import OpenWindow, SealedPad, Slot
from meteragent.domain.errors import MeteragentError
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up
from meteragent.privacy.mechanism.laplace import reach


class RegisterUse(NamedTuple):
    """The change in a register between two readings, in accumulator units, spread evenly over the span."""

    since_ms: int
    span_ms: int
    units: int

    def between(self, from_ms: int, to_ms: int) -> int:
        """Return the use in a part of the span: W(to) - W(from), where W is the register rounded down.

        The parts of a span add up to `units`, and each is within one unit of its exact share. Fractions would
        make the shares exact, but the store would then reveal the energy of the span, because noise and
        dither are whole numbers.
        """
        units, since_ms, span_ms = self.units, self.since_ms, self.span_ms
        return units * (to_ms - since_ms) // span_ms - units * (from_ms - since_ms) // span_ms

    def within(self, low_u: int, high_u: int) -> "RegisterUse | int":
        """Clamp the rate: return this use, or the limit of the range that the rate exceeds."""
        if self.units < low_u * self.span_ms:
            return low_u
        return high_u if self.units > high_u * self.span_ms else self


@dataclass(slots=True)
class Window:
    """An open window: its open accumulators, the number of slots with noise, and R while slots lack noise.

    noise_bound         R; None in l1 and in a crowd, and once the last slot's noise is drawn. R is then no
                        longer needed, and together with an accumulator it would rule out all energies
                        further away than the noise can reach (THEORY-2 A.3)
    draws               the number of slots that have opened; in a peak, the number of masks
    slots               the accumulators of the open slots, by index
    slots_with_reading  the open slots to which a reading has been added since the agent started
    masked_slot         the index of the slot, if any, whose accumulator is unknown after a restart: `slots`
                        holds a register minus the accumulator instead (`register`)
    lost_slot           the index of the slot, if any, whose accumulator was abandoned; the slot has no noise
                        until `redraw`
    sealed_pad          the pad of a window that releases a share (`shares`); None for any other window
    """

    start_ms: int
    terms: Terms
    terms_id: str
    topic: str
    public_id: str
    noise_bound: int | None = None
    draws: int = 0
    slots: dict[int, int] = field(default_factory=dict)
    slots_with_reading: set[int] = field(default_factory=set)
    masked_slot: int | None = None
    lost_slot: int | None = None
    sealed_pad: SealedPad | None = None

    @property
    def end_ms(self) -> int:
        """The end of the window."""
        return self.start_ms + self.terms.length_ms

    def slot_start_ms(self, slot_index: int) -> int:
        """Return the start of a slot."""
        if not self.terms.bands:
            return self.start_ms + slot_index * self.terms.step_ms
        return self.start_ms + self.terms.stretches(slot_index)[0][0]

    def slot_end_ms(self, slot_index: int) -> int:
        """Return the end of a slot."""
        if not self.terms.bands:
            return self.start_ms + (slot_index + 1) * self.terms.step_ms
        return self.start_ms + self.terms.stretches(slot_index)[-1][1]

    @property
    def _gap_u(self) -> int:
        """The value that counts for time without a reading."""
        return self.terms.gap_u

    @property
    def lacks_noise(self) -> bool:
        """Whether `redraw` is due."""
        return self.lost_slot is not None

    def whole_ms(self, time_ms: int) -> int:
        """Return the latest time, at most `time_ms`, up to which the window can be integrated."""
        return time_ms

    @property
    def next_slot(self) -> int:
        """The index of the open slot that ends first."""
        if self.terms.bands:
            return min(self.slots, key=self.slot_end_ms)
        return next(iter(self.slots))

    def draw(self, noise: int, integrated_until_ms: int, dither: int | None = None) -> None:
        """Open the next slot with its noise and dither; count its already integrated time as gap.

        Opening the last slot drops R; l1 windows have no R. Raises MeteragentError if all n slots have been
        drawn (rule 4 of `timeline`), or if a dithered window gets no dither or a half-up window gets one.
        """
        if self.draws >= self.terms.n:
            raise MeteragentError("more draws than slots from one noise bound")
        slot_index, self.draws = self.draws, self.draws + 1
        self.slots[slot_index] = self._mask(slot_index, noise, dither)
        if self.draws == self.terms.n:
            self.noise_bound = None
        self._fill_gap(slot_index, integrated_until_ms)

    def _fill_gap(self, slot_index: int, integrated_until_ms: int) -> None:
        """Count as gap the time of an opening slot that is already integrated."""
        if integrated_until_ms > self.start_ms:
            gap_ms = self.terms.slot_ms(slot_index) - self._remaining_ms(slot_index, integrated_until_ms)
            self.slots[slot_index] += self._gap_u * gap_ms

    def _mask(self, slot_index: int, noise: int, dither: int | None) -> int:
        """Return the accumulator with which a slot begins: z * L + u, or z * L in half-up windows.

        Raises MeteragentError if a dithered window gets no dither or a half-up window gets one.
        """
        if (dither is None) != (self.terms.rounding == "half-up"):
            raise MeteragentError("a slot needs a dither if and only if its window is dithered")
        return noise * self.terms.lattice(slot_index) + (dither or 0)

    def add(self, start_ms: int, end_ms: int, value: int | RegisterUse | None) -> None:
        """Add a value (None: the gap value) over a stretch of time to the slots that the stretch touches.

        Values and rates are clamped to the range. A register's use may count in the unknown band
        (`_slots_of`).
        """
        from_ms, to_ms = max(start_ms - self.start_ms, 0), min(end_ms - self.start_ms, self.terms.length_ms)
        if from_ms >= to_ms:
            return
        slots = self._slots_of(value, from_ms, to_ms)
        if isinstance(value, RegisterUse):
            value = value.within(self.terms.low_u, self.terms.high_u)
        for slot_index, start, end in slots:
            if isinstance(value, RegisterUse):
                self.slots[slot_index] += value.between(self.start_ms + start, self.start_ms + end)
                self.slots_with_reading.add(slot_index)
            else:
                self.put(slot_index, end - start, value)

    def put(self, slot_index: int, duration_ms: int, value_u: int | None) -> None:
        """Add a value, clamped to the range (None: the gap value), to an open slot for `duration_ms`."""
        if value_u is None:
            self.slots[slot_index] += self._gap_u * duration_ms
            return
        low_u, high_u = self.terms.low_u, self.terms.high_u
        if not low_u <= value_u <= high_u:
            value_u = min(max(value_u, low_u), high_u)
        self.slots[slot_index] += value_u * duration_ms
        self.slots_with_reading.add(slot_index)

    def slot_of_power(self, from_ms: int, to_ms: int) -> int | None:
        """Return the index of the open slot that contains `from_ms`, `to_ms` and the time between them.

        Returns None unless power in that time counts at once: the readings are of power, and the slot is the
        only open one, is not a band, and has no lateness.
        """
        terms = self.terms
        if len(self.slots) != 1 or terms.bands or terms.lateness_ms or terms.kind is not Kind.POWER:
            return None
        [slot_index] = self.slots
        start_ms = self.start_ms + slot_index * terms.step_ms
        return slot_index if start_ms <= from_ms and to_ms < start_ms + terms.step_ms else None

    def _slots_of(
        self, value: int | RegisterUse | None, from_ms: int, to_ms: int
    ) -> Iterable[tuple[int, int, int]]:
        """Return the slots to which a value over a stretch of the window is added, as (index, from, to).

        If a register's span is longer than `split_ms` and does not lie within a single stretch of a band, all
        use over that span goes to the unknown band. This choice depends only on the times at which the
        register was read, which are public, and not on the use.
        """
        split_ms = self.terms.split_ms
        if split_ms is None or not isinstance(value, RegisterUse) or value.span_ms <= split_ms:
            return self._touched(from_ms, to_ms)
        since_ms = value.since_ms - self.start_ms
        stretches = [stretch for band in self.terms.bands for stretch in band.stretches]
        if any(start <= since_ms and since_ms + value.span_ms <= end for start, end in stretches):
            return self._touched(from_ms, to_ms)
        return ((self.terms.n - 1, from_ms, to_ms),)

    def has_gap(self, slot_index: int) -> bool:
        """Return whether a slot has received no reading since the agent started.

        Returns False for the unknown band, which has no hours.
        """
        return slot_index not in self.slots_with_reading and self.terms.slot_ms(slot_index) > 0

    def _touched(self, from_ms: int, to_ms: int) -> Iterable[tuple[int, int, int]]:
        """Return the pieces of a stretch of the window, cut at its slots' boundaries: (index, from, to)."""
        if self.terms.bands:
            return self._bands(from_ms, to_ms)
        step_ms = self.terms.step_ms
        first_index, last_index = from_ms // step_ms, (to_ms - 1) // step_ms
        if first_index == last_index:
            return ((first_index, from_ms, to_ms),)
        return (
            (slot_index, max(from_ms, slot_index * step_ms), min(to_ms, (slot_index + 1) * step_ms))
            for slot_index in range(first_index, last_index + 1)
        )

    def _bands(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int, int]]:
        for slot_index, (_, stretches) in enumerate(self.terms.bands):
            position = bisect_right(stretches, from_ms, key=itemgetter(1))
            while position < len(stretches) and stretches[position][0] < to_ms:
                yield slot_index, max(from_ms, stretches[position][0]), min(to_ms, stretches[position][1])
                position += 1

    def _remaining_ms(self, slot_index: int, time_ms: int) -> int:
        """Return the duration of the part of a slot from `time_ms` on."""
        at_ms = time_ms - self.start_ms
        return sum(max(end - max(start, at_ms), 0) for start, end in self.terms.stretches(slot_index))

    def seal(self, integrated_until_ms: int) -> None:
        """Count the remaining time of the open slots as gap; a masked slot is lost."""
        self.lose()
        for slot_index in self.slots:
            if slot_index != self.lost_slot:
                gap_ms = self._remaining_ms(slot_index, integrated_until_ms)
                self.slots[slot_index] += self._gap_u * gap_ms

    def close(self, slot_index: int) -> int:
        """Remove a slot and return its released value in quanta.

            floor(A / L) if A began with a dither (THEORY-2 A.1), else floor(A / L + 1/2)

        Raises MeteragentError if the slot has no noise.
        """
        if slot_index in (self.masked_slot, self.lost_slot):
            raise MeteragentError("the slot has no noise")
        accumulator = self.slots.pop(slot_index)
        lattice = self.terms.lattice(slot_index)
        if self.terms.rounding == "dithered":
            return accumulator // lattice
        return round_half_up(accumulator, lattice)

    def state(self, standing: tuple[int, int] | None = None) -> OpenWindow:
        """Return what the store keeps of the window.

        `standing` holds the time of the register's reading up to which everything is integrated, and the
        register in accumulator units. The open slot that contains this time, unless it is a band, is kept as
        the register minus its accumulator. Raises MeteragentError if a slot has no noise.
        """
        if self.lost_slot is not None:
            raise MeteragentError("the slot has no noise")
        masked_index, slots = self.masked_slot, self.slots
        if standing is not None and masked_index is None:
            time_ms, register = standing
            masked_index = self._open_slot_at(time_ms)
            if masked_index is not None:
                slots = {**slots, masked_index: register - slots[masked_index]}
        open_slots = tuple([Slot(slot_index, accumulator) for slot_index, accumulator in slots.items()])
        return OpenWindow(
            self.start_ms,
            self.terms_id,
            self.topic,
            self.public_id,
            self.noise_bound,
            self.draws,
            open_slots,
            masked_index,
            self.sealed_pad,
        )

    # --- a register's slot after a restart -----------------------------------------------------

    def _open_slot_at(self, time_ms: int) -> int | None:
        """Return the index of the open slot that contains `time_ms`; None if none does.

        Returns None for bands as well, because their accumulators are stored unchanged.
        """
        if self.terms.bands or not self.start_ms <= time_ms < self.end_ms:
            return None
        slot_index = (time_ms - self.start_ms) // self.terms.step_ms
        return slot_index if slot_index in self.slots else None

    def unmask(self, time_ms: int, register: int) -> bool:
        """Resume the masked slot if `register`, read at `time_ms`, is plausible; return whether it is.

        `register` is in accumulator units. Without a masked slot, True is returned. The register is plausible
        if some use within the range and some noise of at most `reach` explain the stored difference. R would
        narrow the noise down, but is not used, because it is dropped with the last draw.
        """
        slot_index = self.masked_slot
        if slot_index is None:
            return True
        accumulator = register - self.slots[slot_index]
        terms, lattice = self.terms, self.terms.lattice(slot_index)
        noise_limit = reach(terms.n, terms.epsilon * terms.quantum) * lattice
        duration_ms = time_ms - self.slot_start_ms(slot_index)
        low, high = terms.low_u * duration_ms - noise_limit, terms.high_u * duration_ms + noise_limit
        if not low <= accumulator < high + lattice:  # the accumulator includes a dither below one quantum
            return False
        self.slots[slot_index], self.masked_slot = accumulator, None
        self.slots_with_reading.add(slot_index)
        return True

    def lose(self) -> None:
        """Give up the masked slot, if any: it becomes gap throughout, and its noise is never used."""
        slot_index, self.masked_slot = self.masked_slot, None
        if slot_index is not None:
            self.slots[slot_index] = self._gap_u * self.terms.slot_ms(slot_index)
            self.lost_slot = slot_index

    def redraw(self, noise: int, dither: int | None = None) -> None:
        """Mask the lost slot, if any, with a new dither and with noise from a new noise bound."""
        slot_index, self.lost_slot = self.lost_slot, None
        if slot_index is not None:
            self.slots[slot_index] += self._mask(slot_index, noise, dither)
