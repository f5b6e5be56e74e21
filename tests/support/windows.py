"""Windows and timelines under any terms, as the core builds them for a stream."""

from collections.abc import Mapping

from meteragent.core.factory import WINDOW_CLASSES, Factory
from meteragent.core.prices import Prices
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain.commit import TimelineState
from meteragent.domain.terms import Terms
from meteragent.wire.record import RecordFormats


def window_of(terms: Terms) -> type[Window]:
    """Return the class of the windows that open under these terms."""
    return WINDOW_CLASSES[terms.shape.accumulator]


def restored_timeline(
    terms: Terms, next_ms: int, state: TimelineState, stored_terms: Mapping[str, Terms]
) -> Timeline:
    """Return a meter's timeline after a restart under `terms`, with the stored terms of its open windows."""
    return Factory(terms, RecordFormats(stored_terms), Prices()).restore_timeline(next_ms, state)
