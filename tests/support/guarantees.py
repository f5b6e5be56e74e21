"""The facts and the text of `check` for a stream, for tests that inspect them."""

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
    other_charges: Fraction = Fraction(0),
    *,
    is_archived: bool = False,
) -> dict[str, Any]:
    """Return the JSON of a stream's guarantee."""
    return facts.facts_of(
        guarantee.compute_guarantee(stream, events, stored_streams, other_charges, is_archived=is_archived)
    )


def told_of(settings: config.Config, events: Sequence[Event] = EVENTS) -> str:
    """Return the text that `check` prints for a configuration, each stream by itself."""
    return terminal.guarantees_text(
        [guarantee.compute_guarantee(stream, events) for stream in settings.stream], settings
    )
