"""Labelled noise, and a witness that checks laws 1, 2 and 4 on every commit.

Every draw is a different multiple of STRIDE quanta, so that an accumulator or a record shows which draw it
contains, and the rest.
"""

import json
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain import grid
from meteragent.domain.commit import Commit, OpenWindow, Outgoing, Slot, TimelineState
from meteragent.domain.metric import Metric
from meteragent.domain.readings import ReadingRules
from meteragent.domain.shapes import Means
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.privacy import Bits, LInfLaplace

STRIDE = 10**18
"""The distance between the labels of draws in quanta, far larger than any reading."""

WIDE = 10**30
"""The distance between noise bounds in quanta, larger than any label."""

TERMS = Terms(
    shape=Means(12, 4),
    readings=ReadingRules(
        kind=Kind.POWER,
        unit="W",
        interval_ms=0,
        hold_ms=5,
        gap_u=0,
        low_u=0,
        high_u=20_000 * MICRO,
        modulus_u=None,
        every_ms=None,
        dead_band=None,
        counters=1,
    ),
    clock=Clock.WALL,
    lateness_ms=0,
    level=Fraction(1000),
    radius=Fraction(10),
    metric=Metric.LINF,
    quantum_u=MICRO,
    rounding="dithered",
    timezone=None,
    preset=None,
    others_per_day=Fraction(0),
)
"""Windows of a few milliseconds: three slots of four."""


class Drawn(NamedTuple):
    """A draw: its noise bound and its terms."""

    radius: int
    terms: Terms


@dataclass
class Draws:
    """All draws of a world: `radii[r / WIDE]` has the terms of a noise bound, `lines[label]` a draw."""

    radii: list[Terms] = field(default_factory=lambda: [TERMS])
    lines: list[Drawn] = field(default_factory=lambda: [Drawn(0, TERMS)])


@dataclass(frozen=True, init=False)
class Labelled(LInfLaplace):
    """The mechanism of `terms`, with a label for each draw in place of a random number."""

    terms: Terms
    draws: Draws

    def __init__(self, terms: Terms, draws: Draws) -> None:
        super().__init__(terms.epsilon, terms.quantum, terms.n)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "draws", draws)

    def draw_noise_bound(self, bits: Bits) -> int:
        """Return a new noise bound."""
        self.draws.radii.append(self.terms)
        return (len(self.draws.radii) - 1) * WIDE

    def draw_noise_bounds(self, count: int, bits: Bits) -> list[int]:
        """Return `count` new noise bounds."""
        return [self.draw_noise_bound(bits) for _ in range(count)]

    def draw_slot(self, radius: int, bits: Bits) -> int:
        """Return the next label, in quanta."""
        self.draws.lines.append(Drawn(radius, self.terms))
        return (len(self.draws.lines) - 1) * STRIDE

    def draw_slots(self, radii: Sequence[int], bits: Bits) -> list[int]:
        """Return the next label for each noise bound."""
        return [self.draw_slot(radius, bits) for radius in radii]


def stretches_of(terms: Terms, place: int) -> Sequence[tuple[int, int]]:
    """Return a slot's stretches; a place that counts draws may lie behind the last slot."""
    return terms.places[place].stretches if terms.places else [terms.shape.extent_ms(place)]


class LabelledSlot(NamedTuple):
    """The slot that contains a label.

    `place` is set for a band, whose time is not contiguous.
    """

    meter: str
    start_ms: int
    end_ms: int
    place: int | None = None

    @classmethod
    def of(cls, meter: str, window_ms: int, place: int, terms: Terms) -> "LabelledSlot":
        """Return the slot at a place of a window."""
        parts = stretches_of(terms, place)
        hull = window_ms + parts[0][0], window_ms + parts[-1][1]
        return cls(meter, *hull, place if terms.places else None)

    def parts(self, terms: Terms) -> list[tuple[int, int]]:
        """Return the spans of time in the slot."""
        if self.place is None:
            return [(self.start_ms, self.end_ms)]
        parts = terms.stretches[self.place]
        window_ms = self.start_ms - parts[0][0]
        return [(window_ms + start, window_ms + end) for start, end in parts]


class Record(NamedTuple):
    """A record in the outbox: its slot, its quanta without the draw, and its terms."""

    slot: LabelledSlot
    quanta: int
    terms: Terms
    row: Outgoing
    window_ms: int
    place: int


