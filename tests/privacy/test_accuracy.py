"""Errors said before the release are the errors made (meteragent.privacy.accuracy).

Numbers are THEORY's oracles: sections `knorm` (continuous, epsilon = 1) and `discrete_R` (lattice).
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from meteragent.privacy import LInfLaplace, accuracy, half_width, sd

LATTICE = [  # discrete_R: n, a, var_z
    (1, Fraction(1, 2), 7.83539617807),
    (1, Fraction(1, 100), 19999.8333342),
    (2, Fraction(7, 10), 8.07295081579),
    (6, Fraction(1, 10), 1866.58333333),
    (6, Fraction(2), 4.581444416),
    (30, Fraction(1, 10), 33066.5833333),
    (30, Fraction(1), 330.583333333),
    (96, Fraction(1, 2), 12674.5833333),
    (144, Fraction(5), 282.183333333),
]
CONTINUOUS = [  # knorm: n, var, q50, q95, q999, var_sum
    (1, 2.0, 0.69314718056, 2.99573227355, 6.90775527898, 2.0),
    (2, 4.0, 1.14619322062, 4.11300328072, 8.5729024542, 8.0),
    (6, 18.6666666667, 3.05551894151, 8.28166497068, 14.3952804679, 112.0),
    (30, 330.666666667, 15.0003575002, 31.6237540145, 43.7088991012, 9920.0),
    (96, 3168.66666667, 48.0000000007, 94.284428441, 116.60679614, 304192.0),
    (1440, 692640.666667, 720.0, 1368.39212275, 1493.38630163, 997402560.0),
]


def mechanism(n: int, a: Fraction, quantum: Fraction = Fraction(1)) -> LInfLaplace:
    """A mechanism of the parameter a, in a unit of which the quantum is `quantum`."""
    return LInfLaplace(a / quantum, quantum, n)


@pytest.mark.parametrize(("n", "a", "variance"), LATTICE)
def test_the_deviation_is_that_of_the_lattice(n: int, a: Fraction, variance: float) -> None:
    """The sd is the exact one of the noise on the lattice, in the unit of the quantum."""
    assert sd(mechanism(n, a)) ** 2 == pytest.approx(variance, rel=1e-11)
    assert sd(mechanism(n, a, Fraction(1, 10))) == pytest.approx(math.sqrt(variance) / 10, rel=1e-11)


@pytest.mark.parametrize(("n", "variance", "q50", "q95", "q999", "var_sum"), CONTINUOUS)
def test_a_fine_lattice_has_the_errors_of_the_continuous_law(
    n: int, variance: float, q50: float, q95: float, q999: float, var_sum: float
) -> None:
    """For a << 1 sd, quantiles and the sd of a window's sum are THEORY 1.2's."""
    fine = LInfLaplace(Fraction(1), Fraction(1, 10**6), n)
    assert sd(fine) ** 2 == pytest.approx(variance, rel=1e-9)
    assert n * sd(fine) ** 2 == pytest.approx(var_sum, rel=1e-9)
    assert half_width(fine, 0.5) == pytest.approx(q50, rel=1e-7)
    assert half_width(fine) == pytest.approx(q95, rel=1e-7)
    assert half_width(fine, 0.999) == pytest.approx(q999, rel=1e-7)


def test_the_descriptor_of_the_default_preset() -> None:
    """Level 1 at 220 W, quantum 1 W, one slot: sd 311.1 W and ci95 659.1 W to four digits."""
    default = LInfLaplace(Fraction(1, 220), Fraction(1), 1)
    assert f"{sd(default):.4g}" == "311.1"
    assert f"{half_width(default, 0.95):.4g}" == "659.1"


@pytest.mark.parametrize(
    ("radius_w", "quantum", "slot_h", "slots_a_month", "number", "month_kwh"),
    [
        (40, 1, 0.5, 1440, 57, 1.1),  # television
        (220, 1, 0.5, 1440, 311, 5.9),  # appliance
        (600, 1, 0.5, 1440, 850, 16),  # street
        (Fraction(25, 2), Fraction(1, 10), 24, 30, 0.42e3 / 24, 2.3),  # day
        (Fraction(25, 3), Fraction(1, 100), 720, 1, 8.5e3 / 720, 8.5),  # bill
    ],
)
def test_the_errors_of_the_presets(
    radius_w: Fraction, quantum: Fraction, slot_h: float, slots_a_month: int, number: float, month_kwh: float
) -> None:
    """The errors printed for the presets, of a number and of a month, to the two digits printed."""
    preset = LInfLaplace(Fraction(1, 1) / radius_w, quantum, 1)
    assert sd(preset) == pytest.approx(number, rel=0.02)
    assert math.sqrt(slots_a_month) * sd(preset) * slot_h / 1000 == pytest.approx(month_kwh, rel=0.03)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 30, 1440])
@pytest.mark.parametrize("coverage", [0.5, 0.95, 0.999])
def test_sum_and_integral_agree_where_one_takes_over(
    n: int, coverage: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the table gets too long, the continuous formula gives the same digits."""
    end = n + 60 + math.sqrt(3600 + 120 * n)
    edge = mechanism(n, Fraction(math.ceil(end * 10**6 / accuracy._TERMS_LIMIT), 10**6))
    assert accuracy._lattice(n, float(edge.a)) is not None
    deviation, width = sd(edge), half_width(edge, coverage)
    monkeypatch.setattr(accuracy, "_TERMS_LIMIT", 0)
    assert sd(edge) == pytest.approx(deviation, rel=1e-9)
    assert half_width(edge, coverage) == pytest.approx(width, rel=1e-6)


