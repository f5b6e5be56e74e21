"""The unit that a program states of its readings: on a topic, in a discovery message, or beside the number.

Sources: Home Assistant's MQTT Statestream (attributes are published as JSON) and MQTT discovery (the key
`unit_of_measurement`, or `unit_of_meas` for short).
"""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

BESIDE = {"unit", "units", "uom", "unit_of_measurement"}
"""The keys under which an object may state the unit of its number."""
_POWERS = {"w": Fraction(1), "kw": Fraction(1000), "mW": Fraction(1, 1000), "MW": Fraction(10**6)}
_ENERGIES = {"wh": Fraction(1), "kwh": Fraction(1000), "mWh": Fraction(1, 1000), "MWh": Fraction(10**6)}
"""The number of W, or of Wh, in each unit. The case counts where it tells milli from mega."""
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

    `factor` is the number of W or Wh for which the number 1 counts, and `unit` the configured unit. A unit of
    energy beside a power, or the other way round, belongs to another number of the object.
    """
    units = _ENERGIES if unit.endswith("h") else _POWERS
    stated = [place[key].strip() for key in BESIDE & place.keys() if isinstance(place[key], str)]
    factors = [units.get(text, units.get(text.lower())) for text in stated]
    return any(actual is not None and actual != factor for actual in factors)
