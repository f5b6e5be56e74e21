"""One meter of the model: its accepted readings, the time to which each applies, and the decided time.

Time is divided into pieces at the moments when held readings begin or cease to apply. For each piece, the
definition determines which reading applies (`speaker`), and when the piece is decided: once the newest
reading's time less the lateness reaches `deciding_ms`, or a slot closes. There are no accumulators: decided
time is a list of stretches, each with the value that applies.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from simulators.simtest.model.open_windows import OpenWindow
from simulators.simtest.model.prices import PriceBook, PriceMessage
from simulators.simtest.model.registers import MaskedSlot, Use
from simulators.simtest.model.spec import UNKNOWN, ReadingSpec, Stretch, WindowSpec

_STORED_AS_DIFFERENCE = ("linf", "curve")
"""The kinds of windows whose slot is on disk as the register less the accumulator."""


class Arrival(NamedTuple):
    """A message as sent: a reading or, in `refused`, the reason why the agent must refuse the message.

    `token` identifies the delivery; `prices` holds the prices of a message on the price topic, and `phase` is
    empty unless the reading is of a phase.
    """

    meter: str
    time_ms: int
    value_u: int
    refused: str | None
    received_ms: int
    token: Any
    prices: PriceMessage | None = None
    phase: str = ""


class Held(NamedTuple):
    """A reading that may still apply to undecided time, or a sum of phases (`phases`).

    For a sum, `token` holds the readings in the sum, `since_ms` is the time of the oldest of them, and
    `shift_u` is how much of the change since the previous sum is not use.
    """

    value_u: int
    token: Any
    since_ms: int | None = None
    shift_u: int = 0


class Decided(NamedTuple):
    """A stretch of decided time, and the value that applies to it; the value is None in a gap.

    `book` holds the prices for a stretch that was decided ahead of the clock; later prices are not used.
    """

    start_ms: int
    end_ms: int
    value: int | Use | None
    book: PriceBook | None = None


@dataclass
class Meter:
    """One meter of one stream.

    `ordinary` is an ordinary window of the stream. `covered_ms` is the time up to which everything is
    decided, and `next_ms` the start of the next window (None if the meter is forgotten). `standing_ms` is the
    time of the newest decided reading, and `idle_windows` the number of windows since the last reading.
    `masked_slot` is the slot that waits for its register, `register_u` the register at `covered_ms`, after a
    crash, and `lost` holds the slots, by window and index, that were lost since the last feed.
    """

    ordinary: WindowSpec
    covered_ms: int
    next_ms: int | None
    standing_ms: int | None = None
    newest_ms: int | None = None
    idle_windows: int = 0
    windows: list[OpenWindow] = field(default_factory=list)
    stretches: list[Decided] = field(default_factory=list)
    readings: dict[int, Held] = field(default_factory=dict)
    book: PriceBook = field(default_factory=PriceBook)
    masked_slot: MaskedSlot | None = None
    register_u: int | None = None
    lost: list[tuple[int, int]] = field(default_factory=list)

    def durable(self) -> "Meter":
        """Return a copy of the state that survives a crash: everything except the held readings.

        Stretches before the oldest open window, which are no longer needed, are dropped from this meter, too.
        """
        windows = [replace(window, open_slots=[*window.open_slots]) for window in self.windows]
        start_ms = windows[0].start_ms if windows else self.covered_ms
        self.stretches = [stretch for stretch in self.stretches if stretch.end_ms > start_ms]
        standing = self.readings.get(self.covered_ms)
        register_u = None if standing is None else standing.value_u
        stretches = [*self.stretches]
        return replace(
            self, windows=windows, stretches=stretches, readings={}, register_u=register_u, lost=[]
        )

    @property
    def ruling(self) -> WindowSpec:
        """The window whose rules apply: the oldest or, if its readings had another meaning, `ordinary`."""
        oldest = self.windows[0].spec if self.windows else self.ordinary
        return oldest if oldest.readings.meaning == self.ordinary.readings.meaning else self.ordinary

    @property
    def rules(self) -> ReadingSpec:
        """The rules that readings follow."""
        return self.ruling.readings

    def _expiry_ms(self, time_ms: int) -> int:
        """Return the time until which a held power applies if no other reading follows."""
        since_ms = self.readings[time_ms].since_ms
        return (time_ms if since_ms is None else since_ms) + self.rules.hold_ms

    def speaker(self, ms: int) -> int | None:
        """Return the time of the held reading that applies at time `ms`, or None in a gap."""
        rules = self.rules
        latest = max((t for t in self.readings if t <= ms), default=None)
        if rules.kind == "power":
            return latest if latest is not None and ms < self._expiry_ms(latest) else None
        following_ms = min((t for t in self.readings if t > ms), default=None)
        return following_ms if following_ms is not None and following_ms - rules.interval_ms <= ms else None

    def value_at(self, ms: int) -> int | Use | None:
        """Return the value that applies at time `ms`, or None in a gap."""
        time_ms = self.speaker(ms)
        return None if time_ms is None else self.readings[time_ms].value_u

    def deciding_ms(self, ms: int) -> int | None:
        """Return the watermark that decides time `ms`, or None if only the close of a slot decides it."""
        following = min((t for t in self.readings if t > ms), default=None)
        if self.rules.kind != "power" or (speaker := self.speaker(ms)) is None:
            return following
        end_ms = self._expiry_ms(speaker)
        return end_ms if following is None else min(end_ms, following)

    def edge_ms(self, ms: int) -> int | None:
        """Return the next time after `ms` at which the speaker or the deciding time may change, if any."""
        before_ms = self.rules.interval_ms if self.rules.kind == "interval_energy" else 0
        edges = {edge for t in self.readings for edge in (t, self._expiry_ms(t), t - before_ms)}
        return min((edge for edge in edges if edge > ms), default=None)

    def span_end_ms(self, time_ms: int) -> int:
        """Return the time until which a reading with time `time_ms` applies."""
        if self.rules.kind == "interval_energy":
            return time_ms
        times_ms = [*self.readings, *([] if self.standing_ms is None else [self.standing_ms])]
        reading = self.readings.get(time_ms)
        end_ms = time_ms + self.rules.hold_ms if reading is None else self._expiry_ms(time_ms)
        return min([end_ms, *(t for t in times_ms if t > time_ms)])

    def decide(self, until_ms: int) -> list[Any]:
        """Decide all time before `until_ms`; return the tokens of readings that no longer apply."""
        if until_ms <= self.covered_ms:
            return []
        begin_ms = self.covered_ms
        while begin_ms < until_ms:
            edge_ms = self.edge_ms(begin_ms)
            end_ms = until_ms if edge_ms is None else min(edge_ms, until_ms)
            self.stretches.append(Decided(begin_ms, end_ms, self.value_at(begin_ms)))
            begin_ms = end_ms
        self.covered_ms = until_ms
        return self.free()

    def free(self) -> list[Any]:
        """Drop the held readings that apply to no undecided time; return their tokens."""
        covered = [t for t in self.readings if t <= self.covered_ms]
        if covered:
            self.standing_ms = max([*covered, *([] if self.standing_ms is None else [self.standing_ms])])
        return self._drop([t for t in sorted(covered) if self.span_end_ms(t) <= self.covered_ms])

    def _drop(self, times_ms: Iterable[int]) -> list[Any]:
        """Drop held readings; return their tokens."""
        return [self.readings.pop(time_ms).token for time_ms in list(times_ms)]

    def release(self) -> list[Any]:
        """Return the tokens of phases' readings that are no longer in use; none without phases."""
        return []

    def tokens(self) -> list[Any]:
        """Return the tokens of all held readings."""
        return [reading.token for reading in self.readings.values()]

    def decide_passed(self, clock_ms: int) -> list[Any]:
        """Decide all pieces of time that the watermark decides; return the tokens of dropped readings.

        The watermark is the newest reading's time less the lateness, or the clock if that is earlier. While
        a peak's window is open, its time is decided in whole parts.
        """
        frontier_ms = min((self.newest_ms or 0) - self.ruling.lateness_ms, clock_ms)
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
        """Accept a reading; return whether it is used, and the tokens that need not be held.

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

    def set_right(self, arrival: Arrival) -> list[Any] | None:
        """Drop readings from a fast clock's future, if this reading shows that the clock is right again.

        This is so if the newest reading is over 5 s ahead of the arrival, and this one at most 2 s ahead or
        10 s behind. Return the tokens of the dropped readings; None if the clock was not set right.
        """
        was_fast = self.newest_ms is not None and self.newest_ms - arrival.received_ms > 5000
        is_right = -10_000 <= arrival.time_ms - arrival.received_ms <= 2000
        if self.rules.kind == "register" or not (was_fast and is_right):
            return None
        self.newest_ms = max(arrival.time_ms, self.covered_ms)
        if self.standing_ms is not None:
            self.standing_ms = min(self.standing_ms, arrival.time_ms)
        return self._drop([t for t in sorted(self.readings) if t >= arrival.time_ms])

    def slot_energy(self, spec: WindowSpec, window_ms: int, slot_index: int) -> int:
        """Return the energy of the decided readings in a slot of the window that starts at `window_ms`."""

        def is_unknown(decided: Decided) -> bool:
            """Return whether a stretch's energy belongs to the unknown band."""
            if not isinstance(use := decided.value, Use):
                return False
            return spec.is_unknown(use.since_ms - window_ms, use.since_ms + use.span_ms - window_ms)

        in_unknown = spec.places[slot_index].name == UNKNOWN
        spans = spec.spans(window_ms, slot_index)
        spans = [(window_ms, window_ms + spec.length_ms)] if in_unknown else spans
        return self.energy(spec, spans, lambda decided: is_unknown(decided) == in_unknown)

    def energy(
        self,
        spec: WindowSpec,
        spans: Iterable[Stretch],
        counts: Callable[[Decided], bool] = lambda _: True,
    ) -> int:
        """Return the energy of the decided readings over some time, in units of the window's accumulator.

        It is the sum of value * ms or, if the window has prices, of value * price * ms, over the stretches
        for which `counts` returns true.
        """
        total = 0
        for start_ms, end_ms in spans:
            for decided in reversed(self.stretches):
                if decided.end_ms <= start_ms:
                    break
                from_ms, to_ms = max(decided.start_ms, start_ms), min(decided.end_ms, end_ms)
                if from_ms < to_ms and counts(decided):
                    total += self._units(spec, decided, from_ms, to_ms)
        return total

    def _units(self, spec: WindowSpec, decided: Decided, from_ms: int, to_ms: int) -> int:
        """Return the energy of a part of a stretch, times the window's prices if it has any."""
        if spec.price is None:
            return _count(spec.readings, decided.value, from_ms, to_ms)
        pieces = (decided.book or self.book).pieces(spec.price, from_ms, to_ms)
        return sum(price_u * _count(spec.readings, decided.value, *piece) for piece, price_u in pieces)

    # --- slots that are on disk as a difference ------------------------------------------------

    def slot_of_difference(self, window_ms: int) -> int | None:
        """Return the index of the slot of a window that must be on disk as a difference, or None."""
        if self.masked_slot is not None:
            return self.masked_slot.slot_index if self.masked_slot.window_ms == window_ms else None
        is_register = self.ordinary.readings.kind == "register"
        if not is_register or min(self.readings, default=None) != self.covered_ms:
            return None
        [window] = [window for window in self.windows if window.start_ms == window_ms]
        if window.spec.space not in _STORED_AS_DIFFERENCE:
            return None
        slots = (
            index
            for index in window.open_slots
            for start_ms, end_ms in window.spec.spans(window.start_ms, index)
            if start_ms <= self.covered_ms < end_ms
        )
        return next(slots, None)

    def lose(self) -> None:
        """Note that the masked slot, if any, is lost: all of its time becomes a gap."""
        slot, self.masked_slot = self.masked_slot, None
        if slot is None:
            return
        before = _before(slot.start_ms, self.stretches)
        self.stretches = [*before, Decided(slot.start_ms, slot.end_ms, None)]
        self.covered_ms = slot.end_ms
        self.lost.append((slot.window_ms, slot.slot_index))


def _before(time_ms: int, stretches: Iterable[Decided]) -> list[Decided]:
    """Return the parts of the stretches that lie before a time."""
    return [
        stretch._replace(end_ms=min(stretch.end_ms, time_ms))
        for stretch in stretches
        if stretch.start_ms < time_ms
    ]


def _count(rules: ReadingSpec, value: int | Use | None, from_ms: int, to_ms: int) -> int:
    """Return the energy of a value over a stretch of time, without prices."""
    if isinstance(value, Use):
        return value.limited(rules, from_ms, to_ms)
    return rules.count(value) * (to_ms - from_ms)
