"""Maximally tight parts of the paper's families, which can be enumerated on larger sets (theory's T.9)."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

from meteragent.privacy.adversary import Hiding, Neighbourhood
from simulators.papers.families import _row, _rowwise


def row_exchanges(values: Sequence[Any], n: int) -> tuple[Hiding, ...]:
    """Return the exchanges in Phi_1: v and w change places in row i."""
    pairs = list(combinations(values, 2))
    return tuple(_rowwise(n, {i: {v: w, w: v}}) for i in range(n) for v, w in pairs)


def database_exchanges(values: Sequence[Any], n: int) -> tuple[Hiding, ...]:
    """Return the exchanges in Phi_inf: v_i and w_i change places in every row."""
    pairs = combinations(product(values, repeat=n), 2)
    return tuple(_rowwise(n, {i: {v[i]: w[i], w[i]: v[i]} for i in range(n)}) for v, w in pairs)


def row_segments(values: Sequence[Any], n: int) -> tuple[Neighbourhood, ...]:
    """Return the intervals in N_1: all rows except row i are known, and row i lies between v and w."""
    segments = [[u for u in values if v <= u <= w] for v, w in combinations(sorted(values), 2)]
    databases = list(product(values, repeat=n))
    members = (_row(segment, x, i) for segment in segments for x in databases for i in range(n))
    return tuple(dict.fromkeys(map(Neighbourhood, members)))


def boxes(values: Sequence[Any], n: int) -> tuple[Neighbourhood, ...]:
    """Return the boxes in N_inf: each row is known to lie between two values."""
    sides = [[u for u in values if v <= u <= w] for v in values for w in values if v <= w]
    members = (frozenset(product(*box)) for box in product(sides, repeat=n))
    return tuple(Neighbourhood(box) for box in members if len(box) > 1)