@dataclass
class Account:
    """The number of windows, and the sum of their epsilon in 1/W."""

    windows: int = 0
    epsilon_per_w: Fraction = Fraction(0)

    def add(self, windows: int, epsilon_per_w: Fraction) -> None:
        """Add windows of one kind."""
        self.windows += windows
        self.epsilon_per_w += windows * epsilon_per_w


@dataclass
class Witness:
    """A check that commits, in order, keep the laws."""

    draws: Draws
    names: dict[str, str] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    slots: dict[int, LabelledSlot] = field(default_factory=dict)
    intervals: defaultdict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    draws_of: Counter[int] = field(default_factory=Counter)
    opened: dict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    charged: dict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    quanta: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    records: dict[LabelledSlot, Record] = field(default_factory=dict)
    places: dict[LabelledSlot, tuple[int, int, int]] = field(default_factory=dict)
    """The draw, the window and the place of each slot."""
    dithers: dict[int, int] = field(default_factory=dict)
    """The dither that each draw's accumulator began with, once it has been on disk."""
    radii: dict[tuple[str, int], int] = field(default_factory=dict)
    """The noise bound that each window opened with, by meter and start."""
    terms: dict[str, Terms] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    repeated: set[LabelledSlot] = field(default_factory=set)

    def see(self, commit: Commit) -> None:
        """Check a commit against all earlier commits."""
        earlier_marks = dict(self.marks)
        self.terms.update(commit.terms)
        for meter, end_ms in commit.marks.items():
            assert end_ms > earlier_marks.get(meter, 0), "a mark was lowered"
        self.marks.update(commit.marks)
        for charge, windows in commit.charges.items():
            for meter, count in windows.items():
                self.charged[meter].add(count, charge.epsilon_per_w)
        for row in commit.outgoing:
            self._leaves(row, earlier_marks)
        for meter, state in commit.states.items():
            if state is not None:
                self._see_state(meter, state, earlier_marks)
        assert self.opened == self.charged, "noise on disk or in a record without a charge, or the reverse"

    def _leaves(self, row: Outgoing, earlier_marks: dict[str, int]) -> None:
        record = json.loads(row.payload, parse_float=Decimal)
        if row.retain:
            self.quanta[row.topic, record["id"]] = Fraction(record["quantum"])
            return
        band = record.pop("band", None)
        assert list(record) == ["v", "meter", "t", "for", "value", "unit", "sd", "d"], "unexpected fields"
        quantum = self.quanta[
            f"{row.topic}/privacy/{record['d']}", record["d"]
        ]  # the descriptor precedes its records
        value = Fraction(record["value"]) / quantum
        label = round(value / STRIDE)
        terms = self.draws.lines[label].terms
        assert (terms.quantum, value.denominator) == (quantum, 1), "a value off the lattice"
        assert record["for"] == grid.iso_duration(terms.length_ms if terms.places else terms.step_ms)
        meter, quanta = self.names[record["meter"]], int(value) - label * STRIDE
        window_ms, place = self._place(meter, grid.parse_time(record["t"]), band, label, terms)
        slot = LabelledSlot.of(meter, window_ms, place, terms)
        if self.places.get(slot, (label,))[0] == label:
            self._drawn_once(label, slot, earlier_marks)
        else:
            self._drawn_again(label, slot, window_ms, place)
        if slot in self.repeated:
            gap = Fraction(terms.readings.gap_u * terms.slot_ms(place), terms.steps_per_quantum[place])
            assert quanta in {gap // 1, -(-gap // 1)}, "a lost slot that is not gap"
        assert slot not in self.records, "an interval left twice"
        self.records[slot] = Record(slot, quanta, terms, row, window_ms, place)

    def _place(self, meter: str, time_ms: int, band: str | None, label: int, terms: Terms) -> tuple[int, int]:
        """Return the window and the place of a record's slot.

        The place is that of its band, or the number of earlier draws from its noise bound. A slot that is
        already recorded keeps its window and place, since its draw may have been replaced.
        """
        if terms.places:
            return time_ms, [b.name for b in terms.places].index(str(band))
        assert band is None
        recorded = self.places.get(LabelledSlot(meter, time_ms, time_ms + terms.step_ms))
        if recorded is not None:
            return recorded[1:]
        place = sum(line.radius == self.draws.lines[label].radius for line in self.draws.lines[:label])
        return time_ms - place * terms.step_ms, place

    def _see_state(self, meter: str, state: TimelineState, earlier_marks: dict[str, int]) -> None:
        for window in state.windows:
            terms = self.terms[window.terms_id]
            assert (window.noise_bound is None) == (window.draws == terms.n), "R is kept without need"
            for slot_state in window.slots:
                label, _ = self.draw_in(slot_state, window)
                slot = LabelledSlot.of(meter, window.start_ms, slot_state.slot_index, terms)
                radius = self.radii.setdefault((meter, window.start_ms), self.draws.lines[label].radius)
                assert window.noise_bound in (None, radius), "another radius in an open window"
                if self.draws.lines[label].radius == radius:
                    self._drawn_once(label, slot, earlier_marks)
                    self.places[slot] = label, window.start_ms, slot_state.slot_index
                    continue
                assert terms.readings.kind is Kind.REGISTER, "an accumulator without noise"
                self._drawn_again(label, slot, window.start_ms, slot_state.slot_index)
                gap = terms.readings.gap_u * terms.slot_ms(slot_state.slot_index)
                self.begins(
                    label, slot_state.accumulator - gap, slot_state.slot_index, "a lost slot that is not gap"
                )

    def draw_in(self, slot: Slot, window: OpenWindow) -> tuple[int, Terms]:
        """Return the draw in an accumulator of a window, and its terms.

        A masked accumulator is a register minus noise and energy.
        """
        terms, is_masked = self.terms[window.terms_id], slot.slot_index == window.masked_slot
        quotient = Fraction(slot.accumulator, terms.steps_per_quantum[slot.slot_index] * STRIDE)
        label = round(quotient) * (-1 if is_masked else 1)
        assert label, "an accumulator without noise"
        assert self.draws.lines[label].terms == terms, "an accumulator with the noise of another slot"
        return label, terms

    def begins(self, label: int, start: int, place: int, otherwise: str) -> None:
        """Check that an accumulator without its energy is noise and a dither that never changes."""
        terms = self.draws.lines[label].terms
        dither = start - label * STRIDE * terms.steps_per_quantum[place]
        assert 0 <= dither < terms.steps_per_quantum[place], otherwise
        assert self.dithers.setdefault(label, dither) == dither, otherwise

    def _drawn_again(self, label: int, slot: LabelledSlot, window_ms: int, place: int) -> None:
        """Record a new draw for a register's lost slot.

        The noise of the lost slot is given up. The new draw has a separate noise bound.
        """
        assert label not in self.dead, "noise that was given up is used"
        old_label = self.places[slot][0]
        if old_label == label:
            return
        radius, terms = self.draws.lines[label]
        assert terms.readings.kind is Kind.REGISTER
        assert slot not in self.records, "a second draw for what left"
        assert label not in self.slots, "one draw in two slots"
        self.draws_of[radius] += 1
        assert self.draws_of[radius] == 1, "two slots from one new radius"
        self.dead.add(old_label)
        self.repeated.add(slot)
        self.slots[label], self.places[slot] = slot, (label, window_ms, place)

    def _drawn_once(self, label: int, slot: LabelledSlot, earlier_marks: dict[str, int]) -> None:
        """Law 1: check that a draw belongs to one slot, and that no other draw covers any of its time."""
        assert label not in self.dead, "noise that was given up is used"
        if label in self.slots:
            assert self.slots[label] == slot, "one draw in two slots"
            return
        radius, terms = self.draws.lines[label]
        intervals = self.intervals[slot.meter]
        for part in slot.parts(terms):
            place = bisect(intervals, part)
            around = intervals[max(place - 1, 0) : place + 1]
            disjoint = all(end <= part[0] or part[1] <= start for start, end in around)
            assert disjoint, "a second draw for one interval"
            intervals.insert(place, part)
        if radius not in self.draws_of:
            assert slot.start_ms >= earlier_marks.get(slot.meter, 0), "a window before the mark"
            self.opened[slot.meter].add(1, terms.epsilon_per_w)
        assert slot.end_ms <= self.marks[slot.meter], "a slot beyond the mark"
        self.slots[label] = slot
        self.draws_of[radius] += 1
        assert self.draws_of[radius] <= terms.n, "more draws than slots from one radius"