def coverage_by_enumeration(n: int, a: mpmath.mpf, h: float) -> mpmath.mpf:
    """P(|z_1 + U| <= h) from P(z) ~ e^(-a max|z_i|) itself: shells of cubes, then cells of length 1."""
    reach = 400
    shells = [mpmath.exp(-a * m) for m in range(reach)]

    def marginal(z: int) -> mpmath.mpf:
        inner = [(2 * m + 1) ** (n - 1) for m in range(reach)]
        own = shells[z] * inner[z] if n > 1 else shells[z]
        beyond = (shells[m] * (inner[m] - inner[m - 1]) for m in range(z + 1, reach)) if n > 1 else ()
        return own + mpmath.fsum(beyond)

    cells = [marginal(z) * (1 if z == 0 else 2) for z in range(200)]
    total = mpmath.fsum(cells)
    whole, part = int(h + 0.5), h + 0.5 - int(h + 0.5)
    inside = mpmath.fsum(cells[:whole]) + cells[whole] * part if whole else cells[0] * 2 * h
    return inside / total


@pytest.mark.parametrize(("n", "a"), [(1, "1/2"), (1, "3"), (2, "7/10"), (3, "7/10"), (3, "4"), (6, "1")])
@pytest.mark.parametrize("coverage", [0.3, 0.5, 0.95, 0.999])
def test_the_half_width_covers_what_it_says(n: int, a: str, coverage: float) -> None:
    """Against the unrounded mean, value +- h holds with the coverage, computed from the density itself."""
    h = half_width(mechanism(n, Fraction(a)), coverage)
    with mpmath.workdps(30):
        covered = coverage_by_enumeration(n, mpmath.mpf(Fraction(a).numerator) / Fraction(a).denominator, h)
    assert float(covered) == pytest.approx(coverage, abs=1e-12)


def test_negligible_noise_leaves_the_error_of_rounding() -> None:
    """At a = 100 the value is the rounded mean: no noise to speak of, 95% of half a quantum's width."""
    negligible = mechanism(1, Fraction(100))
    assert sd(negligible) == pytest.approx(math.sqrt(2) * math.exp(-50), rel=1e-12)
    assert half_width(negligible, 0.95) == pytest.approx(0.475, rel=1e-12)
    assert sd(mechanism(1, Fraction(10**6))) == 0
    # n = 2: P(R = 1)/P(R = 0) = 9 e^-100, so Var z = 9 e^-100 * 2/3.
    assert sd(mechanism(2, Fraction(100))) == pytest.approx(math.sqrt(6) * math.exp(-50), rel=1e-9)


def test_a_wider_interval_covers_more() -> None:
    """The half width grows with the coverage and with the number of slots."""
    widths = [half_width(mechanism(n, Fraction(1, 10)), c) for n in (1, 2, 8) for c in (0.5, 0.9, 0.99)]
    grid = np.array(widths).reshape(3, 3)
    assert (np.diff(grid, axis=0) > 0).all()
    assert (np.diff(grid, axis=1) > 0).all()


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, math.nan])
def test_a_coverage_lies_between_none_and_all(coverage: float) -> None:
    """No finite interval covers everything."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        half_width(mechanism(1, Fraction(1)), coverage)
