"""The observer of a feed: the local page, which gets all accepted readings and the spans of some meters."""

from collections.abc import Mapping
from functools import partial

from meteragent.core.timeline import Timeline
from meteragent.domain.reading import Observer


def observe(timelines: Mapping[str, Timeline], previous: Observer | None, current: Observer | None) -> None:
    """Send the spans of observed meters to this feed's observer, if any, instead of the previous feed's."""
    for observer, span in ((previous, None), (current, current and current.span)):
        for meter in observer.meters if observer else ():
            if (timeline := timelines.get(meter)) is not None:
                timeline.observe = partial(span, meter) if span else None
