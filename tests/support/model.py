"""A slow reference model of a stream's values and acknowledgements, one millisecond at a time.

It implements law 7, sample-and-hold (THEORY 3.7) and registers independently of the core, without spans,
heaps or bisection. For every millisecond it determines which reading applies, if any, and when that is final.
It keeps all registers, including those that the agent loses in a crash. It is only for grids of a few
milliseconds, without budget, pseudonyms and `forget`, and with a constant kind, hold, lateness, interval and
modulus.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any, NamedTuple

from hypothesis import assume

from meteragent.domain.readings import ReadingRules
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import Kind
from meteragent.privacy.mechanism.laplace import reach_quanta
from tests.support.witness import stretches_of


class Arrival(NamedTuple):
    """A reading as it arrives.

    `token` identifies its delivery, which may contain several readings.
    """

    meter: str
    time_ms: int
    value_u: int
    received_ms: int
    token: Any


JUMPED = Fraction(0)
"""The value of a millisecond whose energy is in a jump; it is compared by identity and never clamped."""


class Held(NamedTuple):
    """A reading that may still apply to undecided time."""

    value_u: int
    token: Any


class Open(NamedTuple):
    """A register's slot that was open at a crash: its bounds, and the newest decided reading."""

    start_ms: int
    end_ms: int
    value_u: int


class Span(NamedTuple):
    """A span between two good readings of a register: its use (None: a gap), and when it is settled.

    `settled_ms` is the time of the reading that settles it; None if that has not arrived.
    """

    start_ms: int
    end_ms: int
    use_u: int | None
    settled_ms: int | None


class Part(NamedTuple):
    """A millisecond of a span."""

    span: Span
    ms: int

    def counts(self, terms: Terms) -> int:
        """Return what the millisecond counts for: the use is clamped, and rounded down at both its ends."""
        length_ms, use_u = self.span.end_ms - self.span.start_ms, self.span.use_u
        assert use_u is not None
        low, high = held_by_range(terms.readings, length_ms)
        units, since_ms = (
            sorted([low, use_u * terms.readings.interval_ms, high])[1],
            self.ms - self.span.start_ms,
        )
        return floor(Fraction(units * (since_ms + 1), length_ms)) - floor(
            Fraction(units * since_ms, length_ms)
        )


def counted(value: "int | Fraction | Part | None", terms: Terms) -> int | Fraction:
    """Return what the value of a millisecond counts for in a window, with its gap and range."""
    if isinstance(value, Part):
        return value.counts(terms)
    if value is None:
        return terms.readings.gap_u
    return value if value is JUMPED else min(max(terms.readings.low_u, value), terms.readings.high_u)


def held_by_range(rules: ReadingRules, length_ms: int) -> tuple[int, int]:
    """Return the least and the largest use that the range allows: one second and one step more than it."""
    step = ceil((rules.dead_band or 0) * rules.counters * 10**6) * rules.interval_ms
    lows = [rules.low_u * (length_ms + s) for s in (-1000, 1000)]
    highs = [rules.high_u * (length_ms + s) for s in (-1000, 1000)]
    return min(lows) - step, max(highs) + step


def rolled(rules: ReadingRules, start: tuple[int, int], end: tuple[int, int]) -> int | None:
    """Return the use of a possible change; None if no load makes it, not even ten times the largest."""
    length_ms, step = end[0] - start[0], ceil((rules.dead_band or 0) * rules.counters * 10**6)
    time_ms = length_ms + 1000 + 9 * min(length_ms, 3_600_000)
    low, high = Fraction(min(rules.low_u, 0) * time_ms), Fraction(max(rules.high_u, 0) * time_ms)
    for modulus_u in [0] if rules.modulus_u is None else [0, rules.modulus_u]:
        use_u = end[1] - start[1] + modulus_u
        if low / rules.interval_ms - step <= use_u <= high / rules.interval_ms + step:
            return use_u
    return None


def is_confirmed(
    rules: ReadingRules, good: tuple[int, int], doubted: tuple[int, int], reading: tuple[int, int]
) -> bool:
    """Return whether another reading confirms a doubted one; the use up to it is then a gap."""
    use_u, rise_u = rolled(rules, doubted, reading), reading[1] - doubted[1]
    low, high = held_by_range(rules, reading[0] - doubted[0])
    goes_on = rise_u > 0 or (rules.low_u < 0 and rise_u != 0)
    if doubted[1] < good[1]:
        return goes_on and low <= rise_u * rules.interval_ms <= high
    return goes_on and use_u == rise_u


