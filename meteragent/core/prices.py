"""The prices of a stream that gets them from a topic: each is committed once, before its time begins.

Rules
1. A price whose time has begun is refused: it could depend on this home's use since then (theory 3.10).
2. A price is never replaced. A repetition with the same time and value changes nothing. Any other price is
   refused if its time overlaps the time of a price that was accepted before.
3. A price is committed no later than the energy that it weights, because time is integrated only once it
   has passed.
4. A price beyond the bound is clamped to the bound, because the noise is scaled to the bound.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from meteragent.core.stream import Effects, Stream
from meteragent.decode.price import decode_prices
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError
from meteragent.domain.prices import PRICE_MS, Price, cut_at_prices
from meteragent.domain.reading import Message
from meteragent.domain.shapes import Amount, PriceSource
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS

AHEAD_MS = 62 * DAY_MS
"""The longest time from now until an accepted price ends; it limits the number of prices kept."""


class Prices:
    """The prices of a stream, in order of their times, without overlap."""

    def __init__(self, rows: Iterable[Price] = ()) -> None:
        """Resume with the prices from the store."""
        self.rows = sorted(rows)

    def add_price(self, price: Price, bound_u: int, now_ms: int) -> tuple[str, ...]:
        """Add a price, clamped to `bound_u`, or refuse it; return the names of the counters to increase."""
        start_ms, end_ms, price_u = price
        clamped_u = min(max(price_u, -bound_u), bound_u)
        index = bisect_left(self.rows, (start_ms, end_ms, clamped_u))
        if self.rows[index : index + 1] == [(start_ms, end_ms, clamped_u)]:
            return ("price_repeated",)  # as in a daily list that is sent every hour
        if start_ms <= now_ms:
            return ("price_late",)
        if start_ms % PRICE_MS or end_ms % PRICE_MS or not start_ms < end_ms <= now_ms + AHEAD_MS:
            return ("price_times",)
        index = bisect_left(self.rows, start_ms, key=itemgetter(1))
        index += index < len(self.rows) and self.rows[index][1] == start_ms
        if index < len(self.rows) and self.rows[index][0] < end_ms:
            return ("price_conflict",)
        self.rows.insert(index, (start_ms, end_ms, clamped_u))
        return ("prices",) if clamped_u == price_u else ("prices", "price_clamped")

    def prune_until(self, until_ms: int) -> None:
        """Drop the prices that end by `until_ms`, the time before which no price is needed any more."""
        self.rows = [row for row in self.rows if row[1] > until_ms]

    def priced_pieces(self, terms: Terms, start_ms: int, from_ms: int, to_ms: int) -> Iterator[Price]:
        """Yield the pieces of a stretch of a window that starts at `start_ms`, each with its price."""
        shape = terms.shape
        assert isinstance(shape, Amount), "only amounts have prices"
        if shape.source is PriceSource.TABLE:
            rows = cut_at_prices(terms.prices, shape.default_u, from_ms - start_ms, to_ms - start_ms)
            for piece_from_ms, piece_to_ms, price_u in rows:
                yield piece_from_ms + start_ms, piece_to_ms + start_ms, price_u
            return
        # The bound of the window may differ from the one under which a price was accepted.
        for piece_from_ms, piece_to_ms, price_u in cut_at_prices(self.rows, shape.default_u, from_ms, to_ms):
            yield piece_from_ms, piece_to_ms, min(max(price_u, -shape.bound_u), shape.bound_u)


class PriceIntake:
    """The prices of a stream, taken from the messages on its price topic."""

    def __init__(self, stream: Stream, book: Prices, counts: Counts) -> None:
        """Start with the prices from the store."""
        self._stream, self._book, self._counts = stream, book, counts

    def take_prices(
        self, batch: Sequence[Message], now_ms: int, integrated_until_ms: Iterable[int], effects: Effects
    ) -> Sequence[Message]:
        """Process the prices in a batch, given how far meters are integrated; return the other messages."""
        topic, rows = self._stream.price_topic, list[Price]()
        if topic is None or all(message.topic != topic for message in batch):
            return batch
        for message in batch:
            if message.topic == topic:
                effects.acknowledge.append(message.token)
                rows += self._decode_message(message.payload)
        shape = self._stream.terms.shape
        assert isinstance(shape, Amount), "only amounts have prices"
        names = [name for row in rows for name in self._book.add_price(row, shape.bound_u, now_ms)]
        for name in names:
            self._counts.add(name)
        if "prices" in names:
            self._book.prune_until(self._needed_from_ms(now_ms, integrated_until_ms))
            effects.commit.prices = tuple(self._book.rows)
        return [message for message in batch if message.topic != topic]

    def _decode_message(self, payload: bytes) -> list[Price]:
        """Return the prices in a message; if the message is refused, count it and return no prices."""
        reason = "refused_size"
        if len(payload) <= self._stream.max_payload:
            try:
                return decode_prices(payload)
            except PayloadError as error:
                reason = error.reason
        self._counts.add(reason)
        return []

    def _needed_from_ms(self, now_ms: int, integrated_until_ms: Iterable[int]) -> int:
        """Return the time from which prices are still needed, because some meter is not integrated yet."""
        # The result is at most now: a new meter's first window may begin before those of other meters.
        kept_ms = 2 * max(self._stream.terms.length_ms, AHEAD_MS)
        return max(min([now_ms, *integrated_until_ms]), now_ms - kept_ms)
