"""Which events suffice to check a promise: an algebra does, less may not (meteragent.privacy.channel)."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.channel import Channel, Number, algebra, all_events
from tests.support.channels import FEW, ODDS, channels

HALF = Fraction(1, 2)


@given(st.lists(st.frozensets(st.integers(0, 4)), max_size=3))
def test_an_algebra_is_one_and_the_smallest(events: list[frozenset[int]]) -> None:
    """It holds the events and the whole, complements and unions; every algebra that has the events has it."""
    whole = frozenset(range(5))
    generated = set(algebra(events, range(5)))
    assert generated >= {whole, frozenset(), *events}
    assert generated == {whole - event for event in generated}
    assert generated == {one | other for one in generated for other in generated}
    reached = {whole, frozenset[int](), *events}
    while len(reached) < len(generated):
        before = len(reached)
        reached |= {whole - event for event in reached}
        reached |= {one | other for one in reached for other in reached}
        assert len(reached) > before
    assert reached == generated


def test_events_are_enumerated_while_there_are_few() -> None:
    """2^k of them, each once; more than 20 outputs are refused."""
    assert len(set(all_events("abc"))) == 8
    with pytest.raises(ValueError, match="2\\^21"):
        all_events(range(21))


@FEW
@given(channels(inputs=2, outputs=4), ODDS)
def test_an_algebra_that_tells_outputs_apart_suffices(channel: Channel, odds: Number) -> None:
    """Theorem 3: half-lines generate everything on a line, and their algebra has the true delta."""
    half_lines = [range(k) for k in range(5)]
    delta = channel.hockey_stick(0, 1, odds)
    assert channel.delta_on(half_lines, 0, 1, odds) <= delta
    assert channel.delta_on(algebra(half_lines, channel.outputs), 0, 1, odds) == delta


@FEW
@given(channels(inputs=2, outputs=4), ODDS)
def test_an_algebra_of_a_partition_is_the_channel_to_its_parts(channel: Channel, odds: Number) -> None:
    """A coarser algebra has the delta of an observer who sees only in which part an output lies."""
    parts = Channel(range(4), "lr", [[1, 0], [0, 1], [1, 0], [0, 1]])
    on_parts = channel.delta_on(algebra([{0, 2}], channel.outputs), 0, 1, odds)
    assert on_parts == channel.then(parts).hockey_stick(0, 1, odds)


def test_half_lines_alone_do_not_suffice() -> None:
    """Every half-line has a delta of 1/8, and the union of two intervals 1/4: no algebra, no theorem."""
    up, down = Fraction(3, 8), Fraction(1, 8)
    channel = Channel("ab", range(4), [[up, down, up, down], [down, up, down, up]])
    half_lines = [range(k) for k in range(5)] + [range(k, 5) for k in range(5)]
    assert channel.delta_on(half_lines, "a", "b", 1) == Fraction(1, 4)
    assert channel.delta_on(algebra(half_lines, range(4)), "a", "b", 1) == HALF
    assert channel.hockey_stick("a", "b", 1) == HALF


@pytest.mark.parametrize("n", [2, 3, 4])
def test_cylinders_over_fewer_coordinates_do_not_suffice(n: int) -> None:
    """Parity tells two inputs apart for certain, and any n - 1 coordinates tell nothing at all (THEORY 6)."""
    bits = list(itertools.product((0, 1), repeat=n))
    channel = Channel.of_weights((0, 1), bits, lambda x, z: int(sum(z) % 2 == x))
    cylinders = [
        {z for z in bits if all(z[i] == bit for i, bit in zip(chosen, base, strict=True))}
        for chosen in itertools.combinations(range(n), n - 1)
        for base in itertools.product((0, 1), repeat=n - 1)
    ]
    assert channel.delta_on(cylinders, 0, 1, 1) == 0
    assert (
        channel.delta_on([set().union(*pair) for pair in itertools.combinations(cylinders, 2)], 0, 1, 1)
        <= HALF
    )
    parity = {z for z in bits if sum(z) % 2 == 0}
    assert channel.delta_on([parity], 0, 1, 1) == channel.hockey_stick(0, 1, 1) == 1
    if n < 4:
        assert parity in algebra(cylinders, bits)
        assert channel.delta_on(algebra(cylinders, bits), 0, 1, 1) == 1
