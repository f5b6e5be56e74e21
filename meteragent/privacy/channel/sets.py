"""Events, and the algebras that they generate (Holohan, Leith, Mason 2014, section 2 and Theorem 3).

An algebra holds the whole set, complements and finite unions. Theorem 3: a bound P(A|x) <= e^epsilon
P(A|x') + delta that holds on an algebra holds on the sigma-algebra that it generates. It needs an algebra:
half-lines, or cylinders over some of the coordinates, generate all events of a line or of a product, and
yet they may hold the bound while a union of them breaks it (THEORY 6).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, combinations

Event = frozenset[Hashable]

_LARGEST = 20


def all_events(outputs: Iterable[Hashable]) -> tuple[Event, ...]:
    """All 2^k events of k outputs.

    Raises:
        ValueError: more than 20 outputs.
    """
    return _unions([frozenset([z]) for z in dict.fromkeys(outputs)])


def algebra(events: Iterable[Iterable[Hashable]], outputs: Sequence[Hashable]) -> tuple[Event, ...]:
    """The smallest algebra on `outputs` that holds all of `events`: the unions of its atoms.

    Two outputs are in one atom when each event has both or neither.

    Raises:
        ValueError: more than 20 atoms.
    """
    sets = [frozenset(event) for event in events]
    atoms: defaultdict[tuple[bool, ...], list[Hashable]] = defaultdict(list)
    for z in outputs:
        atoms[tuple(z in event for event in sets)].append(z)
    return _unions([frozenset(atom) for atom in atoms.values()])


def _unions(atoms: Sequence[Event]) -> tuple[Event, ...]:
    """Any number of atoms, also none, together."""
    if len(atoms) > _LARGEST:
        raise ValueError(f"{len(atoms)} atoms have 2^{len(atoms)} unions: at most {_LARGEST} are enumerated")
    choices = chain.from_iterable(combinations(atoms, k) for k in range(len(atoms) + 1))
    return tuple(frozenset(chain.from_iterable(choice)) for choice in choices)
