"""Registers in the model: the use between two readings, and a slot that waits for its register.

Two good readings of a register give the energy that was used between them, evenly. What is used in part of
that time is the difference of the register at both ends, each rounded down to a whole unit of an accumulator.
Which readings are good follows from docs/theory.md, A.15, by one pass over them in order of time.

If slots are equal, an open slot is on disk as the register less the accumulator. So after a restart, a good
reading within the slot gives all of the slot's use, including the use during the outage. Without such a
reading, the slot is lost: all of it is a gap, and it gets new noise.
"""

from collections.abc import Collection
from typing import NamedTuple

from meteragent.domain.units import HOUR_MS
from meteragent.privacy.mechanism.laplace import reach_quanta
from simulators.simtest.model.spec import ReadingSpec, WindowSpec

_SECOND_MS = 1000
"""The time by which a reading's time may be off."""
Count = tuple[int, int]
"""A reading of a register: its time, and its value in millionths of the unit."""


class Use(NamedTuple):
    """The use over a span, in units of an accumulator; if it is exact, it is not limited to the range."""

    since_ms: int
    span_ms: int
    units: int
    is_exact: bool = False

    def between(self, from_ms: int, to_ms: int) -> int:
        """Return the use in a part of the span."""
        ends = (self.units * (time_ms - self.since_ms) // self.span_ms for time_ms in (from_ms, to_ms))
        start, end = ends
        return end - start

    def limited(self, rules: ReadingSpec, from_ms: int, to_ms: int) -> int:
        """Return the use in a part of the span, limited to the range unless the use is exact."""
        lowest, highest = allowed(rules, self.span_ms)
        units = self.units if self.is_exact else max(lowest, min(self.units, highest))
        return self._replace(units=units).between(from_ms, to_ms)


class Span(NamedTuple):
    """A span between good readings; `use_u` is None in a gap, and `settled_ms` until the span is settled."""

    start_ms: int
    end_ms: int
    use_u: int | None
    settled_ms: int | None


def allowed(rules: ReadingSpec, span_ms: int) -> tuple[int, int]:
    """Return the limits of the use that the range allows, each widened by the use of a second and a step."""
    step, second_u = rules.step_u * HOUR_MS, abs(rules.low_u) * _SECOND_MS
    return rules.low_u * span_ms - second_u - step, rules.high_u * (span_ms + _SECOND_MS) + step


def explained(rules: ReadingSpec, start: Count, end: Count) -> int | None:
    """Return the use of a change that some load explains, perhaps with a rollover, or None if no load does.

    With such a load, the register falls by at most a step, or rises by at most ten times an hour's range.
    """
    span_ms, rise_u = end[0] - start[0], end[1] - start[1]
    limit = rules.high_u * (span_ms + _SECOND_MS + 9 * min(span_ms, HOUR_MS)) + rules.step_u * HOUR_MS
    uses_u = [rise_u, rise_u + rules.modulus_u] if rules.modulus_u else [rise_u]
    return next((use_u for use_u in uses_u if use_u >= -rules.step_u and use_u * HOUR_MS <= limit), None)


def is_possible(rules: ReadingSpec, start: Count, end: Count) -> bool:
    """Return whether some load explains a change without a rollover."""
    return explained(rules, start, end) == end[1] - start[1]


def is_usual(rules: ReadingSpec, start: Count, end: Count) -> bool:
    """Return whether a change is a use that the range allows."""
    low, high = allowed(rules, end[0] - start[0])
    return low <= (end[1] - start[1]) * HOUR_MS <= high


def is_contradicted(rules: ReadingSpec, good: Count, reading: Count, following: Count) -> bool:
    """Return whether `following` is possible after the reading `good`, but not after `reading`."""
    return explained(rules, good, following) is not None and explained(rules, reading, following) is None


def spans_of(rules: ReadingSpec, readings: list[Count], believed: Collection[int] = ()) -> list[Span]:
    """Return the spans between good readings.

    The range must begin at 0. A possible change is settled if it ends at one of the times in `believed`.
    """
    spans: list[Span] = []
    if not readings:
        return spans
    good, later = readings[0], readings[1:]
    doubted: Count | None = None
    use_u: int | None
    while later:
        reading = later.pop(0)
        explained_u = explained(rules, good, reading)
        if explained_u is not None:
            following = later[0] if later else None
            is_sure = explained_u == reading[1] - good[1] and is_usual(rules, good, reading)
            is_sure = is_sure or reading[0] in believed
            if not is_sure and following and is_contradicted(rules, good, reading, following):
                continue
            settled = reading if is_sure else following
            use_u, level = explained_u, reading
        else:
            first, doubted = doubted, reading
            if first is None or reading[1] <= first[1]:
                continue
            goes_on = is_possible if first[1] > good[1] else is_usual
            if not goes_on(rules, first, reading):
                continue
            use_u, settled, level = None, reading, first
            later.insert(0, reading)
        spans.append(Span(good[0], level[0], use_u, settled[0] if settled else None))
        good, doubted = level, None
    return spans


class MaskedSlot(NamedTuple):
    """A slot whose accumulator a process does not know yet.

    `difference` is the register less the accumulator, as on disk. `register_u` is the register at the time up
    to which readings had been decided when the slot was last written.
    """

    window_ms: int
    slot_index: int
    spec: WindowSpec
    difference: int
    register_u: int

    @property
    def start_ms(self) -> int:
        """The start of the slot."""
        return self.spec.slot_start_ms(self.window_ms, self.slot_index)

    @property
    def end_ms(self) -> int:
        """The end of the slot."""
        return self.spec.slot_end_ms(self.window_ms, self.slot_index)

    def turns(self, time_ms: int, value_u: int) -> int | None:
        """Return how often the register has rolled over since it was stored; None if that is unknown."""
        fitting = [turns for turns in (0, 1) if self._is_plausible(time_ms, value_u, turns)]
        return fitting[0] if fitting else None

    def _is_plausible(self, time_ms: int, value_u: int, turns: int) -> bool:
        """Return whether noise and use within the range can explain a reading after `turns` rollovers."""
        rules, lattice = self.spec.readings, self.spec.lattice(self.slot_index)
        if turns and not rules.modulus_u:
            return False
        accumulator = (value_u + turns * rules.modulus_u) * rules.interval_ms - self.difference
        noise = reach_quanta(self.spec.n, self.spec.epsilon * self.spec.quantum_u / 10**6) * lattice
        lowest, highest = allowed(rules, time_ms - self.start_ms)
        return lowest - noise <= accumulator < highest + noise + lattice
