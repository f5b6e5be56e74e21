"""The promise itself: that it is exact, and that no ratio of masses breaks it."""

import math
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from meteragent.privacy.audit import Check, ratio_excess
from meteragent.privacy.conformance.trial import PointPair, Trial, possible, with_points
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.space import listed

_SLACK = 1e-9
"""Of a delta, and of what is reached: floats' last digits."""

_DRAWN = 8
"""So many draws of each point join the outputs at which ratios are looked at."""


def loss_is_one(mechanism: MetricMechanism) -> Check:
    """0 at 0, a Fraction, never falling; a float is a TypeError, a negative distance a ValueError."""
    distances = [
        Fraction(n, d) for n, d in ((0, 1), (1, 10**9), (1, 3), (1, 1), (22, 7), (10, 1), (10**6, 1))
    ]
    losses = [mechanism.loss(distance) for distance in distances]
    wrong = {
        "it is not 0 at 0": losses[0] != 0,
        "it is not a Fraction": not all(isinstance(loss, Fraction) for loss in losses),
        "it falls as the distance grows": losses != sorted(losses),
        "it takes a float": not _raises(TypeError, mechanism.loss, 0.5),
        "it takes a negative distance": not _raises(ValueError, mechanism.loss, Fraction(-1)),
    }
    found = [text for text, is_so in wrong.items() if is_so]
    return Check("loss", not found, "; ".join(found) or "0 at 0, exact, never falling", {})


def parameters_are_exact(make: "partial[Any]") -> Check:
    """Whether each number among the keywords of `make` is refused with a TypeError as a float."""
    taken = [
        name
        for name, value in make.keywords.items()
        if (number := _number(value)) is not None
        and not _raises(TypeError, make.func, *make.args, **{**make.keywords, name: float(number)})
    ]
    return Check(
        "parameters", not taken, f"floats are taken for {taken}" if taken else "floats are refused", {}
    )


def _number(value: Any) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, Fraction | Decimal | int | str):
        return None
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError, InvalidOperation):
        return None


def _raises(error: type[Exception], call: Any, *args: Any, **keywords: Any) -> bool:
    try:
        call(*args, **keywords)
    except error:
        return True
    return False


def ratios(trial: Trial, *, tight: bool) -> Iterator[Check]:
    """The largest ratio of masses in parts of the loss, over all pairs; and whether it is reached."""
    parts, released = [], {repr(x): x for pair in trial.pairs for x in (pair.x, pair.other)}
    released = {name: trial.draw(point, _DRAWN) for name, point in released.items()}
    for pair in trial.pairs:
        # Where a ratio may be large: at what was released of both points, and at the points themselves.
        both = np.concatenate([released[repr(pair.x)], released[repr(pair.other)]])
        outputs = with_points(both, (pair.x, pair.other))
        masses = trial.log_mass(outputs, pair.x), trial.log_mass(outputs, pair.other)
        parts.append(ratio_excess(masses[0], masses[1], max(pair.loss, _SLACK)))
    worst, where = max(zip(parts, map(repr, trial.pairs), strict=True))
    reached = worst >= 1 - _SLACK
    found = f"at most {worst:.6g} times the loss" + ("" if worst <= 1 else f" at {where}")
    figures = {"worst": worst, "pairs": len(parts)}
    yield Check("ratio within the loss", worst <= 1, found, figures)
    yield Check(
        "loss reached", reached or not tight, "somewhere" if reached else "nowhere that was tried", figures
    )


def hockey_sticks(trial: Trial, alarm: float) -> Check:
    """The largest delta that any pair needs at its epsilon (Holohan 2014, Definition 1)."""
    some = trial.pairs[:: 1 + len(trial.pairs) // 64]
    sticks = [_hockey_stick(trial, pair, alarm / len(some)) for pair in some]
    worst, covered = max(worst for worst, _ in sticks), min(covered for _, covered in sticks)
    delta = some[0].delta
    how = "exactly" if covered > 1 - _SLACK else f"at least (from {covered:.1%} of the mass, or draws)"
    passed = worst <= delta + _SLACK
    figures = {"delta": delta, "needed": worst, "covered": covered, "pairs": len(some)}
    return Check("hockey stick within delta", passed, f"{how} {worst:.6g} of {delta:.6g}", figures)


def _hockey_stick(trial: Trial, pair: PointPair, alarm: float) -> tuple[float, float]:
    """A lower bound of the sum of max(0, P - e^epsilon P'), and the mass of P in it: all if it is exact."""
    drawn = trial.draw(pair.x, trial.samples // 10)
    if drawn.dtype.kind == "f":
        gain = np.maximum(0, -np.expm1(pair.loss + trial.log_ratio(drawn, pair)))
        return float(gain.mean()) - math.sqrt(math.log(1 / alarm) / (2 * len(drawn))), 0.0
    outputs = possible(trial, with_points(drawn, listed(trial.mechanism.space) or [pair.x]), pair.x)
    p, q = (np.exp(trial.log_mass(outputs, point)) for point in (pair.x, pair.other))
    return float(np.maximum(0, p - math.exp(pair.loss) * q).sum()), float(p.sum())
