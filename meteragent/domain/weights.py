"""Weights: public prices, such as EUR per kWh, by which energy is weighted in an amount.

A price is known before its time begins. So it does not depend on this home's use during that time, and an
amount is a linear function of the load: a change of 1 kWh in all changes the amount by at most the bound
(THEORY 3.10).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from meteragent.domain.units import MICRO, MINUTE_MS

Price = tuple[int, int, int]
"""A price as (from, to, price), in ms and in millionths of the weights' unit per kWh."""


class WeightSource(StrEnum):
    """The source of prices: a table in the configuration, or messages on a topic."""

    TABLE = "table"
    TOPIC = "topic"


class Weights(NamedTuple):
    """The prices of a window, in millionths of `unit` per kWh.

    `bound_u` is the largest absolute value of a price. `default_u` applies to time without a price. `prices`
    are those of a table, in ms after the window's start, in order and without overlap.
    """

    unit: str
    bound_u: int
    default_u: int
    source: WeightSource = WeightSource.TABLE
    prices: tuple[Price, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether the prices of a window are known when it opens."""
        return self.source is WeightSource.TABLE


def pieces(prices: Sequence[Price], default_u: int, from_ms: int, to_ms: int) -> Iterator[Price]:
    """Cut the time from `from_ms` to `to_ms` where the price changes; yield the pieces with their prices.

    `prices` are in order and do not overlap. Time without a price has the default.
    """
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


def joined(prices: Iterable[Price]) -> tuple[Price, ...]:
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
