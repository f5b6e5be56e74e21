"""Refusals for amounts: missing weights, wrong prices, and settings that amounts exclude."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from meteragent.config.model import Stream, Weights
from meteragent.config.refuse.check import GRID, Problems, reads
from meteragent.config.source import branches
from meteragent.config.terms import band_rules, space, unit
from meteragent.domain import identity
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.grid import WEEKDAYS
from meteragent.domain.shape import Space
from meteragent.domain.terms import Clock
from meteragent.domain.units import MICRO

PRICES_MAX = 96
"""The largest number of rows in a table of prices."""


@reads(*GRID, "sink.total", "sink.format", "sink.topic", "source.topic", "window.clock")
def weights(stream: Stream) -> Problems:
    """Yield refusals of missing weights, of prices that do not fit, and of settings that amounts exclude."""
    table = stream.window.weights
    if space(stream) is not Space.WEIGHTED:
        if table is not None:
            expected = "'weighted', which window.weights implies"
            yield ConfigError("privacy.space", repr(str(space(stream))), expected)
        return
    if table is None:
        expected = "[window.weights] with bound = 0.5 and [[window.weights.price]]"
        yield ConfigError("window.weights", "nothing", expected)
        return
    for key in ("step", "blocks", "bands"):
        if getattr(stream.window, key) is not None:
            yield ConfigError(f"window.{key}", "slots of a window", f"no {key}: a window has one amount")
    yield from _hours(stream, table) if table.topic is None else _topic(stream, table, table.topic)
    yield from _amounts(table)
    if stream.sink.total:
        yield ConfigError("sink.total", "true", "false: only energies have a running total")
    if stream.sink.format != "json":
        yield ConfigError("sink.format", repr(stream.sink.format), "'json': SenML has no unit for money")


def _hours(stream: Stream, table: Weights) -> Problems:
    """Yield refusals of a table with no rows or too many, without local days, or with overlapping prices."""
    if not table.price:
        expected = "[[window.weights.price]] with hours = ['07:00/23:00'] and price = 0.3"
        yield ConfigError("window.weights.price", "nothing", expected)
    elif len(table.price) > PRICES_MAX:
        yield ConfigError("window.weights.price", str(len(table.price)), f"at most {PRICES_MAX} rows")
    elif unit(stream) is None:
        expected = "'1mo', '1w' or '1d' with window.timezone: prices apply to hours of local days"
        yield ConfigError("window.length", "a window without local days", expected)
    for day, weekday in enumerate(WEEKDAYS):
        rules = [rule for rule in band_rules(stream).rules if day in rule.weekdays]
        parts = sorted(part for rule in rules for part in rule.parts)
        if any(next_from < to for (_, to), (next_from, _) in pairwise(parts)):
            yield ConfigError("window.weights.price", f"two prices on {weekday}", "one price for each hour")
            return


def _topic(stream: Stream, table: Weights, topic: str) -> Problems:
    """Yield refusals of a topic beside a table of prices, of the event clock, and of this home's topics."""
    if table.price:
        expected = "only one of window.weights.topic and window.weights.price"
        yield ConfigError("window.weights.topic", repr(topic), expected)
    if stream.window.clock is not Clock.WALL:
        expected = "'wall': a price counts only if it arrives before its time"
        yield ConfigError("window.clock", repr(str(stream.window.clock)), expected)
    segments = tuple(topic.split("/"))
    home_topics = (branches(stream.source), identity.parse_template(stream.sink.topic))
    if any(identity.overlap(segments, place) or identity.overlap(place, segments) for place in home_topics):
        expected = "a topic with public prices and without this home's messages"
        yield ConfigError("window.weights.topic", repr(topic), expected)


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
