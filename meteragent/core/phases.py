"""The phases of one meter, summed into one reading.

Power: a reading of a phase stands until the phase's next reading, for at most `hold`. Each reading of a phase
gives the meter a new reading: the sum of the standing readings. There is no sum, not even a partial one,
while some phase has never sent a reading or has been silent for `hold` or longer. The message of a reading
may be acknowledged once a newer reading of the phase stands and every sum that includes the reading has been
integrated. So after a crash the broker delivers all standing readings again, and the sums resume unchanged. A
reading older than the meter's newest is refused. Readings of different phases with the same time result in
one sum. If several readings of a phase are stamped with the same time on arrival, the last to arrive stands.

Registers: the standing readings are taken at different times, so their sum would not equal the sum of the
registers at any single time. All energy that a phase used since its last reading would count as used at its
next reading. Slot values from such sums would not be 1-Lipschitz in the load, and the rate could exceed any
range. So each phase's register is interpolated, and the registers are summed at the newest time up to which
all phases have been read, whenever this time advances. Between two sums, the sum itself is interpolated. So
if a slot begins or ends between two sums, it may differ from the sum of the phases' slots. The total use is
the same, and so is the Lipschitz constant, because the weights of each slot still sum to 1. A reading is kept
until there is a sum at or after the time of the phase's next reading. If more than 64 readings of a phase are
kept, because another phase lags, every second reading between the oldest and the newest is dropped. Unless a
register is reset meanwhile, this loses no energy, only the time at which the energy was used. Sums are
rounded to millionths of the unit, like values.
"""

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from operator import attrgetter
from typing import NamedTuple, Protocol

from meteragent.core.register import use_between
from meteragent.core.share import Share
from meteragent.core.timeline import Outcome, Pending
from meteragent.domain.reading import Token
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up

_WAITING = 64
"""The largest number of readings of a phase's register that are kept while another phase lags."""


class _PhaseReading(Share):
    """A reading of a phase. It has one use while the phase keeps it, and one for each sum that it is in."""

    __slots__ = ("live_readings", "phase", "time_ms", "value_u")

    def __init__(
        self, phase: str, reading: Pending, live_readings: dict[tuple[str, int], "_PhaseReading"]
    ) -> None:
        super().__init__((reading.token,), 1)
        self.phase = phase
        self.time_ms, self.value_u = reading.time_ms, reading.value_u
        self.live_readings = live_readings
        live_readings[phase, self.time_ms] = self

    def give_back(self) -> Sequence[Token]:
        """End one use; return the freed tokens. After its last use, the reading is forgotten."""
        tokens = super().give_back()
        if not self.uses:
            del self.live_readings[self.phase, self.time_ms]
        return tokens


class PhaseResult(NamedTuple):
    """The effect of a phase's reading.

    `outcome` is None if the reading is too old; the timeline then determines the reason. `sum` is the new sum
    of the phases, or None. `free` holds the tokens to give back.
    """

    outcome: Outcome | None
    sum: Pending | None
    free: list[Token]


