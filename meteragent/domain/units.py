"""Kinds of readings, their units, and exact whole numbers of them.

Values are whole millionths of a unit (names end in `_u`), times are whole milliseconds (`_ms`).
"""

from enum import StrEnum

MICRO = 10**6
"""Millionths in one."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Kind(StrEnum):
    """What a reading means; stated, never guessed (law 5)."""

    POWER = "power"
    INTERVAL_ENERGY = "interval_energy"
    REGISTER = "register"


UNIT_FACTOR = {"W": 1, "kW": 1000, "Wh": 1, "kWh": 1000}
"""How many W or Wh one of the unit is."""

ENERGY_UNIT = {"W": "Wh", "kW": "kWh", "Wh": "Wh", "kWh": "kWh"}
"""The energy that one of the unit is, over an hour if it is a power."""

UNITS = {Kind.POWER: ("W", "kW"), Kind.INTERVAL_ENERGY: ("Wh", "kWh"), Kind.REGISTER: ("Wh", "kWh")}
"""The units that fit a kind."""
