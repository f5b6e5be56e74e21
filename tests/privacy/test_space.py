"""Metric spaces: points, distances, diameters, and pairs worth trying (meteragent.privacy.space)."""

import math
from fractions import Fraction
from itertools import combinations, islice, permutations, product
from typing import Any

import numpy as np
import pytest

from meteragent.privacy.metric import Nullable, absolute, hamming, is_metric
from meteragent.privacy.space import (
    Categories,
    Curves,
    Databases,
    Finite,
    Numbers,
    Space,
    Subsets,
    Windows,
    list_points,
)


def name(space: Space) -> str:
    """Of a case."""
    return type(space).__name__


LISTED: list[Space] = [
    Finite([0, 1, 5], absolute),
    Categories(["on", "off", "idle"]),
    Categories(["alone"]),
    Subsets("abc"),
    Subsets(range(7)),
    Numbers(0, 5),
    Numbers(-3, 96, "0.1"),
    Windows(2, 1, "linf", 0, 7),
    Windows(3, "1/2", "l1", -2, 2),
    Windows(2, 2, "l2", 0, 9),
    Databases(Categories("ab"), 3),
    Databases(Numbers(0, 4), 3, "l1"),
    Databases(Numbers(0, 4), 3, "normalised l1"),
    Databases(Numbers(0, 4, "1/2"), 2, "linf"),
    Databases(Finite([0, 3, None], Nullable(absolute, Fraction(3))), 2, "l1"),
]
UNLISTED: list[Space] = [
    Subsets(range(40)),
    Numbers(),
    Numbers(0),
    Numbers(None, 7),
    Numbers(0, 10**9),
    Windows(1),
    Windows(30, "1/2"),
    Windows(96, 1, "l1"),
    Windows(4, 1, "l2", 0, 5000),
    Windows(5, 1, "linf", 0),
    Databases(Numbers(), 4),
    Databases(Numbers(0, 9), 50, "linf"),
    Databases(Windows(2), 3, "l1"),
    Curves(86400),
    Curves(60, "L2"),
]


@pytest.mark.parametrize("space", LISTED + UNLISTED, ids=name)
def test_pairs_are_different_points_of_the_space_in_both_orders(space: Space) -> None:
    """Every pair tried is of two points, apart by at most the diameter, once each way round."""
    pairs = list(islice(space.pairs(), 10_000))
    assert len(set(pairs)) == len(pairs)
    for x, y in pairs:
        assert x in space
        assert y in space
        assert 0 < space.metric(x, y) <= space.diameter
    if len(pairs) < 10_000:
        assert {(y, x) for x, y in pairs} == set(pairs)


@pytest.mark.parametrize("space", LISTED, ids=name)
def test_points_are_listed_once_and_reach_the_diameter(space: Space) -> None:
    """A list of points has each once, all are in the space, and two are as far apart as the diameter."""
    points = list_points(space)
    assert points is not None
    assert len(set(points)) == len(points)
    assert all(x in space for x in points)
    assert (
        max((space.metric(x, y) for x, y in combinations(points, 2)), default=Fraction(0)) == space.diameter
    )


@pytest.mark.parametrize("space", LISTED, ids=name)
def test_a_small_space_gives_all_pairs_and_any_its_diameter(space: Space) -> None:
    """Up to 64 points every pair is tried, soon each point; a larger space tries one as far as can be."""
    points, pairs = list_points(space), set(space.pairs())
    assert points is not None
    if len(points) <= 64:
        assert pairs == set(permutations(points, 2))
        first = list(islice(space.pairs(), 2 * len(points)))
        assert {x for x, _ in first} == set(points) or len(points) == 1
    assert max((space.metric(x, y) for x, y in pairs), default=Fraction(0)) == space.diameter


@pytest.mark.parametrize("space", UNLISTED, ids=name)
def test_a_space_that_cannot_be_listed_has_no_points(space: Space) -> None:
    """Where points are infinitely or too many, there is no such attribute; the tried pairs are still some."""
    assert list_points(space) is None
    assert not hasattr(space, "points")
    assert len(list(islice(space.pairs(), 10))) >= 8


