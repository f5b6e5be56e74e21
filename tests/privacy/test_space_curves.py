"""Curves on [0, T]: values, equality, exact norms (meteragent.privacy.space.curves)."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.metric import is_metric, square_root
from meteragent.privacy.space import Curve, Curves, polyline, steps

EXACT = st.integers(-3, 3).map(lambda thirds: Fraction(thirds, 3))


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """Steps or polylines on [0, 6], on any times."""
    inner = [Fraction(quarters, 4) for quarters in draw(st.sets(st.integers(1, 23), max_size=3))]
    times = sorted({Fraction(0), *inner, Fraction(6)})
    size = len(times) - draw(st.integers(0, 1))
    values = draw(st.lists(EXACT, min_size=size, max_size=size))
    return (polyline if size == len(times) else steps)(times, values)


def test_a_curve_has_its_values() -> None:
    """Steps hold from their edge on, polylines go straight; at the last time the last value stands."""
    hold = steps([0, 10, "30.5"], [100, "2.5"])
    assert [hold(t) for t in (0, "9.999", 10, "30.5")] == [100, 100, Fraction(5, 2), Fraction(5, 2)]
    ramp = polyline([0, 10, 20], [0, 5, 1])
    assert [ramp(t) for t in (0, 3, 10, 15, 20)] == [0, Fraction(3, 2), 5, 3, 1]
    for time in (-1, 21):
        with pytest.raises(ValueError, match="must lie in"):
            ramp(time)


def test_curves_are_equal_if_their_values_are() -> None:
    """A time at which nothing bends or jumps leaves no trace."""
    assert polyline([0, 1, 3, 4], [0, 1, 3, 0]) == polyline([0, 3, 4], [0, 3, 0])
    assert steps([0, 1, 2], [5, 5]) == polyline([0, 2], [5, 5])
    assert polyline([0, 1, 3], [0, 1, 4]) != polyline([0, 3], [0, 4])
    assert [*steps([0, 1, 2], [5, 6]).times_s] == [0, 1, 2]


@given(x=curves(), y=curves())
def test_curves_are_equal_if_and_only_if_at_distance_zero(x: Curve, y: Curve) -> None:
    """In both norms."""
    for space in (Curves(6), Curves(6, "L2")):
        assert (space.metric(x, y) == 0) == (x == y)
        assert space.metric(x, x) == 0


@pytest.mark.parametrize(
    ("x", "y", "sup", "square"),
    [
        (steps([0, 6], [3]), steps([0, 6], [1]), 2, 24),
        (steps([0, 2, 6], [3, 1]), steps([0, 3, 6], [1, 2]), 2, 8 + 0 + 3),
        (polyline([0, 6], [0, 6]), steps([0, 6], [0]), 6, 72),
        (polyline([0, 6], [0, 6]), polyline([0, 6], [6, 0]), 6, 72),
        (polyline([0, 3, 6], [0, 3, 0]), steps([0, 3, 6], [1, 2]), 2, 3 + 3),
    ],
)
def test_norms_of_curves_are_exact(x: Curve, y: Curve, sup: int, square: int) -> None:
    """The sup of the difference, also where it is only approached, and the root of its square's integral."""
    assert Curves(6).metric(x, y) == sup
    assert Curves(6, "L2").metric(x, y) == pytest.approx(math.sqrt(square), rel=1e-15)
    assert Curves(6).metric(x, y) == Curves(6).metric(y, x)


@given(x=curves(), y=curves())
def test_the_norms_are_those_of_the_values(x: Curve, y: Curve) -> None:
    """Quarter by quarter of a second, where nothing breaks: the sup over both ends, Simpson's rule for L2."""
    sup, square, quarter = Fraction(0), Fraction(0), Fraction(1, 4)
    for i in range(24):
        first, middle = ((x(t) - y(t)) for t in (i * quarter, i * quarter + quarter / 2))
        last = 2 * middle - first
        sup = max(sup, abs(first), abs(last))
        square += quarter / 6 * (first**2 + 4 * middle**2 + last**2)
    assert Curves(6).metric(x, y) == sup
    assert Curves(6, "L2").metric(x, y) == square_root(square)


@given(points=st.lists(curves(), min_size=3, max_size=3, unique=True))
def test_the_norms_of_curves_are_metrics(points: list[Curve]) -> None:
    """Holohan 2014, Example 2: C([0, T]) and L2."""
    for space in (Curves(6), Curves(6, "L2")):
        assert is_metric(points, space.metric, extended=False)


def test_a_point_is_a_curve_of_the_duration() -> None:
    """Curves of a different duration, and values that are not curves, are outside the space."""
    space = Curves(6)
    assert steps([0, 6], [1]) in space
    assert steps([0, 7], [1]) not in space
    assert (1, 2) not in space
    with pytest.raises(ValueError, match="6 s and 7 s"):
        space.metric(steps([0, 6], [1]), steps([0, 7], [1]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: steps([0, 1], [1, 2]),
        lambda: steps([0], []),
        lambda: steps([1, 2], [1]),
        lambda: steps([0, 2, 2], [1, 2]),
        lambda: polyline([0, 1], [1]),
        lambda: polyline([0], [1]),
        lambda: polyline([0, 2, 1], [1, 2, 3]),
    ],
)
def test_what_is_no_curve_is_refused(make: Any) -> None:
    """Times must grow from 0, and be as many as the values need."""
    with pytest.raises(ValueError, match=r"curve|times"):
        make()
    with pytest.raises(TypeError, match="must be exact"):
        steps([0, 1], [0.5])  # type: ignore[list-item]


def test_curves_are_tried_with_long_and_short_shifts() -> None:
    """Among the pairs are a constant shift, and one of a short hat, at the same distance."""
    space = Curves(16)
    lengths = {Curves(16, "L2").metric(x, y) for x, y in space.pairs() if space.metric(x, y) == 1}
    assert max(lengths) == 4
    assert min(lengths) == pytest.approx(math.sqrt(2 / 3))