def believed(readings: list[tuple[int, int]], rules: ReadingRules) -> list[Span]:
    """Return the spans between good readings: a reading after the other, as the register rule says.

    `waits` is a reading that is possible, but rolled over or above the range; `doubted` is the last one that
    is impossible after the good one.
    """
    spans: list[Span] = []
    good, waits, doubted = readings[0] if readings else (0, 0), None, None

    def end(reading: tuple[int, int], use_u: int | None, settled_ms: int | None) -> None:
        """End the span at a reading, which is good from now on."""
        nonlocal good, waits, doubted
        spans.append(Span(good[0], reading[0], use_u, settled_ms))
        good, waits, doubted = reading, None, None

    for reading in readings[1:]:
        if waits is not None and (
            rolled(rules, good, reading) is None or rolled(rules, waits, reading) is not None
        ):
            end(waits, rolled(rules, good, waits), reading[0])
        waits = None
        is_level = doubted is not None and rolled(rules, good, reading) is None
        if is_level and doubted and is_confirmed(rules, good, doubted, reading):
            end(doubted, None, reading[0])
        use_u = rolled(rules, good, reading)
        low, high = held_by_range(rules, reading[0] - good[0])
        if use_u is None:
            doubted = reading
        elif use_u == reading[1] - good[1] and low <= use_u * rules.interval_ms <= high:
            end(reading, use_u, reading[0])
        else:
            waits = reading
    if waits is not None:
        end(waits, rolled(rules, good, waits), None)
    return spans


