"""Meters of the model whose readings are of phases, which are summed; some are subtracted.

The sum of powers at a time adds the last reading of each phase, if all of these readings still apply. For
registers, straight lines join the good readings of each phase. There is a sum at each good reading up to
which all phases are settled, and the use between two sums is the rise of all lines together.

A phase's reading is in use while its phase needs it, or a sum in undecided time contains it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

from simulators.simtest.model.meter import Arrival, Held, Meter
from simulators.simtest.model.register_meter import RegisterMeter
from simulators.simtest.model.registers import Count, Span, spans_of
from simulators.simtest.model.spec import ReadingSpec

_DOUBTED = 2
"""The number of consecutive readings of a phase that are held while all of them are doubted."""


@dataclass(eq=False)
class PhaseReading:
    """A reading of a phase; `token` identifies its latest delivery."""

    phase: str
    time_ms: int
    value_u: int
    token: Any


@dataclass
class PhasedMeter(Meter):
    """A meter with phases: the readings that its phases need, and all readings in use."""

    of_phases: dict[str, dict[int, PhaseReading]] = field(default_factory=dict)
    in_use: list[PhaseReading] = field(default_factory=list)
    newest_sum_ms: int = 0

    def __post_init__(self) -> None:
        self.of_phases = {name: {} for name in self.signs}

    @property
    def signs(self) -> dict[str, int]:
        """The sign of each phase."""
        return dict(self.ordinary.readings.phases)

    def take(self, arrival: Arrival, *, is_stamped: bool) -> tuple[bool, list[Any]]:
        """Accept a phase's reading, unless it is a repetition, a correction or too old."""
        repeated = next((item for item in self._used() if _is_repeated(item, arrival)), None)
        if repeated is not None:
            return self._repeat(repeated, arrival, is_stamped=is_stamped)
        if self._is_old(arrival):
            return False, [arrival.token]
        reading = PhaseReading(arrival.phase, arrival.time_ms, arrival.value_u, arrival.token)
        self.of_phases[arrival.phase][arrival.time_ms] = reading
        self.in_use.append(reading)
        return self._add(reading), []

    def _repeat(self, item: PhaseReading, arrival: Arrival, *, is_stamped: bool) -> tuple[bool, list[Any]]:
        """Keep a reading's latest delivery; another value is refused unless `_gives_way` allows it."""
        gives_way = self._gives_way(item, is_stamped)
        if item.value_u != arrival.value_u and not gives_way:
            return False, [arrival.token]
        former, item.token, item.value_u = item.token, arrival.token, arrival.value_u
        return gives_way and self._add(item), [former]

    def _gives_way(self, _item: PhaseReading, _is_stamped: bool) -> bool:
        return False

    def _is_old(self, arrival: Arrival) -> bool:
        raise NotImplementedError

    def _add(self, reading: PhaseReading) -> bool:
        """Add the sums that a reading makes possible; return whether the reading is used."""
        raise NotImplementedError

    def _add_sum(self, time_ms: int, total: Held) -> bool:
        """Add a sum, or replace the sum of the same time, unless that time is decided."""
        if time_ms not in self.readings:
            is_older = self.standing_ms is not None and time_ms < self.standing_ms
            if is_older or self._is_over(total):
                return False
            self._note(time_ms)
        self.readings[time_ms] = total
        if time_ms <= self.covered_ms:
            self.free()
        return True

    def _is_over(self, total: Held) -> bool:
        return (total.since_ms or 0) + self.rules.hold_ms <= self.covered_ms

    def _note(self, time_ms: int) -> None:
        self.newest_ms = max(time_ms, self.newest_ms or 0)
        self.idle_windows = 0

    def _drop(self, times_ms: Iterable[int]) -> list[Any]:
        """Drop held sums; return no tokens, because only the readings in sums have tokens."""
        for time_ms in list(times_ms):
            del self.readings[time_ms]
        return []

    def _keep_from(self, phase: str, time_ms: int) -> None:
        """Let a phase keep its newest reading up to a time, and all later ones."""
        readings = self.of_phases[phase]
        oldest_ms = max((t for t in readings if t <= time_ms), default=time_ms)
        self.of_phases[phase] = {t: reading for t, reading in readings.items() if t >= oldest_ms}

    def _used(self) -> Iterator[PhaseReading]:
        for readings in self.of_phases.values():
            yield from readings.values()
        for total in self.readings.values():
            yield from total.token

    def release(self) -> list[Any]:
        """Return the tokens of the readings that are no longer in use."""
        needed_readings = set(self._used())
        unused = [reading.token for reading in self.in_use if reading not in needed_readings]
        self.in_use = [reading for reading in self.in_use if reading in needed_readings]
        return unused

    def tokens(self) -> list[Any]:
        """Return the tokens of all readings in use."""
        return [reading.token for reading in self.in_use]


