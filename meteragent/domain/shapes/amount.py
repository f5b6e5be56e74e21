"""Amounts: energy weighted by public prices, such as EUR per kWh.

A price is known before its time begins. So it does not depend on this home's use during that time, and an
amount is a linear function of the load: a change of 1 kWh in all changes the amount by at most the bound
(THEORY 3.10). The prices of one window belong to its terms (`Terms.prices`).
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

from meteragent.domain.readings import Readings
from meteragent.domain.shapes.base import Metric, Shape, Space
from meteragent.domain.units import HOUR_MS, KILO, MICRO, UNIT_FACTOR, Kind


class PriceSource(StrEnum):
    """The source of prices: a table in the configuration, or messages on a topic."""

    TABLE = "table"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Amount(Shape):
    """A window with one number, an amount in `currency`: energy times price.

    `bound_u` is the largest absolute value of a price, and `default_u` the price of time without one, both in
    millionths of `currency` per kWh.
    """

    currency: str
    bound_u: int
    default_u: int
    source: PriceSource

    space: ClassVar[Space] = Space.WEIGHTED
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.L1,)
    is_additive: ClassVar[bool] = False
    is_priced: ClassVar[bool] = True

    def is_energy(self, _kind: Kind) -> bool:
        """Return True: an amount is an energy in units of its largest price."""
        return True

    def value_unit(self, _unit: str, _kind: Kind) -> str:
        """Return the currency."""
        return self.currency

    def wh_per_value(self, _unit: str, _kind: Kind) -> Fraction:
        """Return the energy, in Wh, that costs one unit of the currency at the largest price."""
        return Fraction(KILO * MICRO, self.bound_u)

    def lattice(self, _slot_index: int, quantum_u: int, readings: Readings) -> int:
        """Return one quantum in units of the accumulator, which counts in millionths of a price as well."""
        per_kwh_ms = HOUR_MS if readings.kind is Kind.POWER else readings.interval_ms
        return quantum_u * MICRO * (KILO // UNIT_FACTOR[readings.unit]) * per_kwh_ms

    def is_sound(self) -> bool:
        """Return whether window and bound are positive, and the unit is no unit of power or energy."""
        return self.length_ms > 0 and self.bound_u > 0 and self.currency not in UNIT_FACTOR
