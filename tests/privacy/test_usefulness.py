"""(alpha, delta)-usefulness: closed forms, exact laws, and the numbers of the papers' examples."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.privacy.channel.exponential import exp
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.mechanism.number import TruncatedGeometric
from meteragent.privacy.metric import absolute, discrete
from meteragent.privacy.usefulness import (
    channel_alpha,
    geometric_alpha,
    least_alpha,
    norm_alpha,
)

# Mechanisms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_a_number_s_alpha_is_a_logarithm(delta: float) -> None:
    """ln(1/delta)/epsilon for the Laplace mechanism."""
    assert norm_alpha(1, "1/10", delta) == pytest.approx(10 * math.log(1 / delta), rel=1e-12)


@pytest.mark.parametrize("n", [2, 6, 1440])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_a_norm_s_alpha_is_a_gamma_quantile(n: int, delta: float) -> None:
    """P(Gamma(n) > epsilon alpha) = delta, by an independent incomplete gamma function."""
    alpha = norm_alpha(n, 2, delta)
    assert float(mpmath.gammainc(n, 2 * alpha, regularized=True)) == pytest.approx(delta, rel=1e-9)


def test_the_norm_does_not_matter() -> None:
    """Of planar noise under d_1, d_2 and d_inf 5% is beyond alpha in the own norm, on a grid of cells."""
    axis = np.arange(-20, 20.01, 0.05)
    u, v = np.meshgrid(axis, axis)
    for norm in (np.abs(u) + np.abs(v), np.hypot(u, v), np.maximum(np.abs(u), np.abs(v))):
        law = np.exp(-norm)
        beyond = float(law[norm > norm_alpha(2, 1, 0.05)].sum() / law.sum())
        assert beyond == pytest.approx(0.05, abs=1e-3)


def test_the_least_alpha_of_a_step_is_where_it_steps() -> None:
    """Also where the tail jumps, and 0 where nothing is needed."""
    assert least_alpha(lambda r: 0.3 if r < 7.25 else 0.01, 0.05) == 7.25
    assert least_alpha(lambda r: 0.04 * math.exp(-r), 0.05) == 0
    with pytest.raises(ValueError, match="delta must lie between 0 and 1"):
        least_alpha(lambda r: math.exp(-r), 0)


def geometric_channel(a: Fraction, k: int) -> Channel:
    """TG as THEORY 2.4 has it, exactly."""
    ends, inside = exp(a) / (exp(a) + 1), (exp(a) - 1) / (exp(a) + 1)
    points = range(k + 1)
    rows = [[(ends if y in {0, k} else inside) * exp(-a * abs(x - y)) for y in points] for x in points]
    return Channel(points, points, rows)


@settings(max_examples=20)
@given(
    st.fractions(Fraction(1, 5), 2, max_denominator=5), st.integers(1, 6), st.fractions(0, Fraction(9, 10))
)
def test_the_geometric_s_alpha_is_that_of_its_channel(a: Fraction, k: int, delta: Fraction) -> None:
    """The closed form agrees with the exact law, row by row, whatever delta; a quantum is a quantum."""
    alpha = geometric_alpha(TruncatedGeometric(a, 1, k), delta)
    assert alpha == channel_alpha(geometric_channel(a, k), absolute, delta)
    assert geometric_alpha(TruncatedGeometric(a * 3, Fraction(1, 3), k), delta) == alpha / 3


def test_at_an_edge_the_geometric_s_alpha_is_decided_exactly() -> None:
    """With delta the exact tail's own rational neighbours it is j, and j+1."""
    lo, hi = (2 * exp(-2) / (1 + exp(-1))).bounds(80)
    mechanism = TruncatedGeometric(1, 1, 50)
    assert geometric_alpha(mechanism, hi) == 1
    assert geometric_alpha(mechanism, lo) == 2


def test_nothing_may_be_beyond_for_delta_0() -> None:
    """Then alpha is the range, also from one end only."""
    assert geometric_alpha(TruncatedGeometric("1/2", 1, 7), 0) == 7
    with pytest.raises(ValueError, match="delta must be at least 0"):
        geometric_alpha(TruncatedGeometric("1/2", 1, 7), 1)


@pytest.mark.parametrize(("delta", "alpha"), [("1/2", 0), ("2/5", 0), ("39/100", 1), ("0", 1)])
def test_categories_are_right_or_wrong(delta: str, alpha: int) -> None:
    """With p = 1/5 for each of two others alpha is 0 from delta = 2/5 on, and 1 below."""
    rows = [["3/5" if x == y else "1/5" for y in range(3)] for x in range(3)]
    assert channel_alpha(Channel(range(3), range(3), rows), discrete, delta) == alpha


def test_the_worst_input_counts() -> None:
    """Alpha is the largest of the inputs' own; an infinitely far output is one if it may leave too often."""
    channel = Channel([0, 1], [0, 1, 9], [["9/10", "1/10", 0], ["1/10", "7/10", "2/10"]])
    assert channel_alpha(channel, absolute, "1/10") == 8
    assert channel_alpha(channel, absolute, "1/5") == 1
    assert channel_alpha(channel, absolute, "3/10") == 0

    def classes(x: int, y: int) -> Fraction | float:
        return Fraction(0) if x == y else math.inf

    assert channel_alpha(channel, classes, "1/10") == math.inf


def test_geolocation_retrieves_farther() -> None:
    """Section 6.2: at level ln 4 within 200 m, 5% are more than 684 m off; twice the radius doubles it."""
    level = Fraction("1.3862943611")
    alpha = norm_alpha(2, level / 200, 0.05)
    x = float(level) * alpha / 200
    assert (1 + x) * math.exp(-x) == pytest.approx(0.05, rel=1e-12)
    assert alpha == pytest.approx(684.4, abs=0.1)
    assert norm_alpha(2, level / 400, 0.05) == pytest.approx(2 * alpha, rel=1e-12)
