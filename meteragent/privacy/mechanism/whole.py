"""Whole quanta: noise parameters, differences, and checks that noise can be added to points in int64."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, positive, require_present, set_fields

_LATTICE_LIMIT = 1 << 62
"""The largest |x| in quanta; it keeps x + z within int64."""


@dataclass(frozen=True, init=False)
class VectorNoise:
    """The parameters of noise for n numbers in whole quanta that may change by `sensitivity`, in the unit."""

    epsilon: Fraction
    quantum: Fraction
    n: int
    sensitivity: Fraction

    def __init__(self, epsilon: Exact, quantum: Exact, n: int, sensitivity: Exact = 1) -> None:
        set_fields(
            self,
            epsilon=positive("epsilon", epsilon),
            quantum=positive("quantum", quantum),
            n=n,
            sensitivity=positive("sensitivity", sensitivity),
        )
        sampling.check_parameters(n, self.a * n)

    @property
    def a(self) -> Fraction:
        """The quotient epsilon q / Delta, the privacy loss of one quantum."""
        return self.epsilon * self.quantum / self.sensitivity


def require_int64(values: ArrayLike) -> NDArray[np.int64]:
    """Return `values` as int64. Raises TypeError for values that are not integers, ValueError beyond 2^62."""
    # In a plain array of integers, no value can be missing.
    is_plain = type(values) is np.ndarray and values.dtype == np.int64
    array: NDArray[Any] = np.asarray(values) if is_plain else require_present(values)
    if (dtype := array.dtype).kind not in "iu":
        raise TypeError(
            f"values must be whole quanta: an array of integers, not of {dtype}; round by floor(x/q + 1/2)"
        )
    if array.size == 1:
        highest = lowest = array.item()
    elif array.size:  # for few values, finding the places is faster than max() and min()
        highest, lowest = array.item(array.argmax()), array.item(array.argmin())
    if array.size and max(highest, -lowest) > _LATTICE_LIMIT:
        raise ValueError("a value is beyond 2^62 quanta")
    return array if is_plain else array.astype(np.int64, copy=False)


def require_int64_vectors(values: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return vectors of n whole quanta as int64, shape (..., n). Raises ValueError for another shape, too."""
    vectors = require_int64(values)
    if vectors.ndim == 0 or vectors.shape[-1] != n:
        raise ValueError(f"points have shape (..., {n}), not {vectors.shape}")
    return vectors


def absolute_differences(outputs: ArrayLike, point: ArrayLike, n: int) -> NDArray[np.uint64]:
    """Return |y_i - x_i| as uint64, as 2^63 does not fit int64. Raises as `require_int64_vectors`."""
    y, x = require_int64_vectors(outputs, n), require_int64_vectors(point, n)
    difference: NDArray[np.int64] = np.abs(y - x)
    return difference.view(np.uint64)
