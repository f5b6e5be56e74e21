"""Randomised response over finite sets: its matrix, its promise, its error, and what it takes."""

from fractions import Fraction
from importlib import import_module
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy import Product, Sanitised, SeededBits
from meteragent.privacy.channel import all_events, exp
from meteragent.privacy.exact import ln_bounds
from meteragent.privacy.mechanism.base import MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.space import Categories
from tests.support.draws import has_its_law

PAIRS = [("1/10", "0"), ("1", "0"), ("1/2", "1/100"), ("3", "1/1000000"), ("2", "3/4")]
levels = st.fractions(Fraction(1, 1000), 50, max_denominator=1000)
deltas = st.fractions(0, Fraction(99, 100), max_denominator=10**9)


def categorical(values: int = 4, epsilon: Any = "1/2", delta: Any = "1/100") -> Categorical:
    """A mechanism on 0 .. values-1."""
    return Categorical(Categories(range(values)), epsilon, delta)


# The promise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [2, 3, 5])
@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_pair_is_exactly_the_one_asked_for(values: int, epsilon: str, delta: str) -> None:
    """Between any two values the least delta is delta: by hockey-stick and by all events (Example 6).

    What is stated and what is drawn is the matrix.
    """
    mechanism = categorical(values, epsilon, delta)
    channel, odds = mechanism.channel, exp(epsilon)
    for x, other in mechanism.space.pairs():
        assert channel.hockey_stick(x, other, odds) == Fraction(delta)
        assert channel.delta_on(all_events(channel.outputs), x, other, odds) == Fraction(delta)
    assert mechanism.guarantee == (Fraction(epsilon), Fraction(delta))
    stated = np.exp(mechanism.log_mass(range(values), 0))
    assert stated == pytest.approx([float(p) for p in channel.row(0)], rel=1e-12)
    assert has_its_law(mechanism, 0, range(values))


@given(levels, deltas, st.integers(2, 9))
def test_each_other_value_leaves_with_p(e: Fraction, delta: Fraction, values: int) -> None:
    """It is p = (1-delta)/(m+e^epsilon), the rest is for the true value; a row sums to 1."""
    mechanism, m = categorical(values, e, delta), values - 1
    p = (1 - float(delta)) / (m + np.exp(float(e)))
    law = np.exp(mechanism.log_mass(range(values), 1))
    assert mechanism.p == pytest.approx(p, rel=1e-12)
    assert np.delete(law, 1) == pytest.approx(p, rel=1e-9)
    assert law.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_law_is_the_matrix(epsilon: str, delta: str) -> None:
    """`log_mass` is the logarithm of the exact channel, for outputs in any shape."""
    mechanism = categorical(4, epsilon, delta)
    exact = [[p.log() for p in row] for row in mechanism.channel.rows]
    for x in range(4):
        assert mechanism.log_mass(range(4), x) == pytest.approx(exact[x], rel=1e-12)
        assert mechanism.log_mass([[3], [x]], x).tolist() == mechanism.log_mass([3, x], x)[:, None].tolist()


def test_two_values_are_randomised_response() -> None:
    """Tell the truth with 3/4: ln 3 (Pauwels, randomised response), as near as a rational comes to ln 3."""
    ln3 = Fraction(ln_bounds(Fraction(3), 80)[0], 1 << 80)
    mechanism = Categorical(Categories([True, False]), ln3)
    assert mechanism.p == pytest.approx(1 / 4, rel=1e-15)
    channel = mechanism.channel
    assert channel.hockey_stick(True, False, Fraction(3)) == 0
    assert channel.hockey_stick(True, False, Fraction(299, 100)) > 0


@pytest.mark.parametrize("values", [2, 5])
def test_libqif_has_the_same_matrix(values: int) -> None:
    """The randomised response of libqif, an independent implementation for delta = 0."""
    theirs = import_module("qif.mechanism").d_privacy.randomized_response(values, 0.75)
    ours = [[float(p) for p in row] for row in categorical(values, "3/4", 0).channel.rows]
    assert np.abs(np.array(theirs) - ours).max() < 1e-14


def test_the_error_is_that_of_example_7() -> None:
    """The mean error is m (1-delta)/(m+e^epsilon) at every value, under the discrete metric."""
    mechanism = categorical(4, "1/2", "1/100")
    error = 3 * (1 - Fraction(1, 100)) / (3 + exp("1/2"))
    for x, row in enumerate(mechanism.channel.rows):
        assert sum(p for y, p in enumerate(row) if y != x) == error
    assert mechanism.expected_error == pytest.approx(float(error), rel=1e-14)
    assert mechanism.expected_error == pytest.approx(0.638885, abs=1e-6)


# The sampler --------------------------------------------------------------------------------------


@given(levels, deltas, st.integers(2, 1000), st.sampled_from([32, 64, 320]))
def test_the_chance_to_be_replaced_is_enclosed(e: Fraction, delta: Fraction, values: int, k: int) -> None:
    """Integers below and above 2^k (m+1) p, at most 4 apart: what decides a draw is certified."""
    ((lo, hi),) = categorical(values, e, delta)._replacement_bounds(k)
    with mpmath.workdps(150):
        p = (1 - real(delta)) / (values - 1 + mpmath.exp(real(e)))
        assert lo <= 2**k * values * p <= hi <= lo + 4


