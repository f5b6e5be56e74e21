"""What both operators share: the keys of a day, in memory too."""

import gc
import weakref

import pytest

from meteragent.crowd.draw import draw_noise
from meteragent.privacy.sampling.geometric import _thresholds
from tests.support.crowd import SLOT_S, fixed_entropy
from tests.support.crowd_attacks import attacked


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_a_destroyed_day_leaves_no_keys_in_memory(role: str) -> None:
    """The derived keys of the day, which are kept between steps, go with its secret."""
    machine = getattr(attacked(), role)
    keys = weakref.ref(machine.keys_of_slot(SLOT_S))
    day_end_s = SLOT_S - SLOT_S % 86_400 + 86_400
    machine.renew_keys(machine.group.expiry_s(day_end_s), fixed_entropy("more"))
    gc.collect()
    assert machine.keys_of_slot(SLOT_S) is None
    assert keys() is None


def test_tables_of_rare_draws_are_made_at_the_start() -> None:
    """No draw takes longer because it is the first that needs more bits."""
    group = attacked().group
    misses = _thresholds.cache_info().misses
    for number in range(2000):
        draw_noise(bytes(32), group.id, number, bytes(32), group.loss_per_quantum)
    assert _thresholds.cache_info().misses == misses
