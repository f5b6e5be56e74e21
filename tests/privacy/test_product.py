"""A mechanism on every row of a database: what is promised to neighbours, and what is not to windows."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy import SeededBits
from meteragent.privacy.channel import exp
from meteragent.privacy.mechanism.base import Mechanism, MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
from meteragent.privacy.mechanism.product import MetricProduct, Product
from meteragent.privacy.mechanism.sanitisation import LaplaceSanitisation
from meteragent.privacy.space import Categories, Databases, Numbers
from tests.support.draws import has_its_law

CATEGORICAL = Categorical(Categories("ab"), "1/2", "1/10")
GEOMETRIC = TruncatedGeometric("1/2", "1/4", 2)
SANITISATION = LaplaceSanitisation(Numbers(0, 50, "0.1"), 1, "0.01")

numbers = st.lists(st.integers(0, 9), min_size=3, max_size=3).map(tuple)


def neighbours(space: Databases) -> Iterator[tuple[Any, Any]]:
    """All pairs of databases that differ in one row."""
    return ((x, other) for x in space.points for other in space.neighbours(x))


def masses(mechanism: Mechanism, x: Any) -> NDArray[np.float64]:
    """The law of all outputs where x is released, for a mechanism that releases points of its space."""
    return np.exp(mechanism.log_mass(np.array(mechanism.space.points), x))


# Neighbours ---------------------------------------------------------------------------------------


def test_the_law_is_the_product_of_the_rows_laws() -> None:
    """P(y | d) = product of P(y_i | d_i) (equation 7): as the exact channels have it, and the draws."""
    mechanism, channel = Product(CATEGORICAL, 2), CATEGORICAL.channel.combine_product(CATEGORICAL.channel)
    for x in mechanism.space.points:
        assert masses(mechanism, x) == pytest.approx([float(p) for p in channel.row(x)], rel=1e-12)
        assert masses(mechanism, x).sum() == pytest.approx(1, rel=1e-12)
        assert has_its_law(mechanism, x, mechanism.space.points)


def test_neighbours_have_the_pair_of_a_row_exactly() -> None:
    """Between databases that differ in one row delta is that of a row, for any n (Lemma 3, Theorem 5)."""
    channel = CATEGORICAL.channel.combine_product(CATEGORICAL.channel)
    for x, other in neighbours(Databases(CATEGORICAL.space, 2)):
        assert channel.hockey_stick(x, other, exp("1/2")) == Fraction(1, 10)
    far = channel.hockey_stick(("a", "a"), ("b", "b"), exp("1/2"))
    assert far > Fraction(1, 10)
    for n in (1, 3, 100):
        assert Product(CATEGORICAL, n).guarantee == (Fraction(1, 2), Fraction(1, 10))
        assert Product(GEOMETRIC, n).guarantee == (
            Fraction(1, 4),
            Fraction(0),
        )  # epsilon times the width of a row


def test_a_metric_mechanism_s_pair_is_its_loss_over_the_diameter() -> None:
    """Rows as far apart as can be lose loss(D), and delta is 0; it is attained between neighbours."""
    mechanism = Product(GEOMETRIC, 3)
    assert mechanism.guarantee == (Fraction(1, 4), Fraction(0))
    changes = [
        np.log(masses(mechanism, x) / masses(mechanism, y)).max() for x, y in neighbours(mechanism.space)
    ]
    assert max(changes) == pytest.approx(0.25, rel=1e-12)
    assert Product(SANITISATION, 3).guarantee == SANITISATION.guarantee


# Windows ------------------------------------------------------------------------------------------


@given(numbers, numbers, numbers)
def test_the_odds_change_by_the_loss_at_most(
    x: tuple[int, ...], other: tuple[int, ...], y: tuple[int, ...]
) -> None:
    """Under d_1 the loss is that of one row at the sum of distances; it is attained at y = x."""
    for row in (Laplace("1/3", "1/2"), TruncatedGeometric("1/3", "1/2", 9)):
        mechanism = MetricProduct(row, 3, "l1")
        loss = float(mechanism.loss(Fraction(mechanism.space.metric(x, other))))
        changes = mechanism.log_mass([y, x], x) - mechanism.log_mass([y, x], other)
        assert changes[0] <= loss + 1e-12
        assert loss == pytest.approx(float(sum(abs(u - v) for u, v in zip(x, other, strict=True))) / 6)
        if isinstance(row, Laplace):
            assert changes[1] == pytest.approx(loss, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_under_d_inf_the_loss_is_n_times_a_row_s(n: int) -> None:
    """Independent noise of epsilon on n readings is n epsilon d_inf-private and no better (THEORY 0)."""
    mechanism = MetricProduct(Laplace("1/220", 1), n, "linf")
    low, high = (500,) * n, (720,) * n
    assert mechanism.space.metric(low, high) == 220
    assert mechanism.loss(Fraction(220)) == n
    change = mechanism.log_mass([low], low) - mechanism.log_mass([low], high)
    assert change == pytest.approx(n, rel=1e-12)


# What they take, and what they refuse -------------------------------------------------------------


def test_each_row_gets_its_own_noise_and_the_array_its_shape() -> None:
    """Databases (..., n) come back in that shape and as the rows' mechanism releases them."""
    rows: list[tuple[Any, Any]] = [(CATEGORICAL, "a"), (GEOMETRIC, 1), (SANITISATION, 7), (Laplace(1, 1), 7)]
    for row, value in rows:
        mechanisms: list[Any] = (
            [MetricProduct(row, 40, "l1")] if isinstance(row, Laplace) else [Product(row, 40)]
        )
        for mechanism, shape in product(mechanisms, [(40,), (5, 40), (2, 3, 40), (0, 40)]):
            databases = np.full(shape, value)
            released = mechanism.release(databases, bits=SeededBits(4))
            assert released.shape == shape
            assert (released == row.release(databases, bits=SeededBits(4))).all()
            assert not released.size or len(np.unique(released)) > 1
    assert (mechanism.release([7] * 40) != mechanism.release([7] * 40)).any()


