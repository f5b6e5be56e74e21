"""The phases of one meter, summed into one reading; those that are `subtracted` have a negative sign.

Power: a reading of a phase stands until the phase's next reading, for at most `hold`. Each reading of a phase
gives the meter a new reading: the sum of the standing readings. There is no sum, not even a partial one,
while some phase has never sent a reading or has been silent for `hold` or longer. The message of a reading
may be acknowledged once a newer reading of the phase stands and every sum that includes the reading has been
integrated. So after a crash the broker delivers all standing readings again, and the sums resume unchanged.

Phases on different topics have different delays. A power reading older than the meter's newest changes the
sums at all times when it stands, so within the lateness the sums do not depend on the order of arrival. Time
that has been integrated does not change (`timeline`, rule 2).

Registers: the standing readings are taken at different times, so their sum is not that of the registers at
any single time. All energy that a phase used since its last reading would appear at its next reading. Slot
values from such sums would not be 1-Lipschitz in the load, and the rate could exceed any range. So each
phase's readings are judged (`register_judgement`), its register is interpolated between the good ones, and
the registers are summed at the time of each good reading up to which all phases are settled. Between two sums
the sum is a line, like each of its phases, and a slot of the sum is the sum of the phases' slots. A phase
that is reset, replaced or rolls over shifts the sum, and the shift is not use. A reading is kept until there
is a sum at or after the phase's next good reading. At a slot's end, waiting changes are believed.

If registers report on change (`every_ms` is 0), a silent register has not moved, for example that of a tariff
that is not in force. So it is taken to have the same value when another one is read (`standing_sums`), but
only up to the time that is integrated: until then, a reading may still arrive within the lateness. The silent
register's next change is spread over the time since then. A change that exceeds the range in this time means
that the register was silent for another reason; it is clamped and counted.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf
from operator import attrgetter, itemgetter
from typing import NamedTuple

from meteragent.core.pending import PENDING_MAX, Outcome, Pending, SharedToken
from meteragent.core.register_judgement import Change, droppable_doubts, next_change
from meteragent.domain.reading import Token
from meteragent.domain.readings import ReadingRules
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up

_WAITING = 64
"""The largest number of register readings that a phase keeps while another phase lags behind."""
_TIME = attrgetter("time_ms")


class PhaseResult(NamedTuple):
    """The effect of a phase's reading: sums in order of time, tokens to give back, counters to increase.

    `outcome` is None if the reading is too old; the timeline then determines the reason.
    """

    outcome: Outcome | None
    sums: Sequence[Pending]
    free_tokens: list[Token]
    counters: Sequence[str] = ()


class _PhaseReading(SharedToken):
    """A phase's reading, whose token is in use while the phase keeps the reading or a sum contains it."""

    __slots__ = ("live_readings", "phase", "time_ms", "value_u")

    def __init__(self, phase: str, reading: Pending, live_readings: "_LiveReadings") -> None:
        super().__init__((reading.token,), 1)
        self.phase = phase
        self.time_ms, self.value_u = reading.time_ms, reading.value_u
        self.live_readings = live_readings
        live_readings[phase, self.time_ms] = self

    def replace(self, reading: Pending) -> Token:
        """Replace the value and token by those of a reading with the same time; return the previous token."""
        [token] = self.tokens
        self.tokens, self.value_u = (reading.token,), reading.value_u
        return token

    def meet_duplicate(self, reading: Pending) -> PhaseResult:
        """Refuse a reading with the same time, unless it is a redelivery, which replaces the first."""
        is_correction = reading.value_u != self.value_u
        return PhaseResult(Outcome.DUPLICATE, (), [reading.token if is_correction else self.replace(reading)])

    def give_back(self) -> Sequence[Token]:
        """End one use; return the freed tokens. After its last use, the reading is forgotten."""
        tokens = super().give_back()
        if not self.uses:
            del self.live_readings[self.phase, self.time_ms]
        return tokens


_LiveReadings = dict[tuple[str, int], _PhaseReading]
"""The readings in use, by phase and time."""


def make_phases(names: Sequence[str], terms: Terms, subtracted: Collection[str] = ()) -> "Phases":
    """Return the object that sums a meter's phases `names`, with a minus sign for those in `subtracted`."""
    kind = RegisterPhases if terms.readings.kind is Kind.REGISTER else PowerPhases
    return kind({name: -1 if name in subtracted else 1 for name in names}, terms)


def rules_of_phase(readings: ReadingRules, subtracted: Collection[str]) -> ReadingRules:
    """Return the rules by which each phase's register is judged, given those of the sum.

    If phases are subtracted, the sum may fall, but each phase's register still only rises, by at most what
    the range allows in either direction.
    """
    if not subtracted:
        return readings
    return replace(readings, low_u=0, high_u=max(readings.high_u, -readings.low_u))


