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
from math import ceil, floor
from typing import Any, NamedTuple

from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import Kind


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
    values: dict[int, int | Fraction | None] = field(default_factory=dict)
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
        """Return the open slot that is decided up to its newest reading; None if there is none."""
        reading = self.held.get(self.covered_ms)
        if self.terms.kind is not Kind.REGISTER or reading is None:
            return None
        for start_ms, terms in self.windows:
            for place in range(terms.n if not terms.bands else 0):
                slot_ms = start_ms + place * terms.step_ms
                if slot_ms <= self.covered_ms < slot_ms + terms.step_ms:
                    return Open(slot_ms, slot_ms + terms.step_ms, reading.value_u)
        return None

    @property
    def rules(self) -> Terms:
        """The terms under which readings count: those of the oldest open window (law 1)."""
        return self.windows[0][1] if self.windows else self.terms

    def used(self, ms: int) -> int | None:
        """Return the energy of a millisecond, per interval; None if it is unknown or the register was reset.

        The register is interpolated, and rounded down at both ends of the millisecond.
        """
        before = max((t for t in self.held if t <= ms), default=None)
        after = min((t for t in self.held if t > ms), default=None)
        if before is None or after is None:
            return None
        difference, rules = self.held[after].value_u - self.held[before].value_u, self.rules
        rate = Fraction(difference * rules.interval_ms, after - before)
        if difference < 0 and rate < rules.low_u:
            if rules.modulus_u is None:
                return None
            rate += Fraction(rules.modulus_u * rules.interval_ms, after - before)
            if not rules.low_u <= rate <= rules.high_u:
                return None
        return floor(rate * (ms + 1 - before)) - floor(rate * (ms - before))

    def value(self, ms: int) -> int | Fraction | None:
        """Return the current value of a millisecond; None: a gap."""
        if self.terms.kind is Kind.REGISTER:
            return self.used(ms)
        speaker = self.speaker(ms)
        return None if speaker is None else self.held[speaker].value_u

    def speaker(self, ms: int) -> int | None:
        """Return the time of the held reading that applies to a millisecond; None: a gap."""
        if self.terms.kind is Kind.POWER:
            before = max((t for t in self.held if t <= ms), default=None)
            return before if before is not None and ms < before + self.terms.hold_ms else None
        after = min((t for t in self.held if t > ms), default=None)
        return after if after is not None and after - self.terms.interval_ms <= ms else None

    def decided_at_ms(self, ms: int) -> int | None:
        """Return the time that decides a millisecond once passed by `lateness`; None if the close does."""
        after = min((t for t in self.held if t > ms), default=None)
        speaker = self.speaker(ms)
        if self.terms.kind is Kind.INTERVAL_ENERGY or speaker is None:
            return after
        end_ms = speaker + self.terms.hold_ms
        return end_ms if after is None else min(end_ms, after)

    def span_end_ms(self, time_ms: int) -> int:
        """Return the time until which a reading of that time applies."""
        if self.terms.kind is Kind.INTERVAL_ENERGY:
            return time_ms
        times = [*self.held, *([] if self.standing_ms is None else [self.standing_ms])]
        longest_ms = 10**9 if self.terms.kind is Kind.REGISTER else self.terms.hold_ms
        return min([time_ms + longest_ms, *(t for t in times if t > time_ms)])

    def decide(self, until_ms: int) -> Iterable[Any]:
        """Decide all time before `until_ms`; return the tokens of readings that no longer apply."""
        self.resume(until_ms)
        for ms in range(self.covered_ms, until_ms):
            self.values[ms] = self.value(ms)
        self.covered_ms = max(self.covered_ms, until_ms)
        return self.free()

    def resume(self, until_ms: int) -> None:
        """Resume the slot that a crash left open, by its next reading, or give it up."""
        if self.masked_slot is None:
            return
        first_ms = min(self.held, default=None)
        if first_ms is not None and first_ms <= min(until_ms, self.masked_slot.end_ms):
            jump = (self.held[first_ms].value_u - self.masked_slot.value_u) * self.terms.interval_ms
            self.jumps[self.masked_slot.start_ms] = self.jumps.get(self.masked_slot.start_ms, 0) + jump
            self.values |= dict.fromkeys(range(self.covered_ms, first_ms), JUMPED)
            self.covered_ms, self.masked_slot = first_ms, None
        elif until_ms > self.covered_ms:
            self.values |= dict.fromkeys(range(self.masked_slot.start_ms, self.masked_slot.end_ms))
            self.jumps.pop(self.masked_slot.start_ms, None)
            self.covered_ms, self.masked_slot = self.masked_slot.end_ms, None
            self.lost_count += 1

    def free(self) -> Iterable[Any]:
        """Release the held readings that no longer apply to any time, and return their tokens."""
        covered = [t for t in self.held if t <= self.covered_ms]
        if covered:
            self.standing_ms = max([*covered, *([] if self.standing_ms is None else [self.standing_ms])])
        expired = [t for t in self.held if self.span_end_ms(t) <= self.covered_ms]
        return [self.held.pop(t).token for t in sorted(expired)]

    def decide_passed(self, clock_ms: int) -> Iterable[Any]:
        """Decide all time up to the newest reading less `lateness`, or up to the clock."""
        if self.newest_ms is None:
            return []
        frontier_ms = min(self.newest_ms - self.terms.lateness_ms, clock_ms)
        if self.terms.kind is Kind.REGISTER:
            return self.decide(max((t for t in self.held if t <= frontier_ms), default=self.covered_ms))
        until_ms = self.covered_ms
        while (at_ms := self.decided_at_ms(until_ms)) is not None and at_ms <= frontier_ms:
            until_ms += 1
        return self.decide(until_ms)

    def advance(self, open_ms: int, close_ms: int) -> Iterable[Any]:
        """Open windows up to `open_ms` and close slots up to `close_ms`; return the freed tokens."""
        while self.next_ms <= open_ms:
            terms = self.schedule.terms(self.next_ms)
            self.windows.append((self.next_ms, terms))
            self.next_ms += terms.length_ms
        free: list[Any] = []
        for start_ms, terms in [*self.windows]:
            for end_ms in sorted(start_ms + terms.stretches(place)[-1][1] for place in range(terms.n)):
                if end_ms + self.terms.lateness_ms <= close_ms:
                    free += self.decide(end_ms)
            if start_ms + terms.length_ms + self.terms.lateness_ms <= close_ms:
                self.windows.remove((start_ms, terms))
        return [*free, *self.decide(self.covered_ms)]

    def arrive(self, arrival: Arrival) -> tuple[bool, Iterable[Any]]:
        """Accept a reading; return whether it counts, and the tokens that need not be held."""
        if self.span_end_ms(arrival.time_ms) <= self.covered_ms:
            return False, [arrival.token]
        earlier = self.held.get(arrival.time_ms)
        if earlier is not None:
            if earlier.value_u != arrival.value_u:
                return False, [arrival.token]
            self.held[arrival.time_ms] = Held(earlier.value_u, arrival.token)
            return False, [earlier.token]
        self.held[arrival.time_ms] = Held(arrival.value_u, arrival.token)
        self.newest_ms = max(arrival.time_ms, self.newest_ms or 0)
        return True, self.free()

    def total(self, start_ms: int, end_ms: int, terms: Terms) -> int | Fraction:
        """Sum value * duration over the decided part of a slot, with its window's gap and range."""
        values = [self.values[ms] for ms in range(start_ms, min(end_ms, self.covered_ms))]
        counts = (
            terms.gap_u
            if value is None
            else 0
            if value is JUMPED
            else min(max(terms.low_u, value), terms.high_u)
            for value in values
        )
        return sum(counts, self.jumps.get(start_ms, 0))

    def energy(self, window_ms: int, place: int, terms: Terms) -> int | Fraction:
        """Sum value * duration over the decided part of a slot of a window."""
        parts = terms.stretches(place)
        return sum(self.total(window_ms + start, window_ms + end, terms) for start, end in parts)

    def quanta(self, window_ms: int, place: int, terms: Terms, dither: int | None) -> set[int]:
        """Return the possible values of a slot in quanta: floor(mean / q + 1/2), THEORY 2.1.

        A dithered value is floor(mean / q + u / L), THEORY-2 A.1; if `dither` is None, u is unknown.
        """
        per = terms.slot_ms(place) if terms.kind is Kind.POWER else terms.interval_ms
        mean = Fraction(self.energy(window_ms, place, terms), per * terms.quantum_u)
        if terms.rounding == "half-up":
            return {floor(mean + Fraction(1, 2))}
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
            first_ms = self.schedule.first_ms(arrival.time_ms if event else arrival.received_ms)
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
            meter.next_ms = schedule.first_ms(meter.resume_ms)
            meter.terms, meter.schedule = schedule.usual, schedule
