"""The public prices by which the energy of a window is multiplied in an amount (`shapes.amount`)."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from meteragent.domain.units import MICRO, MINUTE_MS

Price = tuple[int, int, int]
"""A price as (from, to, price): times in ms, and millionths of the currency per kWh."""


def cut_at_prices(prices: Sequence[Price], default_u: int, from_ms: int, to_ms: int) -> Iterator[Price]:
    """Yield the pieces from `from_ms` to `to_ms`, cut where one of the sorted `prices` begins or ends."""
    at_ms = from_ms
    for index in range(bisect_right(prices, from_ms, key=itemgetter(1)), len(prices)):
        start_ms, end_ms, price_u = prices[index]
        if start_ms >= to_ms:
            break
        if at_ms < start_ms:
            yield at_ms, start_ms, default_u
            at_ms = start_ms
        yield at_ms, min(end_ms, to_ms), price_u
        at_ms = min(end_ms, to_ms)
    if at_ms < to_ms:
        yield at_ms, to_ms, default_u


def join_equal_prices(prices: Iterable[Price]) -> tuple[Price, ...]:
    """Return the prices, which are in order, with adjacent equal prices joined."""
    rows = list[Price]()
    for from_ms, to_ms, price_u in prices:
        meets = bool(rows) and rows[-1][1:] == (from_ms, price_u)
        rows.append((rows.pop()[0] if meets else from_ms, to_ms, price_u))
    return tuple(rows)


PRICE_MS = 15 * MINUTE_MS
"""The shortest duration of a price on a topic, since such prices begin and end at quarter hours."""

CONSTANT_U = MICRO
"""A price of 1 per kWh, which makes the amount equal to the energy."""