@dataclass
class Meter:
    """One meter: its windows, its decided values, and its held readings.

    `resume_ms` is the `next_ms` of the last commit that wrote this meter. `values` has the value of each
    millisecond, `jumps` the energy that counts at a single time, by that time. `masked_slot` is a register's
    slot that was open at a crash and is not yet resumed.
    """

    terms: Terms
    schedule: Schedule
    next_ms: int
    covered_ms: int
    resume_ms: int
    standing_ms: int | None = None
    newest_ms: int | None = None
    windows: list[tuple[int, Terms]] = field(default_factory=list)
    values: dict[int, int | Fraction | Part | None] = field(default_factory=dict)
    jumps: dict[int, int] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    masked_slot: Open | None = None
    lost_count: int = 0

    def copy(self) -> "Meter":
        """Return a copy without the held readings."""
        copy = replace(self, windows=[*self.windows], values={**self.values}, jumps={**self.jumps}, held={})
        copy.masked_slot = self.masked_slot or self.standing_slot()
        return copy

    def standing_slot(self) -> Open | None:
        """Return the open slot that is decided up to its good reading; None if there is none."""
        oldest_ms = min(self.held, default=None)
        if self.terms.readings.kind is not Kind.REGISTER or oldest_ms is None or oldest_ms != self.covered_ms:
            return None
        for start_ms, terms in self.windows:
            for place in range(terms.n if not terms.places else 0):
                slot_ms = start_ms + place * terms.step_ms
                if slot_ms <= self.covered_ms < slot_ms + terms.step_ms:
                    return Open(slot_ms, slot_ms + terms.step_ms, self.held[oldest_ms].value_u)
        return None

    @property
    def rules(self) -> Terms:
        """The terms under which readings count: those of the oldest open window (law 1)."""
        return self.windows[0][1] if self.windows else self.terms

    def believed(self, until_ms: int | None = None) -> list[Span]:
        """Return the spans between good readings among those held up to a time, by the register rule."""
        readings = [
            (t, reading.value_u)
            for t, reading in sorted(self.held.items())
            if until_ms is None or t <= until_ms
        ]
        return believed(readings, self.rules.readings)

    def used(self, ms: int) -> Part | None:
        """Return the part of a span that a millisecond is; None if it is a gap."""
        for span in self.believed():
            if span.start_ms <= ms < span.end_ms:
                return None if span.use_u is None else Part(span, ms)
        return None

    def value(self, ms: int) -> int | Part | None:
        """Return the current value of a millisecond; None: a gap."""
        if self.terms.readings.kind is Kind.REGISTER:
            return self.used(ms)
        speaker = self.speaker(ms)
        return None if speaker is None else self.held[speaker].value_u

    def speaker(self, ms: int) -> int | None:
        """Return the time of the held reading that applies to a millisecond; None: a gap."""
        if self.terms.readings.kind is Kind.POWER:
            before = max((t for t in self.held if t <= ms), default=None)
            return before if before is not None and ms < before + self.terms.readings.hold_ms else None
        after = min((t for t in self.held if t > ms), default=None)
        return after if after is not None and after - self.terms.readings.interval_ms <= ms else None

    def decided_at_ms(self, ms: int) -> int | None:
        """Return the time that decides a millisecond once passed by `lateness`; None if the close does."""
        after = min((t for t in self.held if t > ms), default=None)
        speaker = self.speaker(ms)
        if self.terms.readings.kind is Kind.INTERVAL_ENERGY or speaker is None:
            return after
        end_ms = speaker + self.terms.readings.hold_ms
        return end_ms if after is None else min(end_ms, after)

    def span_end_ms(self, time_ms: int) -> int:
        """Return the time until which a reading of that time applies."""
        if self.terms.readings.kind is Kind.INTERVAL_ENERGY:
            return time_ms
        times = [*self.held, *([] if self.standing_ms is None else [self.standing_ms])]
        return min([time_ms + self.terms.readings.hold_ms, *(t for t in times if t > time_ms)])

    def decide(self, until_ms: int) -> list[Any]:
        """Decide all time before `until_ms`; return the tokens of readings that no longer apply."""
        free = self.resume(until_ms)
        if self.terms.readings.kind is Kind.REGISTER and (self.masked_slot or until_ms <= self.covered_ms):
            return free
        for ms in range(self.covered_ms, until_ms):
            self.values[ms] = self.value(ms)
        self.covered_ms = max(self.covered_ms, until_ms)
        return free + self.free_tokens()

    def resume(self, until_ms: int) -> list[Any]:
        """Resume the slot that a crash left open, or give it up; return the tokens of dropped readings.

        The reading at which it was stored resumes it, or the first of two that the slot explains if the
        second is a rise that the range allows. When the slot has ended, or the register goes on at another
        level, the highest explained reading does.
        """
        slot = self.masked_slot
        if slot is None:
            return []
        is_over = until_ms >= slot.end_ms
        times = [t for t in sorted(self.held) if is_over or t <= until_ms]
        added = {t: self.added_u(slot, t) for t in times}
        explained = [t for t in times if added[t] is not None]
        inside = [t for t in explained if t <= slot.end_ms]
        if times[:1] == explained[:1] == [self.standing_ms]:
            first_ms = self.standing_ms
        else:
            first_ms = next((a for a, b in pairwise(explained) if a in inside and self.rises(a, b)), None)
        is_over |= any(added[a] is added[b] is None and self.rises(a, b) for a, b in pairwise(times))
        if first_ms is None and is_over:
            first_ms = max(inside, key=lambda t: self.held[t].value_u, default=None)
        if first_ms is not None:
            return self.resume_at(slot, first_ms)
        if is_over:
            self.masked_slot = None
            self.values |= dict.fromkeys(range(slot.start_ms, slot.end_ms))
            self.jumps.pop(slot.start_ms, None)
            self.covered_ms = slot.end_ms
            self.lost_count += 1
            return self.free_tokens()
        return [self.held.pop(t).token for t in times[:-2] if t not in explained[:1]]

    def resume_at(self, slot: Open, time_ms: int) -> list[Any]:
        """Resume the slot with the reading of a time; return the tokens of those before it."""
        self.masked_slot, added_u = None, self.added_u(slot, time_ms) or 0
        jump = (self.held[time_ms].value_u + added_u - slot.value_u) * self.terms.readings.interval_ms
        self.jumps[slot.start_ms] = self.jumps.get(slot.start_ms, 0) + jump
        self.values |= dict.fromkeys(range(self.covered_ms, time_ms), JUMPED)
        self.covered_ms = time_ms
        return [self.held.pop(t).token for t in sorted(self.held) if t < time_ms] + self.free_tokens()

    def added_u(self, slot: Open, time_ms: int) -> int | None:
        """Return what makes the slot explain a reading, 0 or the modulus; None if nothing does.

        The model does not know the noise. An example in which it would decide is given up.
        """
        terms = next(
            terms for start, terms in self.windows if start <= slot.start_ms < start + terms.length_ms
        )
        rules = terms.readings
        low, high = held_by_range(rules, time_ms - slot.start_ms)
        lattice = rules.interval_ms * terms.quantum_u
        unknown = (2 * reach_quanta(terms.n, terms.epsilon * terms.quantum) + 2) * lattice
        for added_u in (0, rules.modulus_u or 0):
            rise_u = self.held[time_ms].value_u + added_u - slot.value_u
            use = rise_u * rules.interval_ms + self.total(slot.start_ms, slot.end_ms, terms)
            if low <= use <= high:
                return added_u
            assume(not low - unknown <= use <= high + unknown)
        return None

    def rises(self, start_ms: int, end_ms: int) -> bool:
        """Return whether one reading goes on from another within the range; a net register may also fall."""
        use_u, rules = self.held[end_ms].value_u - self.held[start_ms].value_u, self.rules.readings
        moved = use_u != 0 if rules.low_u < 0 else use_u > 0
        low, high = held_by_range(rules, end_ms - start_ms)
        return moved and low <= use_u * rules.interval_ms <= high

    def free_tokens(self) -> list[Any]:
        """Release the held readings that no longer apply to any time, and return their tokens."""
        if self.terms.readings.kind is Kind.REGISTER:
            good = [t for t in [min(self.held, default=self.covered_ms + 1)] if t <= self.covered_ms]
            good += (
                [span.end_ms for span in self.believed() if span.end_ms <= self.covered_ms] if good else []
            )
            if good:
                self.standing_ms = max([good[-1], *([] if self.standing_ms is None else [self.standing_ms])])
            return [self.held.pop(t).token for t in sorted(self.held) if good and t < good[-1]]
        covered = [t for t in self.held if t <= self.covered_ms]
        if covered:
            self.standing_ms = max([*covered, *([] if self.standing_ms is None else [self.standing_ms])])
        expired = [t for t in self.held if self.span_end_ms(t) <= self.covered_ms]
        return [self.held.pop(t).token for t in sorted(expired)]

    def forget_doubted(self, frontier_ms: int) -> list[Any]:
        """Drop all doubted readings but those that can still settle something, if there are many."""
        times = [t for t in sorted(self.held) if t <= frontier_ms]
        if len(times) <= 3:
            return []
        spans = self.believed(frontier_ms)
        settled = [span for span in spans if span.settled_ms is not None]
        good = settled[-1].end_ms if settled else times[0]
        doubted = [t for t in times if t > good]
        unsettled = spans[len(settled) :]
        needless = [t for t in doubted if t < unsettled[0].end_ms] if unsettled else doubted[:-2]
        return [self.held.pop(t).token for t in needless]

    def decide_passed(self, clock_ms: int) -> Iterable[Any]:
        """Decide all time up to the newest reading less `lateness`, or up to the clock."""
        if self.newest_ms is None:
            return []
        frontier_ms = min(self.newest_ms - self.terms.lateness_ms, clock_ms)
        if self.terms.readings.kind is Kind.REGISTER:
            return self.decide_settled(frontier_ms)
        until_ms = self.covered_ms
        while (at_ms := self.decided_at_ms(until_ms)) is not None and at_ms <= frontier_ms:
            until_ms += 1
        return self.decide(until_ms)

    def decide_settled(self, frontier_ms: int) -> list[Any]:
        """Decide all time up to the newest good reading that the readings up to a time settle."""
        free = self.resume(frontier_ms)
        if self.masked_slot is not None:
            return free
        ends = [span.end_ms for span in self.believed(frontier_ms) if span.settled_ms is not None]
        oldest_ms = min(self.held, default=None)
        ends += [oldest_ms] if oldest_ms is not None and oldest_ms <= frontier_ms else []
        free += self.decide(max(ends, default=self.covered_ms))
        return free + self.forget_doubted(frontier_ms)

    def advance(self, open_ms: int, close_ms: int) -> Iterable[Any]:
        """Open windows up to `open_ms` and close slots up to `close_ms`; return the freed tokens."""
        while self.next_ms <= open_ms:
            terms = self.schedule.terms_at(self.next_ms)
            self.windows.append((self.next_ms, terms))
            self.next_ms += terms.length_ms
        free: list[Any] = []
        for start_ms, terms in [*self.windows]:
            for end_ms in sorted(start_ms + terms.stretches[place][-1][1] for place in range(terms.n)):
                if end_ms + self.terms.lateness_ms <= close_ms:
                    free += self.decide(end_ms)
            if start_ms + terms.length_ms + self.terms.lateness_ms <= close_ms:
                self.windows.remove((start_ms, terms))
        return [*free, *self.decide(self.covered_ms)]

    def arrive(self, arrival: Arrival) -> tuple[bool, Iterable[Any]]:
        """Accept a reading; return whether it counts, and the tokens that need not be held."""
        is_register = self.terms.readings.kind is Kind.REGISTER
        is_old = self.standing_ms is not None and arrival.time_ms < self.standing_ms
        if is_old if is_register else self.span_end_ms(arrival.time_ms) <= self.covered_ms:
            return False, [arrival.token]
        earlier = self.held.get(arrival.time_ms)
        if earlier is not None:
            if earlier.value_u != arrival.value_u:
                return False, [arrival.token]
            self.held[arrival.time_ms] = Held(earlier.value_u, arrival.token)
            return False, [earlier.token]
        self.held[arrival.time_ms] = Held(arrival.value_u, arrival.token)
        self.newest_ms = max(arrival.time_ms, self.newest_ms or 0)
        return True, self.free_tokens() if not is_register or arrival.time_ms <= self.covered_ms else []

    def total(self, start_ms: int, end_ms: int, terms: Terms) -> int | Fraction:
        """Sum value * duration over the decided part of a slot, with its window's gap and range."""
        values = [self.values[ms] for ms in range(start_ms, min(end_ms, self.covered_ms))]
        return sum((counted(value, terms) for value in values), self.jumps.get(start_ms, 0))

    def energy(self, window_ms: int, place: int, terms: Terms) -> int | Fraction:
        """Sum value * duration over the decided part of a slot of a window."""
        parts = stretches_of(terms, place)
        return sum(self.total(window_ms + start, window_ms + end, terms) for start, end in parts)

    def quanta(self, window_ms: int, place: int, terms: Terms, dither: int | None) -> set[int]:
        """Return the possible values of a slot in quanta: floor(mean / q + u / L), THEORY A.1.

        If `dither` is None, u is unknown.
        """
        per = terms.slot_ms(place) if terms.readings.kind is Kind.POWER else terms.readings.interval_ms
        mean = Fraction(self.energy(window_ms, place, terms), per * terms.quantum_u)
        if dither is None:
            return {floor(mean), ceil(mean)}
        return {floor(mean + Fraction(dither, per * terms.quantum_u))}


