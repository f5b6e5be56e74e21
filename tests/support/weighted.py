"""Configurations of weighted windows, and the price that local clocks show."""

from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from meteragent import config
from meteragent.domain.schedule import Schedule
from tests.support.configurations import written

ZONE = ZoneInfo("Europe/Amsterdam")
PRICES = """
[window.weights]
bound = 0.45
default = 0.2
[[window.weights.price]]
days = "mon-fri"
hours = ["07:00/23:00"]
price = 0.3
[[window.weights.price]]
days = "sat,sun"
hours = ["10:00/16:00"]
price = -0.05
"""
QUIET = "level = 1000000000"
"""Noise that is 0, except with a probability below e^-1000."""


def text_of_prices(
    source: str = "hold = '400d'",
    privacy: str = "hide = '110Wh'",
    length: str = "1mo",
    window: str = "",
    prices: str = PRICES,
) -> str:
    """Return a configuration of amounts, by the event clock, with a holiday."""
    keys = (
        f"length = '{length}'\ntimezone = 'Europe/Amsterdam'\nclock = 'event'\nahead = '9999d'\n"
        f"holidays = [2026-12-25]\n{window}"
    )
    return written(privacy=privacy, window=keys, source=source) + prices


def schedule(source: str = "hold = '400d'", privacy: str = "hide = '110Wh'", length: str = "1mo") -> Schedule:
    """Return the schedule of such a configuration."""
    return config.schedule(config.parse(text_of_prices(source, privacy, length)).stream[0])


def price_of(time_ms: int) -> Decimal:
    """Return the price of PRICES at a time, worked out without the product."""
    local = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(ZONE)
    if local.date().isoformat() == "2026-12-25" or local.weekday() >= 5:
        return Decimal("-0.05") if 10 <= local.hour < 16 else Decimal("0.2")
    return Decimal("0.3") if 7 <= local.hour < 23 else Decimal("0.2")
