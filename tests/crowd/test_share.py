"""Shares modulo 2^64."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.crowd import share

LATTICES = st.integers(1, 10**13)
PADS = st.integers(0, share.MODULUS - 1)


@given(LATTICES, PADS, st.data(), st.lists(st.integers(-(10**20), 10**20), max_size=8))
def test_a_share_is_the_dithered_energy_minus_the_pad(
    lattice: int, pad: int, data: st.DataObject, energies: list[int]
) -> None:
    """A share is floor((u + S) / L) - P modulo 2^64, for any pad, dither and energies."""
    dither = data.draw(st.integers(0, lattice - 1))
    accumulator = share.open_accumulator(pad, dither, lattice)
    for energy in energies:
        accumulator = share.add_energy(accumulator, energy, lattice)
    quanta = (dither + sum(energies)) // lattice
    assert share.close_accumulator(accumulator, lattice) == (quanta - pad) % share.MODULUS
    assert 0 <= accumulator < share.MODULUS * lattice


@given(LATTICES, st.integers(-(10**20), 10**20), st.data())
def test_an_accumulator_says_nothing_of_the_load(lattice: int, energy: int, data: st.DataObject) -> None:
    """For any energy, each value of the accumulator belongs to exactly one pair of pad and dither."""
    accumulator = data.draw(st.integers(0, share.MODULUS * lattice - 1))
    start = (accumulator - energy) % (share.MODULUS * lattice)
    dither = start % lattice
    pad = -(start // lattice) % share.MODULUS
    assert share.add_energy(share.open_accumulator(pad, dither, lattice), energy, lattice) == accumulator


@given(st.lists(st.integers(-share.QUANTA_MAX, share.QUANTA_MAX), max_size=20), st.data())
def test_sums_of_shares_and_pads_are_sums_of_energies(quanta: list[int], data: st.DataObject) -> None:
    """Pads cancel, and the signed sum is that of the quanta."""
    pads = [data.draw(PADS) for _ in quanta]
    shares = [(m - pad) % share.MODULUS for m, pad in zip(quanta, pads, strict=True)]
    assert share.to_signed_64(share.sum_modulo([share.sum_modulo(pads), share.sum_modulo(shares)])) == sum(
        quanta
    )


def test_the_largest_batch_does_not_wrap_around() -> None:
    """2^20 homes of 2^40 quanta, and noise of 2^60 from each operator, keep their sign."""
    largest = share.HOMES_MAX * share.QUANTA_MAX + 2 * (1 << 60)
    assert share.to_signed_64(largest % share.MODULUS) == largest
    assert share.to_signed_64(-largest % share.MODULUS) == -largest


@pytest.mark.parametrize(("pad", "dither"), [(-1, 0), (1 << 64, 0), (0, -1), (0, 7)])
def test_a_pad_and_a_dither_have_limits(pad: int, dither: int) -> None:
    """A pad of more than 64 bits, or a dither of a whole quantum, is an error."""
    with pytest.raises(ValueError, match="pad"):
        share.open_accumulator(pad, dither, 7)
