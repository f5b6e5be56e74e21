"""A home's part in a slot."""

from meteragent.crowd import home
from meteragent.privacy.bits import SeededBits
from tests.support.crowd import LATTICE, SLOT_S, Street, make_group


class PadZero(SeededBits):
    """Bits whose pads are 0, so that a slot opens with its dither."""

    def integer(self, k: int) -> int:
        """Return 0 for a pad, and random bits for anything else."""
        return 0 if k == 64 else super().integer(k)


def test_half_a_quantum_is_rounded_both_ways() -> None:
    """The dither of each slot is drawn afresh, so the total is unbiased."""
    world, bits = Street(make_group()), PadZero(1)
    slots = [home.open_slot(world.group, "h", SLOT_S, LATTICE, world.keys(), bits) for _ in range(40)]
    assert all(0 <= slot.accumulator < LATTICE for slot in slots)
    rounded = [slot.with_energy(LATTICE // 2).accumulator // LATTICE for slot in slots]
    assert 5 < sum(rounded) < 35
