"""Attackers: what each of them knows, and what it says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy import LInfLaplace
from meteragent.privacy.statistics import clopper_pearson
from simulators.adversary.attackers import (
    ATTACKERS,
    Averaging,
    Bayes,
    Correlation,
    Edges,
    Features,
    Neighbours,
)
from simulators.adversary.base import Attacker, Informed
from simulators.adversary.measure import area_under_roc, measure
from simulators.adversary.mechanism import Average, rival
from simulators.adversary.scene import Floats, Integers, Scene, library, with_or_without

W = Fraction(1)
SIGNATURES = np.array([[5, 60, 20, 90], [30, 10, 80, 10], [50, 50, 20, 40]])
LIBRARY = library("?", SIGNATURES, W)


def probabilities(name: str, scene: Scene, train: Integers, test: Integers) -> Floats:
    """What an attacker of ours says of windows, trained on each point in turn."""
    attacker: Attacker = ATTACKERS[name]()
    if isinstance(attacker, Informed):
        attacker.know(LInfLaplace("1/10", 1, scene.slots), scene)
    attacker.fit(train, scene.labels[scene.play(len(train))])
    return np.asarray(attacker.predict_proba(test))


@pytest.mark.parametrize("name", ATTACKERS)
def test_probabilities_are_of_each_window_alone(name: str) -> None:
    """Each row sums to 1, is not negative, and does not depend on the other windows."""
    train = LIBRARY.points[LIBRARY.play(90), 0] + np.random.default_rng(0).integers(-9, 10, (90, 4))
    test = train[:20] + 3
    said = probabilities(name, LIBRARY, train, test)
    assert said.shape == (20, 3)
    assert said.min() >= 0
    assert said.sum(axis=1) == pytest.approx(np.ones(20))
    order = np.random.default_rng(1).permutation(20)
    assert probabilities(name, LIBRARY, train, test[order]) == pytest.approx(said[order])


@pytest.mark.parametrize("name", ATTACKERS)
def test_what_leaves_without_noise_is_recognised(name: str) -> None:
    """Signatures with other edges, means and neighbours are told apart by every attacker when all is raw."""
    raw = measure(LIBRARY, rival("none", LIBRARY), [name], 30, 0)
    assert raw.worst.rate == 1
    assert raw.error_w == 0


# Bayes --------------------------------------------------------------------------------------------


def test_bayes_is_the_posterior() -> None:
    """Of one number at distances 2 and 6 of two points, the odds are e^(a 4)."""
    bayes = Bayes()
    bayes.know(LInfLaplace("1/10", 1, 1), library("?", [[0], [8]], W))
    first, second = bayes.predict_proba(np.array([[2]]))[0]
    assert first / second == pytest.approx(np.exp(0.4))


def test_bayes_adds_the_points_of_a_class() -> None:
    """A class is as likely as all of its points together."""
    bayes, ours = Bayes(), LInfLaplace("1/10", 1, 1)
    bayes.know(ours, Scene("?", [[[0]], [[4]], [[9]]], [0, 0, 1], W))
    masses = np.exp([ours.log_mass([[3]], [x])[0] for x in (0, 4, 9)])
    assert bayes.predict_proba(np.array([[3]]))[0, 1] == pytest.approx(masses[2] / masses.sum())


def test_bayes_adds_up_windows() -> None:
    """The odds of two windows are the product of each window's."""
    bayes = Bayes()
    bayes.know(LInfLaplace("1/10", 1, 1), library("?", [[0], [8]], W, times=2))
    first, second = bayes.predict_proba(np.array([[2, 1]]))[0]
    assert first / second == pytest.approx(np.exp(0.4 + 0.6))


def test_bayes_knows_nothing_of_what_cannot_be() -> None:
    """What no point can give leaves all classes as likely."""
    bayes = Bayes()
    bayes.know(Average(1, 1), library("?", [[0], [8]], W))
    assert bayes.predict_proba(np.array([[5], [8]])).tolist() == [[0.5, 0.5], [0, 1]]


# Those that know the signatures -------------------------------------------------------------------


