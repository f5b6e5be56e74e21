"""A window's accumulators, one for each open slot.

Theory of operation
-------------------
An accumulator counts in millionths of the readings' unit times milliseconds (and, for an amount, times the
price). Before any reading is added, it is z * L + u, where L is one quantum in this unit (quantum * slot
length for a mean power), z is the slot's noise in quanta and u is uniform on {0, ..., L - 1}. With S the
energy so far,

    A = z * L + u + S,    released: floor(A / L)

So A modulo L is uniform whatever the use, and one copy of A, at any time, hides whole quanta as well as a
record does: a change in S by d quanta changes the odds of A by a factor of at most e^(a * ceil(d)), where a =
epsilon * quantum. A second copy reveals the use since the first, as in every scheme that survives a crash
without a secret kept elsewhere (THEORY A.1, A.2). On average, the released value is exactly S / L.

`terms.shape` describes what differs between kinds of windows, except how parts make a slot's value: they are
summed here, `largest` keeps the largest, and `shares` sends a share of the sum.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from meteragent.core.noise import Noise
from meteragent.core.prices import Prices
from meteragent.core.register_judgement import use_limits
from meteragent.domain.commit import Destination, OpenWindow, Slot
from meteragent.domain.readings import ReadingRules
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.mechanism.laplace import reach_quanta
from meteragent.wire.record import RecordFormat


class RegisterUse(NamedTuple):
    """The change in a register between two readings, in accumulator units, spread evenly over the span."""

    since_ms: int
    span_ms: int
    units: int

    def use_between(self, from_ms: int, to_ms: int) -> int:
        """Return the use in a part of the span: W(to) - W(from), where W is the register rounded down."""
        # Noise and dither have no fractions, so a fraction of a unit on disk would reveal the energy of the
        # span that the boundary cuts (THEORY A.4).
        units, since_ms, span_ms = self.units, self.since_ms, self.span_ms
        return units * (to_ms - since_ms) // span_ms - units * (from_ms - since_ms) // span_ms


Value = int | RegisterUse | None
"""What applies over a stretch of time: a reading, a register's use, or None for a gap."""


def clamp_use(use: RegisterUse, readings: ReadingRules) -> RegisterUse:
    """Return a use, clamped to `use_limits`."""
    low, high = use_limits(readings, use.span_ms)
    return use if low <= use.units <= high else use._replace(units=min(max(use.units, low), high))


Release = tuple[bytes, int | None, int | None]
"""A closed slot's payload, its value in quanta (None for a share), and the deadline of a share's report."""


