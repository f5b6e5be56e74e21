"""Every mechanism conforms; the suite is a library and a command that say what is wrong, or missing."""

import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.conformance import Unusable, calibration, conform
from meteragent.privacy.conformance.__main__ import CONFORMS, UNUSABLE, VIOLATED, main
from meteragent.privacy.conformance.promise import loss_is_one, parameters_are_exact
from meteragent.privacy.mechanism.base import Guarantee
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.gaussian import DiscreteGaussian
from meteragent.privacy.mechanism.number import Laplace, LaplaceSanitisation, TruncatedGeometric
from meteragent.privacy.mechanism.planar import PlanarLaplace, PlanarManhattan
from meteragent.privacy.mechanism.product import MetricProduct, Product
from meteragent.privacy.mechanism.randomised import RandomisedResponse, RandomRow
from meteragent.privacy.mechanism.selection import Exponential, NoisyMax
from meteragent.privacy.mechanism.vector import VectorLaplace
from meteragent.privacy.space import Categories, Databases, Numbers, Windows
from tests.contracts.mechanism_contract import Conformance, PairDrawn
from tests.controls import Control, honest
from tests.not_run import ROOT

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


# The mechanisms; that of windows is in test_mechanism -----------------------------------------------


class TestLaplace(Conformance):
    """Noise on numbers."""

    def made(self) -> "partial[Any]":
        """On a fine lattice."""
        return partial(Laplace, epsilon="1/220", quantum=1)


class TestTruncatedGeometric(Conformance):
    """Noise on counts, clipped."""

    def made(self) -> "partial[Any]":
        """On 0 .. 6, both ends in reach."""
        return partial(TruncatedGeometric, epsilon="1/2", quantum=1, k=6)


class TestLaplaceSanitisation(Conformance):
    """(epsilon, delta) on a bounded set of numbers."""

    def made(self) -> "partial[Any]":
        """With some delta."""
        return partial(LaplaceSanitisation, Numbers(0, 10), epsilon=1, delta="1/10")


class TestCategorical(Conformance):
    """(epsilon, delta) on labels."""

    samples = 30_000

    def made(self) -> "partial[Any]":
        """Three labels."""
        return partial(Categorical, Categories("abc"), epsilon=2, delta="1/10")


class TestRandomisedResponse(Conformance):
    """Yes or no."""

    samples, scaled = 20_000, "truth"

    def made(self) -> "partial[Any]":
        """Two coins."""
        return partial(RandomisedResponse, truth="1/2")


class TestRandomRow(Conformance):
    """One row, as it is: delta = 1/n, and nothing to scale."""

    def made(self) -> "partial[Any]":
        """Three rows."""
        return partial(RandomRow, Databases(Categories("ab"), 3))

    def other(self, factor: Fraction) -> Any:
        """More likely the first row than another."""
        return FirstRow(Databases(Categories("ab"), 3))


class FirstRow(RandomRow):
    """Not at random."""

    def release(self, points: Any, *, bits: Bits | None = None) -> NDArray[Any]:
        """The first row of each database."""
        return np.asarray(points)[..., 0]


class TestProduct(Conformance):
    """Rows of a database, each with noise of its own."""

    samples = 30_000

    def made(self) -> "partial[Any]":
        """Three labels in three rows."""
        return partial(Product, Categorical(Categories("abc"), 1, "1/10"), 3)

    def other(self, factor: Fraction) -> Any:
        """Rows of another epsilon."""
        return Product(Categorical(Categories("abc"), factor, "1/10"), 3)


@pytest.mark.parametrize("metric", ["l1", "linf"])
class TestMetricProduct:
    """Rows of numbers under the sum of their distances, or the largest."""

    def test_it_conforms(self, metric: Any) -> None:
        """Ratios of rows add up to the loss of either metric, and reach it."""
        report = conform(
            MetricProduct(TruncatedGeometric("1/2", 1, 6), 3, metric), samples=5000, bits=SeededBits(7)
        )
        assert report.conforms, report.table()


class TestPlanarLaplace(Conformance):
    """Places, by d_2."""

    def made(self) -> "partial[Any]":
        """A lattice finer than the noise."""
        return partial(PlanarLaplace, epsilon="1/5", quantum=1)


class TestPlanarManhattan(Conformance):
    """Places, by d_1."""

    def made(self) -> "partial[Any]":
        """A lattice finer than the noise."""
        return partial(PlanarManhattan, epsilon="1/5", quantum=1)


class TestVectorLaplace(Conformance):
    """Vectors, by d_1."""

    def made(self) -> "partial[Any]":
        """Five numbers."""
        return partial(VectorLaplace, epsilon="1/5", quantum=HALF, n=5)


class TestNoisyMax(Conformance):
    """The largest, with noise."""

    def made(self) -> "partial[Any]":
        """Among five."""
        return partial(NoisyMax, epsilon=HALF, quantum=1, n=5)