@pytest.mark.parametrize("space", LISTED, ids=name)
def test_the_metric_of_a_space_is_a_metric(space: Space) -> None:
    """On a dozen of its points, the axioms hold."""
    points = list_points(space) or ()
    assert is_metric(points[:: max(1, len(points) // 12)], space.metric)


# Finite spaces ------------------------------------------------------------------------------------


def test_categories_are_all_equally_different() -> None:
    """Any two values are at distance 1; anything else is not a point."""
    space = Categories(["a", "b", "c"])
    assert space.metric("a", "b") == space.metric("c", "a") == space.diameter == 1
    assert "d" not in space
    assert ["a"] not in space
    assert Categories("ab") == Categories("ab") != Categories("abc")
    assert Categories("a").diameter == 0


@pytest.mark.parametrize("points", [[], ["a", "b", "a"]])
def test_a_finite_space_has_points_each_once(points: list[str]) -> None:
    """A space needs points, and each only once."""
    for make in (Categories, lambda values: Finite(values, absolute)):
        with pytest.raises(ValueError, match="each point only once"):
            make(points)


def test_subsets_differ_by_their_elements() -> None:
    """All 2^m subsets, at the size of what is in one of two only; the universe's size is the diameter.

    As categories they are all at distance 1.
    """
    space = Subsets("abc")
    assert len(space.points) == 8
    assert space.metric({"a", "b"}, {"b", "c"}) == 2
    assert Categories(space.points).metric(frozenset("ab"), frozenset("bc")) == 1
    assert frozenset("ac") in space
    assert frozenset("ad") not in space
    assert "a" not in space
    assert space.diameter == 3
    with pytest.raises(ValueError, match="once"):
        Subsets("aba")


# Lattices -----------------------------------------------------------------------------------------


def test_numbers_are_quanta_at_distances_in_the_unit() -> None:
    """Points are whole quanta between the bounds; a distance is the quantum times their difference."""
    space = Numbers(-5, 20, "0.1")
    assert space.metric(3, 20) == Fraction(17, 10)
    assert space.diameter == Fraction(5, 2)
    assert space.points == tuple(range(-5, 21))
    assert np.int64(20) in space
    for x in (21, -6, 0.5, Fraction(1), True, "1", None):
        assert x not in space
    assert 10**30 in Numbers(0)
    assert -1 not in Numbers(0)
    assert 8 not in Numbers(None, 7)


@pytest.mark.parametrize(
    ("norm", "distance", "diameter"),
    [
        ("linf", Fraction(2), Fraction(5)),
        ("l1", Fraction(7, 2), Fraction(20)),
        ("l2", Fraction(5, 2), Fraction(10)),
    ],
)
def test_windows_are_at_the_quantum_times_the_norm(norm: Any, distance: Fraction, diameter: int) -> None:
    """l_inf, l_1 and l_2 of the difference in quanta, times the quantum; the corners are farthest."""
    space = Windows(4, "1/2", norm, 0, 10)
    assert space.metric((1, 2, 3, 4), (4, 6, 3, 4)) == distance
    assert space.diameter == diameter
    assert Windows(4, "1/2", norm).diameter == math.inf
    assert Windows(4, "1/2", norm, 3, 3).diameter == 0


def test_a_window_is_n_whole_quanta_within_the_bounds() -> None:
    """Tuples, lists and arrays of n integers; nothing else is a point."""
    space = Windows(2, 1, "linf", 0, 9)
    good: list[Any] = [(0, 9), [3, 4], np.array([1, 2]), np.array([1, 2], np.uint8)]
    for x in good:
        assert x in space
    bad: list[Any] = [(0, 10), (-1, 0), (1,), (1, 2, 3), (1.0, 2), (True, 1), "12", 7, None, {1, 2}]
    for x in [*bad, np.array([1.0, 2.0]), np.array(3), np.zeros((2, 2), np.int64)]:
        assert x not in space


@pytest.mark.parametrize("n", [1, 2, 3, 30, 360])
@pytest.mark.parametrize("step", [1, 5])
def test_windows_are_tried_in_the_directions_that_leak(n: int, step: int) -> None:
    """All ones, alternating signs, halves, single numbers and e_i - e_j, by one and by several quanta."""
    shifts = {tuple(v - u for u, v in zip(x, y, strict=True)) for x, y in Windows(n).pairs()}
    units = [tuple(step * (i == place) for i in range(n)) for place in (0, n // 2, n - 1)]
    expected = [
        (step,) * n,
        tuple(step * (-1) ** i for i in range(n)),
        tuple(step * (2 * i < n) for i in range(n)),
        *units,
        *(tuple(v - u for u, v in zip(x, y, strict=True)) for x in units for y in units if x != y),
    ]
    for shift in expected:
        assert shift in shifts
        assert tuple(-v for v in shift) in shifts
    signs = {shift for shift in shifts if {abs(v) for v in shift} == {step}}
    assert len(signs) >= min(2**n, 6)


def test_products_of_small_spaces_are_complete() -> None:
    """The points of a bounded window are all vectors within the bounds."""
    assert set(Windows(2, 1, "l1", -1, 1).points) == set(product((-1, 0, 1), repeat=2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Windows(0),
        lambda: Windows(2, metric="l3"),  # type: ignore[arg-type]
        lambda: Windows(2, low=3, high=2),
        lambda: Numbers(3, 2),
        lambda: Numbers(quantum=0),
        lambda: Windows(2, -1),
        lambda: Databases(Categories("ab"), 0),
        lambda: Databases(Categories("ab"), 2, "l2"),  # type: ignore[arg-type]
        lambda: Databases(Numbers(), 2, "normalised l1"),
        lambda: Databases(Categories("a"), 2, "normalised l1"),
        lambda: Curves(0),
        lambda: Curves(1, "L1"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_space_is_refused(make: Any) -> None:
    """Crossed bounds, no rows, unknown metrics and widths that cannot normalise are ValueErrors."""
    with pytest.raises(ValueError, match=r"."):
        make()


def test_a_quantum_is_exact() -> None:
    """A float quantum or duration is refused."""
    makers: list[Any] = [lambda q: Numbers(0, 1, q), lambda q: Windows(2, q), Curves]
    for make in makers:
        with pytest.raises(TypeError, match="must be exact"):
            make(0.1)


def test_rows_are_counted_in_whole_numbers() -> None:
    """A number of rows that is not an int is refused."""
    with pytest.raises(TypeError, match="n must be an int, not float"):
        Databases(Categories("ab"), 3.0)  # type: ignore[arg-type]


# Databases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "distance", "diameter"),
    [("hamming", 2, 3), ("l1", 4, 12), ("normalised l1", 1, 3), ("linf", Fraction(7, 2), 4)],
)
def test_a_database_s_metrics(metric: Any, distance: Fraction, diameter: Fraction) -> None:
    """d_h counts rows, d_1 adds up distances, normalised in shares of the width, d_inf takes the most."""
    space = Databases(Numbers(0, 8, "1/2"), 3, metric)
    assert space.metric((0, 7, 3), (1, 0, 3)) == distance
    assert space.diameter == diameter


def test_a_database_of_one_possible_row_has_no_width() -> None:
    """Rows that cannot differ make databases that cannot."""
    for metric in ("hamming", "l1", "linf"):
        assert Databases(Categories("a"), 3, metric).diameter == 0
    assert Databases(Numbers(), 3).diameter == 3
    assert Databases(Numbers(), 3, "l1").diameter == math.inf


@pytest.mark.parametrize(("rows", "n"), [("ab", 4), ("abc", 3), ("abcd", 1)])
def test_neighbours_differ_in_exactly_one_row(rows: str, n: int) -> None:
    """N (m - 1) neighbours, each once, and they are all that are at Hamming distance 1; the diameter is n."""
    space = Databases(Categories(rows), n)
    assert space.diameter == max(hamming(space.points[0], y) for y in space.points) == n
    for x in space.points:
        neighbours = list(space.neighbours(x))
        assert len(neighbours) == n * (len(rows) - 1)
        assert set(neighbours) == {y for y in space.points if hamming(x, y) == 1}


def test_a_database_is_n_rows_of_the_domain() -> None:
    """Tuples, lists and arrays of n rows that are points of the rows' space."""
    space = Databases(Numbers(0, 4), 2)
    good: list[Any] = [(0, 4), [1, 1], np.array([2, 3])]
    for x in good:
        assert x in space
    bad: list[Any] = [(0, 5), (1,), (1, 2, 3), "12", 3, None]
    for x in bad:
        assert x not in space
    assert "ab" not in Databases(Categories("ab"), 2)
    with pytest.raises(AttributeError, match="cannot be listed"):
        list(Databases(Numbers(), 2).neighbours((1, 2)))
