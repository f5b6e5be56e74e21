"""The noise of a feed: many pairs at once as one by one, none of it twice, none of it kept."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from meteragent.core.noise import DRAW_BATCH, SINGLE_DRAWS, Noise
from meteragent.core.window import Window
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import Bits, below, below_array, uniform_rows
from tests.support.stores import TERMS
from tests.support.terms import terms_with

FINE = LInfLaplace(Fraction(1, 220), Fraction(1, 10), 4)
COARSE = LInfLaplace(Fraction(1, 220), 1, 1)


class Numbered(LInfLaplace):
    """A mechanism whose bounds are 0, 1, 2, .., their noise those below zero; it notes how it was asked."""

    def __init__(self) -> None:
        super().__init__(Fraction(1, 220), 1, 1)
        object.__setattr__(self, "asked", [])

    def draw_noise_bounds(self, count: int, bits: Bits) -> list[int]:
        """The next ones."""
        asked: list[int] = self.asked  # type: ignore[attr-defined]
        asked.append(count)
        return list(range(sum(asked) - count, sum(asked)))

    def draw_noise_bound(self, bits: Bits) -> int:
        """The next one."""
        return self.draw_noise_bounds(1, bits)[0]

    def draw_slot(self, noise_bound: int, bits: Bits) -> int:
        """The one of this noise bound."""
        return -noise_bound

    def draw_slots(self, noise_bounds: Sequence[int], bits: Bits) -> list[int]:
        """Those of these noise bounds."""
        return [-noise_bound for noise_bound in noise_bounds]


class Forgetful(SeededBits):
    """Bits that count how often they were discarded."""

    def __init__(self) -> None:
        super().__init__(0)
        self.discarded = 0

    def discard(self) -> None:
        """Count it."""
        self.discarded += 1


def one_by_one(mechanism: LInfLaplace, bits: Bits) -> list[tuple[int, int]]:
    """The first windows of a feed: each its noise bound, then its slot."""
    drawn = []
    for _ in range(SINGLE_DRAWS):
        noise_bound = mechanism.draw_noise_bound(bits)
        drawn.append((noise_bound, mechanism.draw_slot(noise_bound, bits)))
    return drawn


def at_once(mechanism: LInfLaplace, bits: Bits) -> list[tuple[int, int]]:
    """Later ones: their noise bounds, then a slot of each."""
    noise_bounds = mechanism.draw_noise_bounds(DRAW_BATCH, bits)
    return list(zip(noise_bounds, mechanism.draw_slots(noise_bounds, bits), strict=True))


def test_the_first_are_drawn_one_by_one() -> None:
    """A feed that opens few windows draws for these alone: the mechanism's bounds and noise, bit for bit."""
    bits, plain = SeededBits(1), SeededBits(1)
    noise = Noise(bits)
    assert [noise.draw_window("a", FINE) for _ in range(SINGLE_DRAWS)] == one_by_one(FINE, plain)
    assert bits.integer(64) == plain.integer(64)


def test_later_ones_are_those_of_the_mechanism_draw_for_draw() -> None:
    """From the same bits, pairs that are drawn at once come in the order in which the mechanism drew them."""
    bits, plain = SeededBits(2), SeededBits(2)
    noise = Noise(bits)
    drawn = [noise.draw_window("a", FINE) for _ in range(SINGLE_DRAWS + 2 * DRAW_BATCH)]
    assert drawn == one_by_one(FINE, plain) + at_once(FINE, plain) + at_once(FINE, plain)
    assert bits.integer(64) == plain.integer(64)


def test_noise_of_many_windows_is_uniform_on_the_cube_of_each() -> None:
    """`draw_slots` are rows of one uniform integer each, from the same bits, within its own bound."""
    noise_bounds = [0, 1, 2, 7, 2**33, 2**61] * 50
    drawn = COARSE.draw_slots(noise_bounds, SeededBits(5))
    assert drawn == uniform_rows(np.array(noise_bounds), 1, SeededBits(5))[:, 0].tolist()
    assert all(abs(z) <= noise_bound for z, noise_bound in zip(drawn, noise_bounds, strict=True))


def test_no_noise_is_given_to_two_windows() -> None:
    """Each noise bound is given once, in order, with its own noise; never more than BATCH wait."""
    noise, mechanism = Noise(SeededBits(0)), Numbered()
    windows = SINGLE_DRAWS + 4 * DRAW_BATCH + 1
    assert [noise.draw_window("a", mechanism) for _ in range(windows)] == [(k, -k) for k in range(windows)]
    assert Counter(mechanism.asked) == {1: SINGLE_DRAWS, DRAW_BATCH: 5}  # type: ignore[attr-defined]