class TestExponential(Conformance):
    """The largest, weighed: the loss is approached where one outweighs all others, and not reached."""

    samples, tight = 1500, False
    pairs = tuple(islice(Windows(3).pairs(), 24))

    def made(self) -> "partial[Any]":
        """Among three."""
        return partial(Exponential, epsilon=HALF, quantum=1, n=3)

    def other(self, factor: Fraction) -> Any:
        """So few draws show 30 %."""
        return super().other(1 + 3 * (factor - 1))


@dataclass(frozen=True)
class GaussianPair:
    """The discrete Gaussian's promise at its radius: (1, delta(1)) between windows no further apart."""

    noise: DiscreteGaussian

    @property
    def space(self) -> Any:
        """That of the noise."""
        return self.noise.space

    @property
    def guarantee(self) -> Guarantee:
        """Epsilon 1, and the delta that it needs."""
        return Guarantee(Fraction(1), Fraction(self.noise.delta(1, self.noise.radius)))

    def release(self, points: Any, *, bits: Bits | None = None) -> NDArray[Any]:
        """That of the noise."""
        return self.noise.release(points, bits=bits)

    def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
        """That of the noise."""
        return self.noise.log_mass(outputs, point)


class TestDiscreteGaussian(Conformance):
    """Windows within a radius."""

    pairs = (((0, 0), (4, 4)), ((4, 4), (0, 0)), ((1, 3), (5, -1)))

    def made(self) -> "partial[Any]":
        """Two slots."""
        return partial(self._pair, rho=HALF)

    @staticmethod
    def _pair(rho: Fraction) -> GaussianPair:
        return GaussianPair(DiscreteGaussian(rho, 4, 1, 2))

    scaled = "rho"  # of the variance

    def other(self, factor: Fraction) -> Any:
        """10 % of the scale are 21 % of the variance."""
        return super().other(factor**2)


# Calibration --------------------------------------------------------------------------------------


def coin_and_ratios(count: int, scale: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """T and coins where the true log ratio of y is `scale` times T, T being normal."""
    generator = np.random.default_rng(1)
    t = generator.normal(size=count)
    return t, generator.random(count) < special.expit(scale * t)


def test_calibration_is_about_the_scale_of_ratios() -> None:
    """Right ratios pass; ratios 20 % too large or too small do not; nor does a side that is too frequent."""
    for scale, is_right in ((1.0, True), (0.8, False), (1.2, False)):
        side, slope, variance = calibration(*coin_and_ratios(60_000, scale))
        assert side > 1e-6
        assert (slope > 1e-6) is is_right
        # V = E[T^2 h (1-h)] = 0.17 a draw.
        assert variance / 60_000 == pytest.approx(0.17, abs=0.03)
    t, second = coin_and_ratios(60_000, 1.0)
    assert calibration(t + 0.1, second)[0] < 1e-6


def test_calibration_holds_its_error_rate() -> None:
    """Over 2000 small samples of right ratios p falls below 5 % in no more of them."""
    t, second = coin_and_ratios(2000 * 30, 1.0)
    found = [calibration(t[i : i + 30], second[i : i + 30])[:2] for i in range(0, t.size, 30)]
    assert (np.array(found) < 0.05).mean(axis=0).max() <= 0.05


def test_what_cannot_happen_has_p_0() -> None:
    """An output that its point cannot release refutes the mass at once; one that only it can does not."""
    certain = np.array([math.inf, -math.inf])
    assert calibration(certain, np.array([True, False]))[:2] == (1.0, 1.0)
    assert calibration(certain, np.array([False, False]))[:2] == (0.0, 0.0)


# The promise --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lossy(Control):
    """A control with a loss that tests replace."""

    how: Any = None

    def loss(self, distance: Any) -> Any:
        """As the test has it."""
        return self.how(distance)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        (lambda d: Fraction(d) + 1, "not 0 at 0"),
        (float, "not a Fraction"),
        (lambda d: Fraction(d) * (7 - Fraction(d)), "falls"),
        (Fraction, "takes a float; it takes a negative"),
    ],
)
def test_a_loss_is_one(how: Any, found: str) -> None:
    """A loss that is not 0 at 0, not exact, falling, or of what is no distance is named."""
    check = loss_is_one(Lossy(2, HALF, honest, how=how))
    assert not check.passed
    assert found in check.found
    assert loss_is_one(Control(2, HALF, honest)).passed


def test_float_parameters_are_named() -> None:
    """Each numeric keyword is tried as a float; those that are taken are named, other ones are left alone."""
    assert parameters_are_exact(partial(Laplace, epsilon="1/2", quantum=1)).passed
    check = parameters_are_exact(partial(dict, epsilon="1/2", name="x", n=3))
    assert not check.passed
    assert check.found == "floats are taken for ['epsilon', 'n']"


