"""Every negative control is caught, by the audit and by the suite; honest mechanisms pass both.

ALARM is the chance that an honest one is refused by one run; seeds are fixed, so a run repeats. With fewer
than 100 runs an honest mechanism is refused in any with less than 1e-7. SAMPLES draws are made for each
test. The tests at the end compute, from the wrong laws themselves, how likely a control is missed by the
check that is named for it, at that check's own alarm: all are below MISS.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy.audit import audit
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.conformance import conform
from meteragent.privacy.mechanism.window_law import WindowLaw
from meteragent.privacy.statistics import clopper_pearson
from tests.support import controls
from tests.support.controls import CAUGHT, RATIO, A, Control, honest

ALARM, MISS, SAMPLES = 1e-9, 1e-6, 12_000
LAW_ALARM = ALARM / 2 / 10
"""Of one of the ten tests of the law."""


@pytest.mark.parametrize("name", CAUGHT)
def test_the_audit_refuses(name: str) -> None:
    """Each control is refused, by the checks that are named for it."""
    case = CAUGHT[name]
    found = audit(case.control, samples=SAMPLES, false_alarm=ALARM, bits=SeededBits(11))
    failed = {check.name for check in found.checks if not check.passed}
    assert not found.holds
    assert failed >= set(case.caught)


@pytest.mark.parametrize("name", CAUGHT)
def test_the_suite_refuses(name: str) -> None:
    """Each control fails the conformance suite too, which has the audit in it."""
    found = conform(CAUGHT[name].control, samples=SAMPLES // 2, false_alarm=ALARM, bits=SeededBits(12))
    assert not found.conforms


HONEST = [
    Control(1, Fraction(1, 220), honest),
    Control(2, Fraction(7, 10), honest),
    Control(6, A, honest, to_quanta=controls.half_up),
    Control(30, Fraction(3), honest),
    Control(24, Fraction(1, 220), honest, quantum=Fraction(1, 10)),
    Control(1, Fraction(100), honest),
]


@pytest.mark.parametrize("mechanism", HONEST, ids=lambda m: f"{m.n} slots, a = {m.a}")
def test_the_honest_pass(mechanism: Control) -> None:
    """The l_inf Laplace mechanism passes audit and suite, coarse and fine, with 1 and many slots."""
    found = audit(mechanism, samples=SAMPLES // 2, false_alarm=ALARM, bits=SeededBits(13))
    assert found.holds, found.checks
    assert found.lower <= float(found.epsilon)
    report = conform(mechanism, samples=SAMPLES // 4, false_alarm=ALARM, bits=SeededBits(14))
    assert report.conforms, report.table()


def test_more_noise_that_says_so_keeps_its_word() -> None:
    """110% of the noise with its own mass breaks no promise; the suite says that the loss is not reached."""
    more = Control(6, A, controls.scaled(110), controls.scaled_mass(110))
    assert audit(more, samples=2000, false_alarm=ALARM, bits=SeededBits(15)).holds
    assert conform(more, samples=2000, false_alarm=ALARM, bits=SeededBits(15)).failed == ["loss reached"]
    assert conform(more, tight=False, samples=2000, false_alarm=ALARM, bits=SeededBits(15)).conforms


def test_a_31st_reading_costs_seven_times_epsilon() -> None:
    """For a = 1/10 the 31st reading from one R loses 7.3 times epsilon (THEORY 2.1), and so does Gamma(n)."""
    for control in (CAUGHT["31st"].control, CAUGHT["Gamma(n)"].control):
        checks = {c.name: c for c in audit(control, samples=100, bits=SeededBits(1)).checks}
        assert checks[RATIO].figures["worst"] == pytest.approx(7.3, abs=0.06)


def test_one_scalar_is_void_with_twelve_windows() -> None:
    """12 windows a side refute one scalar by y_1 - y_2 at 5% where 1 is claimed (THEORY 6)."""
    low = clopper_pearson(12, 12, 0.05)[0] / clopper_pearson(0, 12, 0.05)[1]
    assert math.log(low) > 1


# How likely a control is missed ---------------------------------------------------------------------


def cells_miss(wrong: NDArray[Any], right: NDArray[Any], draws: int) -> float:
    """Chi-square's, noncentral, in the audit's cells."""
    noncentrality = draws * float(((wrong - right) ** 2 / right).sum())
    return float(stats.ncx2.cdf(stats.chi2.isf(LAW_ALARM, right.size - 1), right.size - 1, noncentrality))


def in_cells(at_most: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of the cells between values with these distribution functions."""
    return np.diff(at_most, prepend=0, append=1)


