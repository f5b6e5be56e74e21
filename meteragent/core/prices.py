"""The prices of a stream whose weights come from a topic: each is committed once, before its time begins.

Rules
1. A price whose time has begun is refused: it could depend on this home's use since then (theory 3.10).
2. A price is never replaced. A repetition with the same time and value changes nothing. Any other price is
   refused if its time overlaps the time of a price that was accepted before.
3. A price is committed no later than the energy that it weights, because time is integrated only after it
   has passed.
4. A price beyond the bound is clamped to the bound, because the noise is scaled to the bound.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import itemgetter

from meteragent.domain.units import DAY_MS
from meteragent.domain.weights import PRICE_MS, Price

AHEAD_MS = 62 * DAY_MS
"""The longest time from now until an accepted price ends; it limits the number of prices kept."""


class Prices:
    """The prices of a stream, in order of their times, without overlap."""

    __slots__ = ("rows",)

    def __init__(self, rows: Iterable[Price] = ()) -> None:
        """Resume with the prices from the store."""
        self.rows = sorted(rows)

    def add(self, price: Price, bound_u: int, now_ms: int) -> tuple[str, ...]:
        """Add a price, clamped to `bound_u`, or refuse it; return the names of the counters to increase.

        A repeated price, as in a daily list that is sent every hour, is recognised as long as the price is
        kept, even after its time has begun.
        """
        start_ms, end_ms, price_u = price
        clamped_u = min(max(price_u, -bound_u), bound_u)
        index = bisect_left(self.rows, (start_ms, end_ms, clamped_u))
        if self.rows[index : index + 1] == [(start_ms, end_ms, clamped_u)]:
            return ("price_repeated",)
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

    def prune(self, until_ms: int) -> None:
        """Drop the prices that end by `until_ms`, the time before which no price is needed any more."""
        self.rows = [row for row in self.rows if row[1] > until_ms]
