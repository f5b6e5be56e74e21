"""Dithered accumulators, exactly: every draw, energy and shift of small lattices (THEORY A.1).

With e^-a = t a rational and P(z) ~ t^|z|, all is counted in rationals, through the code that the agent runs.
"""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from meteragent.core.noise import Noise
from meteragent.core.window import Window
from meteragent.domain.terms import Terms
from meteragent.privacy.mechanism.laplace import reach_quanta
from tests.support.stores import TERMS
from tests.support.tape import Tape
from tests.support.terms import terms_with

LATTICES = [(4, Fraction(1, 3)), (7, Fraction(1, 2)), (10, Fraction(9, 10)), (12, Fraction(3, 5))]
"""L and t."""

WIDE = 8
"""Noise up to so many quanta is looked at."""


def terms(lattice: int) -> Terms:
    """Slots of some milliseconds, with a quantum of one accumulator unit for each."""
    return terms_with(TERMS, quantum_u=1, length_ms=lattice, step_ms=lattice, low_u=-99, high_u=99)


def windows(lattice: int, energy: int) -> Iterator[tuple[int, int, Window]]:
    """A window for every noise and every dither, with some energy in it."""
    known = terms(lattice)
    for noise, dither in product(range(-WIDE, WIDE + 1), range(lattice)):
        window = Window(0, known, known.id, (), "m1", noise_bound=WIDE)
        window.open_slot(noise, 0, dither)
        window.add_value(0, 1, energy)
        yield noise, dither, window


@pytest.mark.parametrize("lattice", range(1, 18))
def test_a_dither_is_uniform_exactly(lattice: int) -> None:
    """Of all bits that can come, each of {0, .., L-1} is made by as many, and nothing else is."""
    known, k = terms(lattice), (lattice - 1).bit_length()
    drawn = [Noise(Tape(first, 0)).draw_dither(known, 0) for first in range(1 << k)]
    kept = [dither for first, dither in enumerate(drawn) if first < lattice]
    assert kept == list(range(lattice))
    assert set(drawn[lattice:]) <= {0}, "bits beyond L are used"


@pytest.mark.parametrize(("lattice", "t"), LATTICES)
def test_what_leaves_is_the_energy_on_average(lattice: int, t: Fraction) -> None:
    """For every noise the mean over u of what leaves is z + S/L, and no value is further off than 1."""
    del t
    for energy in range(-2 * lattice, 2 * lattice + 1):
        sums = defaultdict[int, int](int)
        for noise, _, window in windows(lattice, energy):
            released = window.close_slot(0)
            assert abs(released - noise - Fraction(energy, lattice)) < 1
            sums[noise] += released
        assert all(Fraction(total, lattice) == z + Fraction(energy, lattice) for z, total in sums.items())


@pytest.mark.parametrize(("lattice", "t"), LATTICES)
def test_a_copy_loses_a_ceil_and_is_uniform_beside_it(lattice: int, t: Fraction) -> None:
    """P(A | S) changes by e^(a ceil(d)) at most, which is reached; A mod L is uniform for every S and z."""
    law: dict[int, dict[int, Fraction]] = {}
    for energy in range(-lattice, 2 * lattice + 1):
        law[energy] = defaultdict(Fraction)
        rests = defaultdict[int, set[int]](set)
        for noise, _, window in windows(lattice, energy):
            [kept] = window.stored_state().slots
            law[energy][kept.accumulator] += t ** abs(noise)
            rests[noise].add(kept.accumulator % lattice)
        assert all(rest == set(range(lattice)) for rest in rests.values())
    inside = range(-(WIDE - 5) * lattice, (WIDE - 5) * lattice)
    for one, other in product(law, repeat=2):
        ratio = max(law[one][a] / law[other][a] for a in inside)
        assert ratio == t ** (-abs(one - other) // lattice)  # -ceil(d)


def test_two_copies_tell_what_was_used_between_and_nothing_before() -> None:
    """With equal energies between them, a second copy and the record add nothing to the first."""
    lattice, t = 6, Fraction(1, 2)
    for before, after, between, last in product((0, 4, 9), (1, 7), (0, 5), (3, 8)):
        views: list[dict[tuple[int, ...], Fraction]] = []
        for energy in (before, after):
            seen = defaultdict[tuple[int, ...], Fraction](Fraction)
            for noise, _, window in windows(lattice, energy):
                first = window.slots[0]
                window.add_value(1, 2, between)
                second = window.slots[0]
                window.add_value(2, 3, last)
                seen[first, second - first, window.close_slot(0)] += t ** abs(noise)
            views.append(seen)
        worst = t ** (-abs(after - before) // lattice)
        shared = [key for key in views[0] if abs(key[0]) < (WIDE - 5) * lattice]
        assert shared
        for key in shared:
            assert 1 / worst <= views[0][key] / views[1][key] <= worst


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 48, 200])
@pytest.mark.parametrize("a", [Fraction(1, 50), Fraction(1, 3), Fraction(2), Fraction(30)])
def test_noise_beyond_the_public_bound_is_no_more_likely_than_2_to_the_minus_40(n: int, a: Fraction) -> None:
    """It bounds R for n > 1, the noise itself for n = 1; and it is not far from the least such bound."""
    most = reach_quanta(n, a)
    r = np.arange(4 * most + 60, dtype=np.float64)
    count = n * np.log(2 * r + 1) if n > 1 else np.log(np.where(r > 0, 2, 1))
    weight = np.exp(count - float(a) * r - (count - float(a) * r).max())
    assert weight[most + 1 :].sum() < 2**-40 * weight.sum()
    assert weight[most // 3 :].sum() > 2**-40 * weight.sum()
