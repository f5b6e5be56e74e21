"""The statistics of an audit (THEORY 6), against closed forms, enumeration and a second implementation."""

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy.audit import audit, ratio_excess
from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.mechanism.window_law import WindowLaw
from meteragent.privacy.statistics import (
    chi_square_p,
    clopper_pearson,
    log_ratio_floor,
    midrange_power,
    prove_loss,
)
from tests.support.controls import Control, honest, scalar, scalar_mass

A = Fraction(7, 10)


# Bounds of probabilities --------------------------------------------------------------------------


@given(st.integers(1, 400), st.data(), st.sampled_from([0.05, 1e-3, 1e-9]))
def test_clopper_pearson_is_scipy_s(trials: int, data: st.DataObject, false_alarm: float) -> None:
    """The bounds are those of scipy's exact binomial test inverted."""
    k = data.draw(st.integers(0, trials))
    low, high = clopper_pearson(k, trials, false_alarm)
    interval = stats.binomtest(k, trials).proportion_ci(1 - false_alarm, "exact")
    assert float(low) == pytest.approx(interval.low, rel=1e-6, abs=1e-12)
    assert float(high) == pytest.approx(interval.high, rel=1e-6)


@pytest.mark.parametrize(("trials", "p"), [(50, 0.3), (200, 0.01), (1000, 0.5)])
def test_clopper_pearson_holds_what_it_says(trials: int, p: float) -> None:
    """Summed over all outcomes, the truth is below the lower bound, or above the upper, 2.5% at most."""
    k = np.arange(trials + 1)
    low, high = clopper_pearson(k, trials, 0.05)
    mass = stats.binom.pmf(k, trials, p)
    assert mass[low > p].sum() <= 0.025
    assert mass[high < p].sum() <= 0.025


def test_a_bound_of_a_ratio_is_seldom_above_it() -> None:
    """ln(low(P1)/high(P0)) exceeds ln P1/P0 with 5% at most, over all outcomes; of nothing it is nothing."""
    trials, p1, p0 = 60, 0.5, 0.2
    k = np.arange(trials + 1)
    bounds = log_ratio_floor(k[:, np.newaxis], k, trials, 0.05)
    mass = np.outer(stats.binom.pmf(k, trials, p1), stats.binom.pmf(k, trials, p0))
    assert 0.0005 < mass[bounds > math.log(p1 / p0)].sum() <= 0.05
    assert log_ratio_floor(0, 0, trials, 0.05) == -math.inf
    assert log_ratio_floor(trials, 0, trials, 0.05) == pytest.approx(
        math.log(0.025 ** (1 / 60) / (1 - 0.025 ** (1 / 60)))
    )


def test_the_midrange_s_power_is_that_of_the_theory() -> None:
    """An excess of a tenth is shown by 3200 windows a side with 63%, by 6500 with 94%; none hardly ever."""
    assert midrange_power(3200, 2, 1.1) == pytest.approx(0.64, abs=0.02)
    assert midrange_power(6500, 2, 1.1) == pytest.approx(0.95, abs=0.02)
    assert midrange_power(3200, 2, 1.0) <= 0.015
    # Once more, by enumeration.
    trials, k = 40, np.arange(41)
    mass = np.outer(stats.binom.pmf(k, trials, 0.5), stats.binom.pmf(k, trials, math.exp(-3) / 2))
    shown = log_ratio_floor(k[:, np.newaxis], k, trials, 0.05) > 1
    assert midrange_power(trials, 1, 3) == pytest.approx(mass[shown].sum(), rel=1e-9)


def test_what_chooses_an_event_does_not_test_it() -> None:
    """A difference that only the first half of the draws has shows nothing; one in both halves does."""
    low, high = np.zeros(400), np.ones(400)
    assert prove_loss(np.r_[low, low], np.r_[high, low], 0.05) < 0
    assert prove_loss(np.r_[low, low], np.r_[high, high], 0.05) > 4


# Chi-square ---------------------------------------------------------------------------------------


