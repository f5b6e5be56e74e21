"""The names that records contain for meters and slots, as the invariants expect them."""

from meteragent.domain import grid, identity
from simulators.simtest.model.open_windows import ClosedSlot


def public_name(key: bytes | None, meter: str) -> str:
    """Return a meter's public id: its pseudonym, or its own name if `key` is None."""
    return meter if key is None else identity.pseudonym(key, meter)


def time_and_band(slot: ClosedSlot) -> tuple[str, str | None]:
    """Return the time and the band by which a record names a slot; the band is None if there are no bands."""
    spec = slot.spec
    if spec.has_bands:
        return grid.iso_time(slot.window_ms), spec.places[slot.slot_index].name
    return grid.iso_time(spec.slot_start_ms(slot.window_ms, slot.slot_index)), None


def duration(slot: ClosedSlot) -> str:
    """Return the duration that a record of a slot states: that of the window if slots are bands."""
    [*_, (start_ms, end_ms)] = slot.spec.spans(slot.window_ms, slot.slot_index)
    return grid.iso_duration(slot.spec.length_ms if slot.spec.has_bands else end_ms - start_ms)
