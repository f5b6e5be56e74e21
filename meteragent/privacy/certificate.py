"""How often anyone can say which of N known load shapes was played: bounds that carry their own proof.

Theory of operation
-------------------
A library of N windows x_i on the lattice (in quanta), a prior, and one window that leaves. An attacker names
shape i where it sees A_i; it is right with the chance S = sum over i of prior_i P_i(A_i).

*For one law*: the best attacker names the shape with the largest prior_i P_i(z). `best_attack` adds these up
over a box of outputs; what is outside has at most the tail of the noise. Feasible for n = 1..3.

*For every mechanism* that is epsilon d_inf-private: with its attacker it is a channel from shapes to names,
and S is linear in it. So the largest S is that of a linear program, and any multipliers of its constraints
prove a bound (`optimality.dual_bound`), whatever solver they come from. More windows of the lattice beside
the library's, on which the mechanism must be private too, can only lower it (`through`): the windows between
two shapes, or one in the middle of all.

*A proof by hand*. Weights y_c >= 0 on windows c of the lattice, such that for each i

    sum over c of y_c e^(-a d_inf(x_i, c)) >= prior_i.

Then Q = sum of y_c P_c has Q(A) >= prior_i P_i(A) for every event A and every private mechanism, so S is at
most the sum of the Q(A_i), which is at most the sum of y. The least sum is a program of N constraints
(`mixture`), for libraries of thousands; all weight on a middle window gives e^(a k/2)/N of THEORY 7.

What it does not say: a certificate holds for one quantised library, one prior and one window. Another
appliance, another guess of how likely each is, or a second window of the same programme is another program.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.optimality import dual_bound, least_cost

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TAIL = 1e-9
_OUTPUTS_LIMIT = 1 << 24


class Enclosure(NamedTuple):
    """A number between `low` and `high`."""

    low: float
    high: float


@dataclass(frozen=True, init=False, eq=False)
class Library:
    """N windows of n slots, one of which was played: `signatures` in quanta, shape (N, n), and their prior.

    Each is as likely unless `prior`, N numbers that sum to 1, says otherwise.

    Raises:
        TypeError: the signatures are not integers.
        ValueError: they have another shape, or the prior is none.
    """

    signatures: Integers
    prior: Floats

    def __init__(self, signatures: ArrayLike, prior: Sequence[float] | None = None) -> None:
        given = np.asarray(signatures)
        if given.dtype.kind not in "iu":
            raise TypeError(f"signatures are whole quanta: an array of integers, not of {given.dtype}")
        if given.ndim != 2 or 0 in given.shape:
            raise ValueError(f"signatures have shape (N, n), not {given.shape}")
        chances = np.full(len(given), 1 / len(given)) if prior is None else np.asarray(prior, float)
        if chances.shape != (len(given),) or chances.min() < 0 or not math.isclose(chances.sum(), 1):
            raise ValueError(f"a prior is {len(given)} numbers >= 0 that sum to 1")
        object.__setattr__(self, "signatures", given.astype(np.int64))
        object.__setattr__(self, "prior", chances)


# For one law ----------------------------------------------------------------------------------------


def best_attack(mechanism: LInfLaplace, library: Library) -> Enclosure:
    """The chance to be right of the best attacker on the mechanism's own law, enumerated, to 1e-9.

    Raises:
        ValueError: the windows have not n slots, or there are more than 2^24 outputs to look at.
    """
    a, n = float(mechanism.a), mechanism.n
    if (slots := library.signatures.shape[1]) != n:
        raise ValueError(f"signatures have {n} slots, as the mechanism's windows, not {slots}")
    largest = np.arange(math.ceil((n + 60 + math.sqrt(3600 + 120 * n)) / a) + 1)
    # (2m+1)^n - (2m-1)^n points have max|z_i| = m; the first one is alone.
    counts = (2.0 * largest + 1) ** n - np.maximum(2.0 * largest - 1, 0) ** n
    shells = counts * np.exp(-a * largest)
    beyond = 1 - np.cumsum(shells) / shells.sum()
    reach = int(np.argmax(beyond <= _TAIL))
    axes = [np.arange(low - reach, high + reach + 1) for low, high in _ranges(library)]
    if math.prod(axis.size for axis in axes) > _OUTPUTS_LIMIT:
        raise ValueError("too many outputs to enumerate: certify bounds every mechanism, also this one")
    best = np.zeros([axis.size for axis in axes])
    for signature, chance in zip(library.signatures, library.prior, strict=True):
        distance = np.zeros_like(best)
        for i, (axis, value) in enumerate(zip(axes, signature, strict=True)):
            along = np.abs(axis - value).astype(float).reshape([-1 if j == i else 1 for j in range(n)])
            np.maximum(distance, along, out=distance)
        np.maximum(best, chance * np.exp(-a * distance), out=best)
    low = float(best.sum() / shells.sum())
    return Enclosure(low, min(1.0, low + _TAIL))


def _ranges(library: Library) -> list[tuple[int, int]]:
    """The least and the largest value of each slot."""
    low, high = library.signatures.min(axis=0), library.signatures.max(axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


# For every mechanism --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Certificate:
    """No attacker is right more often than `bound`, on any mechanism as private: one library, one window.

    `attained` is what some private mechanism reaches: between the two is what the solver left open.
    `cost`, `level` and `multipliers` are the proof, as `optimality.dual_bound` takes them.
    """

    bound: float
    attained: float
    cost: Floats
    level: Floats
    multipliers: Floats

    def holds(self) -> bool:
        """Whether the multipliers prove the bound, computed anew without a solver."""
        return bool(np.all(self.multipliers >= 0)) and self.bound >= -dual_bound(
            self.cost, self.level, self.multipliers
        )


def certify(mechanism: LInfLaplace, library: Library, through: ArrayLike = ()) -> Certificate:
    """The linear program over all mechanisms as private as this one, and what proves its value.

    `through`, windows in quanta of shape (m, n), may be any others of the lattice. (N+m)^2 N constraints,
    many of which follow from others: 20 shapes take less than a second, 40 several; for more see `mixture`.
    """
    points = _with(library, through)
    shapes = len(library.prior)
    cost = np.zeros((len(points), shapes))
    cost[:shapes] = -np.diag(library.prior)
    level = float(mechanism.a) * _distances(points, points)
    optimum = least_cost(cost, level)
    return Certificate(-optimum.bound, -optimum.value, cost, level, optimum.multipliers)


@dataclass(frozen=True, eq=False)
class Mixture:
    """The proof by hand: `weights` on `points` (quanta), whose sum is `bound`: one library, one window."""

    bound: float
    points: Integers
    weights: Floats


def mixture(mechanism: LInfLaplace, library: Library, through: ArrayLike = ()) -> Mixture:
    """The least sum of weights y_c >= 0 with sum y_c e^(-a d(x_i, c)) >= prior_i for each shape i.

    On the library's windows, the one in the middle of them all, and `through`. The weights are scaled up
    so that the inequalities hold as computed, whatever the solver's tolerance. At least what `certify`
    finds for the same windows.
    """
    low, high = np.transpose(_ranges(library))
    points = np.vstack([_with(library, through), [(low + high) // 2]])
    shrunk = np.exp(-float(mechanism.a) * _distances(library.signatures, points))
    solved = linprog(np.ones(len(points)), -shrunk, -library.prior, method="highs")
    weights = np.maximum(solved.x, 0)
    weights *= max(1.0, float(np.max(library.prior / (shrunk @ weights))))
    return Mixture(min(1.0, float(weights.sum())), points, weights)


def _with(library: Library, through: ArrayLike) -> Integers:
    """The library's windows, then `through`."""
    extra = np.asarray(through, np.int64).reshape(-1, library.signatures.shape[1])
    return np.vstack([library.signatures, extra])


def _distances(one: Integers, other: Integers) -> Floats:
    """The d_inf of all pairs, in quanta."""
    return np.asarray(np.abs(one[:, None] - other).max(axis=2), float)