@dataclass
class PowerPhasesMeter(PhasedMeter):
    """A meter whose phases send powers."""

    newest_reading_ms: int = 0

    def _gives_way(self, item: PhaseReading, is_stamped: bool) -> bool:
        return is_stamped and item.time_ms == self.newest_reading_ms

    def _is_old(self, arrival: Arrival) -> bool:
        """Return whether the phase has a later reading whose time is not after the watermark."""
        self.newest_reading_ms = max(arrival.time_ms, self.newest_reading_ms)
        return any(arrival.time_ms < t <= self._settled_ms for t in self.of_phases[arrival.phase])

    @property
    def _settled_ms(self) -> int:
        return self.newest_reading_ms - self.ordinary.lateness_ms

    def _add(self, reading: PhaseReading) -> bool:
        """Add a sum at the time of each phase's readings at which this reading applies."""
        of_phase, from_ms = self.of_phases[reading.phase], reading.time_ms
        until_ms = min((t for t in of_phase if t > from_ms), default=2**62)
        times_ms = {t for readings in self.of_phases.values() for t in readings if from_ms <= t < until_ms}
        sums = {t: total for t in sorted(times_ms) if (total := self._sum_at(t)) is not None}
        if not sums:
            self._note(from_ms)
        counts = [self._add_sum(t, total) for t, total in sums.items()]
        for name in self.of_phases:
            self._keep_from(name, self._settled_ms)
        return any(counts) or not sums

    def _sum_at(self, time_ms: int) -> Held | None:
        """Return the sum at a time; None unless all phases have a reading that applies then."""
        items = []
        for readings in self.of_phases.values():
            latest_ms = max((t for t in readings if t <= time_ms), default=None)
            if latest_ms is None or latest_ms + self.ordinary.readings.hold_ms <= time_ms:
                return None
            items.append(readings[latest_ms])
        total_u = sum(self.signs[item.phase] * item.value_u for item in items)
        return Held(total_u, tuple(items), min(item.time_ms for item in items))

    def set_right(self, arrival: Arrival) -> list[Any] | None:
        """Drop sums in a wrong clock's future as `Meter` drops readings, and all readings of the phases."""
        dropped = super().set_right(arrival)
        if dropped is not None:
            self.of_phases, self.newest_reading_ms = {name: {} for name in self.signs}, 0
        return dropped


