"""The paper's families of hiding functions and of neighbourhoods (Chatzikokolakis 2013).

Phi_1, N_1 (section 5.1), Phi_inf, N_inf (6.1) and Phi_2, N_2 (6.2) contain *every* map and *every* nonempty
subset of V (the values of a row) or of a set of places. They are for small sets: families of maps grow at
least as fast as |V|^|V|, and families of sets at least as fast as 2^|V|.

`whole_rows` is N_h of Theorem 2. `replacements` is Phi_h of Theorem 1 ("row i becomes w" for a fixed w). It
is not maximally tight: it characterises differential privacy only up to a factor of two.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from meteragent.privacy.adversary import Hiding, Neighbourhood, Point
from meteragent.privacy.channel import all_events

Database = tuple[Any, ...]


def replacements(values: Sequence[Any], n: int) -> tuple[Hiding, ...]:
    """Return phi_i,w: row i is set to w (d_h = 1); not maximally tight (Chatzikokolakis 2013, Theorem 1)."""
    return tuple(_rowwise(n, {i: dict.fromkeys(values, w)}) for i in range(n) for w in values)


def whole_rows(values: Sequence[Any], n: int) -> tuple[Neighbourhood, ...]:
    """Return N_h: only row i is unknown (d_h = 1); maximally tight (Chatzikokolakis 2013, Theorem 2)."""
    return tuple(
        dict.fromkeys(Neighbourhood(_row(values, x, i)) for x in product(values, repeat=n) for i in range(n))
    )


def row_maps(values: Sequence[Any], n: int) -> tuple[Hiding, ...]:
    """Return Phi_1: a map of V to itself is applied to row i (Chatzikokolakis 2013, section 5.1)."""
    maps = [dict(zip(values, images, strict=True)) for images in product(values, repeat=len(values))]
    return tuple(_rowwise(n, {i: w}) for i in range(n) for w in maps)


def row_sets(values: Sequence[Any], n: int) -> tuple[Neighbourhood, ...]:
    """Return N_1: row i is in U, a nonempty subset of V (section 5.1). Raises ValueError above 20 values."""
    members = (_row(u, x, i) for u in _subsets(values) for x in product(values, repeat=n) for i in range(n))
    return tuple(dict.fromkeys(map(Neighbourhood, members)))


def database_maps(values: Sequence[Any], n: int) -> tuple[Hiding, ...]:
    """Return Phi_inf: a separate map of V is applied to each row (Chatzikokolakis 2013, section 6.1)."""
    maps = [dict(zip(values, images, strict=True)) for images in product(values, repeat=len(values))]
    return tuple(_rowwise(n, dict(enumerate(chosen))) for chosen in product(maps, repeat=n))


def database_sets(values: Sequence[Any], n: int) -> tuple[Neighbourhood, ...]:
    """Return N_inf: row i is in V_i, any subset but the empty one (section 6.1). Raises as `row_sets`."""
    boxes_of_sets = product(_subsets(values), repeat=n)
    return tuple(Neighbourhood(frozenset(product(*box))) for box in boxes_of_sets)


def point_maps(points: Sequence[Point]) -> tuple[Hiding, ...]:
    """Return Phi_2: all maps of a finite set of places to itself (Chatzikokolakis 2013, section 6.2)."""
    images = product(points, repeat=len(points))
    return tuple(Hiding(dict(zip(points, image, strict=True)).__getitem__) for image in images)


def point_sets(points: Sequence[Point]) -> tuple[Neighbourhood, ...]:
    """Return N_2, all regions: nonempty subsets (section 6.2). Raises ValueError above 20 points."""
    return tuple(map(Neighbourhood, _subsets(points)))


def _subsets(values: Sequence[Any]) -> list[frozenset[Any]]:
    """Return all nonempty subsets of the values. Raises ValueError if there are more than 20 values."""
    return [subset for subset in all_events(values) if subset]


def _row(segment: Iterable[Any], x: Database, i: int) -> frozenset[Point]:
    """Return the databases that equal x except in row i, which may have any value of the segment."""
    return frozenset((*x[:i], u, *x[i + 1 :]) for u in segment)


def _rowwise(n: int, maps: dict[int, dict[Any, Any]]) -> Hiding:
    """Return the hiding function that applies maps[i] to row i; values without an image are unchanged."""
    steps = [maps.get(i, {}) for i in range(n)]
    return Hiding(lambda x: tuple(step.get(u, u) for u, step in zip(x, steps, strict=True)))
