"""The reference for prices from a topic: each quarter hour has one price, which never changes once accepted.

Unlike the agent, this reference forgets no price. So if the agent drops a price too early, amounts differ.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from meteragent.domain.units import DAY_MS, MINUTE_MS
from simulators.invariant import check
from simulators.simtest.model.spec import PriceRule, Stretch

PRICE_TOPIC = "prices/market"
"""The topic of prices at the source's broker."""

Row = tuple[int, int, int]
"""A price: its start and end in Unix ms, and the price in millionths of the unit per kWh."""

OUTCOMES = [
    *("prices", "price_repeated", "price_late", "price_conflict", "price_times", "price_clamped"),
    "price_messages_refused",
]
"""The outcomes of prices, which are not counted as received readings."""

_QUARTER_MS = 15 * MINUTE_MS
_AHEAD_MS = 62 * DAY_MS


class PriceMessage(NamedTuple):
    """The prices of a message or, in `refused`, the reason why it has none."""

    rows: tuple[Row, ...]
    refused: str | None = None


class PriceBook:
    """The prices that a stream has accepted; `has_news` is whether some are newer than the last commit."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = set(rows)
        self.has_news = False
        self._of_quarter = {quarter: price_u for row in self.rows for quarter, price_u in _quarters(row)}

    def take(self, message: PriceMessage, bound_u: int, now_ms: int) -> list[str]:
        """Accept the prices of a message, or refuse them; return the names of the counters to increase."""
        if message.refused is not None:
            return [message.refused, "price_messages_refused"]
        return [name for row in message.rows for name in self._take(row, bound_u, now_ms)]

    def _take(self, row: Row, bound_u: int, now_ms: int) -> list[str]:
        start_ms, end_ms, price_u = row
        accepted = start_ms, end_ms, sorted([-bound_u, price_u, bound_u])[1]
        if accepted in self.rows:
            return ["price_repeated"]
        if start_ms <= now_ms:
            return ["price_late"]
        if start_ms % _QUARTER_MS or end_ms % _QUARTER_MS or not start_ms < end_ms <= now_ms + _AHEAD_MS:
            return ["price_times"]
        quarters = dict(_quarters(accepted))
        if quarters.keys() & self._of_quarter.keys():
            return ["price_conflict"]
        self.rows.add(accepted)
        self._of_quarter |= quarters
        self.has_news = True
        return ["prices"] if accepted == row else ["prices", "price_clamped"]

    def pieces(self, rule: PriceRule, start_ms: int, end_ms: int) -> Iterator[tuple[Stretch, int]]:
        """Cut a stretch of time at quarter hours; yield the pieces, each with its price.

        A quarter hour without a price has the default price.
        """
        while start_ms < end_ms:
            quarter_ms = start_ms // _QUARTER_MS * _QUARTER_MS
            to_ms = min(quarter_ms + _QUARTER_MS, end_ms)
            price_u = self._of_quarter.get(quarter_ms, rule.default_u)
            yield (start_ms, to_ms), sorted([-rule.bound_u, price_u, rule.bound_u])[1]
            start_ms = to_ms

    def check_commit(self, prices: tuple[Row, ...] | None, undecided_ms: int) -> None:
        """Check that a commit after a new price writes each accepted price that ends after `undecided_ms`.

        Other commits must write none. `prices` holds the prices that a commit writes, or is None.
        """
        is_written = prices is not None
        check(
            is_written == self.has_news,
            "an accepted price is not written, or prices are written without a new one",
        )
        on_disk = set(prices or ())
        missing = {row for row in self.rows - on_disk if is_written and row[1] > undecided_ms}
        check(not missing, "a price that is needed is not on disk", missing)
        check(on_disk <= self.rows, "a price on disk was never accepted")
        self.has_news = False


def _quarters(row: Row) -> Iterable[tuple[int, int]]:
    """Yield the quarter hours of a price, each with the price."""
    start_ms, end_ms, price_u = row
    return ((quarter_ms, price_u) for quarter_ms in range(start_ms, end_ms, _QUARTER_MS))
