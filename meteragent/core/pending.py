"""Readings that wait until their span is integrated, and the tokens that acknowledge their messages.

A message may contain several readings, and a reading of a phase may be part of several sums. All of these
uses hold the same `SharedToken`. After the last use has given it back, the tokens inside it are given back,
too: each of them belongs to a message or is itself shared.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from meteragent.domain.reading import Token

PENDING_MAX = 4096
"""The largest number of a meter's pending readings; a meter could send thousands with times in the future."""


class Outcome(StrEnum):
    """The outcome of a reading, which is also the name of its counter."""

    ACCEPTED = "accepted"
    LATE = "late"
    DUPLICATE = "duplicate"
    EARLY = "early"


class Pending(NamedTuple):
    """A reading whose span is not wholly integrated, and the token that acknowledges its message.

    `hold` is measured from `since_ms`, by default `time_ms`; in a sum of phases, `since_ms` is the time of
    the oldest reading. `is_stamped` is True if the time was derived from the arrival. In a sum of registers,
    which were judged one by one, `shift_u` is the part of the change that is not use.
    """

    time_ms: int
    value_u: int
    token: Token
    since_ms: int | None = None
    is_stamped: bool = False
    shift_u: int | None = None

    @property
    def from_ms(self) -> int:
        """The time from which `hold` is measured."""
        return self.time_ms if self.since_ms is None else self.since_ms


def thin_out(pending: list[Pending]) -> list[Token]:
    """Drop the readings that follow their predecessor most closely; return their tokens.

    The remaining readings, except the last, are at least 1/2048 of the whole time apart. A power reading then
    applies a little longer; a register loses no energy (unless it is reset), only the time at which it was
    used; and a dropped interval becomes gap unless another interval covers it.
    """
    # The choice depends on times alone, never on a value.
    oldest, *readings, newest = pending
    distance_ms = 2 * (newest.time_ms - oldest.time_ms) // PENDING_MAX
    remaining, tokens = [oldest], []
    for reading in readings:
        if reading.time_ms - remaining[-1].time_ms < distance_ms and not reading.shift_u:
            tokens.append(reading.token)
        else:
            remaining.append(reading)
    pending[:] = *remaining, newest
    return tokens


class SharedToken:
    """A token with several `uses`; the `tokens` inside it are given back after the last use."""

    __slots__ = ("tokens", "uses")

    def __init__(self, tokens: Sequence[Token], uses: int) -> None:
        self.tokens = tokens
        self.uses = uses

    def give_back(self) -> Sequence[Token]:
        """End one use; return the freed tokens."""
        self.uses -= 1
        return () if self.uses else self.tokens


def give_back_tokens(tokens: Iterable[Token]) -> list[Token]:
    """Give back tokens; return, in order, the tokens of messages that may now be acknowledged."""
    free_tokens: list[Token] = []
    for token in tokens:
        if isinstance(token, SharedToken):
            free_tokens += give_back_tokens(token.give_back())
        else:
            free_tokens.append(token)
    return free_tokens
