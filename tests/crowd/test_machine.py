"""What both operators share: the keys of a day, in memory too."""

import gc
import weakref

import pytest

from tests.support.crowd import SLOT_S, fixed_entropy
from tests.support.crowd_attacks import attacked


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_a_destroyed_day_leaves_no_keys_in_memory(role: str) -> None:
    """The derived keys of the day, which are kept between steps, go with its secret."""
    machine = getattr(attacked(), role)
    keys = weakref.ref(machine.keys_of_slot(SLOT_S))
    day_end_s = SLOT_S - SLOT_S % 86_400 + 86_400
    machine.prepare(machine.group.expires_s(day_end_s), fixed_entropy("more"))
    gc.collect()
    assert machine.keys_of_slot(SLOT_S) is None
    assert keys() is None
