"""The mechanisms to attack, by name, each with its claimed promise.

| name | parameter | noise of a slot | the promise |
|---|---|---|---|
| linf | epsilon | the l_inf Laplace mechanism | epsilon d_inf |
| independent | epsilon | Laplace, scale n/epsilon, independent | epsilon d_inf |
| per-reading | epsilon | Laplace, scale 1/epsilon, independent | claimed: epsilon d_inf; true: n times that |
| telegraf | scale | Laplace of any given scale | none |
| average | slots | none: each slot is replaced by the mean of that many slots | none |
| none | | none | none |

`independent`, `per-reading` and `telegraf` add the same kind of noise but make different claims. At equal
error, attackers succeed equally often against all three. For n > 1 the claim of `per-reading` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from meteragent.privacy import Exact, Laplace, LInfLaplace, MetricProduct
from meteragent.privacy.exact import positive
from simulators.adversary.base import Releases
from simulators.adversary.named import Unusable, make
from simulators.adversary.scene import Floats, Integers, Scene


@dataclass(frozen=True)
class Rival:
    """A named mechanism that claims to be as private as `promise`, or claims nothing if `promise` is None."""

    name: str
    mechanism: Releases
    promise: LInfLaplace | None


@dataclass(frozen=True, init=False)
class Average:
    """The replacement of each group of `slots` slots by its mean, without noise; groups of 1 do not change.

    Means are rounded to quanta, floor(x + 1/2). An attacker who knows the points knows each output.
    Raises ValueError if `slots` does not divide a window.
    """

    slots: int
    n: int

    def __init__(self, slots: int, n: int) -> None:
        if slots < 1 or n % slots:
            raise ValueError(f"a mean needs a number of slots that divides a window of {n}, not {slots}")
        object.__setattr__(self, "slots", slots)
        object.__setattr__(self, "n", n)

    def release(self, windows: ArrayLike, *, bits: Any = None) -> Integers:  # noqa: ARG002
        """Return windows in quanta, (..., n), in which each group of slots has its mean; `bits` is unused."""
        values = np.asarray(windows, np.int64)
        sums = values.reshape(*values.shape[:-1], -1, self.slots).sum(axis=-1)
        return np.repeat((2 * sums + self.slots) // (2 * self.slots), self.slots, axis=-1)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> Floats:
        """Return 0 for the output of `point`, and -inf for every other output."""
        equal = (np.asarray(outputs) == self.release(point)).all(axis=-1)
        return np.where(equal, 0.0, -np.inf)


@dataclass(frozen=True)
class SlotBySlot:
    """A mechanism of single numbers, applied to each slot of a window independently."""

    mechanism: Any

    def release(self, windows: ArrayLike, *, bits: Any = None) -> Any:
        """Release each slot."""
        return self.mechanism.release(windows, bits=bits)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> Floats:
        """Return the sum of the slots' log masses."""
        masses = np.asarray(self.mechanism.log_mass(outputs, point), np.float64)
        return np.asarray(masses.sum(axis=-1), np.float64)


def _linf(epsilon: Exact, quantum: Exact, n: int) -> tuple[Releases, LInfLaplace]:
    mechanism = LInfLaplace(epsilon, quantum, n)
    return mechanism, mechanism


def _independent(epsilon: Exact, quantum: Exact, n: int) -> tuple[Releases, LInfLaplace]:
    promise = LInfLaplace(epsilon, quantum, n)
    return MetricProduct(Laplace(promise.epsilon / n, quantum), n, "linf"), promise


def _per_reading(epsilon: Exact, quantum: Exact, n: int) -> tuple[Releases, LInfLaplace]:
    return MetricProduct(Laplace(epsilon, quantum), n, "linf"), LInfLaplace(epsilon, quantum, n)


def _telegraf(scale: Exact, quantum: Exact, n: int) -> tuple[Releases, None]:
    return MetricProduct(Laplace(1 / positive("scale", scale), quantum), n, "linf"), None


def _average(slots: int, n: int) -> tuple[Releases, None]:
    return Average(slots, n), None


def _none(n: int) -> tuple[Releases, None]:
    return Average(1, n), None


MECHANISMS: Mapping[str, Callable[..., tuple[Releases, LInfLaplace | None]]] = {
    "linf": _linf,
    "independent": _independent,
    "per-reading": _per_reading,
    "telegraf": _telegraf,
    "average": _average,
    "none": _none,
}


def rival(text: str, scene: Scene, **offered: Exact) -> Rival:
    """Construct a mechanism for a scene from "name key=value .." or "package.module:Name key=value ..".

    `quantum` and `n` are the scene's. A mechanism of another package accepts and returns quanta; if it has a
    method `loss(distance)`, it promises its loss at one quantum, multiplied by d_inf in quanta. A mechanism
    of single numbers (its `log_mass` returns a value for each slot) is applied to each slot, and promises n
    times its loss. Raises Unusable if the name is unknown, if the parameters are refused, if the object has
    no `release`, or if its `log_mass` fails or returns an array of another shape.
    """
    mechanism = make(text, MECHANISMS, quantum=scene.quantum, n=scene.slots, **offered)
    if isinstance(mechanism, tuple):
        return Rival(text, *mechanism)
    if not hasattr(mechanism, "release"):
        raise Unusable(f"{text} is not a mechanism: there is no release method")
    if _is_of_numbers(text, mechanism, scene):
        return Rival(text, SlotBySlot(mechanism), _own_promise(mechanism, scene, scene.slots))
    return Rival(text, mechanism, _own_promise(mechanism, scene, 1))


def _is_of_numbers(text: str, mechanism: Any, scene: Scene) -> bool:
    """Return whether a mechanism is of single numbers: it returns one mass per slot, not one per window.

    Without `log_mass` it is taken to be of windows. Raises Unusable if `log_mass` fails or returns neither.
    """
    if not hasattr(mechanism, "log_mass"):
        return False
    window = np.zeros(scene.slots, np.int64)
    try:
        masses = np.asarray(mechanism.log_mass(window[np.newaxis], window))
    except (TypeError, ValueError, IndexError) as error:
        raise Unusable(f"{text}: log_mass fails on a window of {scene.slots} slots: {error}") from None
    if masses.shape not in {(1,), (1, scene.slots)}:
        raise Unusable(
            f"{text}: log_mass must return one number for each window, shape (1,) for 1 window of "
            f"{scene.slots} slots, or one for each slot; it returns {masses.shape}"
        )
    return masses.ndim == 2


def _own_promise(mechanism: Any, scene: Scene, times: int) -> LInfLaplace | None:
    """Return the l_inf mechanism that has `times` times the loss of the given mechanism at one quantum.

    Return None if the mechanism has no method `loss`.
    """
    if not hasattr(mechanism, "loss"):
        return None
    loss = times * Fraction(mechanism.loss(scene.quantum))
    return LInfLaplace(loss / scene.quantum, scene.quantum, scene.slots)
