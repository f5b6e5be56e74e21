"""Checks of the parameters of windows and numbers that are sampled."""

from fractions import Fraction

from meteragent.privacy.exact import Exact, positive

SCALE_LIMIT = 1 << 45
"""The limit on n/a; below it noise exceeds int64 with a probability below e^-2^17."""


def check_parameters(n: int, a: Exact) -> Fraction:
    """Return `a` exactly. Raises TypeError if n is no int; ValueError if n < 1, a <= 0 or n/a >= 2^45."""
    if not isinstance(n, int):
        raise TypeError(f"n must be an int, not {type(n).__name__}")
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    exact = positive("a", a)
    if n >= exact * SCALE_LIMIT:
        raise ValueError(f"n/a must be below 2^45, and {n} / ({exact}) is not: take a coarser quantum")
    return exact