class Model:
    """All meters of a stream."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.meters: dict[str, Meter] = {}
        self.accepted = 0
        self.waiting: Counter[Any] = Counter()

    def feed(self, batch: Iterable[Arrival], now_ms: int, closing_ms: int) -> list[Any]:
        """Return the tokens to acknowledge after a batch and the passing of time, in any order."""
        free: list[Any] = []
        for arrival in batch:
            self.waiting[arrival.token] += 1
        for arrival in batch:
            arrival_ms = min(arrival.received_ms, now_ms)
            free += self._advance(arrival_ms, min(arrival_ms, closing_ms))
            free += self._arrive(arrival, arrival_ms)
        free += self._advance(now_ms, min(now_ms, closing_ms))
        self.waiting.subtract(free)
        return [token for token in dict.fromkeys(free) if not self.waiting[token]]

    def _advance(self, open_ms: int, close_ms: int) -> list[Any]:
        if self.schedule.usual.clock is Clock.EVENT:
            return []
        return [t for meter in self.meters.values() for t in meter.advance(open_ms, close_ms)]

    def _arrive(self, arrival: Arrival, arrival_ms: int) -> list[Any]:
        usual = self.schedule.usual
        event = usual.clock is Clock.EVENT
        if arrival.meter not in self.meters:
            first_ms = self.schedule.first_start_ms(arrival.time_ms if event else arrival.received_ms)
            self.meters[arrival.meter] = Meter(usual, self.schedule, first_ms, first_ms, first_ms)
        meter = self.meters[arrival.meter]
        counts, free = meter.arrive(arrival)
        tokens = [*free]
        if counts:
            self.accepted += 1
            if event:
                arrival_ms = meter.newest_ms or 0
                tokens += meter.advance(arrival_ms, arrival_ms)
            tokens += meter.decide_passed(arrival_ms)
        return tokens

    def save(self, meters: Iterable[str]) -> dict[str, Meter]:
        """Return the state that survives a crash after a commit of these meters: all but held readings."""
        for name in meters:
            self.meters[name].resume_ms = self.meters[name].next_ms
        return {name: meter.copy() for name, meter in self.meters.items()}

    def load(self, saved: dict[str, Meter], schedule: Schedule) -> None:
        """Restart with the saved state and the schedule that is then configured.

        A new grid begins at or after the end of the last opened window.
        """
        self.schedule = schedule
        self.meters = {name: meter.copy() for name, meter in saved.items()}
        for meter in self.meters.values():
            meter.next_ms = schedule.first_start_ms(meter.resume_ms)
            meter.terms, meter.schedule = schedule.usual, schedule
