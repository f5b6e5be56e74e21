"""Checks of the promise: loss and parameters are exact, and no ratio or hockey-stick sum is too large."""

import math
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from meteragent.privacy.audit import Check, ratio_excess
from meteragent.privacy.conformance.trial import PointPair, Trial, append_points, list_outputs, point_text
from meteragent.privacy.mechanism.base import LawlessMechanism, MetricMechanism
from meteragent.privacy.space import list_points

_SLACK = 1e-9
"""The rounding error allowed in comparisons. `check_ratios` replaces a smaller loss by this number."""

_DRAWS = 8
"""Ratios are computed at this many outputs drawn from each point, and at the points themselves."""


def check_loss(mechanism: MetricMechanism | LawlessMechanism) -> Check:
    """Check that the loss is a Fraction, is 0 at 0, never falls, and refuses the distances 0.5 and -1."""
    distances = [
        Fraction(n, d) for n, d in ((0, 1), (1, 10**9), (1, 3), (1, 1), (22, 7), (10, 1), (10**6, 1))
    ]
    losses = [mechanism.loss(distance) for distance in distances]
    is_wrong_by_text = {
        "it is not 0 at 0": losses[0] != 0,
        "it is not a Fraction": not all(isinstance(loss, Fraction) for loss in losses),
        "it decreases as the distance grows": losses != sorted(losses),
        "it accepts a float": not _is_raised(TypeError, mechanism.loss, 0.5),
        "it accepts a negative distance": not _is_raised(ValueError, mechanism.loss, Fraction(-1)),
    }
    faults = [text for text, is_wrong in is_wrong_by_text.items() if is_wrong]
    return Check("loss", not faults, "; ".join(faults) or "0 at 0, exact, never decreasing", {})


def check_parameters(make: "partial[Any]") -> Check:
    """Check that `make` raises TypeError if any one of its numeric keywords is replaced by a float."""
    floats = [
        name
        for name, value in make.keywords.items()
        if (number := _number(value)) is not None
        and not _is_raised(TypeError, make.func, *make.args, **{**make.keywords, name: float(number)})
    ]
    finding = f"floats are accepted for {floats}" if floats else "floats are refused"
    return Check("parameters", not floats, finding, {})


def _number(value: Any) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, Fraction | Decimal | int | str):
        return None
    try:
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError, InvalidOperation):
        return None


def _is_raised(error: type[Exception], call: Any, *args: Any, **keywords: Any) -> bool:
    try:
        call(*args, **keywords)
    except error:
        return True
    return False


def check_ratios(trial: Trial, *, tight: bool) -> Iterator[Check]:
    """Check that the log ratio of masses exceeds the loss at no pair and, if `tight`, reaches it at one."""
    parts, released = [], {repr(x): x for pair in trial.pairs for x in (pair.x, pair.x_prime)}
    released = {name: trial.draw(point, _DRAWS) for name, point in released.items()}
    for pair in trial.pairs:
        # The largest ratio may occur at a release of either point, or at one of the points themselves.
        draws = np.concatenate([released[repr(pair.x)], released[repr(pair.x_prime)]])
        outputs = append_points(draws, (pair.x, pair.x_prime))
        masses = trial.log_mass(outputs, pair.x), trial.log_mass(outputs, pair.x_prime)
        parts.append(ratio_excess(masses[0], masses[1], max(pair.loss, _SLACK)))
    worst = max(parts)
    pair = trial.pairs[parts.index(worst)]
    reached, place = worst >= 1 - _SLACK, f" at {point_text(pair.x)} or {point_text(pair.x_prime)}"
    finding = f"at most {worst:.6g} times the loss" + ("" if worst <= 1 else place)
    figures = {"worst": worst, "pairs": len(parts)}
    yield Check("ratio within the loss", worst <= 1, finding, figures)
    yield Check(
        "loss reached", reached or not tight, "somewhere" if reached else "at none of the pairs", figures
    )


def check_hockey_sticks(trial: Trial, false_alarm: float) -> Check:
    """Check that none of up to 64 pairs needs more than delta at its epsilon (Holohan 2014, Definition 1)."""
    pairs = trial.pairs[:: 1 + len(trial.pairs) // 64]
    sticks = [_hockey_stick(trial, pair, false_alarm / len(pairs)) for pair in pairs]
    worst, covered = max(worst for worst, _ in sticks), min(covered for _, covered in sticks)
    delta = pairs[0].delta
    scope = "exactly" if covered > 1 - _SLACK else f"at least (from {covered:.1%} of the mass, or draws)"
    passed = worst <= delta + _SLACK
    figures = {"delta": delta, "needed": worst, "covered": covered, "pairs": len(pairs)}
    return Check("hockey stick within delta", passed, f"{scope} {worst:.6g} of {delta:.6g}", figures)


def _hockey_stick(trial: Trial, pair: PointPair, false_alarm: float) -> tuple[float, float]:
    """Return a lower bound on the sum of max(0, P - e^epsilon P'), and how much of P the sum covers.

    P and P' are the distributions of the outputs at x and x'. The covered mass is 1 if the sum is exact. For
    outputs that are floats it is 0, and the bound is wrong with a probability of at most `false_alarm`.
    """
    draws = trial.draw(pair.x, trial.samples // 10)
    if draws.dtype.kind == "f":
        gain = np.maximum(0, -np.expm1(pair.loss + trial.log_ratio(draws, pair)))
        return float(gain.mean()) - math.sqrt(math.log(1 / false_alarm) / (2 * len(draws))), 0.0
    outputs = list_outputs(
        trial, append_points(draws, list_points(trial.mechanism.space) or [pair.x]), pair.x
    )
    p, q = (np.exp(trial.log_mass(outputs, point)) for point in (pair.x, pair.x_prime))
    return float(np.maximum(0, p - math.exp(pair.loss) * q).sum()), float(p.sum())
