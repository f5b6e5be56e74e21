"""One meter's raw readings since the tap started, and their mean, energy or peak over any stretch of time.

Readings count as in the agent (DESIGN 2): a power holds until the next reading, for at most `hold`; an
interval's energy is spread over it; a register is interpolated; values are clamped; uncovered time is a gap.
Unlike in the agent, a late reading counts, too.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from meteragent.core.phases import phases_of
from meteragent.core.share import give_back
from meteragent.core.timeline import Pending
from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO, Kind

KEPT_MAX = 200_000
"""The largest number of readings kept for one meter; a slot with more readings becomes partial."""

Stretch = tuple[int, int]
"""A start and an end, in ms."""


class Raw(NamedTuple):
    """The use over a stretch of time, in the unit of the values: a mean power, an energy or a peak.

    `partial` is true if some of that time was before the trace's `since_ms`.
    """

    value: Fraction
    partial: bool


class Trace:
    """One meter's readings as (time, value in millionths of the unit), in time order.

    `since_ms` is the time from which the use is known: the time of the first reading added (for an energy of
    an interval, the start of its interval) or, if that is later, the time of the earliest reading kept.
    """

    def __init__(self, phases: Sequence[str], rules: Terms) -> None:
        """Start without readings; `rules` are the terms under which readings count."""
        self.since_ms = 0
        self.readings: list[tuple[int, int]] = []
        self._phases = phases_of(phases, rules)
        self._rules = rules

    def add(self, phase: str | None, time_ms: int, value_u: int) -> None:
        """Add a reading; readings of phases count as their sum, once every phase has a reading."""
        if phase is not None:
            accepted = self._phases.accept(phase, Pending(time_ms, value_u, None))
            give_back(accepted.free if accepted.sum is None else [*accepted.free, accepted.sum.token])
            if accepted.sum is None:
                return
            time_ms, value_u = accepted.sum.time_ms, accepted.sum.value_u
        if not self.readings:
            before_ms = self._rules.interval_ms if self._rules.kind is Kind.INTERVAL_ENERGY else 0
            self.since_ms = time_ms - before_ms
        self._insert(time_ms, value_u, is_sum=phase is not None)
        if len(self.readings) > KEPT_MAX:
            self._drop(1 + KEPT_MAX // 10)

    def _insert(self, time_ms: int, value_u: int, *, is_sum: bool) -> None:
        """Insert a reading by its time.

        If several readings have the same time, the first counts; if several sums do, the last counts.
        """
        index = bisect_left(self.readings, (time_ms,))
        if index == len(self.readings) or self.readings[index][0] != time_ms:
            self.readings.insert(index, (time_ms, value_u))
        elif is_sum:
            self.readings[index] = (time_ms, value_u)

    def forget(self, before_ms: int) -> None:
        """Drop the readings before `before_ms`, except the last, which may still hold."""
        self._drop(bisect_left(self.readings, (before_ms,)) - 1)

    def _drop(self, count: int) -> None:
        if count > 0:
            del self.readings[:count]
            self.since_ms = max(self.since_ms, self.readings[0][0])

    def used(self, stretches: Sequence[Stretch], until_ms: int, terms: Terms) -> Raw | None:
        """Return the use over the part of the stretches from `since_ms` to `until_ms`.

        For a peak, return the largest mean of the window's parts that lie completely in that time.
        Return None if there is no such time or part, or no reading. Also return None for amounts and for
        energies above a threshold, which are not computed here.
        """
        if not self.readings or terms.weights is not None or terms.threshold_u is not None:
            return None
        is_peak = terms.space is Space.PEAK
        if is_peak:
            tapped_stretches = _parts(stretches[0], terms.step_ms, self.since_ms, until_ms)
        else:
            tapped_stretches = [(max(a, self.since_ms), min(b, until_ms)) for a, b in stretches]
            tapped_stretches = [(a, b) for a, b in tapped_stretches if a < b]
        if not tapped_stretches:
            return None
        totals = self._totals(tapped_stretches, terms)
        total = max(totals) if is_peak else sum(totals)
        duration_ms = terms.step_ms if is_peak else sum(b - a for a, b in tapped_stretches)
        is_partial = min(a for a, _ in stretches) < self.since_ms
        return Raw(total / _divisor_ms(terms, duration_ms) / MICRO, is_partial)

    def _totals(self, stretches: Sequence[Stretch], terms: Terms) -> list[Fraction]:
        """Return the sum of rate * time over each stretch; stretches are in order and do not overlap."""
        totals = [Fraction(terms.gap_u * (b - a)) for a, b in stretches]
        for start_ms, end_ms, measured_u in self._spans(terms):
            rate_u = min(max(measured_u, Fraction(terms.low_u)), Fraction(terms.high_u))
            index = bisect_right(stretches, start_ms, key=itemgetter(1))
            while index < len(stretches) and stretches[index][0] < end_ms:
                a, b = stretches[index]
                totals[index] += (rate_u - terms.gap_u) * (min(b, end_ms) - max(a, start_ms))
                index += 1
        return totals

    def _spans(self, terms: Terms) -> Iterator[tuple[int, int, Fraction]]:
        """Yield the readings as (start, end, rate), where a rate is the power or the energy per interval."""
        if terms.kind is Kind.POWER:
            ends = [time_ms for time_ms, _ in self.readings[1:]] + [1 << 62]
            for (start_ms, value_u), end_ms in zip(self.readings, ends, strict=True):
                yield start_ms, min(end_ms, start_ms + terms.hold_ms), Fraction(value_u)
        elif terms.kind is Kind.INTERVAL_ENERGY:
            before_ms = 0
            for end_ms, value_u in self.readings:
                yield max(before_ms, end_ms - terms.interval_ms), end_ms, Fraction(value_u)
                before_ms = end_ms
        else:
            yield from self._register(terms)

    def _register(self, terms: Terms) -> Iterator[tuple[int, int, Fraction]]:
        """Yield a register's rates.

        A fall below the range is a roll-over if the modulus explains it; otherwise, it is a reset, and the
        time counts as a gap.
        """
        for (start_ms, before_u), (end_ms, after_u) in pairwise(self.readings):
            change_u = after_u - before_u
            rate_u = Fraction(change_u * terms.interval_ms, end_ms - start_ms)
            if change_u < 0 and rate_u < terms.low_u:
                if terms.modulus_u is None:
                    continue
                rate_u += Fraction(terms.modulus_u * terms.interval_ms, end_ms - start_ms)
                if not terms.low_u <= rate_u <= terms.high_u:
                    continue
            yield start_ms, end_ms, rate_u


def _parts(window: Stretch, step_ms: int, since_ms: int, until_ms: int) -> list[Stretch]:
    """Return the parts of a peak's window that lie completely between `since_ms` and `until_ms`."""
    parts = [(start_ms, start_ms + step_ms) for start_ms in range(*window, step_ms)]
    return [(a, b) for a, b in parts if since_ms <= a and b <= until_ms]


def _divisor_ms(terms: Terms, duration_ms: int) -> Fraction:
    """Return the time by which a sum of rate * time over `duration_ms` is divided to make a value."""
    if terms.kind is Kind.POWER:
        return Fraction(HOUR_MS if terms.is_energy else duration_ms)
    hours = 1 if terms.is_energy else Fraction(duration_ms, HOUR_MS)
    return Fraction(terms.interval_ms * hours)
