"""One line of `utility`: a promised error and its measurement."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from simulators.adversary.scene import Floats

MONTH_DAYS = 30
COVERAGE = 0.95
"""The share of absolute errors that must not exceed the promised error."""


@dataclass(frozen=True)
class Row:
    """The errors in one use of private numbers: `count` errors in `unit`, each of a mean over `homes` homes.

    95% of the absolute errors should be at most `promised`, and were at most `measured`. The promised
    interval contained the truth in a fraction `held` of cases; `bias` is the mean error, and `use` the mean
    true value. For a peak, whose intervals differ, `promised` is their mean half-width. `promised` and `held`
    are None if nothing is promised.
    """

    quantity: str
    homes: int
    unit: str
    promised: float | None
    measured: float
    held: float | None
    bias: float
    use: float
    count: int

    @classmethod
    def of(cls, quantity: str, homes: int, unit: str, true: Floats, errors: Floats, promised: float) -> Self:
        """Construct a row from errors that share the promise `promised`."""
        size = np.abs(errors)
        measured, coverage = float(np.quantile(size, COVERAGE)), float(np.mean(size <= promised))
        bias, use = float(errors.mean()), float(true.mean())
        return cls(quantity, homes, unit, promised, measured, coverage, bias, use, errors.size)

    def figures(self) -> dict[str, Any]:
        """Return the row as data for JSON."""
        return {"what" if name == "quantity" else name: value for name, value in asdict(self).items()}