def test_chi_square_joins_cells_that_expect_little() -> None:
    """Cells are joined until each expects 20; then it is Pearson's test, also of what was not expected."""
    assert chi_square_p([30, 70], [0.5, 0.5]) == pytest.approx(stats.chisquare([30, 70]).pvalue)
    joined = chi_square_p([40, 5, 2, 53], [0.4, 0.05, 0.05, 0.5])
    assert joined == pytest.approx(stats.chisquare([40, 60], [40, 60]).pvalue)
    assert chi_square_p([100, 0, 0], [0.0, 0.5, 0.5]) < 1e-20
    assert chi_square_p([100, 0], [0.999, 0.001]) == 1


# Ratios -------------------------------------------------------------------------------------------


def test_a_ratio_is_counted_in_parts_of_the_loss() -> None:
    """The largest change of log mass over the loss, infinite if one side only is void; less last digits."""
    assert ratio_excess(np.array([-1.0, -3.0]), np.array([-2.0, -2.5]), 2.0) == 0.5
    assert ratio_excess(np.array([-1.0]), np.array([-4.0]), 2.0) == 1.5
    assert ratio_excess(np.array([-1.0, -np.inf]), np.array([-1.0, -np.inf]), 2.0) == 0
    assert ratio_excess(np.array([-1.0, -np.inf]), np.array([-1.0, -5.0]), 2.0) == math.inf
    assert ratio_excess(np.array([-1.0, np.nan]), np.array([-1.0, np.nan]), 2.0) == math.inf
    assert ratio_excess(np.array([-1e4]), np.array([-1e4 - 2 - 1e-9]), 2.0) == 1
    assert ratio_excess(np.array([-1.0]), np.array([-3.0 - 1e-9]), 2.0) > 1


# The law of windows -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_law_of_a_window_is_summed_right(n: int) -> None:
    """Masses sum to 1 over Z^n; what `probability_at_most` says of k slots is their sum over a box."""
    law, reach = WindowLaw(n, 2.0), {1: 30, 2: 20, 3: 14}[n]
    box = np.array(list(product(range(-reach, reach + 1), repeat=n)))
    mass = np.exp(law.log_mass(np.abs(box).max(axis=1)))
    assert mass.sum() == pytest.approx(1, abs=1e-9)
    for k in range(1, n + 1):
        for m in (0, 1, 3):
            inside = (np.abs(box[:, :k]) <= m).all(axis=1)
            assert law.probability_at_most(m, k)[0] == pytest.approx(mass[inside].sum(), abs=1e-9)
    residues = np.bincount(box[:, 0] % 3, mass, 3)
    assert law.residue_probabilities(3) == pytest.approx(residues, abs=1e-9)


def test_the_law_of_one_slot_is_discrete_laplace() -> None:
    """For n = 1, P(z) = tanh(a/2) e^(-a|z|), also where the lattice is too fine to be summed."""
    for a in (3.0, 1 / 220, 1e-6):
        law, m = WindowLaw(1, a), int(1 / a)
        assert float(law.log_mass(m)) == pytest.approx(math.log(math.tanh(a / 2)) - a * m, rel=1e-5)
        beyond = 2 * math.exp(-a * (m + 1)) / (1 + math.exp(-a))
        assert law.probability_at_most(m, 1)[0] == pytest.approx(1 - beyond, rel=1e-5)


@pytest.mark.parametrize(("n", "a"), [(6, 1e-5), (30, 1e-3), (30, 1e-6), (1440, 1 / 220)])
def test_the_largest_of_a_window_is_gamma(n: int, a: float) -> None:
    """For a << 1, a max|z_i| is Gamma(n), and a |z_i| Erlang of 1 to n, each as likely (THEORY 1.2)."""
    law = WindowLaw(n, a)
    for x in (0.8 * n, n, 1.2 * n):
        m = round(x / a)
        assert law.probability_at_most(m, n)[0] == pytest.approx(stats.gamma.cdf(a * (m + 0.5), n), abs=3e-5)
        erlang = stats.gamma.cdf(a * (m + 0.5), np.arange(1, n + 1)).mean()
        assert law.probability_at_most(m, 1)[0] == pytest.approx(erlang, abs=3e-5)


def test_quantiles_are_about_where_they_should_be() -> None:
    """The law has about the shares asked for below its quantiles, each of which is named once."""
    law = WindowLaw(6, 0.01)
    ends = law.quantiles([0.25, 0.5, 0.75], 6)
    assert law.probability_at_most(ends, 6) == pytest.approx([0.25, 0.5, 0.75], abs=0.02)
    assert WindowLaw(1, 50.0).quantiles([0.1, 0.5], 1).tolist() == [0]


