"""Formats of numbers, amounts, durations, levels, odds and paragraphs in reports."""

import math
import re
import textwrap
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from meteragent.domain import figures as plain
from meteragent.domain.figures import exact
from meteragent.domain.grid import duration_parts, format_duration
from meteragent.domain.terms import Terms
from meteragent.report.catalogue import say

MEAN_W = 330
"""The assumed mean power of an average home (about 8 kWh a day), the reference for errors."""
WIDTH = 100
"""The largest width of a line on a terminal, in characters."""
_NO_BREAK = "\u00a0"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[kMG]?Wh?|min|h|s|ms|days?|Tage?|%)\b|%)")
_RATE_PLACES = 1000
_LIMIT_FIGURES = 4
_ODDS_FIGURES = 3
_ODDS_IN_FULL = 10**6
_FLOAT_LEVEL_MAX = 700  # e^710 is too large for a float
_WIDE = Context(prec=17, Emax=MAX_EMAX, Emin=MIN_EMIN)


def localised(number: str) -> str:
    """Rewrite a number from its English form with the language's decimal sign and grouping."""
    return number.translate({ord("."): say("number.decimal"), ord(","): say("number.group")})


def figures(number: float | Fraction) -> str:
    """Format a number to three figures, or as a whole number from 1,000."""
    return localised(plain.figures(number))


def whole(count: int) -> str:
    """Format a whole number with its digits in groups."""
    return localised(f"{count:,}")


def duration(duration_ms: int, units: int = 5) -> str:
    """Format a duration, such as ``30 min`` or ``2 days 4 h``, rounded down to its `units` largest units."""
    parts = duration_parts(duration_ms, units)
    return " ".join(
        say("duration.day" if count == 1 else "duration.days", count=whole(count))
        if unit == "day"
        else f"{whole(count)} {unit}"
        for unit, count in parts
    )


def amount(number: float, unit: str) -> str:
    """Return a number, as `figures` formats it, but with ties rounded towards zero, with its unit."""
    return f"{figures(math.nextafter(number, 0))} {unit}"


def full(number: Fraction) -> str:
    """Return an exact number in full, with its digits in groups, such as ``1,440`` or ``13/11``."""
    text = exact(number)
    return text if "/" in text else localised(f"{Decimal(text):,f}")


def energy(wh: float | Fraction) -> str:
    """Format the energy of an event or a promise, in Wh."""
    return amount(float(wh), "Wh")


def hidden(terms: Terms) -> str:
    """Return the hidden energy and where in a window it is hidden, as logs and receipts say it."""
    place = "any band of a day" if terms.shape.names else f"any slot of {format_duration(terms.step_ms)}"
    if terms.metric.is_sum:
        place = "all bands of a window together" if terms.shape.names else "a whole window"
    return f"{energy(terms.hides_wh)} within {place}"


def rate(level: Fraction) -> str:
    """Return a level: in full if it has at most three decimal places, or else as `figures` formats it."""
    return full(level) if (level * _RATE_PLACES).denominator == 1 else figures(level)


def rounded_up(level: Fraction) -> Fraction:
    """Round a level up to four figures."""
    if not level:
        return level
    place = _place_value(level, _LIMIT_FIGURES)
    return math.ceil(level / place) * place


def _place_value(level: Fraction, count: int) -> Fraction:
    """Return the place value of the last of the first `count` figures of a level."""
    return Fraction(10) ** (math.floor(math.log10(level)) + 1 - count)


def odds_figures(level: Fraction) -> str:
    """Return e^level to three figures or, from 1,000 to a million, as a whole number."""
    return localised(_factor(level))


def _factor(level: Fraction) -> str:
    """Return the factor of `odds_figures` in English."""
    if level > _FLOAT_LEVEL_MAX:
        return f"{_WIDE.exp(Decimal(float(level))):.3g}"
    factor = math.exp(level)
    return plain.figures(factor) if factor < _ODDS_IN_FULL else f"{factor:.3g}"


def odds(level: Fraction) -> str:
    """Return the largest factor by which the odds change, such as ``e^1 = 2.72``.

    A level with at most three decimal places is written in full. Any other is rounded up, to three figures or
    from 1,000 to a whole number. Below 700, it is rounded up further until its factor, as it is written, is
    not smaller than e^level. So the rounded level does not understate the odds.
    """
    if (level * _RATE_PLACES).denominator == 1:
        return f"e^{rate(level)} = {odds_figures(level)}"
    place = min(_place_value(level, _ODDS_FIGURES), Fraction(1))
    exponent = math.ceil(level / place) * place
    while exponent <= _FLOAT_LEVEL_MAX and float(_factor(exponent).replace(",", "")) < math.exp(level):
        exponent += place
    return f"e^{rate(exponent)} = {odds_figures(exponent)}"


def mean_of(count: int) -> str:
    """Return the label for one home's number or for the mean of many homes."""
    return say("cost.one_home") if count == 1 else say("cost.mean", count=whole(count))


def percent(number: str) -> str:
    """Write a number as a percentage, in the language's form."""
    return say("number.percent", number=number)


def filled(text: str, indent: str = "", hanging: str = "  ") -> str:
    """Wrap a paragraph without breaking words or paths, or separating a number from its unit."""
    lines = textwrap.fill(
        _BEFORE_UNIT.sub(_NO_BREAK, text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace(_NO_BREAK, " ")
