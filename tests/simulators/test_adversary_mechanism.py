"""Mechanisms and attackers by name, ours and anybody's, and what each promises."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meteragent.privacy import LInfLaplace, SeededBits, sd
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.measure import measure
from simulators.adversary.mechanism import MECHANISMS, Average, rival
from simulators.adversary.named import Unusable, made
from simulators.adversary.scene import library

SCENE = library("?", [[0] * 6, [10] * 6], Fraction(1))
DRAWS = 4000


def spread(name: str) -> float:
    """The standard deviation of a slot's noise."""
    noisy = rival(name, SCENE).mechanism.release(np.zeros((DRAWS, 6), np.int64), bits=SeededBits(0))
    return float(np.asarray(noisy).std())


@pytest.mark.parametrize(
    ("name", "scale"),
    [("independent epsilon=1/5", 30), ("per-reading epsilon=1/5", 5), ("telegraf scale=7", 7)],
)
def test_independent_noises_have_their_scale(name: str, scale: float) -> None:
    """n/epsilon, 1/epsilon, and what somebody chose: the standard deviation is sqrt 2 of it, within 3 %."""
    assert spread(name) == pytest.approx(np.sqrt(2) * scale, rel=0.03)


def test_ours_is_ours() -> None:
    """`linf` is the l_inf Laplace mechanism on windows of the scene, and promises what it says."""
    one = rival("linf epsilon=1/5", SCENE)
    assert one.mechanism == one.promise == LInfLaplace("1/5", 1, 6)
    assert spread("linf epsilon=1/5") == pytest.approx(sd(LInfLaplace("1/5", 1, 6)), rel=0.05)


@pytest.mark.parametrize("name", ["independent epsilon=1/5", "per-reading epsilon=1/5"])
def test_what_is_claimed_is_epsilon_on_windows(name: str) -> None:
    """Both are said to be epsilon d_inf-private; only the first is."""
    one = rival(name, SCENE)
    assert one.promise == LInfLaplace("1/5", 1, 6)
    true: Any = one.mechanism
    assert true.loss(Fraction(1)) == Fraction(1, 5) * (6 if "per-reading" in name else 1)


@pytest.mark.parametrize("name", ["telegraf scale=7", "average slots=2", "none"])
def test_some_promise_nothing(name: str) -> None:
    """Noise of a chosen scale, means and nothing at all have no promise to break."""
    assert rival(name, SCENE).promise is None


def test_a_mean_stands_for_its_slots() -> None:
    """Means of three slots, rounded by floor(x + 1/2), in place of each; as certain as they are."""
    mean = Average(3, 6)
    assert mean.release([[1, 2, 4, -1, 0, -1]]).tolist() == [[2, 2, 2, -1, -1, -1]]
    assert mean.release([[0, 0, -1, 1, 1, -1]]).tolist() == [[0, 0, 0, 0, 0, 0]]
    assert Average(2, 2).release([1, 2]).tolist() == [2, 2]
    assert mean.log_mass([[2] * 3 + [-1] * 3, [2] * 6], [1, 2, 4, -1, 0, -1]).tolist() == [0, -np.inf]
    assert Average(1, 6).release([[1, 2, 3, 4, 5, 6]]).tolist() == [[1, 2, 3, 4, 5, 6]]
    for slots in (0, 4):
        with pytest.raises(ValueError, match="divide a window of 6"):
            Average(slots, 6)


# Anybody's ----------------------------------------------------------------------------------------


class Mine:
    """A mechanism of somebody's: no noise, and the promise of a tenth."""

    def __init__(self, n: int, epsilon: Fraction, extra: str = "none") -> None:
        self.n, self.epsilon, self.extra = n, epsilon, extra

    def release(self, windows: Any, *, bits: Any = None) -> Any:
        """The windows."""
        return windows

    def loss(self, distance: Fraction) -> Fraction:
        """What it says."""
        return distance / 10


MINE = "tests.simulators.test_adversary_mechanism:Mine"
READY = Mine(6, Fraction(1))


def test_anybodys_mechanism_gets_what_it_takes() -> None:
    """The scene's slots and what is offered, unless it was given; its loss is its promise."""
    one = rival(f"{MINE} extra=1/3", SCENE, epsilon=Fraction(1, 7))
    mine: Any = one.mechanism
    assert (mine.n, mine.epsilon, mine.extra) == (6, Fraction(1, 7), "1/3")
    assert one.promise == LInfLaplace("1/10", 1, 6)
    fine = library("?", [[0] * 6, [10] * 6], Fraction(1, 4))
    assert rival(MINE, fine, epsilon=1).promise == LInfLaplace("1/10", "1/4", 6)
    given: Any = rival(f"{MINE} n=2 epsilon=x", SCENE, epsilon=Fraction(1, 7)).mechanism
    assert (given.n, given.epsilon) == (2, "x")
    ready: Any = rival("tests.simulators.test_adversary_mechanism:READY", SCENE).mechanism
    assert ready is READY


class Slightly:
    """Noise a tenth less than its promise of 1/40 asks for; its law is not said."""

    def release(self, windows: Any, *, bits: Any = None) -> Any:
        """The windows with that noise."""
        return LInfLaplace("1/36", 1, 1).release(windows, bits=bits)

    def loss(self, distance: Fraction) -> Fraction:
        """What it says."""
        return distance / 40


def test_what_may_be_chance_breaks_no_promise() -> None:
    """Above the bound by 95 %'s interval is not yet broken; with 20 times the trials it is."""
    scene = library("?", [[0], [80]], Fraction(1))
    one = rival("tests.simulators.test_adversary_mechanism:Slightly", scene)
    few, many = (measure(scene, one, ["averaging"], trials, 0) for trials in (3000, 60_000))
    assert few.bound is not None
    assert few.worst.low > few.bound
    assert not few.broken
    assert many.broken


def test_modules_of_the_current_directory_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the user is a module, as for the conformance suite."""
    (tmp_path / "an_own_attacker.py").write_text(
        "class One:\n    def __init__(self, k):\n        self.k = k\n"
    )
    monkeypatch.chdir(tmp_path)
    assert made("an_own_attacker:One k=-3", ATTACKERS).k == -3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("linf", "linf takes other parameters"),
        ("linf epsilon=0", "above"),
        ("linf epsilon", "key=value"),
        ("linf epsilon=1 epsilon=2", "each once"),
        ("linf scale=1", "takes other parameters"),
        ("average slots=4", "divide"),
        ("average slots=1.5", "takes other parameters"),
        ("laplace", "linf, independent, per-reading, telegraf, average, none"),
        ("", "nor a package"),
        ("no_such_package:One", "no_such_package"),
        ("tests.simulators.test_adversary_mechanism:Nothing", "Nothing"),
        ("tests.simulators.test_adversary_mechanism:DRAWS", "no release"),
    ],
)
def test_what_cannot_be_made_is_named(text: str, why: str) -> None:
    """A name or a parameter that is wrong is refused with what would be right."""
    with pytest.raises(Unusable, match=why):
        rival(text, SCENE)


def test_names_are_listed_where_they_are_explained() -> None:
    """Every mechanism and attacker is in the table of its module."""
    for module, names in (("mechanism", MECHANISMS), ("attackers", ATTACKERS)):
        text = __import__(f"simulators.adversary.{module}", fromlist=["x"]).__doc__ or ""
        assert all(f"| {name} |" in text for name in names)
