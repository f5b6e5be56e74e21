"""Labelled noise, and a witness of every commit that checks laws 1, 2 and 4 on it.

Every draw is a different multiple of STRIDE quanta, so that whoever looks at an accumulator or a
record can tell which draw is in it, and what is in it beside the draw.
"""

import json
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain import grid
from meteragent.domain.commit import Commit, OpenWindow, Outgoing, Slot, TimelineState
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.privacy import Bits, LInfLaplace

STRIDE = 10**18
"""Labels of draws are this many quanta apart, far more than any reading."""

WIDE = 10**30
"""Radii are whole multiples, more quanta than any label."""

TERMS = Terms(
    kind=Kind.POWER,
    unit="W",
    clock=Clock.WALL,
    length_ms=12,
    step_ms=4,
    lateness_ms=0,
    level=Fraction(1000),
    radius=Fraction(10),
    quantum_u=MICRO,
    hold_ms=5,
    interval_ms=0,
    gap_u=0,
    low_u=0,
    high_u=20_000 * MICRO,
    rounding="dithered",
)
"""Windows of a few milliseconds: three slots of four."""

HALF_UP = replace(TERMS, rounding="half-up")
"""The same as a window of an earlier version has them: an accumulator is noise and energy alone."""


class Drawn(NamedTuple):
    """A number that was drawn: from which radius, under which terms."""

    radius: int
    terms: Terms


@dataclass
class Draws:
    """All that was ever drawn in a world: `radii[r / WIDE]` has a radius' terms, `lines[label]` a draw."""

    radii: list[Terms] = field(default_factory=lambda: [TERMS])
    lines: list[Drawn] = field(default_factory=lambda: [Drawn(0, TERMS)])


@dataclass(frozen=True, init=False)
class Labelled(LInfLaplace):
    """The mechanism of `known`, with a label for each draw instead of a random number."""

    known: Terms
    draws: Draws

    def __init__(self, known: Terms, draws: Draws) -> None:
        super().__init__(known.epsilon, known.quantum, known.n)
        object.__setattr__(self, "known", known)
        object.__setattr__(self, "draws", draws)

    def noise_bound(self, bits: Bits) -> int:
        """A radius nobody else has."""
        self.draws.radii.append(self.known)
        return (len(self.draws.radii) - 1) * WIDE

    def noise_bounds(self, count: int, bits: Bits) -> list[int]:
        """So many of these."""
        return [self.noise_bound(bits) for _ in range(count)]

    def draw(self, radius: int, bits: Bits) -> int:
        """The next label, as many quanta."""
        self.draws.lines.append(Drawn(radius, self.known))
        return (len(self.draws.lines) - 1) * STRIDE

    def slots(self, radii: Sequence[int], bits: Bits) -> list[int]:
        """So many of these."""
        return [self.draw(radius, bits) for radius in radii]


class SlotSeen(NamedTuple):
    """Where a label is: the slot of a meter; a band of a window is not all of the time between."""

    meter: str
    start_ms: int
    end_ms: int
    place: int | None = None

    @classmethod
    def of(cls, meter: str, window_ms: int, place: int, terms: Terms) -> "SlotSeen":
        """The slot at a place of a window."""
        parts = terms.stretches(place)
        hull = window_ms + parts[0][0], window_ms + parts[-1][1]
        return cls(meter, *hull, place if terms.bands else None)

    def parts(self, terms: Terms) -> list[tuple[int, int]]:
        """The time that is in the slot."""
        if self.place is None:
            return [(self.start_ms, self.end_ms)]
        parts = terms.stretches(self.place)
        window_ms = self.start_ms - parts[0][0]
        return [(window_ms + start, window_ms + end) for start, end in parts]


class Record(NamedTuple):
    """A record in the outbox: its slot, the quanta in it beside the draw, under which terms."""

    slot: SlotSeen
    quanta: int
    terms: Terms
    row: Outgoing
    window_ms: int
    place: int


