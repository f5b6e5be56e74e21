"""What a mechanism on a lattice takes: whole quanta, near enough to zero that noise can be added to them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LATTICE_LIMIT = 1 << 62
"""|x| in quanta stays at or below it, so that x + z stays in int64."""

_EXTREMES = (np.maximum.reduce, np.minimum.reduce)  # without the detours of max() and min(): 3 us a window


def whole(values: ArrayLike) -> NDArray[np.int64]:
    """`values` as int64, if they are whole quanta; the array itself where it is of int64.

    Raises:
        TypeError: they are not integers.  ValueError: one is beyond 2^62 quanta.
    """
    given: NDArray[Any] = np.asarray(values)
    if (kept := given.dtype).kind not in "iu":
        raise TypeError(
            f"values are whole quanta: an array of integers, not of {kept}; round by floor(x/q + 1/2)"
        )
    most, least = (int(reduce(given, axis=None, initial=0)) for reduce in _EXTREMES)
    if max(most, -least) > _LATTICE_LIMIT:
        raise ValueError("a value is beyond 2^62 quanta")
    return given.astype(np.int64, copy=False)


def whole_vectors(values: ArrayLike, n: int) -> NDArray[np.int64]:
    """`values` as int64, if they are vectors of n whole quanta: shape (..., n).

    Raises:
        TypeError: they are not integers.
        ValueError: the last axis is not n, or one is beyond 2^62 quanta.
    """
    given = whole(values)
    if given.ndim == 0 or given.shape[-1] != n:
        raise ValueError(f"points have shape (..., {n}), not {given.shape}")
    return given


def moved_by(outputs: ArrayLike, point: ArrayLike, n: int) -> NDArray[np.uint64]:
    """|y_i - x_i| of each y of `outputs` (..., n) and x = `point`; 2^62 and -2^62 differ by 2^63.

    Raises:
        TypeError: the values are not integers.
        ValueError: the last axis is not n, or a value is beyond 2^62 quanta.
    """
    difference: NDArray[np.int64] = np.abs(whole_vectors(outputs, n) - whole_vectors(point, n))
    return difference.view(np.uint64)
