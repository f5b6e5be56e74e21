"""Formats for amounts, energies, levels, odds, homes and errors in reports."""

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from meteragent.domain.figures import exact, figures
from meteragent.report.catalogue import say

MEAN_W = 330
"""The assumed mean power of an average home (about 8 kWh a day), the reference for errors."""
_RATE_PLACES = 1000
_PERCENT_BELOW = 10
_LIMIT_FIGURES = 4
_ODDS_IN_FULL = 10**6
_FLOAT_LEVEL_MAX = 700  # e^710 is too large for a float
_WIDE = Context(prec=17, Emax=MAX_EMAX, Emin=MIN_EMIN)


def amount(number: float, unit: str) -> str:
    """Return a number with its unit, to three figures.

    A tie is rounded towards zero: 659.5 becomes 659.
    """
    return f"{figures(math.nextafter(number, 0))} {unit}"


def full(number: Fraction) -> str:
    """Return an exact number in full, with commas between thousands, such as ``1,440`` or ``13/11``."""
    text = exact(number)
    return text if "/" in text else f"{Decimal(text):,f}"


def energy(wh: float | Fraction) -> str:
    """Format the energy of an event or a promise, in Wh."""
    return amount(float(wh), "Wh")


def rate(level: Fraction) -> str:
    """Return a level: in full if it has at most three decimal places, or else to three figures."""
    return full(level) if (level * _RATE_PLACES).denominator == 1 else figures(level)


def rounded_up(level: Fraction) -> Fraction:
    """Format a level to four figures, rounded up."""
    if not level:
        return level
    place = Fraction(10) ** (math.floor(math.log10(level)) + 1 - _LIMIT_FIGURES)
    return math.ceil(level / place) * place


def odds_figures(level: Fraction) -> str:
    """Return e^level, the largest factor by which the odds change, to three figures, for any level."""
    if level > _FLOAT_LEVEL_MAX:
        return f"{_WIDE.exp(Decimal(float(level))):.3g}"
    factor = math.exp(level)
    return figures(factor) if factor < _ODDS_IN_FULL else f"{factor:.3g}"


def odds(level: Fraction) -> str:
    """Return the largest factor by which the odds change, such as ``e^1 = 2.72``."""
    return f"e^{rate(level)} = {odds_figures(level)}"


def mean_of(count: int) -> str:
    """Return the label for one home's number or for the mean of many homes."""
    return say("cost.one_home") if count == 1 else say("cost.mean", count=f"{count:,}")


def share_of_home(power_w: float) -> str:
    """Return a power as a share of a home's mean: ``12.3 %``, or ``15 times``."""
    share = power_w / MEAN_W
    return f"{figures(100 * share)} %" if share < _PERCENT_BELOW else f"{share:,.0f} times"


def column(number: float) -> str:
    """Format a number to about four figures, to fit a column, never as a power of ten."""
    decimals = 0 if abs(number) >= 1000 else 1 if abs(number) >= 10 else 3
    return f"{number:.{decimals}f}"