@dataclass(slots=True)
class Window:
    """An open window: the accumulators of its open slots, and R until the noise of all slots is drawn.

    noise_bound         R; None in l1 and in a crowd, and once the last slot's noise is drawn: with an
                        accumulator, R would rule out any energy that its noise cannot reach (THEORY A.3)
    draws               the number of slots that have opened; in a window of parts, the number of masks
    slots               the accumulators of the open slots, by index
    reading_bits        a bit for each open slot, set if a reading has been added since the agent started
    masked_slot         the index of the slot, if any, whose accumulator is unknown after a restart: `slots`
                        holds a register minus the accumulator instead (`register`)
    lost_slot           the index of the slot, if any, whose accumulator was abandoned; the slot has no noise
                        until `redraw_noise`
    prices              the prices from the stream's price topic; used only by amounts without a table
    """

    start_ms: int
    terms: Terms
    terms_id: str
    destinations: tuple[Destination, ...]
    public_id: str
    noise_bound: int | None = None
    draws: int = 0
    slots: dict[int, int] = field(default_factory=dict)
    reading_bits: int = 0
    masked_slot: int | None = None
    lost_slot: int | None = None
    prices: Prices = field(default_factory=Prices, compare=False)

    # --- time ----------------------------------------------------------------------------------

    @property
    def end_ms(self) -> int:
        """The end of the window."""
        return self.start_ms + self.terms.length_ms

    def slot_start_ms(self, slot_index: int) -> int:
        """Return the start of a slot."""
        return self.start_ms + self.terms.stretches[slot_index][0][0]

    def slot_end_ms(self, slot_index: int) -> int:
        """Return the end of a slot."""
        return self.start_ms + self.terms.stretches[slot_index][-1][1]

    def integrable_until_ms(self, time_ms: int) -> int:
        """Return the latest time, at most `time_ms`, up to which the window can be integrated."""
        return time_ms

    def has_gap(self, slot_index: int) -> bool:
        """Return whether no reading was added to a slot since the agent started; an empty slot has no gap."""
        return not self.reading_bits >> slot_index & 1 and self.terms.slot_ms(slot_index) > 0

    # --- noise ---------------------------------------------------------------------------------

    @property
    def lacks_noise(self) -> bool:
        """Whether `redraw_noise` is due."""
        return self.lost_slot is not None

    def open_first_slot(self, noise: Noise, integrated_until_ms: int) -> None:
        """Open the first slot, and keep its noise bound for the others; in l1, open all slots at once."""
        is_sum = self.terms.metric.is_sum
        while self.draws < (self.terms.n if is_sum else 1):
            noise_bound, slot_noise = noise.draw_window(self.terms_id, self.terms.mechanism)
            self.noise_bound = None if is_sum else noise_bound
            self.open_slot(slot_noise, integrated_until_ms, noise.draw_dither(self.terms, self.draws))

    def open_next_slot(self, noise: Noise, integrated_until_ms: int) -> None:
        """Open the next slot with noise from the window's noise bound."""
        assert self.noise_bound is not None, "the window has no noise bound for its next slot"
        slot_noise = noise.draw_slot(self.terms.mechanism, self.noise_bound)
        self.open_slot(slot_noise, integrated_until_ms, noise.draw_dither(self.terms, self.draws))

    def open_slot(self, noise: int, integrated_until_ms: int, dither: int) -> None:
        """Open the next slot with this noise and dither; integrated time is gap. The last slot drops R."""
        assert self.draws < self.terms.n, "more draws than slots from one noise bound"  # rule 4 of `timeline`
        slot_index, self.draws = self.draws, self.draws + 1
        self.slots[slot_index] = self.mask_of(slot_index, noise, dither)
        if self.draws == self.terms.n:
            self.noise_bound = None
        self.add_gap(slot_index, self.start_ms, integrated_until_ms)

    def mask_of(self, slot_index: int, noise: int, dither: int) -> int:
        """Return the accumulator with which a slot begins: z * L + u."""
        return noise * self.terms.steps_per_quantum[slot_index] + dither

    def redraw_noise(self, noise: int, dither: int) -> None:
        """Mask the lost slot, if any, with a new dither and with noise from a new noise bound."""
        slot_index, self.lost_slot = self.lost_slot, None
        if slot_index is not None:
            self.slots[slot_index] += self.mask_of(slot_index, noise, dither)

    def drop_unmasked_energy(self) -> None:
        """Do nothing: the new noise of a lost slot is not charged, so that no budget can forbid it."""

    # --- readings ------------------------------------------------------------------------------

    def add_value(self, start_ms: int, end_ms: int, value: Value) -> None:
        """Add a value over a stretch of time to the slots that it touches (see `_pieces_of_value`)."""
        origin_ms, terms = self.start_ms, self.terms
        from_ms, to_ms = max(start_ms - origin_ms, 0), min(end_ms - origin_ms, terms.length_ms)
        if from_ms >= to_ms:
            return
        slot_index = from_ms // terms.step_ms
        if to_ms <= (slot_index + 1) * terms.step_ms and not terms.places:  # nearly always
            self.add_to_slot(slot_index, origin_ms + from_ms, origin_ms + to_ms, value)
            return
        for slot_index, start, end in _pieces_of_value(terms, origin_ms, value, from_ms, to_ms):
            self.add_to_slot(slot_index, origin_ms + start, origin_ms + end, value)

    def add_to_slot(self, slot_index: int, from_ms: int, to_ms: int, value: Value) -> None:
        """Add a value over a stretch of time to an open slot, multiplied by the prices if there are any."""
        if value is not None:
            self.reading_bits |= 1 << slot_index
        if not self.terms.shape.is_priced:
            self.slots[slot_index] += self.accumulator_units(from_ms, to_ms, value)
            return
        for start_ms, end_ms, price_u in self.prices.priced_pieces(self.terms, self.start_ms, from_ms, to_ms):
            self.slots[slot_index] += price_u * self.accumulator_units(start_ms, end_ms, value)

    def accumulator_units(self, from_ms: int, to_ms: int, value: Value) -> int:
        """Return a value times the length of a stretch of time, in accumulator units without prices."""
        terms = self.terms
        readings = terms.readings
        if isinstance(value, RegisterUse):
            return clamp_use(value, readings).use_between(from_ms, to_ms)
        if value is None:
            value = readings.gap_u
        elif not readings.low_u <= value <= readings.high_u:
            value = min(max(value, readings.low_u), readings.high_u)
        return terms.shape.integrand_u(value, readings.unit) * (to_ms - from_ms)

    def add_gap(self, slot_index: int, from_ms: int, to_ms: int) -> None:
        """Add the gap's value over the part of a slot between two times."""
        for start, end in self.terms.stretches[slot_index] if from_ms < to_ms else ():
            start_ms, end_ms = max(self.start_ms + start, from_ms), min(self.start_ms + end, to_ms)
            if start_ms < end_ms:
                self.add_to_slot(slot_index, start_ms, end_ms, None)

    def slot_of_power(self, from_ms: int, to_ms: int) -> int | None:
        """Return the index of the open slot that contains `from_ms`, `to_ms` and the time between them.

        Return None unless power in that time may be added at once: readings are of power, there is no
        lateness, and the slot is the only open one and a single stretch of time.
        """
        terms = self.terms
        if len(self.slots) != 1 or terms.lateness_ms or terms.readings.kind is not Kind.POWER:
            return None
        [slot_index] = self.slots
        start, end = terms.stretches[slot_index][0]
        return slot_index if start <= from_ms - self.start_ms and to_ms - self.start_ms < end else None

    # --- the end -------------------------------------------------------------------------------

    def seal_slots(self, integrated_until_ms: int) -> None:
        """Treat the remaining time of the open slots as gap; give up a masked slot."""
        self.give_up_masked_slot()
        for slot_index in self.slots:
            if slot_index != self.lost_slot:
                self.add_gap(slot_index, integrated_until_ms, self.end_ms)

    def close_slot(self, slot_index: int) -> int:
        """Remove a slot and return its released value in quanta: floor(A / L) (THEORY A.1)."""
        assert slot_index not in (self.masked_slot, self.lost_slot), "the slot has no noise"
        return self.slots.pop(slot_index) // self.terms.steps_per_quantum[slot_index]

    def release_slot(self, slot_index: int, form: RecordFormat) -> Release:
        """Close a slot; return its record, and its value in quanta."""
        quanta = self.close_slot(slot_index)
        return form.encode(self.public_id, self.start_ms, slot_index, quanta, self.draws), quanta, None

    def stored_state(self, standing: tuple[int, int] | None = None) -> OpenWindow:
        """Return what the store keeps of the window.

        `standing` is the time and the value, in accumulator units, of the register reading at the split. If
        the shape says so, the open slot that contains this time is stored as the register minus the
        accumulator.
        """
        assert self.lost_slot is None, "the slot has no noise"
        masked_slot, slots = self.masked_slot, self.slots
        if standing is not None and masked_slot is None and self.terms.shape.is_difference_stored:
            time_ms, register = standing
            slot_index = (time_ms - self.start_ms) // self.terms.step_ms
            if slot_index in slots:
                masked_slot, slots = slot_index, {**slots, slot_index: register - slots[slot_index]}
        open_slots = tuple([Slot(slot_index, accumulator) for slot_index, accumulator in slots.items()])
        values = self.noise_bound, self.draws, open_slots, masked_slot
        return OpenWindow(self.start_ms, self.terms_id, self.destinations, self.public_id, *values)

    # --- a register's slot after a restart -----------------------------------------------------

    def explains(self, time_ms: int, register: int) -> bool:
        """Return whether use within the range, plus noise, explains `register` (in accumulator units)."""
        slot_index = self.masked_slot or 0
        terms, lattice = self.terms, self.terms.steps_per_quantum[slot_index]
        # The reach is public. Noise exceeds the reach in fewer than one in 2^40 slots, which are then lost. R
        # would be a tighter limit, but is dropped with the last draw.
        noise_limit = reach_quanta(terms.n, terms.epsilon * terms.quantum) * lattice
        low, high = use_limits(terms.readings, time_ms - self.slot_start_ms(slot_index))
        # The accumulator includes a dither below one quantum.
        return low - noise_limit <= register - self.slots[slot_index] < high + noise_limit + lattice

    def unmask_slot(self, register: int) -> None:
        """Recover the masked slot's accumulator from a reading that it explains, in accumulator units."""
        slot_index, self.masked_slot = self.masked_slot or 0, None
        self.slots[slot_index] = register - self.slots[slot_index]
        self.reading_bits |= 1 << slot_index

    def give_up_masked_slot(self) -> None:
        """Give up the masked slot, if any: it becomes gap throughout, and its noise is never used."""
        slot_index, self.masked_slot = self.masked_slot, None
        if slot_index is not None:
            self.slots[slot_index] = 0
            self.add_gap(slot_index, self.start_ms, self.end_ms)
            self.lost_slot = slot_index


