"""Radii drawn ahead: as one by one, from the same bits, and none twice."""

from collections import Counter
from fractions import Fraction

from meteragent.pipeline.radii import MANY, Radii
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import Bits

FINE = LInfLaplace(Fraction(1, 220), Fraction(1, 10), 4)
COARSE = LInfLaplace(Fraction(1, 220), 1, 1)


class Numbered(LInfLaplace):
    """A mechanism whose radii are 0, 1, 2, .. and which remembers how they were asked for."""

    def __init__(self) -> None:
        super().__init__(Fraction(1, 220), 1, 1)
        object.__setattr__(self, "asked", [])

    def radii(self, count: int, bits: Bits) -> list[int]:
        """The next ones."""
        asked: list[int] = self.asked  # type: ignore[attr-defined]
        asked.append(count)
        return list(range(sum(asked) - count, sum(asked)))

    def radius(self, bits: Bits) -> int:
        """The next one."""
        return self.radii(1, bits)[0]


def test_the_first_are_drawn_one_by_one() -> None:
    """A home with few windows draws none ahead: its radii are those of the mechanism, bit for bit."""
    radii, bits, plain = Radii(), SeededBits(1), SeededBits(1)
    drawn = [radii.draw("a", FINE, bits) for _ in range(MANY)]
    assert drawn == [FINE.radius(plain) for _ in range(MANY)]
    assert bits.integer(64) == plain.integer(64)


def test_later_ones_are_those_of_the_mechanism_draw_for_draw() -> None:
    """From the same bits, what is drawn ahead comes in the order in which the mechanism drew it."""
    radii, bits, plain = Radii(), SeededBits(2), SeededBits(2)
    drawn = [radii.draw("a", FINE, bits) for _ in range(3 * MANY)]
    one_by_one = [FINE.radius(plain) for _ in range(MANY)]
    assert drawn == one_by_one + FINE.radii(MANY, plain) + FINE.radii(MANY, plain)
    assert bits.integer(64) == plain.integer(64)


def test_no_radius_is_given_to_two_windows() -> None:
    """Each that was drawn is given once, in order, and never more than MANY are ahead."""
    radii, mechanism = Radii(), Numbered()
    windows = 5 * MANY + 1
    assert [radii.draw("a", mechanism, SeededBits(0)) for _ in range(windows)] == list(range(windows))
    assert Counter(mechanism.asked) == {1: MANY, MANY: 5}  # type: ignore[attr-defined]


def test_each_of_several_terms_has_its_own() -> None:
    """A radius is of the law of the window that it is for, whatever else opens in between."""
    radii, fine, coarse = Radii(), SeededBits(3), SeededBits(4)
    drawn = [(radii.draw("fine", FINE, fine), radii.draw("coarse", COARSE, coarse)) for _ in range(2 * MANY)]
    plain_fine, plain_coarse = SeededBits(3), SeededBits(4)
    assert [one for one, _ in drawn] == [FINE.radius(plain_fine) for _ in range(MANY)] + FINE.radii(
        MANY, plain_fine
    )
    assert [one for _, one in drawn] == [COARSE.radius(plain_coarse) for _ in range(MANY)] + COARSE.radii(
        MANY, plain_coarse
    )
