"""Receivers of shared streams: their settings as text, and the slots that each must get.

A receiver is admitted from a minute before its start until its last slot has had time to be sent, unless it
is paused or removed. From admission to revocation it has a *grant*, whose queue no other grant uses.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from meteragent.domain.units import MINUTE_MS

BROKERS = ("sink", "outside")
"""The brokers of receivers; the first segment of a receiver's topic is the name of its broker."""

_LEAD_MS = _TRANSIT_MS = MINUTE_MS
_NOTICE_MS = MINUTE_MS // 2
_FORM = re.compile(r"([a-z]+)(\d*)(@outside)?(?:\+(\d+))?(?:-(\d+))?(!)?")


class Receiver(NamedTuple):
    """A receiver in a setting, as `name[topic][@outside][+start][-end][!]`; `!` means that it is paused.

    `topic` is a number, which changes when the receiver moves. `start` and `end` are in ticks since the
    beginning of the world.
    """

    name: str
    topic: int = 0
    broker: str = "sink"
    start: int | None = None
    end: int | None = None
    is_paused: bool = False

    @classmethod
    def parse(cls, text: str) -> "Receiver":
        """Parse a receiver. Raises ValueError if `text` does not have this form."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"not a receiver: {text!r}")
        name, topic, outside, start, end, pause = match.groups()
        start_tick, end_tick = (None if ticks is None else int(ticks) for ticks in (start, end))
        return cls(name, int(topic or 0), BROKERS[bool(outside)], start_tick, end_tick, bool(pause))

    def __str__(self) -> str:
        """Return the receiver as text that `parse` reads."""
        start, end = (
            "" if ticks is None else f"{sign}{ticks}" for sign, ticks in (("+", self.start), ("-", self.end))
        )
        outside = "" if self.broker == BROKERS[0] else f"@{self.broker}"
        return f"{self.name}{self.topic or ''}{outside}{start}{end}{'!' if self.is_paused else ''}"

    @property
    def sink_topic(self) -> str:
        """The template of the receiver's topics."""
        return f"{self.broker}/{self.name}{self.topic or ''}/{{meter}}"


class Action(NamedTuple):
    """What was done to a receiver (`verb`: pause, resume or end), and when.

    `at_ms` is the time that the store states; `newest_ms` is the newest time that the agent had read, and
    `at_s` the loop's time.
    """

    name: str
    verb: str
    at_ms: int
    newest_ms: int
    at_s: float


def resumed_ms(actions: Iterable[Action]) -> dict[str, int]:
    """Return, by name, when each receiver was first resumed after its last pause or end."""
    times_ms = dict[str, int | None]()
    for action in actions:
        if action.verb != "resume":
            times_ms[action.name] = None
        elif times_ms.get(action.name, 0) is None:
            times_ms[action.name] = action.at_ms
    return {name: time_ms for name, time_ms in times_ms.items() if time_ms is not None}


class Share(NamedTuple):
    """A configured receiver of a stream, with its times by the wall clock.

    `settled_ms` is the longest time from a slot's end until its records are sent to the receiver's broker.
    """

    stream: str
    name: str
    topic: str
    start_ms: int | None
    end_ms: int | None
    settled_ms: int
    is_paused: bool

    def is_over(self, now_ms: int) -> bool:
        """Return whether the receiver is paused, or its last records have had time to be sent."""
        is_past = self.end_ms is not None and now_ms >= self.end_ms + self.settled_ms + _TRANSIT_MS
        return self.is_paused or is_past

    def first_ms(self, now_ms: int) -> int:
        """Return the earliest start of a window that the receiver gets if it is admitted at `now_ms`."""
        return max(self.start_ms or 0, now_ms + _NOTICE_MS)

    def is_admitted(self, now_ms: int) -> bool:
        """Return whether the receiver has a grant at `now_ms`."""
        is_early = self.start_ms is not None and now_ms < self.start_ms - _LEAD_MS
        return not (is_early or self.is_over(now_ms))


class Grant(NamedTuple):
    """One stretch of time in which a receiver gets a stream.

    `inherited` holds the topics on which descriptors of an earlier grant have not been withdrawn.
    """

    id: int
    stream: str
    name: str
    topic: str
    since_ms: int
    until_ms: int | None
    inherited: frozenset[str] = frozenset()
    is_revoked: bool = False

    @property
    def queue(self) -> str:
        """The name of the grant's queue in the outbox."""
        return f"{self.stream}@{self.name}.{self.id}"

    def gets(self, window_ms: int, end_ms: int) -> bool:
        """Return whether the receiver gets a slot, given the window's start and the slot's end."""
        return self.since_ms <= window_ms and (self.until_ms is None or end_ms <= self.until_ms)
