"""Mechanisms of OpenDP and diffprivlib keep their promises here, and broken ones are found by draws alone."""

from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from diffprivlib.mechanisms import Geometric, Laplace, Vector

from meteragent.privacy.conformance import conform
from simulators import __main__ as simulators
from simulators.peers import Diffprivlib, OpenDP, diffprivlib_laplace, opendp_laplace

dp.enable_features("contrib")
INTEGERS = dp.vector_domain(dp.atom_domain(T=int))


@pytest.mark.parametrize(
    "mechanism",
    [
        opendp_laplace("1/4", n=2),
        diffprivlib_laplace("1/4", n=2),
        Diffprivlib(Geometric(epsilon=0.5, sensitivity=2), 1),
    ],
    ids=["opendp", "diffprivlib", "geometric"],
)
@pytest.mark.statistical
def test_they_conform(mechanism: Any) -> None:
    """Their promises hold in the suite, which refuses a true one with a chance of 1e-6."""
    report = conform(mechanism, samples=600)
    assert report.conforms, report.table()
    assert sum(check.name.startswith("black box") for check in report.checks) >= 1


@pytest.mark.parametrize(
    "mechanism",
    [
        OpenDP(dp.m.make_laplace(INTEGERS, dp.l1_distance(T=int), scale=4.0), 1),
        Diffprivlib(Laplace(epsilon=0.25, sensitivity=1), 1),
    ],
    ids=["opendp", "diffprivlib"],
)
@pytest.mark.statistical
def test_a_promise_that_is_too_good_is_refused(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a third of the true loss, draws refute the claim: a loss of 6 is missed in 1e-9 of runs."""
    true_loss = type(mechanism).loss
    monkeypatch.setattr(type(mechanism), "loss", lambda self, distance: true_loss(self, distance) / 3)
    report = conform(mechanism, samples=1500)
    assert any(name.startswith("black box") for name in report.failed), report.table()


def test_the_loss_is_the_library_s() -> None:
    """OpenDP states the loss of n slots; diffprivlib's counts sensitivities in every slot."""
    measurement = dp.m.make_laplace(INTEGERS, dp.l1_distance(T=int), scale=8.0)
    assert OpenDP(measurement, 3).loss(5) == Fraction(15, 8)
    assert OpenDP(measurement, 3, quantum=5).loss(5) == Fraction(3, 8)
    doubled = Diffprivlib(Laplace(epsilon=0.5, sensitivity=2), 3)
    assert [doubled.loss(d) for d in (0, 1, 2, 3)] == [0, Fraction(3, 2), Fraction(3, 2), 3]
    assert float(opendp_laplace("1/4", n=2).loss(1)) == pytest.approx(0.25)
    assert float(diffprivlib_laplace("1/4", n=2).loss(1)) == pytest.approx(0.25)


def test_windows_keep_their_shape() -> None:
    """Any batch of windows is released slot by slot, in its shape."""
    for mechanism in (opendp_laplace("1/4", n=3), diffprivlib_laplace("1/4", n=3)):
        assert mechanism.release(np.zeros((2, 5, 3), int)).shape == (2, 5, 3)


def test_what_has_no_loss_by_distance_is_refused() -> None:
    """A measurement of another privacy measure, a delta, and a mechanism of no numbers are refused."""
    gaussian = dp.m.make_gaussian(INTEGERS, dp.l2_distance(T=float), scale=4.0)
    with pytest.raises(ValueError, match=r"MaxDivergence and one of .*, not ZeroConcentratedDivergence"):
        OpenDP(gaussian, 2)
    with pytest.raises(ValueError, match="with a delta"):
        Diffprivlib(Laplace(epsilon=1, delta=0.1, sensitivity=1), 2)
    with pytest.raises(TypeError, match="Vector has no sensitivity"):
        Diffprivlib(Vector(epsilon=1, function_sensitivity=1, dimension=2), 2)


def test_the_attackers_take_them(capsys: pytest.CaptureFixture[str]) -> None:
    """`attack` measures them beside ours, without the attacker that needs the law."""
    options = ["--slots", "2", "--size", "4", "--trials", "60", "--seed", "1"]
    names = [
        "simulators.peers:opendp_laplace epsilon=1/40",
        "simulators.peers:diffprivlib_laplace epsilon=1/40",
    ]
    mechanisms = [option for name in names for option in ("--mechanism", name)]
    assert simulators.main(["attack", "programmes", *options, *mechanisms]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in names)
    assert "bayes" not in shown
    assert "averaging" in shown
