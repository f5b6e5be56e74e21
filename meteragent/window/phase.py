"""Phases of one meter, summed into one secret.

Each phase's reading stands until its next one, of power for at most `hold`. Whenever a phase speaks, the
meter has a new reading: the sum of what stands. While a phase has never spoken, or was silent for longer
than `hold`, the sum is unknown and there is none, never a part of it. A reading's message is free when a
newer one of its phase stands and every sum that it is in was covered: so after a crash the broker
delivers again whatever stood, and the sums resume as they were. Readings older than the newest
of the meter are late; those of the same time, of different phases, make one sum.
"""

from collections.abc import Sequence
from typing import NamedTuple

from meteragent.reading import Token
from meteragent.window.share import Share
from meteragent.window.timeline import Outcome, Pending


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


class Phases:
    """The phases of one meter: what stands of each."""

    __slots__ = ("_count", "_hold_ms", "_live", "_newest_ms", "_standing")

    def __init__(self, names: Sequence[str], hold_ms: int | None) -> None:
        """`hold_ms`: how long a reading stands; None: until the next one."""
        self._count = len(set(names))
        self._hold_ms = hold_ms
        self._standing: dict[str, _Part] = {}
        self._live: dict[tuple[str, int], _Part] = {}
        self._newest_ms: int | None = None

    def hear(self, phase: str, reading: Pending) -> Heard:
        """Take in a phase's reading."""
        held = self._live.get((phase, reading.time_ms))
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
        gone = self._hold_ms is not None and oldest_ms + self._hold_ms <= time_ms
        if gone or len(parts) < self._count:
            return None
        for part in parts:
            part.left += 1
        return Pending(time_ms, sum(part.value_u for part in parts), Share(parts, 1), oldest_ms)

    def forget(self) -> list[Token]:
        """The tokens to give back when the meter is forgotten."""
        return list(self._standing.values())


def _again(held: _Part, reading: Pending) -> Token:
    """A reading that is in use seen again: the token to acknowledge at once, as of a timeline."""
    if held.value_u != reading.value_u:
        return reading.token
    [token] = held.tokens
    held.tokens = (reading.token,)
    return token
