"""A release whose law is unknown is audited by its draws: true claims pass, false ones are refused.

Each audit refuses a true claim with a chance of at most 1e-6. Seeds are fixed, so every run is the same; with
other seeds the false claims would be refused as well, because their true loss is far above the claim.
"""

import math
from typing import Any

import numpy as np
import pytest

from meteragent.privacy import Laplace, LInfLaplace, SeededBits
from meteragent.privacy.conformance import UnsupportedMechanism, audit_release, conform

pytestmark = pytest.mark.statistical
SAMPLES = 8000


def numbers(scale: float, seed: int) -> Any:
    """Return a release with Laplace noise of floats, which is no mechanism of ours."""
    draw = np.random.default_rng(seed)
    return lambda points: points + draw.laplace(0, scale, np.shape(points))


@pytest.mark.parametrize(("claim", "holds"), [(2.0, True), (1.2, False)])
def test_floats(claim: float, holds: bool) -> None:
    """Noise of scale 1 has a loss of 2 at distance 2."""
    assert audit_release(numbers(1, 3), [(0.0, 2.0, claim)], samples=SAMPLES).conforms is holds


@pytest.mark.parametrize(("claim", "holds"), [(2.0, True), (1.2, False)])
def test_windows(claim: float, holds: bool) -> None:
    """A window of l_inf noise has the loss of its largest difference, along any signs."""
    bits, mechanism = SeededBits(5), LInfLaplace("1/10", 1, 4)
    pairs = [((0, 0, 0, 0), (20, -20, 20, -20), claim), ((0, 0, 0, 0), (20, 20, 20, 20), claim)]
    report = audit_release(lambda x: mechanism.release(x, bits=bits), pairs, samples=SAMPLES)
    assert report.conforms is holds, report.table()
    assert len(report.checks) == 2


def test_independent_noise_on_a_window_loses_n_times() -> None:
    """Laplace noise on each reading, claimed as if for one: the audit proves that the window reveals more."""
    bits, mechanism = SeededBits(6), Laplace("1/10", 1)
    pair = ((0,) * 8, (10,) * 8, 1.0)
    report = audit_release(
        lambda x: mechanism.release(x, bits=bits), [pair], samples=SAMPLES, name="per reading"
    )
    assert report.failed == ["black box: all 0 or all 10"]
    assert report.table().startswith("per reading does NOT conform: 1 of 1 checks failed\n")


@pytest.mark.parametrize(("claim", "holds"), [(1.0, True), (0.6, False)])
def test_labels(claim: float, holds: bool) -> None:
    """Labels have no order: their frequencies tell points apart."""
    draw, labels = np.random.default_rng(7), np.array(["a", "b", "c"])

    def release(points: Any) -> Any:
        """Keep a label with e times the chance of each other (randomised response, a loss of 1)."""
        return np.where(
            draw.random(len(points)) < (math.e - 1) / (math.e + 2), points, draw.choice(labels, len(points))
        )

    report = audit_release(release, [("a", "b", claim)], samples=SAMPLES)
    assert report.conforms is holds, report.table()
    assert report.checks[0].figures["statistic"] == "frequencies"


@pytest.mark.parametrize(
    "points", [("day", "night"), (True, False), (None, 3), (frozenset("a"), frozenset("ab")), ("day", None)]
)
@pytest.mark.parametrize(("claim", "holds"), [(1.0, True), (0.6, False)])
def test_numbers_are_released_for_points_that_are_none(points: Any, claim: float, holds: bool) -> None:
    """Words, truth values, sets and None have no difference: the numbers released for them are compared."""
    draw = np.random.default_rng(10)

    def release(batch: Any) -> Any:
        """Return which of the two points it is, with noise of scale 1: a loss of 1."""
        return np.array([point == points[0] for point in batch]) + draw.laplace(0, 1, len(batch))

    report = audit_release(release, [(*points, claim)], samples=SAMPLES)
    assert report.conforms is holds, report.table()


@pytest.mark.parametrize(("claim", "holds"), [(1.0, True), (0.6, False)])
def test_truth_values(claim: float, holds: bool) -> None:
    """A truth value that is released as one, true with e times the chance of a lie, has a loss of 1."""
    draw = np.random.default_rng(11)
    pairs = [(True, False, claim), ((True, False), (True, True), claim)]
    report = audit_release(
        lambda batch: batch ^ (draw.random(batch.shape) < 1 / (1 + math.e)), pairs, samples=SAMPLES
    )
    assert report.conforms is holds, report.table()


def test_outputs_of_another_shape() -> None:
    """An output that only keeps the noisy sum of a window is judged by that sum; a leaky one is refused."""
    draw = np.random.default_rng(8)
    pair = [((0, 0), (1, 1), 2.0)]
    assert audit_release(lambda x: x.sum(axis=1) + draw.laplace(0, 1, len(x)), pair, samples=SAMPLES).conforms
    assert not audit_release(
        lambda x: x.sum(axis=1) + draw.laplace(0, 0.3, len(x)), pair, samples=SAMPLES
    ).conforms


def test_a_value_that_gives_one_point_away() -> None:
    """A release that sometimes shows the truth is refused by frequencies, though every tail is noisy."""
    bits, mechanism, draw = SeededBits(9), Laplace("1/100", 1), np.random.default_rng(9)

    def release(points: Any) -> Any:
        """Show a tenth of the points 500 times as large, without noise."""
        return np.where(draw.random(len(points)) < 0.1, 500 * points, mechanism.release(points, bits=bits))

    report = audit_release(release, [(0, 1, 0.01)], samples=SAMPLES)
    assert not report.conforms


def test_a_mechanism_without_a_law() -> None:
    """The suite takes a mechanism that states its loss but not its law."""

    class Lawless:
        """Laplace noise that hides its law and has `factor` times the loss that it states."""

        def __init__(self, factor: int) -> None:
            self.mechanism, self.factor = Laplace("1/4", 1), factor
            self.space = self.mechanism.space

        def loss(self, distance: Any) -> Any:
            """State less than is true."""
            return self.mechanism.loss(distance) / self.factor

        def release(self, points: Any, *, bits: Any = None) -> Any:
            """Release with the true noise."""
            return self.mechanism.release(points, bits=bits)

    assert conform(Lawless(1), samples=SAMPLES, bits=SeededBits(1)).conforms
    report = conform(Lawless(3), samples=SAMPLES, bits=SeededBits(1))
    assert report.failed
    assert all(name.startswith("black box") for name in report.failed)


def test_what_cannot_be_audited() -> None:
    """No claim, and a release that drops points, are named."""
    with pytest.raises(UnsupportedMechanism, match="no claim"):
        audit_release(numbers(1, 1), [])
    with pytest.raises(UnsupportedMechanism, match=r"8000 points were released as an array of shape \(1,\)"):
        audit_release(lambda x: x[:1], [(0, 1, 1)], samples=SAMPLES)
