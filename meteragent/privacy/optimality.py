"""The least losses that private mechanisms can have, on finite sets and for windows, by linear programming.

A channel K(z|x) from secrets to outputs is private at `level`, the matrix epsilon d(x, x'), if

    K(z|x) <= e^level(x, x') K(z|x')        for all x, x', z  (Chatzikokolakis 2013, Definition 1).

A Bayesian user has a prior p(x) and a loss(x, w) for the guess w, and maps the output z to the guess with the
least mean loss (the optimal remap). Remapping is post-processing, so the best mechanism for one user may as
well release guesses: it minimises the sum of cost(x, w) K(w|x), cost = prior * loss, a linear program. Two
users are equivalent to one user whose guesses are pairs. A mechanism is best for both only if the least cost
for pairs is the sum of their least costs.

A solver's value is trusted only as far as its dual proves it. Consider multipliers >= 0 of the constraints
e^-level(x, x') K(z|x) - K(z|x') <= 0. For any private K the added terms are not positive, so

    sum of cost K >= sum over x of min over z of [cost(x, z) + sum over x' of
                         e^-level(x, x') multiplier(x, x', z) - multiplier(x', x, z)].

So the validity of `bound` does not depend on the solver: `dual_bound` computes it from any multipliers >= 0.

Some queries have a mechanism that is best for every user (Chatzikokolakis 2013, Definition 7, Theorems 8 and
10). A mechanism H after f is private if and only if H is private for the metric that f induces on its answers
(`metric.Induced`), so the best H solves a program on the answers alone. If that metric is a line of equal
steps q|i-j| (`Query.is_uniformly_sensitive`), the truncated geometric mechanism on 0..k with a remap attains
the least loss for every prior and every loss that does not decrease as |i-j| grows (Ghosh, Roughgarden,
Sundararajan 2009). A user who knows which databases occur may be better served by a mechanism of another
form. The answers of counts under d_h form a line of equal steps; so do those of sums and percentiles under
d_1 (normalised or not), percentiles under d_inf, and averages that are rounded to whole quanta.

If the induced graph under d_h is not a path, no mechanism is universally optimal for any epsilon < ln 2
(Theorem 9; Brenner, Nissim 2010). This theorem does not hold for other metrics: answers on a line of unequal
steps, such as 0, 1, 3, have a Laplace mechanism (Definition 6) that was best for every user that we tried.

For example, a user expects a count of 0 .. 5 to be small; the loss is the distance between the guess and the
true count. The rows of a mechanism's `channel` serve as its matrix.

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

The program's value and its dual show that no equally private mechanism is better for this user:

    >>> best = best_mechanism(user, levels_between(mechanism.space.points, mechanism.space.metric, "1/2"))
    >>> round(best.value, 4), round(best.bound, 4)
    (0.8749, 0.8749)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """A Bayesian user: the prior of each secret x, and `loss[x, w]` of the guess w if the secret is x."""

    prior: Floats
    loss: Floats


class Optimum(NamedTuple):
    """A linear program's solution: `value`, attained by `channel`, and `bound`, proved by `multipliers`."""

    value: float
    bound: float
    channel: Floats
    multipliers: Floats


def expected_loss(user: User, channel: ArrayLike) -> float:
    """Return the mean loss, sum of prior(x) K(w|x) loss(x, w) (Chatzikokolakis 2013, section 4.2)."""
    return float(np.sum(_weigh(user.prior, channel) * np.asarray(user.loss)))


def optimal_remap(user: User, channel: ArrayLike) -> Integers:
    """Return, for each output, the guess with the user's least mean loss: the best remap."""
    return np.asarray(np.argmin(_costs(user, channel), axis=1))


def bayes_loss(user: User, channel: ArrayLike) -> float:
    """Return the mean loss of a user under the best remap: sum over z of min over w of the cost (z, w)."""
    return float(np.min(_costs(user, channel), axis=1).sum())


def _costs(user: User, channel: ArrayLike) -> Floats:
    """Return the cost of guess w at output z, shape (z, w): sum over x of prior(x) K(z|x) loss(x, w)."""
    return np.asarray(_weigh(user.prior, channel).T @ np.asarray(user.loss, float))


def _weigh(prior: ArrayLike, rows: ArrayLike) -> Floats:
    """Multiply row x of an array by prior(x). Raises ValueError if there are not as many priors as rows."""
    weights, matrix = np.asarray(prior, float), np.asarray(rows, float)
    if matrix.ndim != 2 or weights.shape != matrix.shape[:1]:
        raise ValueError(f"each secret needs a prior and a row: not {weights.shape} and {matrix.shape}")
    return np.asarray(weights[:, None] * matrix)


def levels_between(points: Sequence[Any], metric: Metric, epsilon: Exact) -> Floats:
    """Return epsilon d(x, x') for all `points`, as floats. Raises ValueError unless epsilon is positive."""
    exact = positive("epsilon", epsilon)
    return np.array([[float(exact * metric(x, y)) for y in points] for x in points])


def best_mechanism(user: User, level: Floats) -> Optimum:
    """Find the private mechanism with the least mean loss for `user`; its outputs are guesses.

    `level[x, x']` is epsilon d(x, x'), or inf if the two secrets may be distinguished. Secrets may be
    databases, with loss[x] the loss of the query's answer at x, or answers, with the induced metric. Raises
    ValueError if the prior and the loss do not have the same number of secrets; ArithmeticError if the solver
    finds no solution.
    """
    return least_cost(_weigh(user.prior, user.loss), level)


