"""The private side: the types that hold readings. Store, sink and wire never import it (law 3)."""

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

Token = Any
"""The source's handle for acknowledging a message, which is opaque to the core."""

RegisterUse = Any
"""A register's energy over a span, which the core spreads over slots (`core.window.RegisterUse`)."""


class Observer(Protocol):
    """An observer of accepted readings and integrated spans, used by the local page."""

    @property
    def meters(self) -> Collection[str]:
        """The meters whose spans the observer receives."""

    def note_reading(self, meter: str, time_ms: int, value_u: int) -> None:
        """Note an accepted reading of any meter; `value_u` is in millionths of the unit."""

    def note_span(self, meter: str, start_ms: int, end_ms: int, value: "int | RegisterUse | None") -> None:
        """Note a span added to the slots; `value` is its value, a register's energy, or None for a gap."""


class Reading(NamedTuple):
    """One value of one meter, in millionths of the stream's unit.

    `time_ms` is in whole milliseconds, since the Unix epoch or, if negative, relative to the arrival; None is
    the arrival itself. `seen_ms` is when a gateway, which may repeat a value, last heard from the meter, if
    the gateway states this.
    """

    time_ms: int | None
    value_u: int
    seen_ms: int | None = None


class Message(NamedTuple):
    """A message as received: the raw payload, and the time of arrival (wall clock, ms)."""

    topic: str
    payload: bytes
    retain: bool
    received_ms: int
    token: Token