class Phases(ABC):
    """The phases of one meter, and the readings of each phase that are in use."""

    def __init__(self, signs: dict[str, int], terms: Terms) -> None:
        """Start without readings; `signs` maps each phase to 1 or -1."""
        self._signs, self._terms = signs, terms
        self._readings: dict[str, list[_PhaseReading]] = {name: [] for name in signs}
        self._live_readings: _LiveReadings = {}
        self._newest_ms = 0  # the newest time of the readings or, for registers, of the sums

    @abstractmethod
    def accept_reading(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading; return the sums that it makes."""

    def forget_readings(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""
        return [reading for readings in self._readings.values() for reading in readings]


class PowerPhases(Phases):
    """The readings of each phase that apply now, or may apply at a time still within the lateness.

    Each phase keeps the newest reading that is older than the meter's newest by at least the lateness, and
    all later ones. A reading older than these is refused.
    """

    def accept_reading(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading; return a sum for each time at which it applies."""
        time_ms = reading.time_ms
        live_reading = self._live_readings.get((phase, time_ms))
        if live_reading is not None and reading.is_stamped and self._newest_ms == time_ms:
            token = live_reading.replace(reading)
            return PhaseResult(Outcome.ACCEPTED, self._sums_at([time_ms]), [token])
        if live_reading is not None:
            return live_reading.meet_duplicate(reading)
        readings = self._readings[phase]
        self._newest_ms = max(time_ms, self._newest_ms)
        settled_ms = self._newest_ms - self._terms.lateness_ms
        if readings and time_ms < readings[0].time_ms <= settled_ms:
            return PhaseResult(None, (), [reading.token])
        index = bisect_left(readings, time_ms, key=_TIME)
        readings.insert(index, _PhaseReading(phase, reading, self._live_readings))
        until_ms = readings[index + 1].time_ms if index + 1 < len(readings) else inf
        times = {
            item.time_ms
            for items in self._readings.values()
            for item in items[bisect_left(items, time_ms, key=_TIME) :]
            if item.time_ms < until_ms
        }
        sums = self._sums_at(sorted(times))
        return PhaseResult(Outcome.ACCEPTED, sums, self._drop_before(settled_ms))

    def _sums_at(self, times: Iterable[int]) -> list[Pending]:
        """Return the sum at each of these times at which every phase has a reading that applies."""
        sums = list[Pending]()
        for time_ms in times:
            indices = [bisect_right(items, time_ms, key=_TIME) for items in self._readings.values()]
            if not all(indices):
                continue
            items = [items[i - 1] for items, i in zip(self._readings.values(), indices, strict=True)]
            oldest_ms = min(item.time_ms for item in items)
            if oldest_ms + self._terms.readings.hold_ms <= time_ms:
                continue
            for item in items:
                item.uses += 1
            sum_u = sum(self._signs[item.phase] * item.value_u for item in items)
            sums.append(Pending(time_ms, sum_u, SharedToken(items, 1), oldest_ms))
        return sums

    def _drop_before(self, settled_ms: int) -> list[Token]:
        """Drop each phase's readings before the one that applies at `settled_ms`; return their tokens."""
        tokens = list[Token]()
        for readings in self._readings.values():
            indices = slice(max(bisect_right(readings, settled_ms, key=_TIME) - 1, 0))
            tokens += readings[indices]
            del readings[indices]
            tokens += _thin_half(readings, PENDING_MAX)
        return tokens


class RegisterPhases(Phases):
    """For each phase, the newest good register reading at or before the last sum, and all later readings."""

    def __init__(self, signs: dict[str, int], terms: Terms) -> None:
        """Start without readings; `signs` maps each phase to 1 or -1, `terms` say how to judge registers."""
        super().__init__(signs, terms)
        self._rules = rules_of_phase(terms.readings, [name for name, sign in signs.items() if sign < 0])
        self._stood_ms = dict.fromkeys(signs, 0)  # by phase, when it was last taken to be unchanged
        self._proven_phases = set[str]()
        self._changes = {phase: [Change(0, 0)] for phase in signs}  # settled, between kept readings

    def accept_reading(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading; return the sums up to the time at which all are settled."""
        live_reading = self._live_readings.get((phase, reading.time_ms))
        if live_reading is not None:
            return live_reading.meet_duplicate(reading)
        readings = self._readings[phase]
        if readings and reading.time_ms < readings[-1].time_ms:
            return PhaseResult(None, (), [reading.token])
        readings.append(_PhaseReading(phase, reading, self._live_readings))
        # Unless a register is reset in between, this loses no energy, only the time at which it was used.
        if free_tokens := _thin_half(readings, _WAITING):
            self._changes[phase] = [Change(0, 0)]
        last = self._settled_changes(phase)[-1].end
        indices = droppable_doubts(len(readings), last, next_change(readings, last, self._rules))
        free_tokens += readings[indices.start : indices.stop]
        del readings[indices.start : indices.stop]
        result = PhaseResult(Outcome.ACCEPTED, [], free_tokens, ["register_glitch"] * len(indices))
        return self._with_sums(result, min(self._phases_settled_ms()))

    def standing_sums(self, until_ms: int, *, is_slot_end: bool) -> PhaseResult:
        """Return the sums, at readings and at a slot's end, that take silent phases to be unchanged.

        At a slot's end, changes that still wait for confirmation are believed, as for a single register.
        """
        result = PhaseResult(Outcome.ACCEPTED, [], [], [])
        if until_ms <= self._newest_ms:
            return result
        if is_slot_end:
            self._believe_waiting(until_ms)
        if self._rules.every_ms != 0:
            return self._with_sums(result, min(self._phases_settled_ms())) if is_slot_end else result
        if not is_slot_end:
            # A phase is silent only if others have readings that are newer by the lateness: after a restart,
            # the broker may deliver readings again that are older than the meter's newest.
            heard_ms = max(readings[-1].time_ms if readings else 0 for readings in self._readings.values())
            until_ms = min(until_ms, heard_ms - self._terms.lateness_ms)
        last_ms = max(self._phases_settled_ms())
        return self._with_sums(result, min(last_ms, until_ms), is_end=is_slot_end and until_ms <= last_ms)

    def _phases_settled_ms(self) -> list[int]:
        """Return the time up to which each phase is settled; 0 if it has never been read."""
        return [
            readings[self._settled_changes(phase)[-1].end].time_ms if readings else 0
            for phase, readings in self._readings.items()
        ]

    def _settled_changes(self, phase: str) -> list[Change]:
        """Return the settled changes of a phase's register; the first ends at its first reading."""
        items, changes = self._readings[phase], self._changes[phase]
        while (change := next_change(items, changes[-1].end, self._rules)) and change.settled_by < len(items):
            changes.append(change)
        return changes

    def _believe_waiting(self, until_ms: int) -> None:
        """Settle the changes before a time, instead of waiting for a reading that could confirm them."""
        for phase, items in filter(itemgetter(1), self._readings.items()):
            [*_, last] = changes = self._settled_changes(phase)
            if (change := next_change(items, last.end, self._rules)) and items[last.end].time_ms < until_ms:
                changes.append(change)

    def _with_sums(self, result: PhaseResult, until_ms: int, *, is_end: bool = False) -> PhaseResult:
        """Add to the result a sum at each good reading up to `until_ms`, and at `until_ms` if `is_end`.

        There is no sum before all phases have been read, and none up to the last sum. Readings that no later
        sum needs are dropped and their tokens freed; resets, jumps and the like are counted.
        """
        if not all(self._readings.values()):
            return result
        from_ms = max(readings[0].time_ms for readings in self._readings.values())
        times = {until_ms} if is_end else set[int]()
        for phase, readings in self._readings.items():
            times |= {readings[change.end].time_ms for change in self._settled_changes(phase)}
        sums, counters = [], [*result.counters]
        for time_ms in sorted(times):
            if max(from_ms, self._newest_ms + 1) <= time_ms <= until_ms:
                self._newest_ms = time_ms
                sums.append(self._sum_at(time_ms, result.free_tokens, counters))
        return result._replace(sums=sums, counters=counters)

    def _sum_at(self, time_ms: int, free_tokens: list[Token], counters: list[str]) -> Pending:
        """Return the sum at a time; drop the readings that neither this nor a later sum needs."""
        sum_u, shift_u, summands = Fraction(0), 0, list[_PhaseReading]()
        for phase, readings in self._readings.items():
            changes = self._settled_changes(phase)
            passed = [change for change in changes if readings[change.end].time_ms <= time_ms]
            for change in passed[1:]:
                counters += change.counter_names(is_proven=phase in self._proven_phases)
                self._proven_phases.add(phase)
            counters += ["register_glitch"] * (passed[-1].end + 1 - len(passed))
            start, ahead, sign = readings[passed[-1].end], changes[len(passed) :], self._signs[phase]
            shift_u += sign * sum(change.shift_u for change in passed)
            sum_u += sign * start.value_u
            summands.append(start)
            if ahead and start.time_ms < time_ms:
                end, from_ms = readings[ahead[0].end], max(start.time_ms, self._stood_ms[phase])
                use_u = end.value_u - ahead[0].shift_u - start.value_u
                sum_u += Fraction(sign * use_u * (time_ms - from_ms), end.time_ms - from_ms)
                summands.append(end)
            elif not ahead:
                self._stood_ms[phase] = time_ms
            drop_count = passed[-1].end
            free_tokens += readings[:drop_count]
            del readings[:drop_count]
            self._changes[phase] = [
                Change(0, 0),
                *(change._replace(end=change.end - drop_count) for change in ahead),
            ]
        for reading in summands:
            reading.uses += 1
        return Pending(time_ms, round_half_up(sum_u), SharedToken(summands, 1), shift_u=shift_u)


def _thin_half(readings: list[_PhaseReading], count_max: int) -> list[Token]:
    """If there are too many readings, drop every second one except at the ends; return the tokens."""
    if len(readings) <= count_max:
        return []
    dropped_readings: list[Token] = [*readings[1:-1:2]]
    del readings[1:-1:2]
    return dropped_readings