def test_the_divergence_of_a_scale_is_that_of_gamma() -> None:
    """For a << 1 a mean f times the law's is n (f - 1 - ln f) away; the law's own mean 0."""
    law, n, a = WindowLaw(30, 1e-4), 30, 1e-4
    for f in (0.9, 1.1, 2.0):
        assert law.divergence(f * n / a) == pytest.approx(n * (f - 1 - math.log(f)), rel=1e-3)
    assert law.divergence(n / a) == pytest.approx(0, abs=1e-6)


def test_the_divergence_bounds_the_tail() -> None:
    """P(mean of N largest >= m) <= e^(-N D(m)), summed exactly for the geometric tails of one slot."""
    law, a, windows = WindowLaw(1, 1.0), 1.0, 40
    mass = np.diff(law.probability_at_most(np.arange(200), 1), prepend=0)
    total = np.array([1.0])
    for _ in range(windows):
        total = np.convolve(total, mass)[:2000]
    for mean in (1.5, 2.0, 3.0):
        tail = total[math.ceil(mean * windows) :].sum()
        assert 1e-3 * tail < tail <= math.exp(-windows * law.divergence(mean))
    assert a == law.a


# The audit, as data -------------------------------------------------------------------------------


def test_an_audit_is_data() -> None:
    """Claim, bound, sample sizes, error rates and every check, as JSON; exact numbers are strings."""
    found = audit(Control(1, A, honest, quantum=Fraction(1, 2)), samples=4000, bits=SeededBits(1))
    figures = json.loads(json.dumps(found.figures()))
    assert figures["epsilon"] == "7/5"
    assert figures["holds"] is True
    assert figures["samples"] == 4000
    assert (figures["alarm"], figures["miss"]) == (1e-6, 0.1)
    assert 0 <= figures["lower"] <= 1.4 < 1.4 * figures["detects"]
    assert {check["name"].split(":")[0] for check in figures["checks"]} == {
        "on the lattice",
        "bits",
        "same noise for any window",
        "density ratio",
        "law",
        "black box",
    }


def test_figures_are_json_also_where_a_ratio_is_infinite() -> None:
    """What is infinite is a string, so that any reader of JSON can read it."""
    found = audit(Control(2, A, scalar, scalar_mass), samples=50, bits=SeededBits(1))
    text = json.dumps(found.figures(), allow_nan=False)
    ratio = next(check for check in json.loads(text)["checks"] if check["name"] == "density ratio")
    assert ratio["figures"]["worst"] == "inf"


def test_an_audit_repeats_with_its_bits() -> None:
    """The same bits give the same findings; without any, the system's are used."""
    control = Control(2, A, honest)
    one, same = (audit(control, samples=200, bits=SeededBits(2)) for _ in range(2))
    assert one == same
    assert audit(control, samples=200) != audit(control, samples=200)


def test_the_power_stated_is_the_midrange_s() -> None:
    """A loss `detects` times the claim is found with 0.9 by half of the windows; without noise none is."""
    samples = 4000
    found = audit(Control(1, Fraction(1, 100), honest), samples=samples, false_alarm=1e-3, bits=SeededBits(3))
    power = midrange_power(samples // 2, 2, found.detects, 1e-3 / 2 / 5)
    assert 0.9 <= power < 0.99
    nothing = audit(Control(1, Fraction(100), honest), samples=100, bits=SeededBits(3))
    assert nothing.holds
    assert nothing.figures()["detects"] is None


def test_what_cannot_be_audited_is_refused() -> None:
    """A loss of nothing for a quantum, or windows that come back in another shape, are ValueErrors."""

    class Lossless(Control):
        def loss(self, distance: Fraction) -> Fraction:
            return Fraction(0) * distance

    class Short(Control):
        def release(self, windows: Any, *, bits: Bits | None = None) -> NDArray[Any]:
            return np.zeros(3)

    with pytest.raises(ValueError, match="loss of a quantum"):
        audit(Lossless(2, A, honest))
    with pytest.raises(ValueError, match="were released as"):
        audit(Short(2, A, honest))