def test_correlation_sees_shape_only() -> None:
    """A signature that is three times as large and lies higher is recognised; a flat window says nothing."""
    said = probabilities("correlation", LIBRARY, LIBRARY.points[:, 0], 3 * SIGNATURES + 1000)
    assert said.argmax(axis=1).tolist() == [0, 1, 2]
    one = Correlation()
    one.know(Average(1, 4), LIBRARY)
    assert one.predict_proba(np.full((1, 4), 7))[0] == pytest.approx([1 / 3] * 3)


def test_correlation_is_that_of_the_textbook() -> None:
    """With two signatures, the odds are (1 + r) : (1 + s), r and s Pearson's."""
    scene, seen = library("?", SIGNATURES[:2], W), np.array([[4, 50, 30, 60]])
    one = Correlation()
    one.know(Average(1, 4), scene)
    r, s = (np.corrcoef(seen[0], row)[0, 1] for row in SIGNATURES[:2])
    first, second = one.predict_proba(seen)[0]
    assert first / second == pytest.approx((1 + r) / (1 + s))


def test_averaging_takes_the_mean_of_what_left() -> None:
    """Windows that are far off on either side are recognised by their mean."""
    scene = library("?", [[0, 0], [10, 10]], W, times=2)
    one = Averaging()
    one.know(Average(1, 2), scene)
    one.fit(scene.points[:, :].reshape(2, -1), scene.labels)
    assert one.predict_proba(np.array([[-90, 120, 112, -98], [95, -60, -93, 59]])).argmax(
        axis=1
    ).tolist() == [1, 0]


# Those that learn ---------------------------------------------------------------------------------


def test_edges_are_a_rise_and_a_fall_after_it() -> None:
    """The largest rise, the largest fall, and the largest pair of the two in that order."""
    windows = np.array([[0, 50, 50, 10, 10], [90, 10, 10, 60, 60], [5, 5, 5, 5, 5]])
    assert Edges()._features(windows).tolist() == [[50, -40, 40], [50, -80, 0], [0, 0, 0]]


def test_a_single_value_has_no_edge() -> None:
    """Where windows are one number, Hart's attacker guesses."""
    scene = library("?", [[0], [500]], W)
    outcome = measure(scene, rival("none", scene), ["edges"], 40, 0)
    assert outcome.worst.rate == 0.5
    assert outcome.worst.auc == 0.5


def test_nine_features() -> None:
    """Mean, deviation, ends, median, largest rise and fall, mean step, and likeness of neighbours."""
    features = Features()._features(np.array([[1, 3, 2, 6], [4, 4, 4, 4]]))
    lagged = (-2 * 0 + 0 * -1 + -1 * 3) / (4 + 0 + 1 + 9)
    assert features[0] == pytest.approx([3, np.sqrt(3.5), 1, 6, 2.5, 4, -1, 7 / 3, lagged])
    assert features[1] == pytest.approx([4, 0, 4, 4, 4, 0, 0, 0, 0])


def test_the_discriminant_weighs_by_what_varies() -> None:
    """A large difference in what varies much counts less than a small one in what varies little."""
    draw = np.random.default_rng(0)
    noise = np.stack([draw.normal(0, 100, 4000), draw.normal(0, 1, 4000)], axis=1)
    labels = np.arange(4000) % 2

    class Two(Edges):
        def _features(self, windows: Integers) -> Floats:
            return np.asarray(windows, np.float64)

    two = Two()
    two.fit(np.rint(noise + labels[:, np.newaxis] * [30, 4]).astype(np.int64), labels)
    # The first is at 30 in the loud feature, yet at 0 in the quiet one.
    said = two.predict_proba(np.array([[30, 0], [0, 4]]))
    assert said.argmax(axis=1).tolist() == [0, 1]
    score = (30 * 15 / 100**2) - 4 * 2  # ln of the odds at (30, 0): means are (0, 0) and (30, 4)
    assert np.log(said[0, 1] / said[0, 0]) == pytest.approx(score, rel=0.2)


