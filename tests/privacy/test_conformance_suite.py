"""The conformance suite names each fault; as a library and a command it says what is wrong, or missing."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.conformance import UnsupportedMechanism, calibration_p_values, conform
from meteragent.privacy.conformance.__main__ import CONFORMS, UNSUPPORTED, VIOLATED, main
from meteragent.privacy.conformance.promise import check_loss, check_parameters
from meteragent.privacy.conformance.trial import PointPair, Trial
from meteragent.privacy.mechanism.base import Guarantee
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace
from meteragent.privacy.mechanism.sanitisation import LaplaceSanitisation
from meteragent.privacy.space import Categories, Numbers
from tests.support.controls import Control, honest
from tests.support.mechanism_contract import PairDrawn
from tests.support.not_run import ROOT

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
ONLY_BITS = "randomness comes only from the given bits"
"""The name of a check."""


# Calibration --------------------------------------------------------------------------------------


def coin_and_ratios(count: int, scale: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """T and coins where the true log ratio of y is `scale` times T, T being normal."""
    generator = np.random.default_rng(1)
    t = generator.normal(size=count)
    return t, generator.random(count) < special.expit(scale * t)


def test_calibration_is_about_the_scale_of_ratios() -> None:
    """Right ratios pass; ratios 20% too large or too small do not; nor does a side that is too frequent."""
    for scale, is_right in ((1.0, True), (0.8, False), (1.2, False)):
        side, slope, variance = calibration_p_values(*coin_and_ratios(60_000, scale))
        assert side > 1e-6
        assert (slope > 1e-6) is is_right
        # V = E[T^2 h (1-h)] = 0.17 a draw.
        assert variance / 60_000 == pytest.approx(0.17, abs=0.03)
    t, second = coin_and_ratios(60_000, 1.0)
    assert calibration_p_values(t + 0.1, second)[0] < 1e-6


def test_calibration_holds_its_error_rate() -> None:
    """Over 2000 small samples of right ratios p falls below 5% in no more of them."""
    t, second = coin_and_ratios(2000 * 30, 1.0)
    found = [calibration_p_values(t[i : i + 30], second[i : i + 30])[:2] for i in range(0, t.size, 30)]
    assert (np.array(found) < 0.05).mean(axis=0).max() <= 0.05


def test_calibration_is_bernstein_s_bound() -> None:
    """60 heads of 100 for points as likely: t = 10, V = 25, B = 1, and p = 2 e^(-t^2/(2(V + Bt/3)))."""
    side = calibration_p_values(np.zeros(100), np.arange(100) < 60)[0]
    assert side == pytest.approx(2 * math.exp(-100 / (2 * (25 + 10 / 3))))
    assert side > stats.binomtest(60, 100).pvalue


def test_what_cannot_happen_has_p_0() -> None:
    """An output that its point cannot release refutes the mass at once; one that only it can does not."""
    certain = np.array([math.inf, -math.inf])
    assert calibration_p_values(certain, np.array([True, False]))[:2] == (1.0, 1.0)
    assert calibration_p_values(certain, np.array([False, False]))[:2] == (0.0, 0.0)


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
        (lambda d: Fraction(d) * (7 - Fraction(d)), "decreases"),
        (Fraction, "accepts a float; it accepts a negative"),
    ],
)
def test_a_loss_is_one(how: Any, found: str) -> None:
    """A loss that is not 0 at 0, not exact, falling, or defined for negative distances is named."""
    check = check_loss(Lossy(2, HALF, honest, how=how))
    assert not check.passed
    assert found in check.finding
    assert check_loss(Control(2, HALF, honest)).passed


def test_float_parameters_are_named() -> None:
    """Each numeric keyword is tried as a float; those that are taken are named, other ones are left alone."""
    assert check_parameters(partial(Laplace, epsilon="1/2", quantum=1)).passed
    assert check_parameters(partial(dict, epsilon=Decimal("Infinity"), name="x")).passed
    check = check_parameters(partial(dict, epsilon="1/2", name="x", n=3))
    assert not check.passed
    assert check.finding == "floats are accepted for ['epsilon', 'n']"


class Boastful(PairDrawn):
    """It says that a hundredth less of delta is enough."""

    @property
    def guarantee(self) -> Guarantee:
        """With too small a delta."""
        epsilon, delta = super().guarantee
        return Guarantee(epsilon, delta * Fraction(99, 100))


@pytest.mark.parametrize(("kind", "kept"), [(PairDrawn, True), (Boastful, False)])
def test_a_pair_is_held_to_its_delta(kind: type[PairDrawn], kept: bool) -> None:
    """A delta that is 1% too small for its epsilon is refused, by the exact sum over all outputs."""
    mechanism = Categorical(Categories("abcd"), 1, "1/10")
    stick = conform(kind(mechanism, mechanism), samples=1000, bits=SeededBits(1)).checks[0]
    assert stick.figures["needed"] == pytest.approx(0.1, rel=1e-9)
    assert stick.passed is kept
    assert stick.finding.startswith("exactly")


# The draws ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bent:
    """Noise on numbers, of which `how` does something else with the points and the bits."""

    how: Callable[[Laplace, Any, Bits | None], Any]
    right: Laplace = Laplace(THIRD, 1)  # noqa: RUF009 -- it is a value

    @property
    def space(self) -> Numbers:
        """That of the right one."""
        return self.right.space

    def loss(self, distance: Fraction, /) -> Fraction:
        """That of the right one."""
        return self.right.loss(distance)

    def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
        """That of the right one."""
        return self.right.log_mass(outputs, point)

    def release(self, points: Any, *, bits: Bits | None = None) -> Any:
        """As it is bent."""
        return self.how(self.right, points, bits)


def added_to(right: Laplace, points: Any, bits: Bits | None) -> Any:
    """Noise is added to the points in place."""
    points[...] = right.release(points, bits=bits)
    return points.copy()


def twice(right: Laplace, points: Any, bits: Bits | None) -> Any:
    """Every second number gets the noise of the one before it."""
    noise = (right.release(points, bits=bits) - points).ravel()
    noise[1::2] = noise[: noise.size // 2 * 2 : 2]
    return points + noise.reshape(points.shape)


BENT = {
    "as it is": ((), lambda right, points, bits: right.release(points, bits=bits)),
    "in one row": (("shapes",), lambda right, points, bits: right.release(points, bits=bits).ravel()),
    "in place": (("shapes",), added_to),
    "with other bits": (
        (ONLY_BITS,),
        lambda right, points, _: right.release(points),
    ),
    "with one seed for any bits": (
        (ONLY_BITS,),
        lambda right, points, bits: right.release(points, bits=bits and SeededBits(1)),
    ),
    "with a seed unless bits are given": (
        (ONLY_BITS,),
        lambda right, points, bits: right.release(points, bits=bits or SeededBits(1)),
    ),
    "in pairs": (("draws are independent",), twice),
    "even numbers": (
        ("frequencies",),
        lambda right, points, bits: right.release(points, bits=bits) // 2 * 2,
    ),
    "to and fro": (
        ("draws are calibrated",),
        lambda right, points, bits: 2 * points - right.release(2 * points, bits=bits) + 1,
    ),
}


@pytest.mark.parametrize("name", BENT)
def test_each_fault_has_its_check(name: str) -> None:
    """Shapes, points changed in place, other bits, shared noise, a wrong law: each is named by its check."""
    caught, how = BENT[name]
    failed = conform(Bent(how), samples=6000, false_alarm=1e-9, bits=SeededBits(3)).failed
    assert all(any(name.startswith(start) for name in failed) for start in caught)
    assert bool(failed) == bool(caught)


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


class Steep(LInfLaplace):
    """Its masses differ three times as much as it promises, and it shows itself at length."""

    def log_mass(self, outputs: Any, window: Any) -> NDArray[np.float64]:
        """Three times the log mass."""
        return 3 * super().log_mass(outputs, window)

    def __repr__(self) -> str:
        """More than a page is wide."""
        return "Steep(" + "1, " * 800


@pytest.mark.parametrize("width", [100, 80])
def test_a_table_is_as_wide_as_a_page(width: int) -> None:
    """Windows of 30 slots are named in a few words, a long name is that of the class, lines are wrapped."""
    report = conform(Steep("1/40", 1, 30), samples=1000, bits=SeededBits(1))
    lines = report.table(width).splitlines()
    assert lines[0].startswith("Steep does NOT conform: ")
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "FAILED ratio within the loss at most 3 times the loss at " in text
    assert not re.search(r"(\d+, ){3}", text)


class Voids(Bent):
    """It has no mass where it often is."""

    def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
        """None at 2."""
        return np.where(np.asarray(outputs) == 2, -np.inf, super().log_mass(outputs, point))


class NoNumber(Bent):
    """Its mass is somewhere not a number."""

    def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
        """Not at 2."""
        return np.where(np.asarray(outputs) == 2, np.nan, super().log_mass(outputs, point))


class Boasting(Bent):
    """It promises a tenth less than its mass keeps."""

    def loss(self, distance: Fraction, /) -> Fraction:
        """Too little."""
        return super().loss(distance) * Fraction(9, 10)


def test_a_loss_that_is_too_small_is_refused_by_the_ratio() -> None:
    """Where the mass is honest, the ratio says by how much the promise is broken; draws have no complaint."""
    report = conform(Boasting(BENT["as it is"][1]), samples=500, bits=SeededBits(1))
    assert report.failed == ["ratio within the loss"]
    assert report.checks[1].figures["worst"] == pytest.approx(10 / 9)


def test_what_leaves_has_mass() -> None:
    """An output to which log_mass gives nothing at any point refutes it; no number at all is unusable."""
    right = BENT["as it is"][1]
    assert "draws are calibrated" in conform(Voids(right), samples=200, bits=SeededBits(1)).failed
    with pytest.raises(UnsupportedMechanism, match="is NaN"):
        conform(NoNumber(right), samples=200, bits=SeededBits(1))


class Nothing:
    """No mechanism."""


def test_what_is_missing_is_named() -> None:
    """A mechanism without a method, a promise, or points at a distance is refused with what it lacks."""
    right: Any = Laplace(1, 1)
    with pytest.raises(UnsupportedMechanism, match="space, release, log_mass, loss or guarantee"):
        conform(Nothing())  # type: ignore[arg-type]
    with pytest.raises(UnsupportedMechanism, match="loss or guarantee"):
        conform(SimpleNamespace(space=right.space, release=right.release, log_mass=right.log_mass))
    with pytest.raises(UnsupportedMechanism, match="give `pairs`"):
        conform(right, pairs=[(1, 1)])


# The command --------------------------------------------------------------------------------------

MODULE = """
from meteragent.privacy.mechanism.number import Laplace
from tests.support.controls import Control, scalar
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
    assert "ok      parameters" in out
    assert "floats are refused" in out
    assert main([f"{own}:wrong", *options]) == VIOLATED == 3
    assert "FAILED  black box" in capsys.readouterr().out


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
        (["{own}:Laplace", "epsi-lon=1"], "key=value"),
        (["math:pi"], "pi is not a mechanism and cannot create one"),
        (["{own}:Laplace", "epsilon=1"], "takes other parameters: .*quantum"),
        (["{own}:Laplace", "epsilon=x", "quantum=1"], "takes other parameters: .*finite number"),
        (["{own}:Nothing"], "space, release, log_mass"),
    ],
)
def test_the_command_says_what_it_cannot_try(
    own: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name, a parameter or a method that is missing: exit 2, and a line that says which."""
    assert main([argument.format(own=own) for argument in arguments]) == UNSUPPORTED == 2
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


def test_points_of_a_pair_mechanism_are_not_moved_apart() -> None:
    """A pair (epsilon, delta) holds at every distance: there is no loss that a larger one would raise."""
    assert conform(LaplaceSanitisation(Numbers(0, 5, 1), "1/2", 0), samples=2000, bits=SeededBits(1)).conforms


def test_the_most_telling_pairs_are_nearest_to_a_loss_of_two() -> None:
    """Each point counts with its best pair, however far its other pairs are from a loss of 2."""
    losses = {("a", "b"): 2.1, ("a", "c"): 90.0, ("b", "a"): 2.5, ("c", "a"): 9.0, ("c", "b"): 3.0}
    pairs = [PointPair(x, x_prime, loss) for (x, x_prime), loss in losses.items()]
    mechanism = Categorical(Categories("abc"), 1, "1/10")
    trial = Trial(mechanism, pairs, 1, SeededBits(1))
    chosen = [(pair.x, pair.x_prime) for pair in trial.most_telling_pairs(2)]
    assert chosen == [("a", "b"), ("b", "a")]
