"""What is attacked: mechanisms by name, each with what it is said to promise.

| name | given | noise of a slot | the promise |
|---|---|---|---|
| linf | epsilon | the l_inf Laplace mechanism | epsilon d_inf |
| independent | epsilon | Laplace, scale n/epsilon, each its own | epsilon d_inf |
| per-reading | epsilon | Laplace, scale 1/epsilon, each its own | said: epsilon d_inf; is: n times it |
| telegraf | scale | Laplace of a scale that somebody has chosen | none |
| average | slots | none: the mean of so many slots, in place of each | none |
| none | | none | none |

`independent`, `per-reading` and `telegraf` are one and the same noise, and differ in what is said of it: at
equal error the attackers find the same, and only the promise of the first one holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from meteragent.privacy import Exact, Laplace, LInfLaplace, MetricProduct
from meteragent.privacy.exact import positive
from simulators.adversary.base import Releases
from simulators.adversary.named import Unusable, made
from simulators.adversary.scene import Floats, Integers, Scene


@dataclass(frozen=True)
class Rival:
    """A mechanism as it was named; it is said to be as private as `promise`. None: nothing is said."""

    name: str
    mechanism: Releases
    promise: LInfLaplace | None


@dataclass(frozen=True, init=False)
class Average:
    """The mean of `slots` slots in place of each of them, no noise; of one slot: nothing is done.

    Means are rounded to quanta, floor(x + 1/2). Whoever knows the points knows what leaves of each.

    Raises:
        ValueError: so many slots do not divide a window.
    """

    slots: int
    n: int

    def __init__(self, slots: int, n: int) -> None:
        if slots < 1 or n % slots:
            raise ValueError(f"a mean is over slots that divide a window of {n}, not {slots}")
        object.__setattr__(self, "slots", slots)
        object.__setattr__(self, "n", n)

    def release(self, windows: ArrayLike, *, bits: Any = None) -> Integers:  # noqa: ARG002
        """The means, `slots` times each, of windows in quanta of shape (..., n); `bits` are not needed."""
        values = np.asarray(windows, np.int64)
        sums = values.reshape(*values.shape[:-1], -1, self.slots).sum(axis=-1)
        return np.repeat((2 * sums + self.slots) // (2 * self.slots), self.slots, axis=-1)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> Floats:
        """0 where the output is what the point gives, else -inf."""
        same = (np.asarray(outputs) == self.release(point)).all(axis=-1)
        return np.where(same, 0.0, -np.inf)


def _linf(epsilon: Exact, quantum: Exact, n: int) -> tuple[Releases, LInfLaplace]:
    ours = LInfLaplace(epsilon, quantum, n)
    return ours, ours


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
    """A mechanism by "name key=value .." or "package.module:Name key=value ..", for windows of a scene.

    `quantum` and `n` are the scene's. Anybody's mechanism takes and gives quanta; if it has a `loss` of a
    distance, that is its promise, taken as one under d_inf.

    Raises:
        Unusable: there is none such, or it takes other parameters.
    """
    found = made(text, MECHANISMS, quantum=scene.quantum, n=scene.slots, **offered)
    if isinstance(found, tuple):
        return Rival(text, *found)
    if not hasattr(found, "release"):
        raise Unusable(f"{text} has no release: it is no mechanism")
    return Rival(text, found, _stated(found, scene))


def _stated(mechanism: Any, scene: Scene) -> LInfLaplace | None:
    """What a mechanism says of itself, as the l_inf mechanism of the same loss."""
    if not hasattr(mechanism, "loss"):
        return None
    loss = Fraction(mechanism.loss(scene.quantum))
    return LInfLaplace(loss / scene.quantum, scene.quantum, scene.slots)
