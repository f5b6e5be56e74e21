"""The phases of one meter, summed into one reading.

Power: a reading of a phase stands until the phase's next reading, for at most `hold`. Each reading of a phase
gives the meter a new reading: the sum of the standing readings. While a phase has never sent a reading, or
has been silent for longer than `hold`, there is no sum, not even a partial one. A reading's message is free
once a newer reading of its phase stands and every sum that includes the reading has been integrated. So after
a crash the broker delivers all standing readings again, and the sums resume unchanged. A reading older than
the meter's newest is late. Readings of different phases with the same time make one sum. If several readings
of one phase were stamped with the same time on arrival, the newest stands.

Registers: a sum of standing readings would not be the register at any one time. All energy that a phase used
since its last reading would count as used at its next one (not a 1-Lipschitz map, and a rate beyond any
range). So each phase's register is interpolated, and there is a sum at each time up to which all phases have
been read, which is the newest time of the phase that lags. Between two sums, the sum itself is interpolated,
so a slot with a boundary between them may differ from the sum of the phases' slots. The total use is the
same, and so is the Lipschitz constant: the weights of a slot still sum to 1. A reading is kept until there is
a sum at a time beyond the next reading of its phase. If very many readings wait for a phase that lags, every
second reading is dropped. This loses no energy, only the time at which the energy was used. Sums are rounded
to millionths, like values.
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
"""The largest number of readings of a phase that may wait for another phase."""


class _Part(Share):
    """A phase's reading and message, with one use while it stands and one for each sum that includes it."""

    __slots__ = ("live", "phase", "time_ms", "value_u")

    def __init__(self, phase: str, reading: Pending, live: dict[tuple[str, int], "_Part"]) -> None:
        super().__init__((reading.token,), 1)
        self.phase = phase
        self.time_ms, self.value_u = reading.time_ms, reading.value_u
        self.live = live
        live[phase, self.time_ms] = self

    def give_back(self) -> Sequence[Token]:
        """End one use; return the freed tokens. A reading without uses is forgotten."""
        tokens = super().give_back()
        if not self.uses:
            del self.live[self.phase, self.time_ms]
        return tokens


class PhaseResult(NamedTuple):
    """The effect of a phase's reading.

    `outcome` is None if the reading is too old; the timeline then determines the reason. `free` holds the
    tokens to give back.
    """

    outcome: Outcome | None
    sum: Pending | None
    free: list[Token]


