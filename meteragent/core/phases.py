"""Phases of one meter, summed into one secret.

Of power, each phase's reading stands until its next one, for at most `hold`. Whenever a phase speaks, the
meter has a new reading: the sum of what stands. While a phase has never spoken, or was silent for longer
than `hold`, the sum is unknown and there is none, never a part of it. A reading's message is free when a
newer one of its phase stands and every sum that it is in was covered: so after a crash the broker
delivers again whatever stood, and the sums resume as they were. Readings older than the newest
of the meter are late; those of the same time, of different phases, make one sum. Of readings of one phase
that their arrival has stamped with the same time, the newest stands.

Of registers a sum of what stands would be of no time: what a phase used since it last spoke would all be
used when it speaks (no 1-Lipschitz map, and a rate beyond any range). So each phase's register is
interpolated, and there is a sum at each time up to which all phases have now told: the newest of
the one that lags. Between two sums the sum itself is interpolated, so a slot with a boundary there may differ
from the sum of the phases' own slots. What is used in total does not, nor does the Lipschitz constant:
the weights of a slot still sum to 1. Readings stay until a sum is past the
next one of their phase; of very many that wait for one that lags, every other is dropped: registers lose
nothing by that but when it was used. Sums are rounded to millionths, as values are.
"""

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from operator import attrgetter
from typing import NamedTuple, Protocol

from meteragent.core.register import used_u
from meteragent.core.share import Share
from meteragent.core.timeline import Outcome, Pending
from meteragent.domain.reading import Token
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy.exact import round_half_up

_WAITING = 64
"""Readings of a phase that wait for another phase, at most."""


class _Part(Share):
    """A phase's reading and its message: one use while it stands, one for each sum that it is in."""

    __slots__ = ("live", "phase", "time_ms", "value_u")

    def __init__(self, phase: str, reading: Pending, live: dict[tuple[str, int], "_Part"]) -> None:
        super().__init__((reading.token,), 1)
        self.phase = phase
        self.time_ms, self.value_u = reading.time_ms, reading.value_u
        self.live = live
        live[phase, self.time_ms] = self

    def give_back(self) -> Sequence[Token]:
        """One use less; what nobody uses is forgotten."""
        tokens = super().give_back()
        if not self.left:
            del self.live[self.phase, self.time_ms]
        return tokens


class Heard(NamedTuple):
    """What a phase's reading comes to.

    `outcome` is None where the sum decides, or the timeline knows why it is too old; `free` are tokens to
    give back.
    """

    outcome: Outcome | None
    sum: Pending | None
    free: list[Token]


class Phases(Protocol):
    """The phases of one meter: what has been heard of each."""

    def hear(self, phase: str, reading: Pending) -> Heard:
        """Take in a phase's reading."""

    def forget(self) -> list[Token]:
        """The tokens to give back when the meter is forgotten."""


def phases_of(names: Sequence[str], terms: Terms) -> Phases:
    """The phases of a meter whose readings count under these terms."""
    return RegisterPhases(names, terms) if terms.kind is Kind.REGISTER else PowerPhases(names, terms.hold_ms)


