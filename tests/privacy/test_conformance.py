"""Every mechanism conforms, and draws of another scale are refused."""

from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.conformance import conform
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
from meteragent.privacy.mechanism.planar import PlanarLaplace, PlanarManhattan
from meteragent.privacy.mechanism.product import MetricProduct, Product
from meteragent.privacy.mechanism.randomised import RandomisedResponse, RandomRow
from meteragent.privacy.mechanism.sanitisation import LaplaceSanitisation
from meteragent.privacy.mechanism.selection import Exponential, NoisyMax
from meteragent.privacy.mechanism.vector import VectorLaplace
from meteragent.privacy.space import Categories, Databases, Numbers, Windows
from tests.support.mechanism_contract import Conformance

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
        """So few draws show 30%."""
        return super().other(1 + 3 * (factor - 1))