class Phases(Protocol):
    """The phases of one meter, with the readings of each phase that are in use."""

    def accept(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading."""

    def forget(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""


def phases_of(names: Sequence[str], terms: Terms) -> Phases:
    """Return the object that sums a meter's phases under these terms."""
    return RegisterPhases(names, terms) if terms.kind is Kind.REGISTER else PowerPhases(names, terms.hold_ms)


class PowerPhases:
    """The standing reading of each phase."""

    __slots__ = ("_count", "_hold_ms", "_live", "_newest_ms", "_standing")

    def __init__(self, names: Sequence[str], hold_ms: int) -> None:
        """Begin without readings; a reading stands for at most `hold_ms`."""
        self._count = len(set(names))
        self._hold_ms = hold_ms
        self._standing: dict[str, _Part] = {}
        self._live: dict[tuple[str, int], _Part] = {}
        self._newest_ms: int | None = None

    def accept(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading."""
        live_part = self._live.get((phase, reading.time_ms))
        if live_part is not None and reading.stamped and self._newest_ms == reading.time_ms:
            [token] = live_part.tokens
            live_part.tokens, live_part.value_u = (reading.token,), reading.value_u
            return PhaseResult(Outcome.ACCEPTED, self._sum(reading.time_ms), [token])
        if live_part is not None:
            return PhaseResult(Outcome.DUPLICATE, None, [_redelivered(live_part, reading)])
        if self._newest_ms is not None and reading.time_ms < self._newest_ms:
            return PhaseResult(None, None, [reading.token])
        self._newest_ms = reading.time_ms
        previous_part = self._standing.get(phase)
        self._standing[phase] = _Part(phase, reading, self._live)
        free = [] if previous_part is None else [previous_part]
        return PhaseResult(Outcome.ACCEPTED, self._sum(reading.time_ms), free)

    def _sum(self, time_ms: int) -> Pending | None:
        """Return the sum of the readings that stand at a time; None unless every phase has one."""
        parts = list(self._standing.values())
        oldest_ms = min(part.time_ms for part in parts)
        if oldest_ms + self._hold_ms <= time_ms or len(parts) < self._count:
            return None
        for part in parts:
            part.uses += 1
        return Pending(time_ms, sum(part.value_u for part in parts), Share(parts, 1), oldest_ms)

    def forget(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""
        return list(self._standing.values())


class RegisterPhases:
    """The readings of each phase's register after the last sum, and the newest reading at or before it."""

    __slots__ = ("_live", "_newest_ms", "_readings", "_rules")

    def __init__(self, names: Sequence[str], rules: Terms) -> None:
        """Begin without readings; `rules` are the terms that distinguish a rollover from a reset."""
        self._rules = rules
        self._readings: dict[str, list[_Part]] = {name: [] for name in names}
        self._live: dict[tuple[str, int], _Part] = {}
        self._newest_ms: int | None = None

    def accept(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading."""
        live_part = self._live.get((phase, reading.time_ms))
        if live_part is not None:
            return PhaseResult(Outcome.DUPLICATE, None, [_redelivered(live_part, reading)])
        parts = self._readings[phase]
        if parts and reading.time_ms < parts[-1].time_ms:
            return PhaseResult(None, None, [reading.token])
        parts.append(_Part(phase, reading, self._live))
        free: list[Token] = []
        if len(parts) > _WAITING:
            free += parts[1:-1:2]
            del parts[1:-1:2]
        return PhaseResult(Outcome.ACCEPTED, self._sum(free), free)

    def _sum(self, free: list[Token]) -> Pending | None:
        """Return the sum at the newest time up to which all phases have been read; None if it is not new.

        Readings that no later sum needs are appended to `free`.
        """
        if not all(self._readings.values()):
            return None
        time_ms = min(parts[-1].time_ms for parts in self._readings.values())
        is_complete = all(parts[0].time_ms <= time_ms for parts in self._readings.values())
        if not is_complete or (self._newest_ms is not None and time_ms <= self._newest_ms):
            return None
        self._newest_ms, sum_u, summands = time_ms, Fraction(0), list[_Part]()
        for parts in self._readings.values():
            index = bisect_right(parts, time_ms, key=attrgetter("time_ms")) - 1
            free += parts[:index]
            del parts[:index]
            neighbours = parts[:1] if parts[0].time_ms == time_ms else parts[:2]
            sum_u += self._interpolated_u(time_ms, *neighbours)
            summands += neighbours
        for part in summands:
            part.uses += 1
        return Pending(time_ms, round_half_up(sum_u), Share(summands, 1))

    def _interpolated_u(self, time_ms: int, start: _Part, end: _Part | None = None) -> Fraction:
        """Interpolate a phase's register between two readings; before a reset the register is constant."""
        if end is None:
            return Fraction(start.value_u)
        use_u, _ = use_between(start, end, self._rules)
        return start.value_u + Fraction((use_u or 0) * (time_ms - start.time_ms), end.time_ms - start.time_ms)

    def forget(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""
        return [part for parts in self._readings.values() for part in parts]


def _redelivered(part: _Part, reading: Pending) -> Token:
    """Return the token to acknowledge at once when a reading in use arrives again, as `Timeline` does."""
    if part.value_u != reading.value_u:
        return reading.token
    [token] = part.tokens
    part.tokens = (reading.token,)
    return token