def real(x: Fraction) -> mpmath.mpf:
    """As many digits of a rational as mpmath works with."""
    return mpmath.mpf(x.numerator) / x.denominator


def test_what_is_drawn_does_not_depend_on_the_labels() -> None:
    """With the same bits the same places are replaced, by the same values, whatever the labels were."""
    mechanism = categorical(5, "1/2", "1/10")
    first = mechanism.release(np.zeros(300, int), bits=SeededBits(1))
    second = mechanism.release(np.full(300, 3), bits=SeededBits(1))
    kept = first != second
    assert (first[kept] == 0).all()
    assert (second[kept] == 3).all()
    assert 30 < kept.sum() < 270
    assert (mechanism.release([0] * 300) != mechanism.release([0] * 300)).any()


# What it takes ------------------------------------------------------------------------------------


ANY_VALUES: list[list[Any]] = [
    ["a", "kettle"],
    [3, -1, 10],
    [True, False],
    ["1", 1, None],
    [1, 2.5],
    [2**70, 5],
    ["a\0", "a"],
    [(1, 2), ()],
]


@pytest.mark.parametrize("values", ANY_VALUES)
def test_labels_of_any_kind_keep_their_shape(values: list[Any]) -> None:
    """Texts, numbers, truth values, mixed ones: what is kept comes back as it was, in its array's shape."""
    kept, replaced = (Categorical(Categories(values), epsilon) for epsilon in (100, "1/2"))
    for shape in [(), (3,), (2, 4), (0, 2)]:
        for value in values:
            labels = np.empty(shape, object)
            for place in np.ndindex(shape):
                labels[place] = value
            released = kept.release(labels, bits=SeededBits(1))
            assert released.shape == shape
            same = [type(label) is type(value) and label == value for label in released.ravel().tolist()]
            assert same == [True] * labels.size
            assert all(label is value for label in labels.ravel().tolist())
            assert set(replaced.release(labels, bits=SeededBits(1)).ravel().tolist()) <= set(values)


def test_the_width_of_texts_tells_nothing() -> None:
    """Texts come back as wide as the set's widest, whatever was given: a width would tell what was not."""
    mechanism = Categorical(Categories(["a", "television"]), 20)
    for label in ("a", "television"):
        released = mechanism.release(np.array([label] * 5), bits=SeededBits(1))
        assert released.dtype == np.dtype("<U10")
        assert released.tolist() == [label] * 5


def test_what_is_not_in_the_set_is_refused_and_not_repeated() -> None:
    """A label outside, or of no use as one, is a ValueError that does not say it."""
    mechanism = Categorical(Categories(["a", "b"]), 1)
    for labels in (["a", "secret"], [["a"], ["secret"]], [1]):
        with pytest.raises(ValueError, match="none of the set's 2 values") as refused:
            mechanism.release(labels)
        assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="none of the set's"):
        mechanism.log_mass(["a"], "c")
    with pytest.raises(ValueError, match="none of the set's"):
        mechanism.log_mass(["a"], ["a"])  # type: ignore[arg-type]


def test_parameters_are_exact_and_in_range() -> None:
    """A float is refused with what to write; so are a promise that is none, and a set of one value."""
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (TypeError, r"epsilon must be exact.*Fraction\('0.1'\)", {"epsilon": 0.1}),
        (TypeError, "delta must be exact", {"delta": 0.1}),
        (ValueError, "epsilon must not be negative", {"epsilon": -1}),
        (ValueError, r"delta must lie in \[0, 1\]", {"delta": "1.01"}),
        (ValueError, r"delta must lie in \[0, 1\]", {"delta": -1}),
        (ValueError, "a set of one value", {"values": 1}),
    ]
    for error, text, changed in wrong:
        with pytest.raises(error, match=text):
            categorical(**changed)


def test_it_is_a_value() -> None:
    """Equal parameters make equal mechanisms, which cannot be changed; the promise is a pair."""
    mechanism = categorical(epsilon="0.5")
    assert mechanism == categorical(epsilon=Fraction(1, 2))
    assert hash(mechanism) == hash(categorical())
    assert mechanism != categorical(5)
    assert isinstance(mechanism, PairMechanism)
    assert not isinstance(mechanism, MetricMechanism)
    with pytest.raises(AttributeError):
        mechanism.guarantee = None  # type: ignore[misc, assignment]


@pytest.mark.parametrize("labels", [["a", 1], ["1", 1], [None, "x"], ["x", 2.5]])
def test_labels_of_different_kinds_stay_apart(labels: list[Any]) -> None:
    """A number beside a text is that number, in lists of labels, rows of tables and outputs."""
    row = Categorical(Categories(labels), epsilon=200)  # nothing is ever replaced
    assert row.release(labels, bits=SeededBits(1)).tolist() == labels
    assert row.log_mass(labels, labels[0]).tolist() == [0, -200]
    table = Product(row, 2)
    assert table.release([labels, labels], bits=SeededBits(1)).tolist() == [labels, labels]
    assert Sanitised(table, tuple(labels), bits=SeededBits(1)).released == tuple(labels)