def mean_miss(law: WindowLaw, scale: float, windows: int) -> float:
    """Chernoff's: the normal chance of a mean of the largest that is not e^-ND, D its divergence, off."""
    mean, sd = (factor * scale / law.a for factor in (law.n, math.sqrt(law.n / windows)))
    off = math.log(2 / LAW_ALARM) / windows
    side = 1 if scale > 1 else -1
    ends = np.linspace(law.n / law.a, mean, 200)
    edge = next(end for end in ends if law.divergence(float(end)) > off)
    return float(stats.norm.sf(side * (mean - edge) / sd))


@pytest.mark.parametrize("scale", [0.9, 1.1])
@pytest.mark.parametrize(("n", "missed"), [(1, 2e-3), (6, MISS)])
def test_a_scale_10_percent_off_is_hardly_missed(n: int, missed: float, scale: float) -> None:
    """By the cells of a window's largest or by its mean, windows of one slot with 2e-3, of six with MISS."""
    law, wrong = WindowLaw(n, 0.1), WindowLaw(n, 0.1 / scale)
    ends = law.quantiles(np.arange(1, 20) / 20, n)
    by_cells = cells_miss(
        in_cells(wrong.probability_at_most(ends, n)), in_cells(law.probability_at_most(ends, n)), SAMPLES
    )
    assert min(by_cells, mean_miss(law, scale, SAMPLES)) < missed


@pytest.mark.parametrize("n", [1, 6, 30])
def test_gamma_n_is_hardly_missed(n: int) -> None:
    """By the cells of a window's largest, with R from the weights (2R+1)^(n-1) e^(-aR)."""
    law, r = WindowLaw(n, 0.1), np.arange(4000) + 0.5
    log_weight = (n - 1) * np.log(r) - 0.1 * r
    weight = np.exp(log_weight - log_weight.max())
    ends = law.quantiles(np.arange(1, 20) / 20, n)
    wrong = [float((weight * np.minimum(1, (m + 0.5) / r) ** n).sum() / weight.sum()) for m in ends.tolist()]
    assert cells_miss(in_cells(np.array(wrong)), in_cells(law.probability_at_most(ends, n)), SAMPLES) < MISS


def test_clamped_noise_is_hardly_missed() -> None:
    """The largest of all stays within the limit with F^N: missed only if so few windows are beyond it."""
    within = float(WindowLaw(6, 0.1).probability_at_most(3 * 7 * 5, 6)[0])
    assert 2 * within**SAMPLES < LAW_ALARM


def test_noise_per_reading_is_hardly_missed() -> None:
    """By the cells of a window's largest, that of 30 independent ones."""
    law = WindowLaw(30, 0.1)
    ends = law.quantiles(np.arange(1, 20) / 20, 30)
    wrong = WindowLaw(1, 0.1).probability_at_most(ends, 1) ** 30
    assert cells_miss(in_cells(wrong), in_cells(law.probability_at_most(ends, 30)), SAMPLES) < MISS


def test_a_shared_radius_is_hardly_missed() -> None:
    """By the 4 x 4 cells of two windows' largest, independent but for the R that they share."""
    n, r = 6, np.arange(4000) + 0.5
    weight = r**n * np.exp(-0.1 * r)
    ends = WindowLaw(n, 0.1).quantiles((0.25, 0.5, 0.75), n)
    within = np.array([np.minimum(1, (m + 0.5) / r) ** n for m in ends.tolist()])
    given_r = np.diff(within, axis=0, prepend=0, append=1)
    joint = np.einsum("ir,jr,r->ij", given_r, given_r, weight / weight.sum())
    alone = joint.sum(axis=0)
    assert cells_miss(joint.ravel(), np.outer(alone, alone).ravel(), SAMPLES // 2) < MISS


def test_the_honest_are_seldom_refused() -> None:
    """At an alarm of 0.2 no more of 40 audits refuse the honest than that."""
    mechanism = Control(1, Fraction(1, 2), honest)
    refused = sum(
        not audit(mechanism, samples=400, false_alarm=0.2, bits=SeededBits(i)).holds for i in range(40)
    )
    assert stats.binom.sf(refused - 1, 40, 0.2) > 1e-4
