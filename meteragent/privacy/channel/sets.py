"""Events, and the algebras that they generate (Holohan, Leith, Mason 2014, section 2 and Theorem 3).

An algebra contains the whole set, and the complements and finite unions of its members. Theorem 3: a bound
P(A|x) <= e^epsilon P(A|x') + delta that holds on an algebra also holds on the sigma-algebra that the algebra
generates. It does not suffice that the bound holds on a generating set of events. For example, half-lines
generate all events of a line, and cylinders over all coordinates but one generate all events of a product.
But the bound may hold on all of these sets and fail on a union of them (THEORY 6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, combinations

Event = frozenset[Hashable]

_LARGEST = 20


def all_events(outputs: Iterable[Hashable]) -> tuple[Event, ...]:
    """Return all 2^k events over k outputs. Raises ValueError if there are more than 20 outputs."""
    return _unions([frozenset([z]) for z in dict.fromkeys(outputs)])


def algebra(events: Iterable[Iterable[Hashable]], outputs: Sequence[Hashable]) -> tuple[Event, ...]:
    """Return all unions of the atoms: sets of outputs in the same events. ValueError above 20 atoms."""
    sets = [frozenset(event) for event in events]
    atoms: defaultdict[tuple[bool, ...], list[Hashable]] = defaultdict(list)
    for z in outputs:
        atoms[tuple(z in event for event in sets)].append(z)
    return _unions([frozenset(atom) for atom in atoms.values()])


Rectangle = tuple[Event, Event]
"""A product A x B of two events."""


def disjoint_second(rectangles: Sequence[Rectangle]) -> tuple[Rectangle, ...]:
    """Return rectangles with the same union whose second sides are disjoint (Holohan 2014, Lemma 1).

    The rectangle of a set I of indices is the union of all A_i with i in I, times the set of points that are
    in all B_i with i in I and in no other B_i. Rectangles with an empty side are omitted. Raises ValueError
    if there are more than 20 rectangles.
    """
    if len(rectangles) > _LARGEST:
        raise ValueError(f"{len(rectangles)} rectangles are too many: at most {_LARGEST}")
    points = dict.fromkeys(chain.from_iterable(second for _, second in rectangles))
    cells: defaultdict[frozenset[int], set[Hashable]] = defaultdict(set)
    for point in points:
        cells[frozenset(i for i, (_, second) in enumerate(rectangles) if point in second)].add(point)
    disjoint = (
        (frozenset().union(*(rectangles[i][0] for i in indices)), frozenset(b))
        for indices, b in cells.items()
    )
    return tuple((a, b) for a, b in disjoint if a)


def disjoint_first(rectangles: Sequence[Rectangle]) -> tuple[Rectangle, ...]:
    """Do as `disjoint_second` does, but make the first sides disjoint (Holohan 2014, Lemma 2)."""
    swapped_rectangles = disjoint_second([(second, first) for first, second in rectangles])
    return tuple((first, second) for second, first in swapped_rectangles)


def _unions(atoms: Sequence[Event]) -> tuple[Event, ...]:
    if len(atoms) > _LARGEST:
        raise ValueError(f"{len(atoms)} atoms have 2^{len(atoms)} unions: at most {_LARGEST} are enumerated")
    choices = chain.from_iterable(combinations(atoms, k) for k in range(len(atoms) + 1))
    return tuple(frozenset(chain.from_iterable(choice)) for choice in choices)
