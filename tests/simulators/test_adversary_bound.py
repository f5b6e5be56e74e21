"""What no attacker beats, and what the odds may change by."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy import LatticePair, LInfLaplace, sd, success_bound
from meteragent.privacy.certificate import Library, certify, mixture
from simulators.adversary import bound, library
from simulators.adversary.measure import measure
from simulators.adversary.mechanism import Average, rival
from simulators.adversary.scene import Scene, with_or_without
from simulators.adversary.scene import library as one_each
from tests.support.best_attack import best_attack

W = Fraction(1)
PROGRAMMES = library.programmes(12, 8, 0)


def windows(slots: int) -> st.SearchStrategy[list[int]]:
    """Windows of small numbers."""
    return st.lists(st.integers(-30, 30), min_size=slots, max_size=slots)


# The odds -----------------------------------------------------------------------------------------


@given(slots=st.integers(1, 4), a=st.fractions(Fraction(1, 50), 2, max_denominator=60), data=st.data())
def test_the_odds_of_ours_change_by_whole_quanta_of_the_promise(
    slots: int, a: Fraction, data: st.DataObject
) -> None:
    """For the l_inf mechanism, ln P(z|x)/P(z|x') is whole quanta of a, at most d_inf of them: exactly."""
    x, other, z = (data.draw(windows(slots)) for _ in range(3))
    ours = LInfLaplace(a, 1, slots)
    change = (ours.log_mass([z], x)[0] - ours.log_mass([z], other)[0]) / float(a)
    assert change == pytest.approx(round(change), abs=1e-6)
    assert abs(round(change)) <= int(np.abs(np.subtract(x, other)).max())


@given(a=st.fractions(Fraction(1, 50), 2, max_denominator=60), data=st.data())
def test_no_window_changes_the_odds_beyond_the_promise(a: Fraction, data: st.DataObject) -> None:
    """Neither ours nor independent noise of n/epsilon changes the odds by more than epsilon d_inf."""
    first, second, seen = (data.draw(windows(3)) for _ in range(3))
    if first != second:
        scene = one_each("?", [first, second], W)
        for name in ("linf", "independent"):
            one = rival(f"{name} epsilon={a}", scene)
            assert one.promise is not None
            assert bound.odds(one.mechanism, one.promise, scene, np.array([seen])) <= 1 + 1e-9


def test_the_promise_of_ours_is_reached() -> None:
    """At a point itself, the odds against any other change by epsilon d_inf: points are always looked at."""
    one = rival("linf epsilon=1/10", PROGRAMMES)
    assert one.promise is not None
    assert bound.odds(one.mechanism, one.promise, PROGRAMMES, np.full((1, 8), 103)) == pytest.approx(1)


def test_noise_per_reading_changes_the_odds_by_n_times_the_promise() -> None:
    """Scale 1/epsilon on each of n readings: where all differ alike, the odds change n times as much."""
    scene = one_each("?", [[0] * 8, [5] * 8], W)
    one = rival("per-reading epsilon=1/10", scene)
    assert one.promise is not None
    assert bound.odds(one.mechanism, one.promise, scene, scene.points[:, 0]) == pytest.approx(8)


def test_no_noise_changes_the_odds_without_bound() -> None:
    """What can come from one point only refutes any promise."""
    assert bound.odds(Average(1, 8), LInfLaplace(1, 1, 8), PROGRAMMES, PROGRAMMES.points[:2, 0]) == np.inf


def test_the_losses_of_windows_add() -> None:
    """Two windows at d_inf 3 and 4 may change the odds by seven quanta, and by no more."""
    scene = Scene("?", [[[0, 0], [0, 0]], [[3, 1], [-4, 4]]], [0, 1], W)
    one = rival("linf epsilon=1/10", scene)
    assert one.promise is not None
    seen = scene.points.reshape(2, -1)
    assert bound.odds(one.mechanism, one.promise, scene, seen) == pytest.approx(1)


# Right so often at most ---------------------------------------------------------------------------


def test_a_library_has_its_certificate() -> None:
    """Few points have the linear program, many the proof by hand, and that is never below it."""
    ours, few = LInfLaplace("1/20", 1, 8), PROGRAMMES
    assert bound.success(ours, few) == certify(ours, Library(few.points[:, 0])).bound
    many = library.programmes(bound.CERTIFIED + 1, 8, 0)
    assert bound.success(ours, many) == mixture(ours, Library(many.points[:, 0])).bound


def test_windows_released_again_cost_again() -> None:
    """Several releases of one window have the certificate of that multiple of epsilon."""
    thrice = library.programmes(12, 8, 0, times=3)
    assert bound.success(LInfLaplace("1/60", 1, 8), thrice) == pytest.approx(
        bound.success(LInfLaplace("1/20", 1, 8), PROGRAMMES), abs=1e-6
    )


@pytest.mark.parametrize("epsilon", ["1/40", "1/9", "1/2"])
def test_the_certificate_is_not_below_the_best_attack(epsilon: str) -> None:
    """The enumerated chance of the optimal attacker on the mechanism's own law is within the certificate."""
    ours, signatures = LInfLaplace(epsilon, 1, 2), [[0, 0], [9, 4], [2, 12], [-8, 3]]
    most = bound.success(ours, one_each("?", signatures, W))
    assert most is not None
    assert best_attack(ours, Library(signatures)) <= most + 1e-9


def test_an_event_has_the_bound_of_check() -> None:
    """With or without an event, that of the largest distance in each window, over all loads."""
    scene = with_or_without("?", [[[0], [0]], [[7], [7]]], [[[3], [5]], [[4], [2]]], W)
    ours = LInfLaplace("1/10", 1, 1)
    assert bound.success(ours, scene) == success_bound(ours, [Fraction(4), Fraction(5)])


def test_distances_are_quanta() -> None:
    """On a lattice of quarters, 4 quanta are one watt: for the bound, the odds and the error alike."""
    scene = with_or_without("?", [[[0]]], [[[4]]], Fraction(1, 4))
    ours = LInfLaplace(2, "1/4", 1)
    assert bound.success(ours, scene) == success_bound(ours, [Fraction(1)])
    assert bound.odds(ours, ours, scene, scene.points[:, 0]) == pytest.approx(1)
    noisy = measure(scene, rival("linf epsilon=2", scene), ["bayes"], 20_000, 0)
    assert noisy.error_w == pytest.approx(sd(ours), rel=0.05)


def test_classes_of_many_points_have_no_bound() -> None:
    """Nothing is said where classes have several points that are not paired."""
    scene = Scene("?", [[[0]], [[1]], [[2]]], [0, 0, 1], W)
    assert bound.success(LInfLaplace(1, 1, 1), scene) is None
    assert bound.area(LInfLaplace(1, 1, 1), PROGRAMMES) is None


@pytest.mark.parametrize(("a", "k"), [(Fraction(1, 10), 12), (Fraction(1, 2), 3), (Fraction(1), 1)])
def test_the_area_is_that_of_the_best_test(a: Fraction, k: int) -> None:
    """For one number at two points it is the likelihood ratio's own area, enumerated, and hardly above."""
    scene = with_or_without("?", [[[0]]], [[[k]]], W)
    z = np.arange(-400, 400 + k)
    under = np.exp(LInfLaplace(a, 1, 1).log_mass(z[:, np.newaxis], [0]))
    over = np.exp(LInfLaplace(a, 1, 1).log_mass(z[:, np.newaxis], [k]))
    ratio = np.rint(np.abs(z) - np.abs(z - k)).astype(int)
    ones, zeros = (np.bincount(ratio + k, mass, 2 * k + 1) for mass in (over, under))
    exact = float(ones @ (np.cumsum(zeros) - zeros / 2))
    most = bound.area(LInfLaplace(a, 1, 1), scene)
    assert most is not None
    assert exact - 1e-9 <= most <= exact + 1e-4
    assert LatticePair(a, k).total_variation <= 2 * most - 1 + 1e-9
