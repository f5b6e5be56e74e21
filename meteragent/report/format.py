"""Formats of numbers, amounts, durations, levels, odds and paragraphs in reports."""

import math
import re
import textwrap
from decimal import Decimal
from fractions import Fraction

from meteragent.domain import figures as plain
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import duration_parts, format_duration
from meteragent.domain.terms import Terms
from meteragent.report.language import say

MEAN_W = 330
"""The assumed mean power of an average home (about 8 kWh a day), the reference for errors."""
WIDTH = 100
"""The largest width of a line on a terminal, in characters."""
_NO_BREAK = "\u00a0"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[kMG]?Wh?|min|h|s|ms|days?|Tage?|%)\b|%)")
_RATE_PLACES = 1000
_LIMIT_FIGURES = 4
_ODDS_FIGURES = 3
NOTHING_FROM = math.log(1000)
"""The level above which a promise hides nothing: an attacker may be right more than 99.9% of the time."""


def localise(number: str) -> str:
    """Rewrite a number from its English form with the language's decimal sign and grouping."""
    return number.translate({ord("."): say("number.decimal"), ord(","): say("number.group")})


def figures_text(number: float | Fraction) -> str:
    """Format a number to three figures, or as a whole number from 1,000."""
    return localise(plain.three_figures(number))


def whole_text(count: int) -> str:
    """Format a whole number with its digits in groups."""
    return localise(f"{count:,}")


def duration(duration_ms: int, units: int = 5) -> str:
    """Format a duration, such as ``30 min`` or ``2 days 4 h``, rounded down to its `units` largest units."""
    parts = duration_parts(duration_ms, units)
    return " ".join(
        say("duration.day" if count == 1 else "duration.days", count=whole_text(count))
        if unit == "day"
        else f"{whole_text(count)} {unit}"
        for unit, count in parts
    )


def amount_text(number: float, unit: str) -> str:
    """Format a number with its unit, as `figures_text` does, except that ties are rounded towards zero."""
    return f"{figures_text(math.nextafter(number, 0))} {unit}"


def full_text(number: Fraction) -> str:
    """Return an exact number in full, with its digits in groups, such as ``1,440`` or ``13/11``."""
    text = exact_text(number)
    return text if "/" in text else localise(f"{Decimal(text):,f}")


def energy_text(wh: float | Fraction) -> str:
    """Format the energy of an event or a promise, in Wh."""
    return amount_text(float(wh), "Wh")


def hidden_text(terms: Terms) -> str:
    """Return the hidden energy and where in a window it is hidden, as logs and receipts say it."""
    place = "any band of a day" if terms.shape.names else f"any slot of {format_duration(terms.step_ms)}"
    if terms.metric.is_sum:
        place = "all bands of a window together" if terms.shape.names else "a whole window"
    return f"{energy_text(terms.hides_wh)} within {place}"


def level_text(level: Fraction) -> str:
    """Return a level: in full if it has at most three decimals, or else as `figures_text` formats it."""
    return full_text(level) if (level * _RATE_PLACES).denominator == 1 else figures_text(level)


def round_up(level: Fraction) -> Fraction:
    """Round a level up to four figures."""
    if not level:
        return level
    place = _place_value(level, _LIMIT_FIGURES)
    return math.ceil(level / place) * place


def _place_value(level: Fraction, count: int) -> Fraction:
    """Return the place value of the last of the first `count` figures of a level."""
    return Fraction(10) ** (math.floor(math.log10(level)) + 1 - count)


def _odds(level: Fraction) -> str:
    return plain.three_figures(math.exp(level))


def odds_text(level: Fraction) -> str:
    """Return the largest factor by which the odds change, such as ``e^1 = 2.72``.

    A level with at most three decimal places is written in full. Any other is rounded up, to three figures
    or, from 1,000, to a whole number, and then further until the factor, as written, is at least e^level. So
    the text does not understate the odds. A factor of 1,000 or more hides nothing.
    """
    exponent = level
    if (level * _RATE_PLACES).denominator != 1:
        place = min(_place_value(level, _ODDS_FIGURES), Fraction(1))
        exponent = math.ceil(level / place) * place
        while exponent < NOTHING_FROM and float(_odds(exponent).replace(",", "")) < math.exp(level):
            exponent += place
    factor = f"= {localise(_odds(exponent))}" if exponent < NOTHING_FROM else say("odds.nothing")
    return f"e^{level_text(exponent)} {factor}"


def mean_label(count: int) -> str:
    """Return the label for one home's number or for the mean of many homes."""
    return say("cost.one_home") if count == 1 else say("cost.mean", count=whole_text(count))


def percent_text(number: str) -> str:
    """Write a number as a percentage, in the language's form."""
    return say("number.percent", number=number)


def wrap_text(text: str, indent: str = "", hanging: str = "  ", width: int = WIDTH) -> str:
    """Wrap a paragraph without breaking words or paths, or separating a number from its unit."""
    lines = textwrap.fill(
        _BEFORE_UNIT.sub(_NO_BREAK, text),
        width,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace(_NO_BREAK, " ")
