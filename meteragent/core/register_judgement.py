"""Decide which readings of a counter are believed, by a pure function of readings in order of time.

No load makes a register fall by more than a step, or rise faster than its wires allow. So a change from a
good reading to the next is *possible* if it is at most ten times what the range allows, or a rollover. A
possible change is believed. An impossible one is doubted until later readings settle it:

* A later reading that is possible after the good one shows that those between were *glitches*.
* Two readings in a row that agree with each other, but not with the good one, are a new level, if the
  register moves on there: a *reset* below the good reading, a *jump* above it, or to the same count in a
  larger unit. The change of the level is not use. A level that stands still (zeros all night, a value that is
  repeated) confirms nothing, and neither do rises that no load makes (a wrong unit): they stay doubted.

A possible change that exceeds the range, and a rollover, wait for one more reading: if that one is possible
after the good reading, but not after the doubtful one, the doubtful one was a glitch. Every limit allows one
step of the counter and one second more, because counts are cut off and times are rounded.

The result depends on the readings up to the one that settles a change, and not on any later one.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from meteragent.domain.readings import ReadingRules
from meteragent.domain.units import HOUR_MS, MICRO

_SECOND_MS = 1000
_EXCESS = 9  # NOTE: a guess; the steps in which real gateways catch up after a pause would settle it
"""The excess over the range that is possible in the first hour of a pause, in multiples of the range."""
_SHORT, _MORE = 1000, 100
"""If a count continues in a larger unit, it may be a 1,000th lower (cut off) or a 100th higher (by use)."""
HELD_MAX = 2
"""How many doubted readings are kept: the last two suffice to settle a change."""


class Count(Protocol):
    """A reading of a counter."""

    @property
    def time_ms(self) -> int:
        """The time of the reading."""

    @property
    def value_u(self) -> int:
        """The count, in millionths of the unit."""


class Change(NamedTuple):
    """The change of a counter from one good reading to the next.

    end           the index of the next good reading; the readings in between are glitches
    settled_by    the index of the reading that settles the change, which may not have arrived
    shift_u       the part of the change that is not use: of a rollover, a reset or a jump
    counter_name  the name of the counter to increase, if any
    """

    end: int
    settled_by: int
    shift_u: int = 0
    counter_name: str | None = None

    @property
    def is_gap(self) -> bool:
        """Whether the use between the two readings is unknown."""
        return self.counter_name in {"register_reset", "register_jump"}

    def counter_names(self, *, is_proven: bool) -> list[str]:
        """Return the counters to increase for the change itself, without those for the glitches within it.

        If nothing has confirmed the first reading (not `is_proven`), a new level shows that it was wrong.
        """
        name = self.counter_name if is_proven or not self.is_gap else "register_glitch"
        return [name] if name else []


def _reading_step(readings: ReadingRules) -> int:
    """Return the register's step in accumulator units, rounded up; 0 if it is unknown."""
    step = readings.dead_band
    if not step:
        return 0
    return -(-step.numerator * readings.counters * MICRO // step.denominator) * readings.interval_ms


def use_limits(readings: ReadingRules, span_ms: int) -> tuple[int, int]:
    """Return the least and the largest use in the range, in millionths of the unit times `interval_ms`."""
    low, high, step = readings.low_u, readings.high_u, _reading_step(readings)
    return low * span_ms - abs(low) * _SECOND_MS - step, high * span_ms + abs(high) * _SECOND_MS + step


def is_within(readings: ReadingRules, start: Count, end: Count, shift_u: int = 0) -> bool:
    """Return whether the use between two readings (their difference less `shift_u`) is in the range."""
    low, high = use_limits(readings, end.time_ms - start.time_ms)
    return low <= (end.value_u - start.value_u - shift_u) * readings.interval_ms <= high


def possible_shift(readings: ReadingRules, start: Count, end: Count) -> int | None:
    """Return the shift of a possible change: 0, or, for a rollover, minus the modulus. Else return None."""
    span_ms = end.time_ms - start.time_ms
    weight_ms = span_ms + _SECOND_MS + _EXCESS * min(span_ms, HOUR_MS)
    step = _reading_step(readings)
    low, high = min(readings.low_u, 0) * weight_ms - step, max(readings.high_u, 0) * weight_ms + step
    for shift_u in (0,) if readings.modulus_u is None else (0, -readings.modulus_u):
        if low <= (end.value_u - start.value_u - shift_u) * readings.interval_ms <= high:
            return shift_u
    return None


def next_change(items: Sequence[Count], good: int, readings: ReadingRules) -> Change | None:
    """Return the change from the good reading at index `good` to the next; None while later ones are doubted.

    If no reading settles the change yet, `settled_by` is `len(items)`; it may then be believed only when
    there is no time to wait. `items` are in order of time.
    """
    start = items[good]
    for index in range(good + 1, len(items)):
        shift_u = possible_shift(readings, start, items[index])
        if shift_u is None:
            level = _new_level(items, good, index, readings) if index - 1 > good else None
            if level is not None:
                return level
        elif not shift_u and is_within(readings, start, items[index]):
            return Change(index, index)
        elif not items[index + 1 :] or not _is_contradicted(readings, start, *items[index : index + 2]):
            return Change(index, index + 1, shift_u, "rolled_over" if shift_u else None)
    return None


def droppable_doubts(count: int, good: int, change: Change | None) -> range:
    """Return the indices, among `count` readings, of doubted ones that are no longer needed."""
    return range(good + 1, change.end if change is not None else max(count - HELD_MAX, good + 1))


def _is_contradicted(readings: ReadingRules, good: Count, reading: Count, following: Count) -> bool:
    """Return whether `following` is possible after the good reading, but not after `reading`."""
    is_fall = possible_shift(readings, reading, following) is None
    return is_fall and possible_shift(readings, good, following) is not None


def _new_level(items: Sequence[Count], good: int, index: int, readings: ReadingRules) -> Change | None:
    """Return the change to a new level, if the readings at `index` - 1 and `index` confirm it, else None."""
    start, first, second = items[good], items[index - 1], items[index]
    has_moved = second.value_u > first.value_u or (readings.low_u < 0 and second.value_u != first.value_u)
    is_jump, level_u = first.value_u > start.value_u, first.value_u - start.value_u
    if is_jump:
        goes_on, counter = possible_shift(readings, first, second) == 0, "register_jump"
    else:
        is_rescaled = _is_rescaled(readings, start, first)
        # A sum of devices that each showed zero for a while returns in steps that exceed the range.
        goes_on = is_within(readings, first, second)
        counter = "register_jump" if is_rescaled else "register_reset"
    return Change(index - 1, index, level_u, counter) if has_moved and goes_on else None


def _is_rescaled(readings: ReadingRules, start: Count, level: Count) -> bool:
    """Return whether a lower level is the same count, in a unit larger by a power of ten."""
    _, high = use_limits(readings, level.time_ms - start.time_ms)
    least_u = start.value_u - start.value_u // _SHORT
    most_u = start.value_u + min(high // readings.interval_ms, start.value_u // _MORE)
    scaled_u = 10 * level.value_u
    while 0 < scaled_u < least_u:
        scaled_u *= 10
    return 0 < least_u <= scaled_u <= most_u


class Verdict(StrEnum):
    """What later readings show about a reading, or about the change that ends with it."""

    STILL = "still"
    USE = "use"
    CLAMPED = "clamped"
    CONTRADICTED = "contradicted"
    HIGH = "high"
    LOW = "low"


class _CounterValue(NamedTuple):
    time_ms: int
    value_u: int


class Judge:
    """The judge of one counter's readings in order of arrival; its verdicts serve only to find problems."""

    __slots__ = ("_held", "_highest_u", "_is_doubted")

    def __init__(self) -> None:
        self._held: list[_CounterValue] = []
        self._highest_u: int | None = None
        self._is_doubted = False

    def judge(self, reading: Count, readings: ReadingRules, shift_u: int | None = None) -> Iterator[Verdict]:
        """Yield verdicts on the changes that a reading settles, and on the reading if it is doubted."""
        counts = self._held
        if counts and reading.time_ms <= counts[-1].time_ms:
            return
        counts.append(_CounterValue(reading.time_ms, reading.value_u))
        while (change := self._change(readings, shift_u)) is not None and change.settled_by < len(counts):
            if change.end > 1 and not self._is_doubted:
                yield Verdict.CONTRADICTED
            if change.is_gap or change.shift_u:
                self._highest_u = None
            if not change.is_gap:
                yield self._verdict(change, readings)
            del counts[: change.end]
            self._is_doubted = False
        indices = droppable_doubts(len(counts), 0, change)
        del counts[indices.start : indices.stop]
        self._is_doubted = change is None and len(counts) > 1
        if self._is_doubted:
            yield Verdict.HIGH if counts[-1].value_u > counts[0].value_u else Verdict.LOW

    def _change(self, readings: ReadingRules, shift_u: int | None) -> Change | None:
        if shift_u is None or len(self._held) == 1:
            return next_change(self._held, 0, readings)
        return Change(1, 1, shift_u)

    def _verdict(self, change: Change, readings: ReadingRules) -> Verdict:
        start, end = self._held[0], self._held[change.end]
        if not is_within(readings, start, end, change.shift_u):
            return Verdict.CLAMPED
        if readings.low_u >= 0 and not change.shift_u:
            # A fall of one step is allowed, but a count that falls step by step has the wrong sign.
            self._highest_u = max(self._highest_u or 0, start.value_u, end.value_u)
            if not is_within(readings, start._replace(value_u=self._highest_u), end):
                return Verdict.CONTRADICTED
        return Verdict.USE if end.value_u - start.value_u - change.shift_u else Verdict.STILL
