"""Argument types for options that several commands share."""

import argparse
import math
from fractions import Fraction


def seed(text: str) -> int:
    """Parse a seed, a whole number from 0 to 2^64 - 1; raise argparse's error for anything else."""
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to 2**64 - 1, not {text}")
    return int(text)


def positive(text: str) -> int:
    """Parse a positive whole number; raise argparse's error for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def levels(text: str) -> list[Fraction]:
    """Parse lo:hi:k; return k levels from lo to hi in constant ratio, rounded to three significant digits.

    Raises ValueError if `text` does not have this form.
    """
    try:
        low, high, count = text.split(":")
        lowest, highest, k = float(low), float(high), int(count)
    except ValueError:
        raise ValueError(f"levels are lo:hi:k, such as 0.1:10:5, not {text}") from None
    if not (0 < lowest <= highest < math.inf and k >= 1 and (k > 1 or lowest == highest)):
        raise ValueError(f"levels are lo:hi:k with 0 < lo < hi and k > 1, not {text}")
    ratio = (highest / lowest) ** (1 / max(k - 1, 1))
    return [Fraction(f"{lowest * ratio**i:.3g}") for i in range(k)]
