"""The unit that a program states for its readings: on a topic, in a discovery message, or with the number.

Sources: Home Assistant's MQTT Statestream (attributes are published as JSON) and MQTT discovery (the key
`unit_of_measurement`, or `unit_of_meas` for short).
"""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from meteragent.domain.units import ENERGIES_WH, POWERS_W

UNIT_KEYS = {"unit", "units", "uom", "unit_of_measurement"}
"""The keys under which an object may state the unit of its number."""
_KEYS = ("unit_of_measurement", "unit_of_meas")
_NO_UNIT = {"", "unknown", "unavailable", "none", "null"}


def stated_unit(payload: bytes) -> str | None:
    """Return the unit in a payload (a text, a JSON string or a key of an object); None if there is none."""
    text = payload.decode(errors="replace").strip("\0 \r\n\t")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = text
    if isinstance(document, dict):
        document = next((document[key] for key in _KEYS if key in document), None)
    if not isinstance(document, str) or document.strip().lower() in _NO_UNIT:
        return None
    return document.strip()


def is_another_unit(place: Mapping[str, Any], unit: str, factor: Fraction) -> bool:
    """Return whether an object states another unit for its number than the configuration does.

    `factor` is the number of W or Wh that a 1 in the payload means, and `unit` the configured unit. A unit of
    energy next to a power, or the other way round, belongs to another number of the object.
    """
    units = ENERGIES_WH if unit.endswith("h") else POWERS_W
    stated = [place[key].strip() for key in UNIT_KEYS & place.keys() if isinstance(place[key], str)]
    return any(actual != factor for text in stated for actual in _factors(text, units))


def _factors(text: str, units: Mapping[str, Fraction]) -> set[Fraction]:
    """Return the factor of a unit, even in the wrong case; none if no unit or several units can be meant."""
    if text in units:
        return {units[text]}
    meant = {factor for name, factor in units.items() if name.lower() == text.lower()}
    return meant if len(meant) == 1 else set()
