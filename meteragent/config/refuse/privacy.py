"""Refusals of unsuitable metrics, radii, quanta and budgets, and of noise beyond the samplers' range."""

from meteragent.config.model import Stream
from meteragent.config.refuse.check import AMOUNTS, GRID, PROMISE, Problems, reads
from meteragent.config.terms import length_ms, metric, quantum, shapes, space, terms, unit
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.shape import Metric, Space
from meteragent.domain.units import DAY_MS, MICRO

RATIO_MAX = 2**45
"""The value below which n / (epsilon * quantum) must stay (THEORY 2.1)."""


@reads("privacy.hide", "privacy.radius")
def alternatives(stream: Stream) -> Problems:
    """Yield a refusal if two keys set how much is hidden."""
    privacy = stream.privacy
    if privacy.hide is not None and privacy.radius is not None:
        expected = "only one of privacy.hide and privacy.radius: both set how much is hidden"
        yield ConfigError("privacy.radius", exact(privacy.radius), expected)


@reads("privacy.metric", "privacy.space", "privacy.preset")
def distance(stream: Stream) -> Problems:
    """Yield a refusal of a metric that the space does not support."""
    slots = space(stream)
    if slots in {Space.BANDS, Space.WEIGHTED} and metric(stream) is not Metric.L1:
        yield ConfigError(
            "privacy.metric",
            "'linf'",
            "'l1', the default: bands and amounts hide the sum of all changes in a window",
        )
    if slots not in {Space.BANDS, Space.PROFILE, Space.WEIGHTED} and metric(stream) is Metric.L1:
        expected = "'linf', or privacy.space = 'bands' or 'profile': other spaces do not support 'l1'"
        yield ConfigError("privacy.metric", "'l1'", expected)


@reads("privacy.quantum", *GRID)
def lattice(stream: Stream) -> Problems:
    """Yield a refusal of a quantum that is not a number with at most six decimals."""
    step = quantum(stream)
    if (step * MICRO).denominator != 1:
        expected = "a multiple of 0.000001 of the unit, such as 0.001"
        yield ConfigError("privacy.quantum", exact(step), expected)


@reads(*GRID, *AMOUNTS, "privacy.hide", "privacy.radius", "privacy.quantum")
def radius(stream: Stream) -> Problems:
    """Yield a refusal of a radius that is not a multiple of the quantum."""
    step = quantum(stream)
    for window in shapes(stream):
        if (window.radius / step).denominator != 1:
            floor = window.radius // step * step
            multiples = [exact(radius) for radius in (floor, floor + step) if radius > 0]
            expected = f"a multiple of privacy.quantum = {exact(step)}, such as {' or '.join(multiples)}"
            yield ConfigError("privacy.radius", exact(window.radius), expected)
            return


@reads(*PROMISE)
def noise(stream: Stream) -> Problems:
    """Yield a refusal of a quantum so fine that the noise exceeds the samplers' range."""
    step = quantum(stream)
    for window in shapes(stream):
        ratio = window.slots_per_bound / (window.epsilon * step)
        if ratio >= RATIO_MAX:
            expected = (
                f"a coarser quantum: n / (epsilon * quantum) is {float(ratio):.3g} and must be below 2**45"
            )
            yield ConfigError("privacy.quantum", exact(step), expected)
            return


@reads("privacy.budget", *PROMISE)
def budget(stream: Stream) -> Problems:
    """Yield a refusal if the budget's period is not in whole days, or the schedule exceeds the budget."""
    limit = stream.privacy.budget
    if limit is None:
        return
    if limit.per % DAY_MS:
        expected = "whole days, such as '24h' or '30d'"
        yield ConfigError("privacy.budget.per", repr(format_duration(limit.per)), expected)
        return
    level = terms(stream).level
    level_min = level * _windows_within(stream, limit.per)
    if level_min > limit.level:
        period, length = format_duration(limit.per), unit(stream) or format_duration(length_ms(stream))
        expected = (
            f"at least {exact(level_min)}, for windows of {length} at level {exact(level)} over {period}"
        )
        yield ConfigError("privacy.budget.level", exact(limit.level), expected)


def _windows_within(stream: Stream, period_ms: int) -> int:
    """Return how many windows can start in an aligned period; for calendar windows, an upper limit."""
    if unit(stream) is None:
        return -(-period_ms // length_ms(stream))
    shortest_ms = min(window.length_ms for window in shapes(stream))
    return (period_ms - 1) // shortest_ms + 1
