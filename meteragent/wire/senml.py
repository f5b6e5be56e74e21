"""Records as SenML packs (RFC 8428), for receivers that cannot read other JSON.

The first entry has the value, the start of the record's slot, and a name that consists of the meter's name
and `power` or `energy`. The other entries of a pack are the duration (`power_for`), the standard deviation
(`power_sd`), the descriptor's id (`power_terms`) and, for bands, the band (`power_band`) or, for peaks, the
number of draws of noise (`power_draws`). kW, Wh and kWh are secondary units (RFC 8798), which SenML version
26 permits (RFC 9100).
"""

import json
import re

from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms
from meteragent.wire.descriptor import TermsDescriptor
from meteragent.wire.number import decimal_text

UTF8 = "utf8:"
"""The prefix of the SenML name of a meter whose name SenML does not allow; the name's UTF-8 bytes follow in
hex."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]*", re.ASCII)


def record(
    terms: Terms, public_id: str, start_ms: int, value: str, place: tuple[str | None, int | None], tail: str
) -> bytes:
    """Encode a record as a pack.

    `value` is the value as text. `place` holds the band and a peak's number of draws, each None if the record
    has none. `tail` is the end of the pack, from the function `tail`.
    """
    band, draws = place
    quantity = _quantity(terms)
    version = "" if terms.value_unit == "W" else ',"bver":26'
    head = f'[{{"bn":"{name(public_id)}/","bt":{decimal_text(start_ms * 1000)}{version}'
    measurement = f'"n":"{quantity}","u":"{terms.value_unit}","v":{value}}}'
    band_entry = f',{{"n":"{quantity}_band","vs":"{band}"}}' if band else ""
    draws_entry = f',{{"n":"{quantity}_draws","v":{draws}}}' if draws else ""
    return f"{head},{measurement}{band_entry}{draws_entry}{tail}".encode()


def tail(descriptor: TermsDescriptor) -> str:
    """Return the end of a descriptor's packs: the duration, the standard deviation and the id."""
    terms = descriptor.terms
    quantity = _quantity(terms)
    duration_s = decimal_text(
        (terms.length_ms if terms.bands or terms.space is Space.PEAK else terms.step_ms) * 1000
    )
    return (
        f',{{"n":"{quantity}_for","u":"s","v":{duration_s}}}'
        f',{{"n":"{quantity}_sd","u":"{terms.value_unit}","v":{json.dumps(descriptor.facts["sd"])}}}'
        f',{{"n":"{quantity}_terms","vs":"{descriptor.id}"}}]'
    )


def name(public_id: str) -> str:
    """Encode a meter's name for SenML: unchanged if SenML allows it; otherwise `UTF8` and the bytes in hex.

    A name that begins with `UTF8` is always encoded.
    """
    if _NAME.fullmatch(public_id) and not public_id.startswith(UTF8):
        return public_id
    return UTF8 + public_id.encode().hex()


def _quantity(terms: Terms) -> str:
    return "energy" if terms.is_energy else "power"
