"""The names and delays of meters, and the names of slots in records, from their definitions.

docs/design.md defines them: HMAC-SHA-256 with the stream's key or the store's secret.
"""

import hashlib
import hmac

from simulators.simtest.model.clock_text import duration_text, time_text
from simulators.simtest.model.open_windows import ClosedSlot

PLACEHOLDER = "{meter}"
"""The placeholder of a meter's public id in the template of a topic."""


def _hash(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), hashlib.sha256)


def public_name(key: bytes | None, meter: str) -> str:
    """Return a meter's public id: its pseudonym, or its own name if `key` is None."""
    return meter if key is None else _hash(key, meter)[:8].hex()


def delay_ms(secret: bytes, stream: str, meter: str, spread_ms: int) -> int:
    """Return how long after a slot's close a meter's record is due: the same for each slot."""
    return int.from_bytes(_hash(secret, f"spread/{stream}/{meter}")[:8], "big") % (spread_ms + 1)


def time_and_band(slot: ClosedSlot) -> tuple[str, str | None]:
    """Return the time and the band by which a record names a slot; the band is None if there are no bands."""
    spec = slot.spec
    if spec.has_bands:
        return time_text(slot.window_ms), spec.places[slot.slot_index].name
    return time_text(spec.slot_start_ms(slot.window_ms, slot.slot_index)), None


def duration(slot: ClosedSlot) -> str:
    """Return the duration that a record of a slot states: that of the window if slots are bands."""
    [*_, (start_ms, end_ms)] = slot.spec.spans(slot.window_ms, slot.slot_index)
    return duration_text(slot.spec.length_ms if slot.spec.has_bands else end_ms - start_ms)
