"""Refusals of the prices of amounts."""

from collections.abc import Iterator
from fractions import Fraction

from meteragent.config.model import Stream, Weights
from meteragent.config.refuse.check import GRID, Problems, reads
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.terms import Clock
from meteragent.domain.units import MICRO


@reads(*GRID, "window.clock")
def weights(stream: Stream) -> Problems:
    """Yield refusals of a table without prices, of an unsuitable topic, and of prices beyond the bound."""
    table = stream.window.weights
    if table is None:
        return
    if table.topic is not None:
        yield from _topic(stream, table, table.topic)
    elif not table.price:
        expected = "[[window.weights.price]] with hours = ['07:00/23:00'] and price = 0.3"
        yield ConfigError("window.weights.price", "nothing", expected)
    yield from _amounts(table)


def _topic(stream: Stream, table: Weights, topic: str) -> Problems:
    """Yield refusals of a topic beside a table of prices, and of the event clock."""
    if table.price:
        expected = "only one of window.weights.topic and window.weights.price"
        yield ConfigError("window.weights.topic", repr(topic), expected)
    if stream.window.clock is not Clock.WALL:
        expected = "'wall': a price counts only if it arrives before its time"
        yield ConfigError("window.clock", repr(str(stream.window.clock)), expected)


def _amounts(table: Weights) -> Problems:
    """Yield refusals of prices beyond the bound, and of prices or a bound with more than six decimals."""
    for key, price in _numbers_by_key(table):
        if (price * MICRO).denominator != 1:
            yield ConfigError(f"window.weights.{key}", exact(price), "a number with at most six decimals")
        elif abs(price) > table.bound:
            expected = f"between plus and minus window.weights.bound = {exact(table.bound)}"
            yield ConfigError(f"window.weights.{key}", exact(price), expected)


def _numbers_by_key(table: Weights) -> Iterator[tuple[str, Fraction]]:
    """Yield the table's numbers with their keys."""
    yield "bound", table.bound
    yield "default", table.default
    for row in table.price:
        yield "price", row.price
