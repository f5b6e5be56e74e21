"""Mechanisms of OpenDP and diffprivlib behind meteragent's interface, for conformance tests and attacks.

    python -m meteragent.privacy.conformance simulators.peers:opendp_laplace epsilon=1/40 n=4
    python -m simulators attack programmes --mechanism "simulators.peers:diffprivlib_laplace epsilon=1/40"

Points are windows of n slots in whole quanta, under d_inf. Both libraries draw from their own source of
randomness, and neither states its output distribution. The mechanisms therefore have no `log_mass`, and the
suite tests them as black boxes. The functions construct a mechanism and need the extra `peers`; the classes
wrap an existing mechanism.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import Exact, Windows
from meteragent.privacy.exact import not_negative, positive
from simulators.extras import lacking

_SLOTS_TIMES: Mapping[str, Callable[[int], float]] = {
    "L1Distance": lambda n: n,
    "L2Distance": math.sqrt,
    "LInfDistance": lambda _: 1,
}
"""For each metric of OpenDP, the largest distance between windows of n slots that are 1 apart under d_inf."""


@dataclass(frozen=True)
class _OnWindows:
    """A mechanism of another library on windows of `n` slots in whole quanta."""

    mechanism: Any
    n: int
    quantum: Exact = 1
    space: Windows = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "space", Windows(self.n, quantum=self.quantum))

    def _quanta(self, distance: Exact) -> int:
        """Return a distance in quanta, rounded up."""
        return math.ceil(not_negative("distance", distance) / positive("quantum", self.quantum))

    def _release_rows(self, windows: ArrayLike, release: Callable[[list[int]], Any]) -> NDArray[Any]:
        points = np.asarray(windows)
        rows = [release(row) for row in points.reshape(-1, self.n).tolist()]
        return np.array(rows).reshape(points.shape)


class OpenDP(_OnWindows):
    """A measurement of OpenDP with pure differential privacy, on vectors of n numbers.

    Raises ValueError if the measurement's output measure is not MaxDivergence, or if its input metric is not
    L1, L2 or LInf.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        measure = str(self.mechanism.output_measure)
        if measure != "MaxDivergence" or self._metric not in _SLOTS_TIMES:
            raise ValueError(
                f"a measurement needs MaxDivergence and one of {', '.join(_SLOTS_TIMES)}, not "
                f"{measure} and {self._metric}"
            )

    @property
    def _metric(self) -> str:
        return str(self.mechanism.input_metric).partition("(")[0]

    def loss(self, distance: Exact) -> Fraction:
        """Return the loss that the measurement's own privacy map states for a distance under d_inf."""
        reach = self._quanta(distance) * _SLOTS_TIMES[self._metric](self.n)
        is_real = str(self.mechanism.input_metric.distance_type).startswith("f")
        return Fraction(self.mechanism.map(float(reach) if is_real else math.ceil(reach)))

    def release(self, points: ArrayLike, *, bits: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Release windows; `bits` is unused, because OpenDP takes none."""
        return self._release_rows(points, self.mechanism)


class Diffprivlib(_OnWindows):
    """A mechanism of diffprivlib for numbers, with pure differential privacy, applied to each slot.

    Raises ValueError if the mechanism's delta is not 0, and TypeError if it has no sensitivity.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.mechanism, "delta", 0) != 0:
            raise ValueError("a mechanism with a delta has no privacy loss as a function of distance")
        if not hasattr(self.mechanism, "sensitivity"):
            raise TypeError(
                f"{type(self.mechanism).__name__} has no sensitivity: it is not a mechanism for numbers"
            )

    def loss(self, distance: Exact) -> Fraction:
        """Return n epsilon times the distance under d_inf, in multiples of the sensitivity, rounded up."""
        steps = math.ceil(self._quanta(distance) / Fraction(self.mechanism.sensitivity))
        return self.n * steps * Fraction(self.mechanism.epsilon)

    def release(self, points: ArrayLike, *, bits: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Release windows; `bits` is unused, because diffprivlib takes none."""
        return self._release_rows(points, lambda row: [self.mechanism.randomise(value) for value in row])


def opendp_laplace(epsilon: Exact, n: int = 1, quantum: Exact = 1) -> OpenDP:
    """Construct OpenDP's Laplace mechanism on whole quanta, with scale n/epsilon and loss epsilon d_inf."""
    dp: Any = _library("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    scale = n / (positive("epsilon", epsilon) * positive("quantum", quantum))
    return OpenDP(dp.m.make_laplace(*space, scale=float(scale)), n, quantum)


def diffprivlib_laplace(epsilon: Exact, n: int = 1, quantum: Exact = 1) -> Diffprivlib:
    """Construct diffprivlib's Laplace mechanism with epsilon/n on each slot, and thus loss epsilon d_inf."""
    mechanisms: Any = _library("diffprivlib.mechanisms")
    level = positive("epsilon", epsilon) * positive("quantum", quantum) / n
    return Diffprivlib(mechanisms.Laplace(epsilon=float(level), sensitivity=1), n, quantum)


def _library(name: str) -> Any:
    """Import a module. Raises ModuleNotFoundError, with the command that installs it, if it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(lacking(error, "peers"), name=error.name) from None