def test_nothing_that_was_drawn_outlives_its_feed() -> None:
    """Pairs that a feed has not used are never given; the next feed draws its own, and from new bits."""
    bits, mechanism = Forgetful(), Numbered()
    noise = Noise(bits)
    used = [noise.draw_window("a", mechanism) for _ in range(SINGLE_DRAWS + 1)]
    assert used[-1] == (SINGLE_DRAWS, -SINGLE_DRAWS)
    counted = [bits.discarded]
    noise.drop_unused()
    assert [*counted, bits.discarded] == [0, 1]
    assert noise.draw_window("a", mechanism) == (SINGLE_DRAWS + DRAW_BATCH, -SINGLE_DRAWS - DRAW_BATCH)
    assert mechanism.asked == [1] * SINGLE_DRAWS + [DRAW_BATCH, 1]  # type: ignore[attr-defined]


def test_a_dither_is_uniform_on_the_lattice() -> None:
    """The dither u is `below(L)` from the feed's bits, L the slot's."""
    bits, plain = SeededBits(6), SeededBits(6)
    noise = Noise(bits)
    assert [noise.draw_dither(TERMS, 0) for _ in range(9)] == [
        below(TERMS.steps_per_quantum[0], plain) for _ in range(9)
    ]
    tiny = terms_with(TERMS, quantum_u=1, step_ms=4, length_ms=4)
    assert {noise.draw_dither(tiny, 0) for _ in range(200)} == {0, 1, 2, 3}


def test_dithers_of_many_slots_are_drawn_at_once_for_each_lattice() -> None:
    """After a few of a lattice they are `below_array(L)`, each for one slot; of a coarser one, `below`."""
    bits, plain = SeededBits(7), SeededBits(7)
    noise, half, coarse = Noise(bits), replace(TERMS, quantum_u=2), replace(TERMS, quantum_u=2**63)
    drawn = [(noise.draw_dither(TERMS, 0), noise.draw_dither(half, 0)) for _ in range(SINGLE_DRAWS)]
    one, other = (terms.steps_per_quantum[0] for terms in (TERMS, half))
    assert drawn == [(below(one, plain), below(other, plain)) for _ in range(SINGLE_DRAWS)]
    drawn = [(noise.draw_dither(TERMS, 0), noise.draw_dither(half, 0)) for _ in range(DRAW_BATCH)]
    of_one, of_other = (below_array(steps, DRAW_BATCH, plain).tolist() for steps in (one, other))
    assert drawn == list(zip(of_one[::-1], of_other[::-1], strict=True))
    unused = [noise.draw_dither(TERMS, 0) for _ in range(2)]
    fresh = below_array(one, DRAW_BATCH, plain).tolist()
    assert unused == fresh[:-3:-1]
    noise.drop_unused()
    assert noise.draw_dither(TERMS, 0) == below(one, plain)
    for _ in range(2 * SINGLE_DRAWS):
        assert noise.draw_dither(coarse, 0) == below(coarse.steps_per_quantum[0], plain)
    assert bits.integer(64) == plain.integer(64)


def test_each_of_several_terms_has_its_own() -> None:
    """A noise bound is of the law of the window that it is for, whatever else opens in between."""
    noise, one, other = Noise(SeededBits(3)), Numbered(), Numbered()
    drawn = [
        (noise.draw_window("one", one), noise.draw_window("other", other)) for _ in range(2 * DRAW_BATCH)
    ]
    assert drawn == [((k, -k), (k, -k)) for k in range(2 * DRAW_BATCH)]


def test_a_further_slot_is_drawn_when_it_opens() -> None:
    """It is not drawn ahead: the next bits after those of its window."""
    bits, plain = SeededBits(4), SeededBits(4)
    noise = Noise(bits)
    noise_bound, _ = noise.draw_window("a", FINE)
    FINE.draw_slot(FINE.draw_noise_bound(plain), plain)
    terms = replace(TERMS)
    terms.__dict__["mechanism"] = FINE  # a cached property
    window = Window(0, terms, TERMS.id, (), "m1", noise_bound)
    window.open_next_slot(noise, 0)
    lattice = TERMS.steps_per_quantum[0]
    assert window.slots[0] == FINE.draw_slot(noise_bound, plain) * lattice + below(lattice, plain)
    assert bits.integer(64) == plain.integer(64)
