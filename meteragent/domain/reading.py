"""The private side: value types that hold what a meter measured.

Nothing that stores, logs or sends may import this module (law 3; an import contract checks it).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

Token = Any
"""What the source needs to acknowledge a message; opaque to the core."""

See = Callable[[str, int, int], None]
"""Takes what counts, for who looks at the local page: meter, time in ms, value in millionths of the unit."""


class Reading(NamedTuple):
    """One value of one meter.

    `time_ms` is whole milliseconds since the Unix epoch, or, negative, so long before its arrival; None
    when the payload has no time (the time of arrival counts). `value_u` is the value in millionths of
    the stream's unit.
    """

    time_ms: int | None
    value_u: int


class Message(NamedTuple):
    """A message as it arrived: the raw payload and when it was received (wall clock, ms)."""

    topic: str
    payload: bytes
    retain: bool
    received_ms: int
    token: Token
