"""Kinds of readings and their units. Readings are whole millionths (`_u`), times are in ms (`_ms`)."""

from enum import StrEnum
from fractions import Fraction

MICRO = 10**6
"""The number of millionths in one unit."""

KILO = 1000
"""The number of Wh in one kWh, to which prices refer."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Kind(StrEnum):
    """The meaning of a reading, which must be stated and is never guessed (law 5)."""

    POWER = "power"
    INTERVAL_ENERGY = "interval_energy"
    REGISTER = "register"


UNIT_FACTOR = {"W": 1, "kW": 1000, "Wh": 1, "kWh": 1000}
"""The number of W or Wh in each unit that a configuration may state."""

POWERS_W = {"W": Fraction(1), "kW": Fraction(1000), "mW": Fraction(1, 1000), "MW": Fraction(10**6)}
"""The number of W in each unit that devices and programs state. Case matters: m is milli, M is mega."""

ENERGIES_WH = {f"{name}h": factor for name, factor in POWERS_W.items()} | {
    "Wmin": Fraction(1, 60),
    "J": Fraction(1, 3600),
}
"""The number of Wh in each unit that devices and programs state."""

ENERGY_UNIT = {"W": "Wh", "kW": "kWh", "Wh": "Wh", "kWh": "kWh"}
"""The unit of energy that belongs to each unit; for a power, the unit of its energy over an hour."""

POWER_UNIT = {"W": "W", "kW": "kW", "Wh": "W", "kWh": "kW"}
"""The unit of power that belongs to each unit; for an energy, the unit of the energy per hour."""

UNITS = {Kind.POWER: ("W", "kW"), Kind.INTERVAL_ENERGY: ("Wh", "kWh"), Kind.REGISTER: ("Wh", "kWh")}
"""The allowed units of each kind of reading."""
