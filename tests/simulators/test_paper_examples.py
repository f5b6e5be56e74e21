"""The numerical examples of Chatzikokolakis 2013, at the levels that they state."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from meteragent.privacy import Laplace, LInfLaplace, SeededBits
from simulators.papers.examples import registration_dates, smart_meter

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
    for noisy in figure.values():
        assert 0 < np.abs(noisy.values - signature).max() < 10 * noisy.alpha


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
