"""A window's accumulators: its slots between their opening and their close."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter

from meteragent.errors import MeteragentError
from meteragent.release import Kind, OpenWindow, Slot, Terms


@dataclass(slots=True)
class Window:
    """An open window: the secret R, how many slots were drawn from it, the open accumulators.

    Only a register's accumulators can be fractions. `masked` is the place whose accumulator is not known
    after a restart: what is kept there is a register minus it (see `register`). `lost` is the place whose
    accumulator was given up and has no noise, until `redraw`.
    """

    start_ms: int
    terms: Terms
    terms_id: str
    topic: str
    label: str
    radius: int
    drawn: int = 0
    slots: dict[int, int | Fraction] = field(default_factory=dict)
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

    def draw(self, noise: int, covered_ms: int) -> None:
        """Open the next slot with its noise; time of it that is covered already is gap.

        Raises MeteragentError when all n slots were drawn (rule 4).
        """
        if self.drawn >= self.terms.n:
            raise MeteragentError("more draws than slots from one radius")
        index, self.drawn = self.drawn, self.drawn + 1
        self.slots[index] = noise * self.terms.lattice(index)
        if covered_ms > self.start_ms:
            skipped_ms = self.terms.slot_ms(index) - self._left_ms(index, covered_ms)
            self.slots[index] += self.terms.gap_u * skipped_ms

    def add(self, start_ms: int, end_ms: int, value_u: int | Fraction | None) -> None:
        """Add a value (None: the gap's) over a stretch of time to the slots it touches."""
        from_ms, to_ms = max(start_ms - self.start_ms, 0), min(end_ms - self.start_ms, self.terms.length_ms)
        if from_ms >= to_ms:
            return
        for index, duration_ms in self._touched(from_ms, to_ms):
            self.put(index, duration_ms, value_u)

    def put(self, index: int, duration_ms: int, value_u: int | Fraction | None) -> None:
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

    def _touched(self, from_ms: int, to_ms: int) -> Iterable[tuple[int, int]]:
        """The slots that a stretch of the window's time lies in, and how long in each."""
        if self.terms.bands:
            return self._bands(from_ms, to_ms)
        step_ms = self.terms.step_ms
        first, last = from_ms // step_ms, (to_ms - 1) // step_ms
        if first == last:
            return ((first, to_ms - from_ms),)
        return (
            (index, min(to_ms, (index + 1) * step_ms) - max(from_ms, index * step_ms))
            for index in range(first, last + 1)
        )

    def _bands(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
        for index, (_, stretches) in enumerate(self.terms.bands):
            at = bisect_right(stretches, from_ms, key=itemgetter(1))
            while at < len(stretches) and stretches[at][0] < to_ms:
                yield index, min(to_ms, stretches[at][1]) - max(from_ms, stretches[at][0])
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
        """Take a slot out: its released value in quanta, floor(A / lattice + 1/2) (THEORY 3.4).

        Raises MeteragentError for a slot without noise.
        """
        if index in (self.masked, self.lost):
            raise MeteragentError("a slot without its noise")
        accumulator = self.slots.pop(index)
        lattice = self.terms.lattice(index)
        return (2 * accumulator + lattice) // (2 * lattice)

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
        kept = tuple([Slot(index, _whole(accumulator)) for index, accumulator in slots.items()])
        return OpenWindow(
            self.start_ms,
            self.terms_id,
            self.topic,
            self.label,
            self.radius,
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

        It fits if some noise of the radius and some use within the range make it up.
        """
        place = self.masked
        if place is None:
            return True
        found = register - self.slots[place]
        widest = self.radius * self.terms.lattice(place)
        duration_ms = time_ms - self.slot_start_ms(place)
        if not self.terms.low_u * duration_ms - widest <= found <= self.terms.high_u * duration_ms + widest:
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

    def redraw(self, noise: int) -> None:
        """Give the lost slot noise of a new radius."""
        place, self.lost = self.lost, None
        if place is not None:
            self.slots[place] += noise * self.terms.lattice(place)


def _whole(accumulator: int | Fraction) -> int | Fraction:
    """A whole number as an integer."""
    if type(accumulator) is int or accumulator.denominator != 1:
        return accumulator
    return accumulator.numerator
