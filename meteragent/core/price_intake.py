"""The intake of prices, from the messages on a stream's price topic to the stream's windows."""

from collections.abc import Iterable, Sequence

from meteragent.core.prices import AHEAD_MS, Prices
from meteragent.core.stream import Effects, Stream
from meteragent.core.timeline import Timeline
from meteragent.core.weighted import WeightedWindow, window_of
from meteragent.core.window import Window
from meteragent.decode.price import prices as decode_prices
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.weights import Price


class PriceIntake:
    """The prices of a stream, taken from the messages on its price topic."""

    def __init__(self, stream: Stream, rows: Iterable[Price], timelines: dict[str, Timeline]) -> None:
        """Resume with the prices from the store, and give them to the open windows."""
        self._stream = stream
        self._timelines = timelines
        self._book = Prices(rows)
        for timeline in timelines.values():
            for window in timeline.windows:
                self._give(window)

    def window(self, start_ms: int, terms: Terms, terms_id: str, topic: str, public_id: str) -> Window:
        """Return a new window; if it is weighted, it gets the prices of the topic."""
        return self._give(window_of(terms)(start_ms, terms, terms_id, topic, public_id))

    def _give(self, window: Window) -> Window:
        if isinstance(window, WeightedWindow):
            window.book = self._book
        return window

    def take(
        self, batch: Sequence[Message], now_ms: int, counts: Counts, effects: Effects
    ) -> Sequence[Message]:
        """Process the prices in a batch, before any of its readings; return the batch's other messages."""
        topic, rows = self._stream.price_topic, list[Price]()
        if topic is None or all(message.topic != topic for message in batch):
            return batch
        for message in batch:
            if message.topic == topic:
                effects.acknowledge.append(message.token)
                rows += self._rows(message.payload, counts)
        weights = self._stream.terms.weights
        bound_u = 0 if weights is None else weights.bound_u
        names = [name for row in rows for name in self._book.add(row, bound_u, now_ms)]
        for name in names:
            counts.add(name)
        if "prices" in names:
            self._book.prune(self._needed_from_ms(now_ms))
            effects.commit.prices = tuple(self._book.rows)
        return [message for message in batch if message.topic != topic]

    def _rows(self, payload: bytes, counts: Counts) -> list[Price]:
        """Return the prices in a message; if the message is refused, count it and return no prices."""
        if len(payload) > self._stream.max_payload:
            counts.add("refused_size")
            return []
        try:
            return decode_prices(payload)
        except PayloadError as error:
            counts.add(error.reason)
            return []

    def _needed_from_ms(self, now_ms: int) -> int:
        """Return the time from which prices are still needed.

        All earlier time is integrated in every timeline, or precedes every window. The returned time is at
        most `now_ms`, because the first window of a new meter may begin earlier than the first window for
        which another meter is still waiting. Even for time that is not yet integrated, prices are kept for at
        most twice the length of a window or, if longer, twice `AHEAD_MS`.
        """
        times_ms = (timeline.integrated_until_ms for timeline in self._timelines.values())
        kept_ms = 2 * max(self._stream.terms.length_ms, AHEAD_MS)
        return max(min([now_ms, *times_ms]), now_ms - kept_ms)
