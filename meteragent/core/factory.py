"""Build the windows and timelines of a stream, from their terms or from the store."""

from dataclasses import dataclass, replace

from meteragent.core.largest import LargestWindow
from meteragent.core.prices import Prices
from meteragent.core.register import RegisterTimeline
from meteragent.core.shares import ShareWindow
from meteragent.core.stream import Crowd, Destinations
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain.commit import OpenWindow, TimelineState
from meteragent.domain.shapes import Accumulator, Means
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.wire.record import RecordFormats

WINDOW_CLASSES = {Accumulator.SUM: Window, Accumulator.LARGEST: LargestWindow, Accumulator.SHARE: ShareWindow}
"""The class of window for each way of combining readings into a slot's value."""


@dataclass(frozen=True, slots=True)
class Factory:
    """The builder of one stream's windows and timelines.

    terms    the terms of an ordinary window, which say what readings mean
    formats  the formats of records; windows with the same terms id share one format
    prices   the prices from the stream's price topic
    crowd    the cryptography of shares; None unless windows release shares
    """

    terms: Terms
    formats: RecordFormats
    prices: Prices
    crowd: Crowd | None = None

    def restore_timeline(self, next_ms: int, state: TimelineState, meter: str = "") -> Timeline:
        """Return a timeline from the store; open windows keep their own terms."""
        timeline = make_timeline(self.terms, next_ms, meter)
        windows = [self._restore_window(window) for window in state.windows]
        if self.crowd is None:  # no longer in a crowd: nothing can seal their shares
            windows = [window for window in windows if not isinstance(window, ShareWindow)]
        timeline.resume(state, windows)
        return timeline

    def _restore_window(self, state: OpenWindow) -> Window:
        window = self.make_window(state.start_ms, state.terms_id, state.destinations, state.public_id)
        window.noise_bound, window.draws = state.noise_bound, state.draws
        window.slots, window.masked_slot = dict(state.slots), state.masked_slot
        if isinstance(window, ShareWindow):
            window.sealed_pad = state.sealed_pad
        return window

    def make_window(self, start_ms: int, terms_id: str, destinations: Destinations, public_id: str) -> Window:
        """Return a new window; `terms_id` must be registered in `formats`."""
        terms = self.formats[terms_id].terms
        kind = WINDOW_CLASSES[terms.shape.accumulator]
        window = kind(start_ms, terms, terms_id, destinations, public_id, prices=self.prices)
        if isinstance(window, ShareWindow):
            window.crowd = self.crowd
        return window


def make_timeline(terms: Terms, first_ms: int, meter: str = "") -> Timeline:
    """Return a new meter's timeline, which begins at `first_ms`; `terms` say what its readings mean."""
    kind = RegisterTimeline if terms.readings.kind is Kind.REGISTER else Timeline
    return kind(terms, first_ms, meter)


def make_noiseless_window(terms: Terms, start_ms: int) -> Window:
    """Return a window with all slots open, without noise, prices and pads; its values must not be sent."""
    if terms.shape.is_priced:
        terms = replace(terms, shape=Means(terms.length_ms, terms.length_ms), prices=())
    kind = WINDOW_CLASSES[terms.shape.accumulator] if terms.shape.has_parts else Window
    window = kind(start_ms, terms, "", (), "")
    for _ in range(terms.n):
        window.open_slot(0, start_ms, 0)
    return window