@dataclass
class RegisterPhasesMeter(PhasedMeter, RegisterMeter):
    """A meter whose phases send registers.

    `believed` holds the ends of changes that were settled by the end of a slot. While only other phases
    report, a phase that reports on change is taken to be unchanged, up to its time in `stood_ms`.
    """

    believed: set[tuple[str, int]] = field(default_factory=set)
    stood_ms: dict[str, int] = field(default_factory=dict)

    @property
    def _rules_of_phase(self) -> ReadingSpec:
        """The rules by which a phase is judged: its register only rises, even if the phase is subtracted."""
        rules = self.ordinary.readings
        return replace(rules, low_u=0, high_u=max(rules.high_u, -rules.low_u))

    def _is_old(self, arrival: Arrival) -> bool:
        return any(arrival.time_ms < t for t in self.of_phases[arrival.phase])

    def _is_over(self, _total: Held) -> bool:
        return False

    def _add(self, reading: PhaseReading) -> bool:
        self._note(reading.time_ms)
        self._drop_doubted(reading.phase)
        self._add_sums()
        return True

    def _drop_doubted(self, phase: str) -> None:
        """Drop readings that a phase's later readings contradict, and all doubted readings but the last."""
        good_ms = max(self._goods(phase))
        doubted = sorted(t for t in self.of_phases[phase] if t > good_ms)
        waiting_ms = [span.end_ms for span in self._spans_of(phase) if span.settled_ms is None]
        dropped = [t for t in doubted if t < waiting_ms[0]] if waiting_ms else doubted[:-_DOUBTED]
        for time_ms in dropped:
            del self.of_phases[phase][time_ms]

    def _counts(self, phase: str) -> list[Count]:
        return sorted((t, reading.value_u) for t, reading in self.of_phases[phase].items())

    def _spans_of(self, phase: str) -> list[Span]:
        believed = {time_ms for name, time_ms in self.believed if name == phase}
        return spans_of(self._rules_of_phase, self._counts(phase), believed)

    def _settled_spans(self, phase: str) -> list[Span]:
        return [span for span in self._spans_of(phase) if span.settled_ms is not None]

    def _add_sums(self, until_ms: int | None = None, *, is_end: bool = False) -> None:
        """Add a sum at each good reading after the last sum, up to the time to which all phases are settled.

        With `until_ms`, phases are taken to be unchanged from their last reading until then. With `is_end`, a
        sum is also added at `until_ms` if some phase is settled up to that time.
        """
        if not all(self.of_phases.values()):
            return
        goods = {name: self._goods(name) for name in self.of_phases}
        from_ms = max(self.newest_sum_ms + 1, *(min(readings) for readings in self.of_phases.values()))
        settled_ms = [max(times_ms) for times_ms in goods.values()]
        times_of_sums = {t for times_ms in goods.values() for t in times_ms}
        if until_ms is None:
            until_ms = min(settled_ms)
        elif is_end and until_ms <= max(settled_ms):
            times_of_sums.add(until_ms)
        for time_ms in sorted(times_of_sums):
            if from_ms <= time_ms <= until_ms:
                self.newest_sum_ms = time_ms
                self._add_sum(time_ms, self._sum_at(time_ms))
                for name in self.of_phases:
                    self._keep_from(name, max(t for t in goods[name] if t <= time_ms))

    def _goods(self, phase: str) -> list[int]:
        """Return the times of a phase's settled good readings, of which its first reading is always one."""
        return [min(self.of_phases[phase]), *(span.end_ms for span in self._settled_spans(phase))]

    def _sum_at(self, time_ms: int) -> Held:
        """Return the sum at a time, rounded half up, and how much of its change is not use."""
        total_u, shift_u, items = Fraction(0), 0, list[PhaseReading]()
        for name, readings in self.of_phases.items():
            spans, sign = self._settled_spans(name), self.signs[name]
            passed = [span for span in spans if span.end_ms <= time_ms]
            for span in passed:
                rise_u = readings[span.end_ms].value_u - readings[span.start_ms].value_u
                shift_u += sign * (rise_u - (span.use_u or 0))
            start_ms = passed[-1].end_ms if passed else min(readings)
            total_u += sign * readings[start_ms].value_u
            items.append(readings[start_ms])
            if len(passed) == len(spans):
                self.stood_ms[name] = time_ms
            elif start_ms < time_ms:
                line = spans[len(passed)]
                from_ms = max(start_ms, self.stood_ms.get(name, 0))
                passed_ms, whole_ms = time_ms - from_ms, line.end_ms - from_ms
                total_u += Fraction(sign * (line.use_u or 0) * passed_ms, whole_ms)
                items.append(readings[line.end_ms])
        return Held(floor(total_u + Fraction(1, 2)), tuple(items), time_ms, shift_u)

    # --- the meter's register: the sums --------------------------------------------------------

    def decide(self, until_ms: int) -> list[Any]:
        """Decide all time before `until_ms`; changes that wait for a phase's next reading are settled."""
        if self.newest_sum_ms < until_ms and self.covered_ms < until_ms:
            for name in self.of_phases:
                waiting = [span for span in self._spans_of(name) if span.settled_ms is None]
                self.believed |= {(name, span.end_ms) for span in waiting[:1] if span.start_ms < until_ms}
            self._add_sums(until_ms if self.ordinary.readings.is_on_change else None, is_end=True)
        return super().decide(until_ms)

    def decide_passed(self, clock_ms: int) -> list[Any]:
        """Take phases that are silent while others report as unchanged; then decide as for one register."""
        frontier_ms = min((self.newest_ms or 0) - self.ruling.lateness_ms, clock_ms)
        if self.ordinary.readings.is_on_change and frontier_ms > self.newest_sum_ms:
            heard_ms = max(max(readings, default=0) for readings in self.of_phases.values())
            self._add_sums(min(frontier_ms, heard_ms - self.ordinary.lateness_ms))
        return super().decide_passed(clock_ms)

    def _spans(self, readings: list[Count]) -> list[Span]:
        """Return the spans between sums, all of which are good."""
        spans = []
        for (start_ms, start_u), (end_ms, end_u) in pairwise(readings):
            use_u = end_u - start_u - self.readings[end_ms].shift_u
            spans.append(Span(start_ms, end_ms, use_u, end_ms))
        return spans

    def _goes_on(self, start: Count, end: Count) -> bool:
        """Return whether the change between two sums is usual and consists of use alone."""
        is_use = not any(total.shift_u for t, total in self.readings.items() if start[0] < t <= end[0])
        return is_use and super()._goes_on(start, end)


def _is_repeated(item: PhaseReading, arrival: Arrival) -> bool:
    return (item.phase, item.time_ms) == (arrival.phase, arrival.time_ms)


_KINDS = {
    ("power", False): Meter,
    ("interval_energy", False): Meter,
    ("register", False): RegisterMeter,
    ("power", True): PowerPhasesMeter,
    ("register", True): RegisterPhasesMeter,
}
"""The class of meters for each kind of readings, without and with phases."""


def as_meter(meter: Meter) -> Meter:
    """Return a meter converted to the class that its ordinary window's readings need."""
    readings = meter.ordinary.readings
    kind = _KINDS[readings.kind, bool(readings.phases)]
    return kind(**{item.name: getattr(meter, item.name) for item in fields(Meter)})
