"""Slots of many meters: how they are shown, and how feeders are named."""

import numpy as np
import pytest

from meteragent.consume import Rules, Slots, by_feeder, collect
from tests.support.messages import described, recorded
from tests.support.stores import TERMS

FEEDERS = {"m0": "west", "m1": "east", "m2": "west"}


@pytest.fixture
def slots() -> Slots:
    """Four slots of each of three meters."""
    return Slots.of(
        collect([described(TERMS, meter), *recorded(TERMS, [1, 2, 3, 4], meter)])[meter] for meter in FEEDERS
    )


def test_feeders_by_a_function(slots: Slots) -> None:
    """`feeder_of` may be a function of a meter's name; another type is refused by name."""
    expected = by_feeder(slots, FEEDERS)
    for function in (FEEDERS.__getitem__, lambda meter: "east" if meter == "m1" else "west"):
        cells = by_feeder(slots, function)
        assert cells.feeder.tolist() == expected.feeder.tolist() == 4 * ["east"] + 4 * ["west"]
        assert np.array_equal(cells.total, expected.total)
    with pytest.raises(TypeError, match=r"a mapping or a function .* not list"):
        by_feeder(slots, ["west", "east", "west"])  # type: ignore[arg-type]


def test_slots_have_a_short_repr(slots: Slots) -> None:
    """What is shown of slots is how many, of how many meters, and their unit."""
    assert repr(slots) == "<Slots: 12 of 3 meters, in W>"


def test_columns_state_what_is_shown(slots: Slots) -> None:
    """The column `shown` says which cells the rules allow."""
    cells = by_feeder(slots, FEEDERS, Rules(at_least=2))
    expected = 4 * [False] + 4 * [True]  # east has one home, west two
    assert cells.shown.tolist() == cells.columns()["shown"].tolist() == expected