class PowerPhases:
    """What stands of each phase."""

    __slots__ = ("_count", "_hold_ms", "_live", "_newest_ms", "_standing")

    def __init__(self, names: Sequence[str], hold_ms: int) -> None:
        """`hold_ms`: how long a reading stands."""
        self._count = len(set(names))
        self._hold_ms = hold_ms
        self._standing: dict[str, _Part] = {}
        self._live: dict[tuple[str, int], _Part] = {}
        self._newest_ms: int | None = None

    def hear(self, phase: str, reading: Pending) -> Heard:
        """Take in a phase's reading."""
        held = self._live.get((phase, reading.time_ms))
        if held is not None and reading.stamped and self._newest_ms == reading.time_ms:
            [token] = held.tokens
            held.tokens, held.value_u = (reading.token,), reading.value_u
            return Heard(Outcome.ACCEPTED, self._sum(reading.time_ms), [token])
        if held is not None:
            return Heard(Outcome.DUPLICATE, None, [_again(held, reading)])
        if self._newest_ms is not None and reading.time_ms < self._newest_ms:
            return Heard(None, None, [reading.token])
        self._newest_ms = reading.time_ms
        before = self._standing.get(phase)
        self._standing[phase] = _Part(phase, reading, self._live)
        return Heard(Outcome.ACCEPTED, self._sum(reading.time_ms), [] if before is None else [before])

    def _sum(self, time_ms: int) -> Pending | None:
        """The sum of what stands at a time, if all phases do."""
        parts = list(self._standing.values())
        oldest_ms = min(part.time_ms for part in parts)
        if oldest_ms + self._hold_ms <= time_ms or len(parts) < self._count:
            return None
        for part in parts:
            part.left += 1
        return Pending(time_ms, sum(part.value_u for part in parts), Share(parts, 1), oldest_ms)

    def forget(self) -> list[Token]:
        """The tokens to give back when the meter is forgotten."""
        return list(self._standing.values())


class RegisterPhases:
    """What was heard of each phase's register since the last sum, and the reading before that."""

    __slots__ = ("_heard", "_live", "_newest_ms", "_rules")

    def __init__(self, names: Sequence[str], rules: Terms) -> None:
        """`rules`: what is a rollover, and what a reset."""
        self._rules = rules
        self._heard: dict[str, list[_Part]] = {name: [] for name in names}
        self._live: dict[tuple[str, int], _Part] = {}
        self._newest_ms: int | None = None

    def hear(self, phase: str, reading: Pending) -> Heard:
        """Take in a phase's reading."""
        held = self._live.get((phase, reading.time_ms))
        if held is not None:
            return Heard(Outcome.DUPLICATE, None, [_again(held, reading)])
        mine = self._heard[phase]
        if mine and reading.time_ms < mine[-1].time_ms:
            return Heard(None, None, [reading.token])
        mine.append(_Part(phase, reading, self._live))
        free: list[Token] = []
        if len(mine) > _WAITING:
            free += mine[1:-1:2]
            del mine[1:-1:2]
        return Heard(Outcome.ACCEPTED, self._sum(free), free)

    def _sum(self, free: list[Token]) -> Pending | None:
        """The sum at the newest time that all phases have told, if it is new; `free` takes what is past."""
        if not all(self._heard.values()):
            return None
        time_ms = min(parts[-1].time_ms for parts in self._heard.values())
        known = all(parts[0].time_ms <= time_ms for parts in self._heard.values())
        if not known or (self._newest_ms is not None and time_ms <= self._newest_ms):
            return None
        self._newest_ms, sum_u, used = time_ms, Fraction(0), list[_Part]()
        for parts in self._heard.values():
            past = bisect_right(parts, time_ms, key=attrgetter("time_ms")) - 1
            free += parts[:past]
            del parts[:past]
            around = parts[:1] if parts[0].time_ms == time_ms else parts[:2]
            sum_u += self._at(time_ms, *around)
            used += around
        for part in used:
            part.left += 1
        return Pending(time_ms, round_half_up(sum_u), Share(used, 1))

    def _at(self, time_ms: int, one: _Part, other: _Part | None = None) -> Fraction:
        """A phase's register at a time between two readings; it stands still before a reset."""
        if other is None:
            return Fraction(one.value_u)
        moved_u, _ = used_u(one, other, self._rules)
        return one.value_u + Fraction((moved_u or 0) * (time_ms - one.time_ms), other.time_ms - one.time_ms)

    def forget(self) -> list[Token]:
        """The tokens to give back when the meter is forgotten."""
        return [part for parts in self._heard.values() for part in parts]


def _again(held: _Part, reading: Pending) -> Token:
    """A reading that is in use seen again: the token to acknowledge at once, as of a timeline."""
    if held.value_u != reading.value_u:
        return reading.token
    [token] = held.tokens
    held.tokens = (reading.token,)
    return token
