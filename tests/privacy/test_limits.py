"""Mechanisms at the ends of the lattice and with arrays of any make."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.certificate import Library
from meteragent.privacy.mechanism import (
    Laplace,
    LInfLaplace,
    NoisyMax,
    PlanarLaplace,
    RandomisedResponse,
    RandomRow,
    VectorLaplace,
)
from meteragent.privacy.mechanism.categorical import label_array
from meteragent.privacy.optimality import User, bayes_loss, expected_loss, optimal_remap
from meteragent.privacy.space import Categories, Databases

A = Fraction(1, 10)
VECTORS: list[Any] = [LInfLaplace(A, 1, 2), VectorLaplace(A, 1, 2), PlanarLaplace(A, 1)]
MAKES: list[Any] = [np.uint8, np.uint64, ">i4", np.int16]


@pytest.mark.parametrize("mechanism", VECTORS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("make", MAKES, ids=str)
def test_integers_of_any_make_are_the_same_points(mechanism: Any, make: Any) -> None:
    """Unsigned, narrow, foreign, strided and read-only arrays: equal masses, equal noise."""
    outputs, point = np.array([[3, 9], [0, 55]]), np.array([5, 7])
    given = np.repeat(outputs, 2, axis=1).astype(make)[:, ::2]
    given.setflags(write=False)
    right = mechanism.log_mass(outputs, point)
    assert mechanism.log_mass(given, point.astype(make)).tolist() == right.tolist()
    released = mechanism.release(given, bits=SeededBits(1))
    assert released.dtype == np.int64
    assert released.tolist() == mechanism.release(outputs, bits=SeededBits(1)).tolist()


@pytest.mark.parametrize("mechanism", VECTORS, ids=lambda m: type(m).__name__)
def test_a_mass_is_of_whole_quanta(mechanism: Any) -> None:
    """What is not on the lattice has no mass there, and no density."""
    for outputs, point in ([[3.5, 1.0]], [1, 2]), ([[3, 1]], [1.0, 2.0]), ([[math.nan, 1]], [1, 2]):
        with pytest.raises(
            TypeError, match=r"whole quanta: an array of integers, not of float64; round by floor"
        ):
            mechanism.log_mass(outputs, point)


MASKED = np.ma.array([[1, 9999]], mask=[[False, True]])
HIDDEN: list[Any] = [
    MASKED,
    [MASKED, MASKED],
    MASKED[0],
    pd.DataFrame([[1, None]], dtype="Int64"),
    pd.Series([1, None], dtype="Int64"),
    [[1, pd.NA]],
    pa.array([1, None]),
]


@pytest.mark.parametrize("hidden", HIDDEN, ids=range(len(HIDDEN)))
def test_what_is_marked_as_missing_is_not_released(hidden: Any) -> None:
    """A mask or NA says that a value is none: it is refused wherever it stands, with what to do."""
    releases: list[Any] = [mechanism.release for mechanism in VECTORS]
    releases += [RandomisedResponse("1/2").release, RandomRow(Databases(Categories("abc"), 2)).release]
    releases += [Library, label_array]
    for release in releases:
        with pytest.raises(TypeError, match=r"marked as missing.*fill them"):
            release(hidden)
    full = pd.DataFrame([[1, 2]], dtype="Int64").to_numpy(np.int64)
    assert VECTORS[0].release(full).shape == (1, 2)


def test_the_ends_of_the_lattice_are_far_apart() -> None:
    """From -2^62 to 2^62 it is 2^63, more than an int64: the mass is next to nothing."""
    end, a = 1 << 62, float(A)
    for mechanism, distance in zip(VECTORS, (1, 2, math.sqrt(2)), strict=True):
        assert mechanism.log_mass([[end, end]], [-end, -end])[0] == pytest.approx(-a * distance * 2.0**63)
    assert Laplace(A, 1).log_mass([end], -end)[0] == pytest.approx(-a * 2.0**63)
    first, second = NoisyMax(1, 1, 2).log_mass([0, 1], [end, -end])
    assert first == pytest.approx(0)
    assert second == pytest.approx(-(2.0**62))


def test_a_prior_is_one_for_every_row() -> None:
    """Lists do as well as arrays; a prior for fewer secrets than the mechanism has is named."""
    user, rows = User([0.9, 0.1], [[0, 1], [1, 0]]), [[0.6, 0.4], [0.4, 0.6]]  # type: ignore[arg-type]
    assert optimal_remap(user, rows).tolist() == [0, 0]
    assert bayes_loss(user, rows) == pytest.approx(0.1)
    assert expected_loss(user, rows) == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"each secret needs a prior and a row: not \(2,\) and \(3, 2\)"):
        bayes_loss(user, [*rows, [0.5, 0.5]])
