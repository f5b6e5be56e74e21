"""A window's accumulators: its slots between their opening and their close."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from meteragent.domain.commit import OpenWindow, Slot
from meteragent.domain.errors import MeteragentError
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up
from meteragent.privacy.mechanism.laplace import reach


class Used(NamedTuple):
    """What a register moved between two readings, in an accumulator's units, spread evenly over its span."""

    since_ms: int
    span_ms: int
    units: int

    def between(self, from_ms: int, to_ms: int) -> int:
        """Return what was used in a part of the span: W(to) - W(from), W the register rounded down.

        The parts of a span add up to `units`, and each is within one unit of its share. A fraction would
        do as well, but the store would tell the energy of the span by it: noise and dither are whole.
        """
        moved, since_ms, span_ms = self.units, self.since_ms, self.span_ms
        return moved * (to_ms - since_ms) // span_ms - moved * (from_ms - since_ms) // span_ms

    def within(self, low_u: int, high_u: int) -> "Used | int":
        """Return itself, or the end of the range that its rate lies beyond."""
        if self.units < low_u * self.span_ms:
            return low_u
        return high_u if self.units > high_u * self.span_ms else self


@dataclass(slots=True)
class Window:
    """An open window: how many slots were drawn, the open accumulators, and R while slots are to be drawn.

    `noise_bound` is None once the last slot was drawn: nothing needs it then, and with it an accumulator
    would rule out all energies that are further away than the noise can be (THEORY-2 A.3). `masked` is the
    place whose accumulator is not known after a restart: what is kept there is a register minus it (see
    `register`). `lost` is the place whose accumulator was given up and has no noise, until `redraw`.
    """

    start_ms: int
    terms: Terms
    terms_id: str
    topic: str
    label: str
    noise_bound: int | None
    drawn: int = 0
    slots: dict[int, int] = field(default_factory=dict)
    fed: set[int] = field(default_factory=set)
    masked: int | None = None
    lost: int | None = None

    @property
    def end_ms(self) -> int:
        """Where the window ends."""
        return self.start_ms + self.terms.length_ms

    def slot_start_ms(self, index: int) -> int:
        """Where a slot starts."""
        if not self.terms.bands:
            return self.start_ms + index * self.terms.step_ms
        return self.start_ms + self.terms.stretches(index)[0][0]

    def slot_end_ms(self, index: int) -> int:
        """Where a slot ends."""
        if not self.terms.bands:
            return self.start_ms + (index + 1) * self.terms.step_ms
        return self.start_ms + self.terms.stretches(index)[-1][1]

    @property
    def next_slot(self) -> int:
        """The open slot that ends first."""
        if self.terms.bands:
            return min(self.slots, key=self.slot_end_ms)
        return next(iter(self.slots))

    def draw(self, noise: int, covered_ms: int, dither: int | None = None) -> None:
        """Open the next slot with its noise and dither; time of it that is covered already is gap.

        The last one drops R. Raises MeteragentError when all n slots were drawn (rule 4), and where the
        dither is missing; half-up windows have none.
        """
        if self.drawn >= self.terms.n:
            raise MeteragentError("more draws than slots from one noise bound")
        index, self.drawn = self.drawn, self.drawn + 1
        self.slots[index] = self._mask(index, noise, dither)
        if self.drawn == self.terms.n:
            self.noise_bound = None
        if covered_ms > self.start_ms:
            skipped_ms = self.terms.slot_ms(index) - self._left_ms(index, covered_ms)
            self.slots[index] += self.terms.gap_u * skipped_ms

    def _mask(self, index: int, noise: int, dither: int | None) -> int:
        """Return what a slot begins with: z * L + u, of half-up windows z * L."""
        if (dither is None) != (self.terms.rounding == "half-up"):
            raise MeteragentError("a dither where there is none, or none where there is one")
        return noise * self.terms.lattice(index) + (dither or 0)

    def add(self, start_ms: int, end_ms: int, value: int | Used | None) -> None:
        """Add a value (None: the gap's) over a stretch of time to the slots it touches."""
        from_ms, to_ms = max(start_ms - self.start_ms, 0), min(end_ms - self.start_ms, self.terms.length_ms)
        if from_ms >= to_ms:
            return
        if isinstance(value, Used):
            value = value.within(self.terms.low_u, self.terms.high_u)
        for index, start, end in self._touched(from_ms, to_ms):
            if isinstance(value, Used):
                self.slots[index] += value.between(self.start_ms + start, self.start_ms + end)
                self.fed.add(index)
            else:
                self.put(index, end - start, value)

    def put(self, index: int, duration_ms: int, value_u: int | None) -> None:
        """Add a value (None: the gap's) to an open slot, for so long."""
        if value_u is None:
            self.slots[index] += self.terms.gap_u * duration_ms
            return
        low_u, high_u = self.terms.low_u, self.terms.high_u
        if not low_u <= value_u <= high_u:
            value_u = min(max(value_u, low_u), high_u)
        self.slots[index] += value_u * duration_ms
        self.fed.add(index)

    def holding(self, from_ms: int, to_ms: int) -> int | None:
        """The only open slot, if it is of a power that counts at once, and a stretch lies before its end."""
        terms = self.terms
        if len(self.slots) != 1 or terms.bands or terms.lateness_ms or terms.kind is not Kind.POWER:
            return None
        [index] = self.slots
        start_ms = self.start_ms + index * terms.step_ms
        return index if start_ms <= from_ms and to_ms < start_ms + terms.step_ms else None

    def _touched(self, from_ms: int, to_ms: int) -> Iterable[tuple[int, int, int]]:
        """Cut a stretch of the window's time into those of its slots: (place, from, to)."""
        if self.terms.bands:
            return self._bands(from_ms, to_ms)
        step_ms = self.terms.step_ms
        first, last = from_ms // step_ms, (to_ms - 1) // step_ms
        if first == last:
            return ((first, from_ms, to_ms),)
        return (
            (index, max(from_ms, index * step_ms), min(to_ms, (index + 1) * step_ms))
            for index in range(first, last + 1)
        )

    def _bands(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int, int]]:
        for index, (_, stretches) in enumerate(self.terms.bands):
            at = bisect_right(stretches, from_ms, key=itemgetter(1))
            while at < len(stretches) and stretches[at][0] < to_ms:
                yield index, max(from_ms, stretches[at][0]), min(to_ms, stretches[at][1])
                at += 1

    def _left_ms(self, index: int, time_ms: int) -> int:
        """How much of a slot comes at or after a time."""
        at_ms = time_ms - self.start_ms
        return sum(max(end - max(start, at_ms), 0) for start, end in self.terms.stretches(index))

    def seal(self, covered_ms: int) -> None:
        """Fill what is not covered of the open slots with gap; a masked one is lost."""
        self.lose()
        for index in self.slots:
            if index != self.lost:
                self.slots[index] += self.terms.gap_u * self._left_ms(index, covered_ms)

    def close(self, index: int) -> int:
        """Take a slot out and return its released value in quanta.

            floor(A / L) where A began with a dither (THEORY-2 A.1), else floor(A / L + 1/2)

        Raises MeteragentError for a slot without noise.
        """
        if index in (self.masked, self.lost):
            raise MeteragentError("a slot without its noise")
        accumulator = self.slots.pop(index)
        lattice = self.terms.lattice(index)
        if self.terms.rounding == "dithered":
            return accumulator // lattice
        return round_half_up(accumulator, lattice)

    def state(self, standing: tuple[int, int] | None = None) -> OpenWindow:
        """What the store keeps of it.

        `standing` is a register, in an accumulator's units, and its time, if all is covered up to there:
        the slot that holds this time is kept as the register minus its accumulator. Raises MeteragentError
        when a slot has no noise.
        """
        if self.lost is not None:
            raise MeteragentError("a slot without its noise")
        masked, slots = self.masked, self.slots
        if standing is not None and masked is None and (place := self._place(standing[0])) is not None:
            masked, slots = place, {**slots, place: standing[1] - slots[place]}
        kept = tuple([Slot(index, accumulator) for index, accumulator in slots.items()])
        return OpenWindow(
            self.start_ms,
            self.terms_id,
            self.topic,
            self.label,
            self.noise_bound,
            self.drawn,
            kept,
            masked,
        )

    # --- a register's slot after a restart -----------------------------------------------------

    def _place(self, time_ms: int) -> int | None:
        """The open slot that holds a time; none of bands, which are kept as they are."""
        if self.terms.bands or not self.start_ms <= time_ms < self.end_ms:
            return None
        place = (time_ms - self.start_ms) // self.terms.step_ms
        return place if place in self.slots else None

    def unmask(self, time_ms: int, register: int) -> bool:
        """Whether a register at a time of the masked slot fits what is kept; then the slot goes on.

        It fits if some use within the range and a noise that is not less likely than 2^-40 make it up:
        R, which could say more, is not kept.
        """
        place = self.masked
        if place is None:
            return True
        found = register - self.slots[place]
        terms, lattice = self.terms, self.terms.lattice(place)
        widest = reach(terms.n, terms.epsilon * terms.quantum) * lattice
        duration_ms = time_ms - self.slot_start_ms(place)
        low, high = terms.low_u * duration_ms - widest, terms.high_u * duration_ms + widest
        if not low <= found < high + lattice:  # a dither is added, of less than one quantum
            return False
        self.slots[place], self.masked = found, None
        self.fed.add(place)
        return True

    def lose(self) -> None:
        """Give the masked slot up, gap throughout: its noise is never used."""
        place, self.masked = self.masked, None
        if place is not None:
            self.slots[place] = self.terms.gap_u * self.terms.slot_ms(place)
            self.lost = place

    def redraw(self, noise: int, dither: int | None = None) -> None:
        """Give the lost slot noise of a new noise bound, and a new dither."""
        place, self.lost = self.lost, None
        if place is not None:
            self.slots[place] += self._mask(place, noise, dither)