def test_the_discriminant_is_a_posterior() -> None:
    """Of three classes at 0, 10 and 50 that vary by 10, the odds at 26 are e^((24² - 16²)/200)."""

    class One(Edges):
        def _features(self, windows: Integers) -> Floats:
            return np.asarray(windows, np.float64)

    one, labels = One(), np.arange(6) % 3
    one.fit((np.array([0, 10, 50])[labels] + np.repeat([-10, 10], 3))[:, np.newaxis], labels)
    said = one.predict_proba(np.array([[26]]))[0]
    assert np.log(said[1] / said[2]) == pytest.approx(1.6, rel=1e-4)
    assert np.log(said[1] / said[0]) == pytest.approx(2.1, rel=1e-4)


def test_the_discriminant_knows_what_varies_together() -> None:
    """Two features that rise and fall together count by their difference: odds by the inverse covariance."""

    class Two(Edges):
        def _features(self, windows: Integers) -> Floats:
            return np.asarray(windows, np.float64)

    around = np.array([[10, 10], [-10, -10], [1, -1], [-1, 1]])
    means = np.array([[0, 0], [0, 4]])
    two, labels = Two(), np.arange(8) % 2
    two.fit(means[labels] + np.repeat(around, 2, axis=0), labels)
    said = two.predict_proba(np.array([[9, 10]]))[0]
    weights = np.linalg.inv(around.T @ around / 4)
    near, far = (np.array([9, 10]) - mean for mean in means)
    expected = (far @ weights @ far - near @ weights @ near) / 2
    assert np.log(said[0] / said[1]) == pytest.approx(expected, rel=1e-3)


def test_neighbours_vote() -> None:
    """Of the 15 nearest windows, 10 of one class and 5 of the other make 2 : 1."""
    windows = np.concatenate([np.full((10, 1), 1), np.full((5, 1), -1), np.full((50, 1), 99)])
    labels = np.repeat([0, 1, 1], [10, 5, 50])
    one = Neighbours()
    one.fit(windows, labels)
    assert one.predict_proba(np.array([[0]]))[0] == pytest.approx([2 / 3, 1 / 3])


# Figures ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=12))
def test_the_area_is_the_chance_of_the_right_order(trials: list[tuple[int, bool]]) -> None:
    """The area under the ROC curve is P(score of 1 > score of 0) + P(equal)/2, over all pairs."""
    scores, labels = (np.array(column) for column in zip(*trials, strict=True))
    ones, zeros = scores[labels], scores[~labels]
    if ones.size and zeros.size:
        pairs = np.sign(ones[:, np.newaxis] - zeros)
        expected = ((1 + pairs) / 2).mean()
        assert area_under_roc(scores / 4, labels.astype(np.int64)) == pytest.approx(expected)


def test_f1_is_of_the_event() -> None:
    """An attacker that always says yes has F1 = 2/3: all are found, half of what is said is right."""
    scene = with_or_without("?", [[[0]]], [[[9]]], W)
    outcome = measure(scene, rival("none", scene), ["tests.simulators.test_adversary_attackers:Yes"], 10, 0)
    assert outcome.worst.f1 == pytest.approx(2 / 3)
    assert outcome.worst.rate == 0.5


def test_intervals_hold_together() -> None:
    """Each of two attackers has half of the alarm: Clopper and Pearson for rates, Hoeffding for areas."""
    scene = with_or_without("?", [[[0]]], [[[30]]], W)
    one, two = measure(scene, rival("linf epsilon=1/20", scene), ["bayes", "averaging"], 400, 0, 0.1).results
    for found in (one, two):
        low, high = clopper_pearson(round(400 * found.rate), 400, 0.05)
        assert (found.low, found.high) == (float(low), float(high))
        assert found.auc is not None
        assert found.auc_low == pytest.approx(found.auc - np.sqrt(np.log(2 / 0.05) / 400))
        assert found.auc_high == pytest.approx(found.auc + np.sqrt(np.log(2 / 0.05) / 400))


class Yes:
    """Says that it happened."""

    def fit(self, windows: Integers, labels: Integers) -> object:
        """Learn nothing."""
        return self

    def predict_proba(self, windows: Integers) -> Floats:
        """1 for the event."""
        return np.tile([0.0, 1.0], (len(windows), 1))
