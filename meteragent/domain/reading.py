"""The private side: value types that hold what a meter measured.

Nothing that stores, logs or sends may import this module (law 3; an import contract checks it).
"""

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

Token = Any
"""What the source needs to acknowledge a message; opaque to the core."""

Used = Any
"""A register's use over a span, as the core spreads it over slots (`core.window.Used`)."""


class Observer(Protocol):
    """Takes what counts of the meters that it watches, for the local page."""

    @property
    def meters(self) -> Collection[str]:
        """The meters whose spans it takes."""

    def reading(self, meter: str, time_ms: int, value_u: int) -> None:
        """Take a reading that was accepted, of any meter; the value is in millionths of the unit."""

    def span(self, meter: str, start_ms: int, end_ms: int, value: "int | Used | None") -> None:
        """Take a stretch of time as it was added to the slots: a value, a register's use, or a gap (None)."""


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
