"""Refusals of unsuitable radii, quanta and budgets, and of noise beyond the samplers' range."""

from fractions import Fraction

from meteragent.config.model import Stream
from meteragent.config.refuse.check import AMOUNT_KEYS, GRID_KEYS, PROMISE_KEYS, Refusals, check_of
from meteragent.config.terms import calendar_unit, distinct_terms, length_ms, quantum, terms
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import format_duration
from meteragent.domain.units import DAY_MS, MICRO
from meteragent.wire.number import BOUNDS, beyond_bounds

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
def _alternative_refusals(stream: Stream) -> Refusals:
    """Yield a refusal if two keys set how much is hidden."""
    privacy = stream.privacy
    if privacy.hide is not None and privacy.radius is not None:
        expected = "only one of privacy.hide and privacy.radius: both set how much is hidden"
        yield ConfigError("privacy.radius", exact_text(privacy.radius), expected)


@check_of("privacy.quantum", *GRID_KEYS)
def _lattice_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a quantum that is not a number with at most six decimals."""
    step = quantum(stream)
    if (step * MICRO).denominator != 1:
        expected = "a multiple of 0.000001 of the unit, such as 0.001"
        yield ConfigError("privacy.quantum", exact_text(step), expected)


@check_of(*GRID_KEYS, *AMOUNT_KEYS, "privacy.hide", "privacy.radius", "privacy.quantum")
def _radius_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a radius that is not a multiple of the quantum."""
    step = quantum(stream)
    for window in distinct_terms(stream):
        if (window.radius / step).denominator != 1:
            floor = window.radius // step * step
            multiples = [exact_text(radius) for radius in (floor, floor + step) if radius > 0]
            expected = f"a multiple of privacy.quantum = {exact_text(step)}, such as {' or '.join(multiples)}"
            yield ConfigError("privacy.radius", exact_text(window.radius), expected)
            return


@check_of(*PROMISE_KEYS)
def _noise_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a quantum so fine that the noise exceeds the samplers' range."""
    step = quantum(stream)
    for window in distinct_terms(stream):
        ratio = window.slots_per_bound / (window.epsilon * step)
        if ratio >= RATIO_MAX:
            expected = (
                f"a coarser quantum: n / (epsilon * quantum) is {float(ratio):.3g} and must be below 2**45"
            )
            yield ConfigError("privacy.quantum", exact_text(step), expected)
            return


@check_of(*PROMISE_KEYS)
def _bound_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of terms with a number that receivers refuse."""
    for window in distinct_terms(stream):
        numbers: dict[str, int | Fraction] = {
            "n": window.n,
            "bands": max(1, len(window.shape.names)),
            "length": window.length_ms,
            "step": window.step_ms,
            **{name: getattr(window, name) for name in _PROMISED},
        }
        name = beyond_bounds(numbers)
        if name is not None:
            low, high = (exact_text(Fraction(limit)) for limit in BOUNDS[name])
            unit_text = " ms" if name in _TIMES else ""
            expected = f"{name} from {low} to {high}{unit_text}, which is what receivers accept"
            yield ConfigError(_KEYS[name], f"{name} = {exact_text(Fraction(numbers[name]))}", expected)
            return


@check_of("privacy.budget", *PROMISE_KEYS)
def _budget_refusals(stream: Stream) -> Refusals:
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
        length, period = (
            calendar_unit(stream) or format_duration(length_ms(stream)),
            format_duration(limit.per),
        )
        minimum, usual = exact_text(level_min), exact_text(level)
        expected = f"at least {minimum}, for windows of {length} at level {usual} over {period}"
        yield ConfigError("privacy.budget.level", exact_text(limit.level), expected)


def _windows_within(stream: Stream, period_ms: int) -> int:
    """Return how many windows can start in an aligned period; for calendar windows, an upper limit."""
    if calendar_unit(stream) is None:
        return -(-period_ms // length_ms(stream))
    shortest_ms = min(window.length_ms for window in distinct_terms(stream))
    return (period_ms - 1) // shortest_ms + 1


CHECKS = (
    *(_alternative_refusals, _lattice_refusals, _radius_refusals, _bound_refusals, _noise_refusals),
    _budget_refusals,
)
"""The checks in their order."""
