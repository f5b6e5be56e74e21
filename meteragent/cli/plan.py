"""The `plan` command: compute the energy to hide, the numbers to share or the error from the other two."""

import argparse
import difflib
import os
import re
import zoneinfo
from contextlib import suppress
from fractions import Fraction

from meteragent.cli import common
from meteragent.report import plan
from meteragent.report.language import language_of_environment, use_language
from meteragent.report.plan import amount, ask, nested
from meteragent.report.plan.solve import Question
from meteragent.texts import ENGLISH

_LEVEL = re.compile(r"\d{1,6}(\.\d{1,6}|/\d{1,6})?", re.ASCII)
_LEVEL_MIN, _LEVEL_MAX = Fraction(1, 1000), 4
"""Bounds for the level. Above the upper bound, an observer's guess is nearly always right."""


def run(options: argparse.Namespace) -> int:
    """Print the answer to the question that the arguments ask; return 0."""
    language = options.lang or language_of_environment(os.environ)
    with use_language(ENGLISH if options.json else language):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        if isinstance(options.share, list):
            return _run_nested(options)
        if isinstance(options.share, amount.AmountShare):
            return _run_amount(options)
        answer = plan.solve(_question(options))
    except ValueError as error:
        options.refuse(str(error))
    print(plan.as_json(answer) if options.json else plan.as_text(answer))
    return 0


def _run_nested(options: argparse.Namespace) -> int:
    """Print the shares of nested streams. Raises ValueError if the question cannot be answered."""
    if options.hide is None or options.homes is not None:
        raise ValueError("shares are planned for one home: give --hide, but not --homes")
    lengths, goals = tuple(options.share), options.error
    goals = tuple(goals) if isinstance(goals, list) else (goals,) * len(lengths)
    question = nested.NestedQuestion(options.hide, lengths, goals, options.level, options.timezone)
    answer = nested.solve(question)
    print(nested.as_json(answer) if options.json else nested.as_text(answer))
    return 0


def _run_amount(options: argparse.Namespace) -> int:
    """Print the error of an amount, or the energy that it can hide. Raises ValueError as `_run_nested`."""
    if not isinstance(options.error, amount.Money | None):
        expected = "a cost needs an error such as --error 0.05EUR"
        raise ValueError(expected)  # noqa: TRY004 -- a wrong question, not a wrong type
    amount_question = amount.AmountQuestion(
        options.share,
        options.hide,
        options.error,
        options.price or amount.USUAL_BOUND,
        options.level,
        options.timezone,
        options.homes or 1,
    )
    answer = amount.solve(amount_question)
    print(amount.as_json(answer) if options.json else amount.as_text(answer))
    return 0


def _question(options: argparse.Namespace) -> Question:
    """Return the question that the arguments ask. Raises ValueError for contradictory arguments."""
    if isinstance(options.error, amount.Money) or options.price is not None:
        costs = "--share month-cost, week-cost or day-cost"
        raise ValueError(f"errors in money and --price apply only to costs: {costs}")
    if isinstance(options.error, list):
        expected = "several errors need as many shares, such as --share day,month"
        raise ValueError(expected)  # noqa: TRY004 -- a wrong question, not a wrong type
    return Question(
        options.hide, options.share, options.homes, options.error, options.level, options.timezone
    )


def _parse_level(text: str) -> Fraction:
    expected = f"a number from {float(_LEVEL_MIN):g} to {_LEVEL_MAX} such as 1, 0.5 or 1/3"
    with suppress(ZeroDivisionError):
        if _LEVEL.fullmatch(text) and _LEVEL_MIN <= Fraction(text) <= _LEVEL_MAX:
            return Fraction(text)
    raise ValueError(expected)


def _parse_zone(text: str) -> str:
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        close = difflib.get_close_matches(text, zoneinfo.available_timezones(), n=1)
        raise ValueError(f"a time zone such as {close[0] if close else 'Europe/Amsterdam'}") from None
    return text


parse_hide, parse_homes = common.argument(ask.parse_hide), common.argument(ask.parse_homes)
parse_share = common.argument(lambda text: amount.parse_share(text) or ask.parse_shares(text))
parse_error = common.argument(lambda text: amount.parse_money(text) or ask.parse_goals(text))
parse_price = common.argument(amount.parse_price)
parse_level, parse_timezone = common.argument(_parse_level), common.argument(_parse_zone)
