"""A tariff: the price per kWh in each band, and a monthly fee."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.domain.units import DAY_MS

MONTH_DAYS = 30.4375
"""The mean length of a month: 365.25 days / 12."""


@dataclass(frozen=True)
class Tariff:
    """Prices by band in `currency` per kWh, which may be negative, and a monthly `fee`.

    Energy whose band is unknown was used in some of the bands, in unknown shares. So only the range of its
    price is known, unless `prices` has the band "unknown".
    """

    name: str
    prices: Mapping[str, float] = field(hash=False)
    fee: float = 0.0
    currency: str = "EUR"

    def __post_init__(self) -> None:
        if not self._known_prices or not all(map(math.isfinite, self.prices.values())):
            raise ValueError(f"the tariff {self.name!r} needs a finite price for at least one band")
        if not 0 <= self.fee < math.inf:
            raise ValueError(f"the fee of the tariff {self.name!r} must be at least 0, not {self.fee}")

    @property
    def _known_prices(self) -> list[float]:
        return [price for band, price in self.prices.items() if band != UNKNOWN_BAND]

    def price_range(self, band: str) -> tuple[float, float]:
        """Return the lowest and highest price of energy in a band. Raises ValueError if the band has none."""
        if band in self.prices:
            return self.prices[band], self.prices[band]
        if band == UNKNOWN_BAND:
            return min(self._known_prices), max(self._known_prices)
        raise ValueError(f"the tariff {self.name!r} has no price for the band {band!r}")

    def fee_for_window(self, length_ms: int, *, is_month: bool) -> float:
        """Return a window's fee: the monthly fee for a month, else a part proportional to the length."""
        return self.fee if is_month else self.fee * length_ms / (DAY_MS * MONTH_DAYS)


def price_difference(tariff: Tariff, cheaper: Tariff, band: str) -> tuple[float, float]:
    """Return the smallest and the largest difference in the price of a band: `tariff` minus `cheaper`.

    Energy of the unknown band was used in the same bands under both tariffs. So if neither tariff prices the
    unknown band, its difference is within the other bands' range. Raises ValueError if `band` has no price.
    """
    is_priced = band in tariff.prices or band in cheaper.prices
    bands = tariff.prices.keys() & cheaper.prices.keys()
    if band == UNKNOWN_BAND and bands and not is_priced:
        differences = [tariff.prices[name] - cheaper.prices[name] for name in bands]
        return min(differences), max(differences)
    (low, high), (other_low, other_high) = tariff.price_range(band), cheaper.price_range(band)
    return low - other_high, high - other_low