class Phases(Protocol):
    """The phases of one meter, and the readings of each phase that are in use."""

    def accept(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading."""

    def forget(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""


def phases_of(names: Sequence[str], terms: Terms) -> Phases:
    """Return the object that sums the phases `names` of a meter under these terms."""
    return RegisterPhases(names, terms) if terms.kind is Kind.REGISTER else PowerPhases(names, terms.hold_ms)


class PowerPhases:
    """The standing reading of each phase."""

    __slots__ = ("_hold_ms", "_live_readings", "_newest_ms", "_phase_count", "_standing")

    def __init__(self, names: Sequence[str], hold_ms: int) -> None:
        """Start without readings; a reading stands for at most `hold_ms`."""
        self._phase_count = len(set(names))
        self._hold_ms = hold_ms
        self._standing: dict[str, _PhaseReading] = {}
        self._live_readings: dict[tuple[str, int], _PhaseReading] = {}
        self._newest_ms: int | None = None

    def accept(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading."""
        live_reading = self._live_readings.get((phase, reading.time_ms))
        if live_reading is not None and reading.stamped and self._newest_ms == reading.time_ms:
            [token] = live_reading.tokens
            live_reading.tokens, live_reading.value_u = (reading.token,), reading.value_u
            return PhaseResult(Outcome.ACCEPTED, self._sum(reading.time_ms), [token])
        if live_reading is not None:
            return PhaseResult(Outcome.DUPLICATE, None, [_token_of_duplicate(live_reading, reading)])
        if self._newest_ms is not None and reading.time_ms < self._newest_ms:
            return PhaseResult(None, None, [reading.token])
        self._newest_ms = reading.time_ms
        previous_reading = self._standing.get(phase)
        self._standing[phase] = _PhaseReading(phase, reading, self._live_readings)
        free_tokens = [] if previous_reading is None else [previous_reading]
        return PhaseResult(Outcome.ACCEPTED, self._sum(reading.time_ms), free_tokens)

    def _sum(self, time_ms: int) -> Pending | None:
        """Return the sum of the readings that stand at `time_ms`; None if a phase has no such reading."""
        readings = list(self._standing.values())
        oldest_ms = min(reading.time_ms for reading in readings)
        if oldest_ms + self._hold_ms <= time_ms or len(readings) < self._phase_count:
            return None
        for reading in readings:
            reading.uses += 1
        return Pending(time_ms, sum(reading.value_u for reading in readings), Share(readings, 1), oldest_ms)

    def forget(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""
        return list(self._standing.values())


class RegisterPhases:
    """For each phase, the newest register reading at or before the last sum, and all later readings."""

    __slots__ = ("_live_readings", "_newest_ms", "_readings", "_terms")

    def __init__(self, names: Sequence[str], terms: Terms) -> None:
        """Start without readings; `terms` distinguish a rollover from a reset."""
        self._terms = terms
        self._readings: dict[str, list[_PhaseReading]] = {name: [] for name in names}
        self._live_readings: dict[tuple[str, int], _PhaseReading] = {}
        self._newest_ms: int | None = None

    def accept(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading."""
        live_reading = self._live_readings.get((phase, reading.time_ms))
        if live_reading is not None:
            return PhaseResult(Outcome.DUPLICATE, None, [_token_of_duplicate(live_reading, reading)])
        phase_readings = self._readings[phase]
        if phase_readings and reading.time_ms < phase_readings[-1].time_ms:
            return PhaseResult(None, None, [reading.token])
        phase_readings.append(_PhaseReading(phase, reading, self._live_readings))
        free_tokens: list[Token] = []
        if len(phase_readings) > _WAITING:
            free_tokens += phase_readings[1:-1:2]
            del phase_readings[1:-1:2]
        return PhaseResult(Outcome.ACCEPTED, self._sum(free_tokens), free_tokens)

    def _sum(self, free_tokens: list[Token]) -> Pending | None:
        """Return the sum at the newest time up to which all phases have been read.

        Returns None if some phase has not been read by that time, or if there is already a sum at that time
        or later. Readings that no later sum needs are dropped and appended to `free_tokens`.
        """
        if not all(self._readings.values()):
            return None
        time_ms = min(readings[-1].time_ms for readings in self._readings.values())
        is_complete = all(readings[0].time_ms <= time_ms for readings in self._readings.values())
        if not is_complete or (self._newest_ms is not None and time_ms <= self._newest_ms):
            return None
        self._newest_ms, sum_u, summands = time_ms, Fraction(0), list[_PhaseReading]()
        for readings in self._readings.values():
            index = bisect_right(readings, time_ms, key=attrgetter("time_ms")) - 1
            free_tokens += readings[:index]
            del readings[:index]
            neighbours = readings[:1] if readings[0].time_ms == time_ms else readings[:2]
            sum_u += self._interpolated_u(time_ms, *neighbours)
            summands += neighbours
        for reading in summands:
            reading.uses += 1
        return Pending(time_ms, round_half_up(sum_u), Share(summands, 1))

    def _interpolated_u(
        self, time_ms: int, start: _PhaseReading, end: _PhaseReading | None = None
    ) -> Fraction:
        """Return a phase's register at `time_ms`, interpolated, in millionths of the unit.

        `start` is the phase's newest reading up to `time_ms`, and `end` its next reading, or None if `start`
        was taken at `time_ms`. If the register was reset between the two readings, its value is taken to be
        constant until `end`.
        """
        if end is None:
            return Fraction(start.value_u)
        use_u, _ = use_between(start, end, self._terms)
        return start.value_u + Fraction((use_u or 0) * (time_ms - start.time_ms), end.time_ms - start.time_ms)

    def forget(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""
        return [reading for readings in self._readings.values() for reading in readings]


def _token_of_duplicate(first_delivery: _PhaseReading, reading: Pending) -> Token:
    """Return the token to give back when a reading has the phase and time of a reading in use.

    As in `Timeline`, a redelivery replaces the first delivery, and a reading with another value is refused.
    """
    if first_delivery.value_u != reading.value_u:
        return reading.token
    [token] = first_delivery.tokens
    first_delivery.tokens = (reading.token,)
    return token