def test_what_they_promise() -> None:
    """A product promises a pair to neighbours in Hamming distance; a metric one a loss for its metric."""
    assert isinstance(Product(CATEGORICAL, 2), PairMechanism)
    assert not isinstance(Product(CATEGORICAL, 2), MetricMechanism)
    assert Product(CATEGORICAL, 2).space.kind == "hamming"
    for metric in ("l1", "linf"):
        mechanism = MetricProduct(GEOMETRIC, 2, metric)
        assert isinstance(mechanism, MetricMechanism)
        assert not isinstance(mechanism, PairMechanism)
        assert mechanism.space.kind == metric
        with pytest.raises(TypeError, match="distance must be exact"):
            mechanism.loss(0.5)  # type: ignore[arg-type]


def test_what_has_no_such_promise_is_refused() -> None:
    """No pair over an infinite diameter, no rows that are windows, no mechanism without a promise."""

    class Promiseless:
        space = Numbers(0, 1)
        release = log_mass = None

    wrong: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "bound their space", lambda: Product(Laplace(1, 1), 2)),
        (ValueError, "a row is a single value", lambda: Product(Product(CATEGORICAL, 2), 2)),
        (
            ValueError,
            "a row is a single value",
            lambda: MetricProduct(MetricProduct(GEOMETRIC, 2, "l1"), 2, "l1"),
        ),
        (ValueError, "n >= 1 rows", lambda: Product(CATEGORICAL, 0)),
        (TypeError, "Promiseless states no promise", lambda: Product(Promiseless(), 2)),  # type: ignore[arg-type]
        (TypeError, "Categorical has no loss", lambda: MetricProduct(CATEGORICAL, 2, "l1")),  # type: ignore[arg-type]
        (ValueError, "must be l1 or linf, not 'hamming'", lambda: MetricProduct(GEOMETRIC, 2, "hamming")),  # type: ignore[arg-type]
    ]
    for error, text, make in wrong:
        with pytest.raises(error, match=text):
            make()


def test_what_is_no_database_is_refused() -> None:
    """The last axis must have n rows, to release and in the law; a row outside is the row's refusal."""
    mechanism = Product(GEOMETRIC, 3)
    for points in (1, [1, 1], [[1], [1], [1]], [[1, 1, 1, 1]]):
        with pytest.raises(ValueError, match=r"databases have shape \(..., 3\)"):
            mechanism.release(points)
        with pytest.raises(ValueError, match=r"databases have shape \(..., 3\)"):
            mechanism.log_mass(points, (1, 1, 1))
    with pytest.raises(ValueError, match="not in 0"):
        mechanism.release([1, 1, 3])
    with pytest.raises(ValueError, match="a database has 3 rows"):
        mechanism.log_mass([1, 1, 1], (1, 1))
