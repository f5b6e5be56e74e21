"""Holohan, Leith, Mason 2014: Examples 5 to 7 and Theorem 7, in numbers."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy import Categories, LaplaceSanitisation, Numbers, Subsets, exp
from meteragent.privacy.floor import diameter_floor, finite_floor, maximal_expected_error, two_point_floor
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.sanitisation import Calibration
from meteragent.privacy.metric import Metric, discrete
from meteragent.privacy.optimality import least_maximal_error
from simulators.papers.table import Line, Table

FINE = 1 << 14
"""The number of quanta in the diameter of a lattice that approximates the real line. With this many, the
scales agree with the real line's scales to four digits."""

SCALES: tuple[tuple[str, str, dict[Calibration, str]], ...] = (
    ("0.1", "0.1", {"holohan": "4.869", "any set": "3.425", "lattice": "3.218"}),
    ("1", "0.1", {"holohan": "0.9047", "any set": "0.8760", "lattice": "0.8260"}),
    ("1", "0.001", {"holohan": "0.9990", "any set": "0.9986", "lattice": "0.9980"}),
)
"""Epsilon, delta, and, for each calibration, the scale b divided by the diameter."""

_FORMULAS: dict[Calibration, str] = {
    "holohan": "1/(ε-ln(1-δ))",
}
_CALIBRATIONS: dict[Calibration, str] = {
    "holohan": "the paper's",
    "any set": "any set",
    "lattice": "real line",
}


def example_5() -> Table:
    """Compute scales of Laplace noise on a bounded set: the paper's scale and two smaller scales.

    Also compute the δ that the paper's noise needs on two such sets.
    """
    lines = [
        Line(
            f"b/diam, ε={epsilon} δ={delta}, {_CALIBRATIONS[calibration]}",
            LaplaceSanitisation(Numbers(0, FINE, Fraction(1, FINE)), epsilon, delta, calibration).scale,
            _FORMULAS.get(calibration, ""),
            verified,
        )
        for epsilon, delta, scales in SCALES
        for calibration, verified in scales.items()
    ]
    for name, quanta, verified in (("real line", FINE, "0.0513"), ("two points", 1, "0.0751")):
        noise = LaplaceSanitisation(Numbers(0, quanta), 1, "0.1")
        remark = "the paper's noise needs less δ than it promises"
        lines.append(Line(f"δ needed, ε=1, {name}", noise.smallest_delta, "0.1", verified, remark))
    return Table(
        "HLM Example 5: Laplace noise on a bounded set of numbers, (ε, δ) for any two",
        lines,
        "The published first integral has d' instead of d. The bound is valid but not tight.",
    )


def example_6() -> Table:
    """Compute the distribution and δ of randomised response on the m + 1 = 8 subsets of three hobbies."""
    mechanism = Categorical(Categories(Subsets("abc").points), 1)
    true_probability = mechanism.channel.rows[0][0]
    smallest_delta = mechanism.channel.smallest_delta(exp(1))
    misprint = "published with < instead of ≤ in case 4"
    return Table(
        "HLM Example 6: sets of 3 hobbies (m = 7), each other set with probability p, ε = 1",
        [
            Line("p", mechanism.p, "1/(7+e)", "0.102899"),
            Line("1 - 7p", true_probability, "", "0.2797"),
            Line("δ that is needed", smallest_delta, "0", "0", misprint),
        ],
    )


def example_7() -> Table:
    """Compute the error of Example 6's mechanism, and show it next to the floors of Theorems 6 and 7."""
    sets = Subsets("abc")
    lines = []
    for delta, verified in (("0", "0.720292"), ("0.1", "0.648263")):
        mechanism = Categorical(Categories(sets.points), 1, delta)
        printed = "(1-δ)m/(m+e^ε)"
        lines += [
            Line(f"error of Example 6, δ={delta}", _error(mechanism, discrete), printed, verified),
            Line(f"Theorem 7, δ={delta}", finite_floor(7, 1, 1, delta), printed, verified),
        ]
    mechanism = Categorical(Categories(sets.points), 1)
    lines += [
        Line("symmetric difference: error", _error(mechanism, sets.metric), "", "1.2348"),
        Line("symmetric difference: Theorem 7", finite_floor(7, 1, 1), "κm/(m+e^ε)", "0.7203"),
        Line("symmetric difference: Theorem 6", diameter_floor(3, 1), "diam/(2(1+e^ε))", "0.4034"),
        Line("symmetric difference: twice Theorem 6", two_point_floor(3, 1), "", "0.8068", "attained"),
        Line("diameter 1: Theorem 6", diameter_floor(1, 1), "diam/(2(1+e^ε))", "0.13447"),
        Line("diameter 1: twice Theorem 6", two_point_floor(1, 1), "", "0.26894"),
        Line("diameter 1: Theorem 7 with m = 1", finite_floor(1, 1, 1), "κm/(m+e^ε)", "0.26894"),
    ]
    return Table(
        "HLM Example 7: the least maximal expected error of 8 values, ε = 1",
        lines,
        "Example 6 attains Theorem 7's bound under the discrete metric. Theorem 6's bound can be doubled.",
    )


def theorem_7() -> Table:
    """Compute errors of mechanisms on a triangle's corners, and show them next to Theorem 7's formula."""
    errors = from_the_corners(12)
    centre = float(errors.max(axis=0).min())
    lines = [Line("error of always answering the centre", centre, "", "0.5774")]
    for epsilon, verified, better in (
        ("0.01", "0.6644", "the centre"),
        ("0.1", "0.6441", "the centre"),
        ("0.5", "0.5481", "the program's mechanism"),
    ):
        bound, false = finite_floor(2, 1, epsilon), f"published bound is wrong: {better} has a smaller error"
        lines.append(Line(f"published bound, ε={epsilon}", bound, "2/(2+e^ε)", verified, false))
    smallest = least_maximal_error(errors, 0.5 * (1 - np.eye(3)))
    lines.append(
        Line("least error by linear program, ε=0.5", smallest, "", "0.5465", "below the published bound")
    )
    floors = [finite_floor(2, 1, "0.1", outputs="anywhere"), finite_floor(2, 1, "0.1") / 2]
    lines += [
        Line("floor of two points, ε=0.1", floors[0], "", "0.475", "holds anywhere"),
        Line("half of Theorem 7, ε=0.1", floors[1], "", "0.322", "holds anywhere"),
    ]
    return Table(
        "HLM Theorem 7: the corners of a triangle with sides of 1, outputs anywhere in the plane", lines
    )


def from_the_corners(steps: int) -> NDArray[np.float64]:
    """Return the distances from the corners of a triangle with sides of 1 to the points of a grid on it."""
    corners = np.array([[0, 0], [1, 0], [0.5, math.sqrt(3) / 2]])
    shares = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    points = np.array(shares) / steps @ corners
    return np.asarray(np.linalg.norm(corners[:, None] - points, axis=2))


def _error(mechanism: Categorical, metric: Metric) -> float:
    return float(maximal_expected_error(mechanism.channel, metric))