def best_for_all(users: Sequence[User], level: Floats) -> Optimum:
    """Find the private mechanism with the least sum of several users' mean losses.

    An output is one guess for each user; the guesses are the digits of the output's number. If the bound is
    above the sum of `best_mechanism(user, level).value` over the users, no mechanism is best for all users,
    whatever their remaps (Chatzikokolakis 2013, Theorem 9). Raises ValueError or ArithmeticError as for
    `best_mechanism`.
    """
    cost = np.zeros((len(level), 1))
    for user in users:
        user_cost = _weigh(user.prior, user.loss)
        cost = (cost[:, :, None] + user_cost[:, None, :]).reshape(len(level), -1)
    return least_cost(cost, level)


def least_cost(cost: Floats, level: Floats) -> Optimum:
    """Minimise the sum of cost(x, z) K(z|x) over channels private at `level`, or raise ArithmeticError."""
    secrets, outputs = cost.shape
    first, second = _edges(level)
    private = _privacy_rows(level, first, second, outputs)
    rows = kron(identity(secrets), np.ones((1, outputs)), format="csr")
    solution = _solve(cost.ravel(), private, np.zeros(private.shape[0]), rows, np.ones(secrets))
    multipliers = np.zeros((secrets, secrets, outputs))
    multipliers[first, second] = np.maximum(-solution.multipliers.reshape(-1, outputs), 0)
    channel = solution.x.reshape(secrets, outputs)
    return Optimum(solution.value, dual_bound(cost, level, multipliers), channel, multipliers)


def dual_bound(cost: Floats, level: Floats, multipliers: Floats) -> float:
    """Return a lower bound on the cost of all channels private at `level`, from any multipliers >= 0."""
    if np.any(multipliers < 0):
        raise ValueError("a multiplier is negative: only multipliers >= 0 prove a bound")
    weighted = np.einsum("xy,xyz->xz", np.exp(-level), multipliers)
    return float(np.min(cost + weighted - multipliers.sum(axis=0), axis=1).sum())


def least_maximal_error(error: Floats, level: Floats, delta: float = 0.0) -> float:
    """Return the least possible value, over all (level, delta)-private channels, of the largest mean error.

    The mean error of a secret x is the sum over z of K(z|x) error(x, z); the largest is over all secrets. If
    level = epsilon off the diagonal, the channels are the (epsilon, delta)-differentially private
    sanitisations of a finite set. Holohan 2014, Theorems 6 and 7, bound their maximal expected error from
    below (`floor`). For each pair, slacks s(x, x', z) >= K(z|x) - e^level K(z|x') add up to at most delta
    over all z. Raises ArithmeticError if the solver finds no solution.
    """
    secrets, outputs = error.shape
    first, second = _edges(level) if delta == 0 else _pairs(level)
    private = _privacy_rows(level, first, second, outputs)
    rows = kron(identity(secrets), np.ones((1, outputs)), format="csr")
    mean = hstack([rows.multiply(error.ravel()), csr_array(-np.ones((secrets, 1)))])
    constraints = vstack([hstack([private, csr_array((private.shape[0], 1))]), mean])
    rows, limit = hstack([rows, csr_array((secrets, 1))]), np.zeros(constraints.shape[0])
    if delta:
        slacks = private.shape[0]
        factors = np.repeat(np.exp(-level[first, second]), outputs)
        slack = vstack([-coo_array((factors, (np.arange(slacks),) * 2)), csr_array((secrets, slacks))])
        total = kron(identity(first.size), np.ones((1, outputs)))
        constraints = vstack(
            [hstack([constraints, slack]), hstack([csr_array((first.size, constraints.shape[1])), total])]
        )
        limit = np.append(limit, np.full(first.size, delta))
        rows = hstack([rows, csr_array((secrets, slacks))])
    objective = np.zeros(constraints.shape[1])
    objective[secrets * outputs] = 1
    return _solve(objective, constraints, limit, rows, np.ones(secrets)).value


def _pairs(level: Floats) -> tuple[Integers, Integers]:
    """Return all pairs (x, x') at a finite level: other pairs have no constraint."""
    first, second = np.nonzero(np.isfinite(level) & ~np.eye(len(level), dtype=bool))
    return first, second


def _edges(level: Floats) -> tuple[Integers, Integers]:
    """Return the pairs (x, x') with no third secret between them; their constraints imply all others."""
    first, second = _pairs(level)
    through = level[first] + level[:, second].T
    through[(level[first] <= 0) | (level[:, second].T <= 0)] = math.inf
    direct = through.min(axis=1) > level[first, second]
    return first[direct], second[direct]


def _privacy_rows(level: Floats, first: Integers, second: Integers, outputs: int) -> csr_array:
    """Return the constraints e^-level(x, x') K(z|x) - K(z|x') <= 0; in this form no coefficient exceeds 1."""
    count = first.size * outputs
    z = np.arange(outputs)
    columns = [(x[:, None] * outputs + z).ravel() for x in (first, second)]
    values = np.concatenate([np.repeat(np.exp(-level[first, second]), outputs), -np.ones(count)])
    places = (np.tile(np.arange(count), 2), np.concatenate(columns))
    return csr_array(coo_array((values, places), shape=(count, level.shape[0] * outputs)))


class _Solution(NamedTuple):
    """The least value of a linear program, its variables, and its inequalities' multipliers times -1."""

    value: float
    x: Floats
    multipliers: Floats


def _solve(
    objective: Floats, constraints: csr_array, limit: Floats, rows: csr_array, sums: Floats
) -> _Solution:
    """Minimise objective @ x, x >= 0, constraints @ x <= limit, rows @ x = sums, or raise ArithmeticError."""
    options = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE}
    solution = linprog(objective, constraints, limit, rows, sums, method="highs", options=options)
    if not solution.success:
        raise ArithmeticError(f"the solver found no solution: {solution.message}")
    return _Solution(float(solution.fun), solution.x, solution.ineqlin.marginals)
