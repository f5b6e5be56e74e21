"""Mechanisms and attackers by name, ours and anybody's, and what each promises."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meteragent.privacy import LInfLaplace, SeededBits, conformance, sd
from simulators.__main__ import main
from simulators.adversary import report
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.measure import measure
from simulators.adversary.mechanism import MECHANISMS, Average, rival
from simulators.adversary.named import Unusable, make
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
    """n/epsilon, 1/epsilon, and what somebody chose: the standard deviation is sqrt 2 of it, within 3%."""
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
        with pytest.raises(ValueError, match="divides a window of 6"):
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
    """Above the bound by 95%'s interval is not yet broken; with 20 times the trials it is."""
    scene = library("?", [[0], [80]], Fraction(1))
    one = rival("tests.simulators.test_adversary_mechanism:Slightly", scene)
    few, many = (measure(scene, one, ["averaging"], trials, 0) for trials in (3000, 60_000))
    assert few.bound is not None
    assert few.worst.low > few.bound
    assert not few.is_broken
    assert many.is_broken
    assert "**in doubt**: give more --trials" in report.table(scene, [few], 0)
    assert "**broken**" in report.table(scene, [many], 0)


def test_modules_of_the_current_directory_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the user is a module, as for the conformance suite."""
    (tmp_path / "an_own_attacker.py").write_text(
        "class One:\n    def __init__(self, k):\n        self.k = k\n"
    )
    monkeypatch.chdir(tmp_path)
    assert make("an_own_attacker:One k=-3", ATTACKERS).k == -3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("linf", "linf refuses these parameters"),
        ("linf epsilon=0", "positive"),
        ("linf epsilon", "key=value"),
        ("linf epsilon=1 epsilon=2", "each parameter once"),
        ("linf scale=1", "refuses these parameters"),
        ("linf eps=1/40", "its parameters are: epsilon$"),
        ("average slots=4", "divide"),
        ("average slots=1.5", "refuses these parameters"),
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


def docstring_mechanism(folder: Path) -> None:
    """Save the mechanism of the conformance suite's docstring as own.py."""
    lines = [
        line[8:]
        for line in (conformance.__doc__ or "").splitlines()
        if line.startswith(("    >>> ", "    ... "))
    ]
    code = "\n".join(line for line in lines if not line.startswith("conform("))
    (folder / "own.py").write_text(code + "\n")


def test_what_conforms_can_be_attacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mechanism of the conformance suite's docstring is applied slot by slot, and keeps n epsilon."""
    docstring_mechanism(tmp_path)
    monkeypatch.chdir(tmp_path)
    one = rival("own:Mine epsilon=1/10", SCENE)
    ours = rival("per-reading epsilon=1/10", SCENE)
    assert one.promise == LInfLaplace(Fraction(6, 10), 1, 6)
    outputs = SCENE.points[:, 0]
    expected = ours.mechanism.log_mass(outputs, outputs[1])
    assert one.mechanism.log_mass(outputs, outputs[1]) == pytest.approx(expected)
    arguments = ["attack", "programmes", "--size", "4", "--slots", "6", "--trials", "400"]
    assert main([*arguments, "--mechanism", "own:Mine epsilon=1/10"]) == 0
    assert "own:Mine epsilon=1/10" in capsys.readouterr().out


class Scalar:
    """Adds nothing; its masses have the wrong shape, or it fails."""

    def __init__(self, how: str) -> None:
        self.how = how

    def release(self, windows: Any, *, bits: Any = None) -> Any:
        """Drop a slot, or fail."""
        if self.how == "raises":
            raise ValueError("a number, please")
        return np.asarray(windows)[..., 1:]

    def log_mass(self, outputs: Any, point: Any) -> Any:
        """One number for everything, or for each window."""
        if self.how == "fails":
            raise IndexError("too many indices")
        return np.zeros(()) if self.how == "scalar" else np.zeros(len(outputs) + 0 * len(point))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("scalar", r"one number for each window, shape \(1,\).* it returns \(\)"),
        ("fails", "log_mass fails on a window of 6 slots: too many"),
        ("raises", r"release fails on windows of shape \(40, 1, 6\): a number, please"),
        ("drops", r"keep the shape \(40, 1, 6\); it returns \(40, 1, 5\)"),
    ],
)
def test_what_takes_no_windows_is_named(how: str, why: str) -> None:
    """A mechanism that takes neither windows nor single numbers is refused, with what it returns."""
    text = f"tests.simulators.test_adversary_mechanism:Scalar how={how}"
    with pytest.raises(Unusable, match=why):
        measure(SCENE, rival(text, SCENE), ["edges"], 40, 0)
