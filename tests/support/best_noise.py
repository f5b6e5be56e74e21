"""The least error of private noise on a lattice box, by linear program: the reference of theory's T.6."""

import math
from collections.abc import Callable
from itertools import combinations_with_replacement, product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array

_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def best_noise(n: int, a: float, reach: int, loss: Callable[[int], float]) -> float:
    """Return the least mean of sum over i of loss(|z_i|) for (a d_inf)-private noise z on {-reach..reach}^n.

    Averaging a distribution over all changes of signs and order preserves its privacy and its mean loss, so
    one variable suffices for each sorted |z|. If `loss` does not decrease and loss(reach + 1) is at least the
    result, no noise on Z^n is better, because outside the box the sum is at least loss(reach + 1).
    """
    orbits = [key[::-1] for key in combinations_with_replacement(range(reach + 1), n)]
    number = {key: index for index, key in enumerate(orbits)}
    pairs = {
        (number[key], number[neighbour])
        for key in orbits
        for neighbour in _neighbours(key, reach)
        if neighbour != key
    }
    first, second = np.array(sorted(pairs)).T
    # The variables are e^(a max|z_i|) P(z), which are of similar size even for a large box.
    largest = np.array([key[0] for key in orbits])
    mass = np.array([_orbit_size(key) for key in orbits]) * np.exp(-a * largest)
    costs = np.array([sum(map(loss, key)) for key in orbits], float)
    factors = np.exp(-a * (1 + largest[first] - largest[second]))
    places = (np.tile(np.arange(first.size), 2), np.concatenate([first, second]))
    values = np.concatenate([factors, -np.ones(first.size)])
    private = csr_array(coo_array((values, places), shape=(first.size, len(orbits))))
    limits = np.zeros(first.size)
    solution = linprog(costs * mass, private, limits, mass[None, :], [1.0], method="highs", options=_EXACT)
    assert solution.success
    return float(solution.fun)


def _neighbours(key: tuple[int, ...], reach: int) -> set[tuple[int, ...]]:
    """Return the sorted |z| of the points at d_inf <= 1 from `key`; steps of 1 add up to every distance."""
    choices = [[z for z in (value - 1, value, value + 1) if 0 <= z <= reach] for value in key]
    return {tuple(sorted(neighbour, reverse=True)) for neighbour in product(*choices)}


def _orbit_size(key: tuple[int, ...]) -> int:
    """Count the points whose |z_i| are the values of `key`, in any order and with any signs."""
    orders = math.factorial(len(key)) // math.prod(math.factorial(key.count(value)) for value in set(key))
    return orders << sum(value > 0 for value in key)
