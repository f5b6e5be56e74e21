"""Four example tariffs and a day of prices, for simulations and pictures. All numbers are invented.

They belong to no supplier. Each tariff has one price for each band. The bands are parts of the local week:

    night    23:00 to 07:00, every day
    day      07:00 to 23:00 from Monday to Friday, except the peak
    peak     17:00 to 21:00 from Monday to Friday
    weekend  07:00 to 23:00 on Saturday and Sunday, except the evening
    evening  17:00 to 21:00 on Saturday and Sunday
"""

import numpy as np
from numpy.typing import NDArray

from meteragent.consume import Tariff

BANDS = ("night", "day", "peak", "weekend", "evening")

TARIFFS = (
    Tariff("flat", dict.fromkeys(BANDS, 0.30), fee=9.0),
    Tariff(
        "two rates",
        {"night": 0.24, "day": 0.34, "peak": 0.34, "weekend": 0.34, "evening": 0.34},
        fee=9.0,
    ),
    Tariff(
        "three rates",
        {"night": 0.22, "day": 0.28, "peak": 0.45, "weekend": 0.28, "evening": 0.28},
        fee=10.0,
    ),
    Tariff(
        "weekend",
        {"night": 0.31, "day": 0.34, "peak": 0.34, "weekend": 0.20, "evening": 0.20},
        fee=9.0,
    ),
)

HOURLY_EUR = (
    *(0.21, 0.20, 0.19, 0.19, 0.19, 0.20, 0.24, 0.29, 0.30, 0.27, 0.24, 0.22),
    *(0.20, 0.19, 0.20, 0.22, 0.27, 0.35, 0.456, 0.41, 0.33, 0.28, 0.25, 0.23),
)
"""A day of hourly prices, in EUR per kWh."""

_SLOTS_A_DAY = 48
_WORKDAY = ((14, "night"), (34, "day"), (42, "peak"), (46, "day"), (48, "night"))
_WEEKEND = ((14, "night"), (34, "weekend"), (42, "evening"), (46, "weekend"), (48, "night"))
"""The bands of a day in order, each preceded by the index of the first half hour after it."""

CONFIGURATION = """
[[window.band]]
name = "day"
days = "mon-fri"
hours = ["07:00/17:00", "21:00/23:00"]
[[window.band]]
name = "peak"
days = "mon-fri"
hours = ["17:00/21:00"]
[[window.band]]
name = "weekend"
days = "sat,sun"
hours = ["07:00/17:00", "21:00/23:00"]
[[window.band]]
name = "evening"
days = "sat,sun"
hours = ["17:00/21:00"]
"""
"""The bands for a configuration that has `rest = "night"`."""


def band_of_slots(weekday: int) -> NDArray[np.int64]:
    """Return the band of each half hour of a weekday, as an index in `BANDS`, shape (48,); 0 is Monday."""
    indices, begin = np.zeros(_SLOTS_A_DAY, np.int64), 0
    for end, band in _WEEKEND if weekday >= 5 else _WORKDAY:
        indices[begin:end], begin = BANDS.index(band), end
    return indices


def prices() -> NDArray[np.float64]:
    """Return the prices of all tariffs by band, in EUR per kWh, shape (tariffs, bands)."""
    return np.array([[tariff.prices[band] for band in BANDS] for tariff in TARIFFS])
