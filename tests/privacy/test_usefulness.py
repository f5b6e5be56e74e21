"""(alpha, delta)-usefulness: closed forms, exact laws, and the numbers of the papers' examples."""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.channel.exponential import exp
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
from meteragent.privacy.metric import absolute, discrete
from meteragent.privacy.usefulness import (
    channel_alpha,
    geometric_alpha,
    least_alpha,
    norm_alpha,
    registration_dates,
    smart_meter,
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


# Examples -------------------------------------------------------------------------------------------


DATES = [("0.1", 149_787, 149.8), ("0.5", 29_957, 29.96), ("1", 14_979, 14.98), ("2", 7_489, 7.49)]
"""epsilon, and alpha in days under d_h and d_1, 5,000 days and a radius of 5, at delta = 0.05."""


@pytest.mark.parametrize("case", DATES)
def test_the_earliest_date_under_two_metrics(case: tuple[str, float, float]) -> None:
    """Example 1 and Figure 3: under d_h any answer in the span is nearer, under d_1/5 it is within days."""
    epsilon, hamming, manhattan = case
    alphas = registration_dates(epsilon, 5000, 5, 0.05)
    assert alphas["d_h"] == pytest.approx(hamming, abs=0.6)
    assert alphas["d_1"] == pytest.approx(manhattan, abs=0.06)
    assert alphas["d_h"] > 5000 > 20 * alphas["d_1"]


def test_dates_at_another_delta_and_what_is_refused() -> None:
    """Alpha is the scale times ln(1/delta); days and levels are above zero."""
    alphas = registration_dates(1, 5000, 5, 0.1)
    assert alphas == pytest.approx({"d_h": 11_512.9, "d_1": 11.513}, rel=1e-4)
    with pytest.raises(ValueError, match="span_days must be positive"):
        registration_dates(1, 0, 5, 0.1)


def test_the_smart_meter_s_figure_with_its_levels() -> None:
    """Fig. 4: at epsilon = 1/10 a W, 30 readings: the figure's noise is 30 times the level for the window.

    Independent noise of that level is 30 times as wide, the l_inf law 0.352 times that (THEORY 1.3, q95).
    """
    signature = np.repeat([0, 2000, 150], 10)
    figure = smart_meter(signature, "1/10", 1, 0.05, SeededBits(1))
    per_reading, independent, ours = figure["per reading"], figure["independent"], figure["l_inf"]
    assert (per_reading.reading_epsilon, per_reading.window_epsilon) == (Fraction(1, 10), Fraction(3))
    assert (independent.reading_epsilon, independent.window_epsilon) == (Fraction(1, 300), Fraction(1, 10))
    assert (ours.reading_epsilon, ours.window_epsilon) == (Fraction(1, 10), Fraction(1, 10))
    assert per_reading.alpha == pytest.approx(29.96, rel=1e-3)
    assert independent.alpha == pytest.approx(898.7, rel=1e-3)
    assert ours.alpha == pytest.approx(316.2, rel=1e-3)


def test_the_figure_s_curves_are_drawn_from_these_laws() -> None:
    """They are what the three mechanisms release, one after the other from the same bits."""
    bits, signature = SeededBits(2), np.array([5, -70, 1200, 0])
    figure = smart_meter(signature, "1/10", "1/2", 0.05, SeededBits(2))
    laws: dict[str, Laplace | LInfLaplace] = {
        "per reading": Laplace("1/10", "1/2"),
        "independent": Laplace("1/40", "1/2"),
        "l_inf": LInfLaplace(Fraction(1, 10), Fraction(1, 2), 4),
    }
    for name, law in laws.items():
        assert figure[name].values.tolist() == law.release(signature, bits=bits).tolist()


@pytest.mark.parametrize("signature", [[], np.zeros(0, np.int64), [[1, 2], [3, 4]], 5])
def test_a_signature_is_a_row_of_readings(signature: Any) -> None:
    """No readings, a table and a single number have no window: the error says so."""
    with pytest.raises(ValueError, match=r"a signature is an array of n >= 1 readings, not of shape \("):
        smart_meter(signature, "1/10", 1, 0.05, SeededBits(1))


def test_geolocation_retrieves_farther() -> None:
    """Section 6.2: at level ln 4 within 200 m, 5% are more than 684 m off; twice the radius doubles it."""
    level = Fraction("1.3862943611")
    alpha = norm_alpha(2, level / 200, 0.05)
    x = float(level) * alpha / 200
    assert (1 + x) * math.exp(-x) == pytest.approx(0.05, rel=1e-12)
    assert alpha == pytest.approx(684.4, abs=0.1)
    assert norm_alpha(2, level / 400, 0.05) == pytest.approx(2 * alpha, rel=1e-12)