class Boastful(PairDrawn):
    """It says that a hundredth less of delta is enough."""

    @property
    def guarantee(self) -> Guarantee:
        """With too small a delta."""
        epsilon, delta = super().guarantee
        return Guarantee(epsilon, delta * Fraction(99, 100))


@pytest.mark.parametrize(("kind", "kept"), [(PairDrawn, True), (Boastful, False)])
def test_a_pair_is_held_to_its_delta(kind: type[PairDrawn], kept: bool) -> None:
    """A delta that is 1 % too small for its epsilon is refused, by the exact sum over all outputs."""
    mechanism = Categorical(Categories("abcd"), 1, "1/10")
    stick = conform(kind(mechanism, mechanism), samples=1000, bits=SeededBits(1)).checks[0]
    assert stick.figures["needed"] == pytest.approx(0.1, rel=1e-9)
    assert stick.passed is kept
    assert stick.found.startswith("exactly")


# The report ---------------------------------------------------------------------------------------


def test_a_report_is_data_and_a_table() -> None:
    """A line for each check, the verdict first; all figures are JSON; equal bits make equal reports."""
    mechanism = Laplace(THIRD, 1)
    report = conform(mechanism, samples=1000, bits=SeededBits(1))
    assert report.conforms
    assert report == conform(mechanism, samples=1000, bits=SeededBits(1))
    lines = report.table().splitlines()
    assert lines[0].endswith("conforms")
    assert len(lines) == len(report.checks) + 2
    figures = json.loads(json.dumps(report.figures()))
    assert figures["conforms"] is True
    assert [check["name"] for check in figures["checks"]][:3] == [
        "loss",
        "ratio within the loss",
        "loss reached",
    ]


class Nothing:
    """No mechanism."""


def test_what_is_missing_is_named() -> None:
    """A mechanism without a method, a promise, or points at a distance is refused with what it lacks."""
    with pytest.raises(Unusable, match="space, release, log_mass, loss or guarantee"):
        conform(Nothing())  # type: ignore[arg-type]
    with pytest.raises(Unusable, match="loss or guarantee"):
        conform(DiscreteGaussian(HALF, 4, 1, 2))
    with pytest.raises(Unusable, match="give `pairs`"):
        conform(Laplace(1, 1), pairs=[(1, 1)])


# The command --------------------------------------------------------------------------------------

MODULE = """
from meteragent.privacy.mechanism.number import Laplace
from tests.controls import Control, scalar
from fractions import Fraction

fixed = Laplace("1/3", 1)
wrong = Control(3, Fraction(1, 3), scalar)
def factory(epsilon): return Laplace(epsilon, 1)
class Nothing: pass
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Somebody's own module in the current directory."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def test_the_command_tries_classes_factories_and_mechanisms(
    own: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is named is made of exact keywords where it must be; 0 if it conforms, 3 if not, with a table."""
    options = ["--samples", "2000", "--seed", "1"]
    assert main([f"{own}:fixed", *options]) == CONFORMS == 0
    assert main([f"{own}:factory", "epsilon=1/4", *options]) == CONFORMS
    assert main([f"{own}:Laplace", "epsilon=1/4", "quantum=2", *options]) == CONFORMS
    out = capsys.readouterr().out
    assert "ok parameters" in out
    assert "floats are refused" in out
    assert main([f"{own}:wrong", *options]) == VIOLATED == 3
    assert "NO black box" in capsys.readouterr().out


def test_the_command_writes_json(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--json is the report's figures; with a seed they repeat."""
    arguments = [f"{own}:fixed", "--samples", "1000", "--seed", "4", "--json"]
    main(arguments)
    first = capsys.readouterr().out
    main(arguments)
    assert capsys.readouterr().out == first
    assert json.loads(first)["samples"] == 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.such.module:Name"], "No module named"),
        (["{own}:Missing"], "no attribute 'Missing'"),
        (["{own}"], "write package.module:Name"),
        (["{own}:Laplace", "epsilon"], "key=value"),
        (["{own}:Laplace", "epsilon=1"], "takes other parameters: .*quantum"),
        (["{own}:Laplace", "epsilon=x", "quantum=1"], "takes other parameters: .*finite number"),
        (["{own}:Nothing"], "space, release, log_mass"),
    ],
)
def test_the_command_says_what_it_cannot_try(
    own: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name, a parameter or a method that is missing: exit 2, and a line that says which."""
    assert main([argument.format(own=own) for argument in arguments]) == UNUSABLE == 2
    assert re.search(said, capsys.readouterr().err)


def test_the_command_is_a_module() -> None:
    """`python -m meteragent.privacy.conformance` runs as said in the documentation."""
    name = "meteragent.privacy.mechanism.number:Laplace"
    command = [sys.executable, "-m", "meteragent.privacy.conformance", name, "epsilon=1/220", "quantum=1"]
    done = subprocess.run(
        [*command, "--samples", "500"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "conforms" in done.stdout