def _pieces_of_value(
    terms: Terms, start_ms: int, value: Value, from_ms: int, to_ms: int
) -> Iterable[tuple[int, int, int]]:
    """Return the slots to which a value over a stretch of the window is added, as (index, from, to).

    If a register's span is longer than `split_span_max_ms` and is not within one stretch of a band, all use
    in the span goes to the unknown band.
    """
    split_ms = terms.split_span_max_ms  # this depends on the times of readings alone, never on the use
    if split_ms is None or not isinstance(value, RegisterUse) or value.span_ms <= split_ms:
        return _pieces_of_stretch(terms, from_ms, to_ms)
    since_ms = value.since_ms - start_ms
    stretches = [stretch for band in terms.places for stretch in band.stretches]
    if any(start <= since_ms and since_ms + value.span_ms <= end for start, end in stretches):
        return _pieces_of_stretch(terms, from_ms, to_ms)
    return ((terms.n - 1, from_ms, to_ms),)


def _pieces_of_stretch(terms: Terms, from_ms: int, to_ms: int) -> Iterable[tuple[int, int, int]]:
    """Return the pieces of a stretch of the window, cut at its slots' boundaries: (index, from, to)."""
    if terms.places:
        return _pieces_of_bands(terms, from_ms, to_ms)
    step_ms = terms.step_ms
    return (
        (slot_index, max(from_ms, slot_index * step_ms), min(to_ms, (slot_index + 1) * step_ms))
        for slot_index in range(from_ms // step_ms, (to_ms - 1) // step_ms + 1)
    )


def _pieces_of_bands(terms: Terms, from_ms: int, to_ms: int) -> Iterator[tuple[int, int, int]]:
    for slot_index, (_, stretches) in enumerate(terms.places):
        position = bisect_right(stretches, from_ms, key=itemgetter(1))
        while position < len(stretches) and stretches[position][0] < to_ms:
            yield slot_index, max(from_ms, stretches[position][0]), min(to_ms, stretches[position][1])
            position += 1
