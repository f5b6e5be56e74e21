"""The names that records contain for meters, terms and slots, as the invariants expect them."""

from functools import lru_cache

from meteragent.domain import grid, identity
from meteragent.domain.terms import Terms
from meteragent.wire.descriptor import describe
from simulators.simtest.open_windows import ClosedSlot


def public_name(key: bytes | None, meter: str) -> str:
    """Return a meter's public id: its pseudonym, or its own name if `key` is None."""
    return meter if key is None else identity.pseudonym(key, meter)


@lru_cache(maxsize=256)
def descriptor_id(terms: Terms) -> str:
    """Return the id of the terms' descriptor."""
    return describe(terms).id


def time_and_band(slot: ClosedSlot) -> tuple[str, str | None]:
    """Return the time and the band by which a record names a slot; the band is None if there are no bands."""
    if slot.terms.bands:
        return grid.iso_time(slot.window_ms), slot.terms.bands[slot.slot_index].name
    return grid.iso_time(slot.window_ms + slot.terms.stretches(slot.slot_index)[0][0]), None
