"""Optimal among which mechanisms: noise that keeps a level at one radius is not noise for all distances."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent.privacy import Laplace

RADIUS = 100
"""In quanta; levels are promised at it."""


def staircase(level: float) -> NDArray[np.float64]:
    """The law of a staircase on whole quanta: flat stairs as wide as the radius, each e^level lower.

    The width of the first stair, from the middle to each side, is the one with the least mean error.
    """
    z = np.abs(np.arange(-60 * RADIUS, 60 * RADIUS + 1))
    laws = []
    for first in range(1, RADIUS + 1):
        weight = np.exp(-level * np.ceil(np.maximum(z - first + 1, 0) / RADIUS))
        laws.append(weight / weight.sum())
    return min(laws, key=lambda law: float(law @ z))


def log_odds(law: NDArray[np.float64], moved: int) -> float:
    """The largest log of the odds between the law and the law moved by some quanta."""
    return float(np.abs(np.log(law[moved:] / law[:-moved])).max())


@pytest.mark.parametrize("level", [1.0, 3.0])
def test_a_staircase_errs_less_at_one_radius(level: float) -> None:
    """It keeps the level at its radius with less error than Laplace noise, and a quantum costs all of it.

    Laplace noise errs by radius/level and costs a quantum's share; the staircase's error is
    radius e^(level/2)/(e^level - 1).
    """
    law, laplace = staircase(level), Laplace(Fraction(str(level)) / RADIUS, 1)
    error = float(law @ np.abs(np.arange(law.size) - law.size // 2))
    assert error < laplace.expected_error * (0.99 if level == 1 else 0.8)
    assert error == pytest.approx(RADIUS * math.exp(level / 2) / math.expm1(level), rel=0.01)
    assert log_odds(law, RADIUS) == pytest.approx(level, rel=1e-9)
    assert log_odds(law, 1) == pytest.approx(level, rel=1e-9)
    assert laplace.loss(Fraction(RADIUS)) == level
    assert laplace.loss(Fraction(1)) == Fraction(str(level)) / RADIUS
