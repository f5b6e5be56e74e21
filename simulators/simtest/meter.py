"""One meter of the model: the readings that count, the time to which each applies, and the decided time.

Time is divided into pieces at the moments when held readings begin or cease to apply. For each piece, the
definition determines which reading applies (`speaker`), and when the piece is decided: once the newest
reading's time less the lateness reaches `deciding_ms`, or a slot closes. There are no accumulators: decided
time is a list of stretches, each with the value that counts.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from simulators.simtest.open_windows import OpenWindow
from simulators.simtest.prices import PriceBook, PriceMessage


class Arrival(NamedTuple):
    """A message as sent: a reading or, in `refused`, the reason why the agent must refuse the message.

    `token` identifies the delivery; `prices` holds the prices of a message on the price topic.
    """

    meter: str
    time_ms: int
    value_u: int
    refused: str | None
    received_ms: int
    token: Any
    prices: PriceMessage | None = None


class Held(NamedTuple):
    """A reading that may still apply to undecided time."""

    value_u: int
    token: Any


class Stretch(NamedTuple):
    """A stretch of decided time, and the value that counts for it; the value is None in a gap."""

    start_ms: int
    end_ms: int
    value_u: int | None


@dataclass
class Meter:
    """One meter of one stream.

    `ordinary_terms` holds the terms of an ordinary window. `covered_ms` is the time up to which everything is
    decided, and `next_ms` the start of the next window (None if the meter is forgotten). `standing_ms` is the
    time of the newest decided reading, and `idle_windows` the number of windows since the last reading.
    """

    ordinary_terms: Terms
    covered_ms: int
    next_ms: int | None
    standing_ms: int | None = None
    newest_ms: int | None = None
    idle_windows: int = 0
    windows: list[OpenWindow] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    readings: dict[int, Held] = field(default_factory=dict)
    book: PriceBook = field(default_factory=PriceBook)

    def durable(self) -> "Meter":
        """Return a copy of the state that survives a crash: everything except the held readings.

        Stretches before the oldest open window, which are no longer needed, are left out too.
        """
        windows = [replace(window, open_slots=[*window.open_slots]) for window in self.windows]
        start_ms = windows[0].start_ms if windows else self.covered_ms
        stretches = [stretch for stretch in self.stretches if stretch.end_ms > start_ms]
        return replace(self, windows=windows, stretches=stretches, readings={})

    @property
    def rules(self) -> Terms:
        """The terms by which readings count: those of the oldest window if `meaning` is unchanged."""
        oldest = self.windows[0].terms if self.windows else self.ordinary_terms
        return oldest if meaning(oldest) == meaning(self.ordinary_terms) else self.ordinary_terms

    def speaker(self, ms: int) -> int | None:
        """Return the time of the held reading that applies at time `ms`, or None in a gap."""
        rules = self.rules
        if rules.kind is Kind.POWER:
            latest = max((t for t in self.readings if t <= ms), default=None)
            return latest if latest is not None and ms < latest + rules.hold_ms else None
        following_ms = min((t for t in self.readings if t > ms), default=None)
        return following_ms if following_ms is not None and following_ms - rules.interval_ms <= ms else None

    def deciding_ms(self, ms: int) -> int | None:
        """Return the watermark that decides time `ms`, or None if only the close of a slot decides it."""
        following = min((t for t in self.readings if t > ms), default=None)
        speaker = self.speaker(ms)
        if self.rules.kind is Kind.INTERVAL_ENERGY or speaker is None:
            return following
        end_ms = speaker + self.rules.hold_ms
        return end_ms if following is None else min(end_ms, following)

    def edge_ms(self, ms: int) -> int | None:
        """Return the next time after `ms` at which the speaker or the deciding time may change, if any."""
        rules = self.rules
        edges = {edge for t in self.readings for edge in (t, t + rules.hold_ms, t - rules.interval_ms)}
        return min((edge for edge in edges if edge > ms), default=None)

    def span_end_ms(self, time_ms: int) -> int:
        """Return the time until which a reading with time `time_ms` applies."""
        if self.rules.kind is Kind.INTERVAL_ENERGY:
            return time_ms
        times_ms = [*self.readings, *([] if self.standing_ms is None else [self.standing_ms])]
        return min([time_ms + self.rules.hold_ms, *(t for t in times_ms if t > time_ms)])

    def decide(self, until_ms: int) -> list[Any]:
        """Decide all time before `until_ms`; return the tokens of readings that no longer apply."""
        if until_ms <= self.covered_ms:
            return []
        begin_ms = self.covered_ms
        while begin_ms < until_ms:
            edge_ms, speaker = self.edge_ms(begin_ms), self.speaker(begin_ms)
            end_ms = until_ms if edge_ms is None else min(edge_ms, until_ms)
            self.stretches.append(
                Stretch(begin_ms, end_ms, None if speaker is None else self.readings[speaker].value_u)
            )
            begin_ms = end_ms
        self.covered_ms = until_ms
        return self.free()

    def free(self) -> list[Any]:
        """Drop the held readings that apply to no undecided time; return their tokens."""
        covered = [t for t in self.readings if t <= self.covered_ms]
        if covered:
            self.standing_ms = max([*covered, *([] if self.standing_ms is None else [self.standing_ms])])
        expired = [t for t in self.readings if self.span_end_ms(t) <= self.covered_ms]
        return [self.readings.pop(t).token for t in sorted(expired)]

    def decide_passed(self, clock_ms: int) -> list[Any]:
        """Decide all pieces of time that the watermark decides; return the tokens of dropped readings.

        The watermark is the newest reading's time less the lateness, or the clock if that is earlier. While
        a peak's window is open, its time is decided in whole parts.
        """
        frontier_ms = min((self.newest_ms or 0) - self.rules.lateness_ms, clock_ms)
        until_ms: int | None = self.covered_ms
        decided_ms = self.covered_ms
        while until_ms is not None:
            decided_ms = until_ms
            deciding_ms = self.deciding_ms(until_ms)
            until_ms = (
                self.edge_ms(until_ms) if deciding_ms is not None and deciding_ms <= frontier_ms else None
            )
        for window in self.windows:
            decided_ms = window.whole_ms(decided_ms)
        return self.decide(decided_ms)

    def take(self, arrival: Arrival, *, is_stamped: bool) -> tuple[bool, list[Any]]:
        """Accept a reading; return whether it counts, and the tokens that need not be held.

        If `is_stamped`, readings have their times of arrival, and a reading replaces one of the same time.
        """
        time_ms, value_u, token = arrival.time_ms, arrival.value_u, arrival.token
        if self.span_end_ms(time_ms) <= self.covered_ms:
            return False, [token]
        reading = self.readings.get(time_ms)
        if reading is not None:
            if reading.value_u != value_u and not is_stamped:
                return False, [token]
            self.readings[time_ms] = Held(value_u, token)
            return is_stamped, [reading.token]
        self.readings[time_ms] = Held(value_u, token)
        self.newest_ms = max(time_ms, self.newest_ms or 0)
        self.idle_windows = 0
        return True, self.free() if time_ms <= self.covered_ms else []

    def energy(self, window_ms: int, slot_index: int, terms: Terms) -> int:
        """Return the sum of value * weight over a slot's decided time.

        The weight of a stretch is its duration or, if `terms` have prices, the sum of price * ms. Gap, range
        and threshold are those of `terms`.
        """
        total = 0
        for start_ms, end_ms in terms.stretches(slot_index):
            for stretch in reversed(self.stretches):
                if stretch.end_ms <= window_ms + start_ms:
                    break
                from_ms = max(stretch.start_ms, window_ms + start_ms)
                to_ms = min(stretch.end_ms, window_ms + end_ms)
                if from_ms < to_ms:
                    value = terms.gap_u if stretch.value_u is None else stretch.value_u
                    value = sorted([terms.low_u, value, terms.high_u])[1]
                    if terms.threshold_u is not None:
                        value = max(value, terms.threshold_u) - terms.threshold_u
                    total += value * self.book.weight(terms, from_ms, to_ms)
        return total


def meaning(terms: Terms) -> tuple[Any, ...]:
    """Return the kind, unit and interval, which determine a reading's meaning."""
    return terms.kind, terms.unit, terms.interval_ms
