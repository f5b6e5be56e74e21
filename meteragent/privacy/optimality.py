"""The best that any private mechanism can do for a user, on finite sets, by linear programming.

Theory of operation
-------------------
A channel K(z|x) from secrets to outputs is private at `level`, the matrix epsilon d(x, x'), where

    K(z|x) <= e^level(x, x') K(z|x')        for all x, x', z  (Chatzikokolakis 2013, Definition 1).

A Bayesian user has a prior p and a loss(x, w) for the guess w; of z the user makes the guess that costs
least (the optimal remap). Remapping is post-processing, so the best mechanism for one user may as well
release guesses: it minimises the sum of cost(x, w) K(w|x), cost = prior * loss, a linear program. Two
users of one mechanism are one user whose guesses are pairs; a mechanism is best for both only where that
program's least cost is the sum of theirs.

A value found by a solver is believed only as far as its dual. For any multipliers >= 0 of the constraints
e^-level(x, x') K(z|x) - K(z|x') <= 0, and any private K, as what is added is not positive,

    sum of cost K >= sum over x of min over z of [cost(x, z) + sum over x' of
                         e^-level(x, x') multiplier(x, x', z) - multiplier(x', x, z)].

So `bound` needs no trust in the solver: `dual_bound` computes it from the multipliers, whatever they are.

Which queries have a mechanism that is best for every user (Chatzikokolakis 2013, Definition 7, Theorems 8 to
10)? A mechanism of the form H after f is private exactly where H is private for the metric that f induces on
its answers (`metric.Induced`), so the best H is a program on answers only. If that metric is a line of equal
steps, q|i-j|, which is to say that f is uniformly q-sensitive (`Query.uniformly_sensitive`), the truncated
geometric on 0..k with a remap attains the least loss for every prior and every loss that grows with |i-j|
(Ghosh, Roughgarden, Sundararajan 2009): it is universally optimal among the mechanisms H after f, and a
user who knows which databases occur may do better with one of another form. Counts under d_h are such
lines; so are sums and percentiles under d_1, normalised or not, percentiles under d_inf, and averages that
are rounded to whole quanta. An unrounded average of n whole numbers is not: under d_inf shifting all n moves
it by 1, while 1/n and 1 are as far from 0.

Where the induced graph under d_h is no path, no such mechanism exists for any epsilon < ln 2 (Theorem 9;
Brenner, Nissim 2010). Nothing of the kind holds in general: answers on a line of unequal steps, such as 0, 1,
3, have a Laplace mechanism (Definition 6) that serves every user we tried best.

For example: who expects a count of 0 .. 5 to be small, and minds how far off a guess is. The rows of a
mechanism's `channel` do as its matrix.

    >>> import numpy as np
    >>> from meteragent.privacy import TruncatedGeometric
    >>> mechanism = TruncatedGeometric("1/2", quantum=1, k=5)
    >>> counts = np.arange(6)
    >>> user = User(prior=np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.05]), loss=abs(counts[:, None] - counts))
    >>> rows = mechanism.channel.rows
    >>> optimal_remap(user, rows)
    array([0, 1, 1, 2, 2, 3])
    >>> round(expected_loss(user, rows), 4), round(bayes_loss(user, rows), 4)
    (1.0566, 0.8749)

No mechanism that is as private, remapped, serves this user better, by the program's value and by its dual:

    >>> best = best_mechanism(user, levels_between(mechanism.space.points, mechanism.space.metric, "1/2"))
    >>> round(best.value, 4), round(best.bound, 4)
    (0.8749, 0.8749)
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, hstack, identity, kron, vstack

from meteragent.privacy.exact import Exact, positive
from meteragent.privacy.metric import Metric

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TOLERANCE = 1e-10


class User(NamedTuple):
    """A Bayesian user: `prior[x]` of secrets, `loss[x, w]` of the guess w where x is true."""

    prior: Floats
    loss: Floats


class Optimum(NamedTuple):
    """A linear program's answer: `value`, attained by `channel`, and `bound`, below which nothing private is.

    `bound` follows from `multipliers` (x, x', z) alone; value - bound is what the solver left open.
    """

    value: float
    bound: float
    channel: Floats
    multipliers: Floats


# Bayesian utility -----------------------------------------------------------------------------------


def expected_loss(user: User, channel: ArrayLike) -> float:
    """The mean loss of a user who takes outputs as they are: sum of prior(x) K(w|x) loss(x, w).

    Its negative, with a gain for a loss, is the utility of Chatzikokolakis 2013, section 4.2.
    """
    return float(np.sum(_weighed(user.prior, channel) * np.asarray(user.loss)))


def optimal_remap(user: User, channel: ArrayLike) -> Integers:
    """Return the guess for each output that costs the user least on average: the best of all remaps."""
    return np.asarray(np.argmin(_costs(user, channel), axis=1))


def bayes_loss(user: User, channel: ArrayLike) -> float:
    """Return the mean loss of a user under the best of all remaps: sum over z of min over w of sum over x."""
    return float(np.min(_costs(user, channel), axis=1).sum())


def _costs(user: User, channel: ArrayLike) -> Floats:
    """The cost of guess w at output z, (z, w)."""
    return np.asarray(_weighed(user.prior, channel).T @ np.asarray(user.loss, float))


def _weighed(prior: ArrayLike, rows: ArrayLike) -> Floats:
    """Row x of an array, times prior(x)."""
    weights, matrix = np.asarray(prior, float), np.asarray(rows, float)
    if matrix.ndim != 2 or weights.shape != matrix.shape[:1]:
        raise ValueError(f"each secret has a prior and a row: not {weights.shape} and {matrix.shape}")
    return np.asarray(weights[:, None] * matrix)


# The best mechanism ---------------------------------------------------------------------------------


def levels_between(points: Sequence[Any], metric: Metric, epsilon: Exact) -> Floats:
    """The matrix epsilon d(x, x') of all pairs of `points`.

    Raises:
        TypeError: epsilon is not exact.  ValueError: it is not above zero.
    """
    exact = positive("epsilon", epsilon)
    return np.array([[float(exact * metric(x, other)) for other in points] for x in points])


def best_mechanism(user: User, level: Floats) -> Optimum:
    """The private mechanism that serves `user` best, its outputs being guesses.

    `level[x, x']` is epsilon d(x, x'), inf where anything may be told apart. Secrets may be databases,
    with loss[x] = loss of the query's answer, or answers, with the induced metric.
    """
    return least_cost(_weighed(user.prior, user.loss), level)


def best_for_all(users: Sequence[User], level: Floats) -> Optimum:
    """One private mechanism for several users, the sum of whose losses is least; outputs are their guesses.

    Output number z is z's digits, one guess per user. If the bound is above the sum of each user's own
    `best_mechanism(..).value`, no mechanism is best for all of them, whatever they do with its outputs
    (Chatzikokolakis 2013, Theorem 9).
    """
    cost = np.zeros((len(level), 1))
    for user in users:
        own = _weighed(user.prior, user.loss)
        cost = (cost[:, :, None] + own[:, None, :]).reshape(len(level), -1)
    return least_cost(cost, level)


def least_cost(cost: Floats, level: Floats) -> Optimum:
    """Minimise the sum of cost(x, z) K(z|x) over all channels K private at `level`."""
    secrets, outputs = cost.shape
    first, second = _edges(level)
    private = _private(level, first, second, outputs)
    rows = kron(identity(secrets), np.ones((1, outputs)), format="csr")
    solved = _solve(cost.ravel(), private, np.zeros(private.shape[0]), rows, np.ones(secrets))
    multipliers = np.zeros((secrets, secrets, outputs))
    multipliers[first, second] = np.maximum(-solved.multipliers.reshape(-1, outputs), 0)
    channel = solved.x.reshape(secrets, outputs)
    return Optimum(solved.value, dual_bound(cost, level, multipliers), channel, multipliers)


def dual_bound(cost: Floats, level: Floats, multipliers: Floats) -> float:
    """What no channel private at `level` costs less than, by any multipliers(x, x', z) >= 0.

    Raises:
        ValueError: a multiplier is negative, and proves nothing.
    """
    if np.any(multipliers < 0):
        raise ValueError("a multiplier is negative: a bound follows from those that are not")
    own = np.einsum("xy,xyz->xz", np.exp(-level), multipliers)
    return float(np.min(cost + own - multipliers.sum(axis=0), axis=1).sum())


def least_maximal_error(error: Floats, level: Floats, delta: float = 0.0) -> float:
    """The least, over all (level, delta)-private channels, of the largest mean error(x, z) of a secret.

    With level = epsilon off the diagonal: (epsilon, delta)-differentially private sanitisations of a finite
    set, whose maximal expected error Holohan 2014, Theorems 6 and 7, bound from below (`floor`).
    With slack s(x, x', z) >= K(z|x) - e^level K(z|x'), the sum over z of s is at most delta.
    """
    secrets, outputs = error.shape
    first, second = _edges(level) if delta == 0 else _pairs(level)
    private = _private(level, first, second, outputs)
    rows = kron(identity(secrets), np.ones((1, outputs)), format="csr")
    mean = hstack([rows.multiply(error.ravel()), csr_array(-np.ones((secrets, 1)))])
    above = vstack([hstack([private, csr_array((private.shape[0], 1))]), mean])
    rows, limit = hstack([rows, csr_array((secrets, 1))]), np.zeros(above.shape[0])
    if delta:
        slacks = private.shape[0]
        shrunk = np.repeat(np.exp(-level[first, second]), outputs)
        slack = vstack([-coo_array((shrunk, (np.arange(slacks),) * 2)), csr_array((secrets, slacks))])
        total = kron(identity(first.size), np.ones((1, outputs)))
        above = vstack([hstack([above, slack]), hstack([csr_array((first.size, above.shape[1])), total])])
        limit = np.append(limit, np.full(first.size, delta))
        rows = hstack([rows, csr_array((secrets, slacks))])
    objective = np.zeros(above.shape[1])
    objective[secrets * outputs] = 1
    return _solve(objective, above, limit, rows, np.ones(secrets)).value


def _pairs(level: Floats) -> tuple[Integers, Integers]:
    """All (x, x') that a constraint binds."""
    first, second = np.nonzero(np.isfinite(level) & ~np.eye(len(level), dtype=bool))
    return first, second


def _edges(level: Floats) -> tuple[Integers, Integers]:
    """The pairs (x, x') whose constraints imply all others: no third secret lies between."""
    first, second = _pairs(level)
    through = level[first] + level[:, second].T
    through[(level[first] <= 0) | (level[:, second].T <= 0)] = math.inf
    kept = through.min(axis=1) > level[first, second]
    return first[kept], second[kept]


def _private(level: Floats, first: Integers, second: Integers, outputs: int) -> csr_array:
    """e^-level(x, x') K(z|x) - K(z|x') <= 0 for each pair and output; no coefficient above 1."""
    count = first.size * outputs
    z = np.arange(outputs)
    columns = [(x[:, None] * outputs + z).ravel() for x in (first, second)]
    values = np.concatenate([np.repeat(np.exp(-level[first, second]), outputs), -np.ones(count)])
    places = (np.tile(np.arange(count), 2), np.concatenate(columns))
    return csr_array(coo_array((values, places), shape=(count, level.shape[0] * outputs)))


class _Solved(NamedTuple):
    value: float
    x: Floats
    multipliers: Floats


def _solve(objective: Floats, above: csr_array, limit: Floats, rows: csr_array, sums: Floats) -> _Solved:
    """Minimise objective x over x >= 0 with above x <= limit and rows x = sums."""
    options = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE}
    solved = linprog(objective, above, limit, rows, sums, method="highs", options=options)
    if not solved.success:
        raise ArithmeticError(f"the solver gave up: {solved.message}")
    return _Solved(float(solved.fun), solved.x, solved.ineqlin.marginals)


# Windows --------------------------------------------------------------------------------------------


def best_noise(n: int, a: float, reach: int, loss: Callable[[int], float]) -> float:
    """The least mean of sum over i of loss(|z_i|) for noise z on a lattice box that is a d_inf-private there.

    Over all laws on {-reach..reach}^n with P(z) <= e^(a d_inf(z, z')) P(z'). The average of a law over all
    changes of signs and order is as private and as good, so one variable stands for each |z| in order.
    For a loss so large outside the box that loss(reach + 1) is no less than the result, no noise on Z^n
    is better: within the box each does no better than this, outside worse. Measured for |z| and z^2 and
    n <= 7 it is the l_inf Laplace law's (T.6); for other losses it may be less.
    """
    orbits = [key[::-1] for key in combinations_with_replacement(range(reach + 1), n)]
    number = {key: index for index, key in enumerate(orbits)}
    pairs = {(number[key], number[near]) for key in orbits for near in _neighbours(key, reach) if near != key}
    first, second = np.array(sorted(pairs)).T
    # The variables are e^(a max|z_i|) P(z): all of one size, however far the box reaches.
    largest = np.array([key[0] for key in orbits])
    mass = np.array([_orbit_size(key) for key in orbits]) * np.exp(-a * largest)
    costs = np.array([sum(map(loss, key)) for key in orbits], float)
    shrunk = np.exp(-a * (1 + largest[first] - largest[second]))
    places = (np.tile(np.arange(first.size), 2), np.concatenate([first, second]))
    values = np.concatenate([shrunk, -np.ones(first.size)])
    private = csr_array(coo_array((values, places), shape=(first.size, len(orbits))))
    return _solve(costs * mass, private, np.zeros(first.size), csr_array(mass[None, :]), np.ones(1)).value


def _neighbours(key: tuple[int, ...], reach: int) -> set[tuple[int, ...]]:
    """The orbits that points at d_inf = 1 from `key` belong to: such steps make all distances."""
    choices = [[z for z in (value - 1, value, value + 1) if 0 <= z <= reach] for value in key]
    return {tuple(sorted(near, reverse=True)) for near in product(*choices)}


def _orbit_size(key: tuple[int, ...]) -> int:
    """How many points have these |z_i|, in any order."""
    orders = math.factorial(len(key)) // math.prod(math.factorial(key.count(value)) for value in set(key))
    return orders << sum(value > 0 for value in key)
