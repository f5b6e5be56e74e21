"""Refusals of unsuitable radii, quanta and budgets, and of noise beyond the samplers' range."""

from fractions import Fraction

from meteragent.config.model import Stream
from meteragent.config.refuse.check import AMOUNTS, GRID, PROMISE, Problems, check_of
from meteragent.config.terms import length_ms, quantum, shapes, terms, unit
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.units import DAY_MS, MICRO
from meteragent.wire.number import BOUNDS, beyond

RATIO_MAX = 2**45
"""The value below which n / (epsilon * quantum) must stay (THEORY 2.1)."""

_TIMES = ("length", "step")
_PROMISED = ("level", "radius", "quantum", "epsilon", "hides_wh")
_KEYS = {
    "n": "window.step",
    "bands": "window.bands",
    "length": "window.length",
    "step": "window.step",
    "level": "privacy.level",
    "radius": "privacy.radius",
    "quantum": "privacy.quantum",
    "epsilon": "privacy.level",
    "hides_wh": "privacy.radius",
}
"""The keys that set the bounded numbers of a descriptor."""


@check_of("privacy.hide", "privacy.radius")
def _alternatives(stream: Stream) -> Problems:
    """Yield a refusal if two keys set how much is hidden."""
    privacy = stream.privacy
    if privacy.hide is not None and privacy.radius is not None:
        expected = "only one of privacy.hide and privacy.radius: both set how much is hidden"
        yield ConfigError("privacy.radius", exact(privacy.radius), expected)


@check_of("privacy.quantum", *GRID)
def _lattice(stream: Stream) -> Problems:
    """Yield a refusal of a quantum that is not a number with at most six decimals."""
    step = quantum(stream)
    if (step * MICRO).denominator != 1:
        expected = "a multiple of 0.000001 of the unit, such as 0.001"
        yield ConfigError("privacy.quantum", exact(step), expected)


@check_of(*GRID, *AMOUNTS, "privacy.hide", "privacy.radius", "privacy.quantum")
def _radius(stream: Stream) -> Problems:
    """Yield a refusal of a radius that is not a multiple of the quantum."""
    step = quantum(stream)
    for window in shapes(stream):
        if (window.radius / step).denominator != 1:
            floor = window.radius // step * step
            multiples = [exact(radius) for radius in (floor, floor + step) if radius > 0]
            expected = f"a multiple of privacy.quantum = {exact(step)}, such as {' or '.join(multiples)}"
            yield ConfigError("privacy.radius", exact(window.radius), expected)
            return


@check_of(*PROMISE)
def _noise(stream: Stream) -> Problems:
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


@check_of(*PROMISE)
def _receivable(stream: Stream) -> Problems:
    """Yield a refusal of terms with a number that receivers refuse."""
    for window in shapes(stream):
        numbers: dict[str, int | Fraction] = {
            "n": window.n,
            "bands": max(1, len(window.shape.names)),
            "length": window.length_ms,
            "step": window.step_ms,
            **{name: getattr(window, name) for name in _PROMISED},
        }
        name = beyond(numbers)
        if name is not None:
            low, high = (exact(Fraction(limit)) for limit in BOUNDS[name])
            unit_text = " ms" if name in _TIMES else ""
            expected = f"{name} from {low} to {high}{unit_text}, which is what receivers accept"
            yield ConfigError(_KEYS[name], f"{name} = {exact(Fraction(numbers[name]))}", expected)
            return


@check_of("privacy.budget", *PROMISE)
def _budget(stream: Stream) -> Problems:
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


CHECKS = (_alternatives, _lattice, _radius, _receivable, _noise, _budget)
"""The checks in their order."""