@dataclass
class Account:
    """How many windows, and the sum of their epsilon in 1/W."""

    windows: int = 0
    epsilon_per_w: Fraction = Fraction(0)

    def add(self, windows: int, epsilon_per_w: Fraction) -> None:
        """Some more windows of one kind."""
        self.windows += windows
        self.epsilon_per_w += windows * epsilon_per_w


@dataclass
class Witness:
    """Sees what is committed, in order, and checks that it keeps the laws."""

    draws: Draws
    names: dict[str, str] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    slots: dict[int, SlotSeen] = field(default_factory=dict)
    taken: defaultdict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    used: Counter[int] = field(default_factory=Counter)
    opened: dict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    charged: dict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    quanta: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    records: dict[SlotSeen, Record] = field(default_factory=dict)
    places: dict[SlotSeen, tuple[int, int, int]] = field(default_factory=dict)
    """Of each slot its draw, its window and its place there."""
    dithers: dict[int, int] = field(default_factory=dict)
    """Of each draw what its accumulator began with beside it, once it was seen on disk."""
    radii: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of each window, by its meter and start, the radius that it opened with."""
    terms: dict[str, Terms] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    again: set[SlotSeen] = field(default_factory=set)

    def see(self, commit: Commit) -> None:
        """Check a commit against everything that was committed before."""
        before = dict(self.marks)
        self.terms.update(commit.terms)
        for meter, end_ms in commit.marks.items():
            assert end_ms > before.get(meter, 0), "a mark was lowered"
        self.marks.update(commit.marks)
        for charge, windows in commit.charges.items():
            for meter, count in windows.items():
                self.charged[meter].add(count, charge.epsilon_per_w)
        for row in commit.outgoing:
            self._leaves(row, before)
        for meter, state in commit.states.items():
            if state is not None:
                self._see_state(meter, state, before)
        assert self.opened == self.charged, "noise on disk or in a record that is not charged, or the reverse"

    def _leaves(self, row: Outgoing, before: dict[str, int]) -> None:
        found = json.loads(row.payload, parse_float=Decimal)
        if row.retain:
            self.quanta[row.topic, found["id"]] = Fraction(found["quantum"])
            return
        band = found.pop("band", None)
        assert list(found) == ["v", "meter", "t", "for", "value", "unit", "sd", "d"], "fields that tell"
        quantum = self.quanta[f"{row.topic}/privacy/{found['d']}", found["d"]]  # said before
        value = Fraction(found["value"]) / quantum
        label = round(value / STRIDE)
        terms = self.draws.lines[label].terms
        assert (terms.quantum, value.denominator) == (quantum, 1), "a value off the lattice"
        assert found["for"] == grid.iso_duration(terms.length_ms if terms.bands else terms.step_ms)
        meter, quanta = self.names[found["meter"]], int(value) - label * STRIDE
        window_ms, place = self._place(meter, grid.parse_time(found["t"]), band, label, terms)
        slot = SlotSeen.of(meter, window_ms, place, terms)
        if self.places.get(slot, (label,))[0] == label:
            self._drawn_once(label, slot, before)
        else:
            self._drawn_again(label, slot, window_ms, place)
        if slot in self.again:
            gap = Fraction(terms.gap_u * terms.slot_ms(place), terms.lattice(place))
            dithered = terms.rounding == "dithered"
            roundings = {gap // 1, -(-gap // 1)} if dithered else {(gap + Fraction(1, 2)) // 1}
            assert quanta in roundings, "a lost slot that is no gap"
        assert slot not in self.records, "an interval left twice"
        self.records[slot] = Record(slot, quanta, terms, row, window_ms, place)

    def _place(self, meter: str, time_ms: int, band: str | None, label: int, terms: Terms) -> tuple[int, int]:
        """The window and the place that a record names: of a band, or the so manyth draw of its radius.

        Of a slot that is known, as it is known: its draw may be another one.
        """
        if terms.bands:
            return time_ms, [one.name for one in terms.bands].index(str(band))
        assert band is None
        known = self.places.get(SlotSeen(meter, time_ms, time_ms + terms.step_ms))
        if known is not None:
            return known[1:]
        place = sum(line.radius == self.draws.lines[label].radius for line in self.draws.lines[:label])
        return time_ms - place * terms.step_ms, place

    def _see_state(self, meter: str, state: TimelineState, before: dict[str, int]) -> None:
        for window in state.windows:
            terms = self.terms[window.terms]
            assert (window.noise_bound is None) == (window.drawn == terms.n), (
                "R is kept when nothing needs it"
            )
            for kept in window.slots:
                label, _ = self.draw_in(kept, window)
                slot = SlotSeen.of(meter, window.start_ms, kept.slot_index, terms)
                radius = self.radii.setdefault((meter, window.start_ms), self.draws.lines[label].radius)
                assert window.noise_bound in (None, radius), "another radius in an open window"
                if self.draws.lines[label].radius == radius:
                    self._drawn_once(label, slot, before)
                    self.places[slot] = label, window.start_ms, kept.slot_index
                    continue
                assert terms.kind is Kind.REGISTER, "an accumulator without its noise"
                self._drawn_again(label, slot, window.start_ms, kept.slot_index)
                gap = terms.gap_u * terms.slot_ms(kept.slot_index)
                self.begins(label, kept.accumulator - gap, kept.slot_index, "a lost slot that is no gap")

    def draw_in(self, slot: Slot, window: OpenWindow) -> tuple[int, Terms]:
        """The draw in an accumulator of a window, and its terms; a masked one is a register minus it."""
        terms, masked = self.terms[window.terms], slot.slot_index == window.masked
        lines = Fraction(slot.accumulator, terms.lattice(slot.slot_index) * STRIDE)
        label = round(lines) * (-1 if masked else 1)
        assert label, "an accumulator without its noise"
        assert self.draws.lines[label].terms == terms, "an accumulator with another's noise"
        return label, terms

    def begins(self, label: int, start: int, place: int, otherwise: str) -> None:
        """An accumulator without its energy: noise and a dither, which stays as it was first seen."""
        terms = self.draws.lines[label].terms
        dither = start - label * STRIDE * terms.lattice(place)
        most = terms.lattice(place) if terms.rounding == "dithered" else 1
        assert 0 <= dither < most, otherwise
        assert self.dithers.setdefault(label, dither) == dither, otherwise

    def _drawn_again(self, label: int, slot: SlotSeen, window_ms: int, place: int) -> None:
        """A register's slot that was lost: its noise is given up, another is drawn from a radius alone."""
        assert label not in self.dead, "noise that was given up is used"
        known = self.places[slot][0]
        if known == label:
            return
        radius, terms = self.draws.lines[label]
        assert terms.kind is Kind.REGISTER
        assert slot not in self.records, "a second draw for what left"
        assert label not in self.slots, "one draw in two slots"
        self.used[radius] += 1
        assert self.used[radius] == 1, "two slots from one new radius"
        self.dead.add(known)
        self.again.add(slot)
        self.slots[label], self.places[slot] = slot, (label, window_ms, place)

    def _drawn_once(self, label: int, slot: SlotSeen, before: dict[str, int]) -> None:
        """Law 1: a draw belongs to one slot, and no other draw to any time that this slot has."""
        assert label not in self.dead, "noise that was given up is used"
        if label in self.slots:
            assert self.slots[label] == slot, "one draw in two slots"
            return
        radius, terms = self.draws.lines[label]
        taken = self.taken[slot.meter]
        for mine in slot.parts(terms):
            at = bisect(taken, mine)
            around = taken[max(at - 1, 0) : at + 1]
            apart = all(end <= mine[0] or mine[1] <= start for start, end in around)
            assert apart, "a second draw for one interval"
            taken.insert(at, mine)
        if radius not in self.used:
            assert slot.start_ms >= before.get(slot.meter, 0), "a window before the mark"
            self.opened[slot.meter].add(1, terms.epsilon_per_w)
        assert slot.end_ms <= self.marks[slot.meter], "a slot beyond the mark"
        self.slots[label] = slot
        self.used[radius] += 1
        assert self.used[radius] <= terms.n, "more draws than slots from one radius"
