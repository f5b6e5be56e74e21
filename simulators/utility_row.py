"""One line of what `utility` measures: an error promised beside the error measured."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from simulators.adversary.scene import Floats

COVERAGE = 0.95
"""How often an error is to be no larger than what is promised."""


@dataclass(frozen=True)
class Row:
    """One use: errors of `count` numbers, each the mean of so many homes, in `unit`.

    95 times of 100 `promised` is the most that one is off, and `measured` what it was; the truth was within
    the interval `held` of the times; `bias` is the mean error, `use` the mean of the truth. Of a peak, whose
    intervals differ, `promised` is half their mean width. None: nothing is promised.
    """

    what: str
    homes: int
    unit: str
    promised: float | None
    measured: float
    held: float | None
    bias: float
    use: float
    count: int

    @classmethod
    def of(cls, what: str, homes: int, unit: str, true: Floats, errors: Floats, promised: float) -> Self:
        """By errors and one promise for all of them."""
        size = np.abs(errors)
        measured, held = float(np.quantile(size, COVERAGE)), float(np.mean(size <= promised))
        bias, use = float(errors.mean()), float(true.mean())
        return cls(what, homes, unit, promised, measured, held, bias, use, errors.size)
