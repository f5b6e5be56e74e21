"""What `check` says of a stream, for tests that look at its facts."""

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

from meteragent import config
from meteragent.report import facts, guarantee, terminal
from meteragent.report.event import EVENTS, Event


def facts_of(
    stream: config.Stream,
    events: Sequence[Event] = EVENTS,
    stored_streams: Collection[str] = (),
    others: Fraction = Fraction(0),
    *,
    archived: bool = False,
) -> dict[str, Any]:
    """Return the JSON of a stream's guarantee."""
    return facts.of(guarantee.of(stream, events, stored_streams, others, archived=archived))


def told_of(settings: config.Config, events: Sequence[Event] = EVENTS) -> str:
    """Return what `check` prints of a configuration, streams by themselves."""
    return terminal.text([guarantee.of(stream, events) for stream in settings.stream], settings)
