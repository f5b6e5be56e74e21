"""The arguments of `meteragent plan`."""

import argparse
import difflib
import importlib
import re
import zoneinfo
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from meteragent.cli import common
from meteragent.report import plan
from meteragent.report.plan import ask
from meteragent.report.plan.solve import Question

_FORMATS = (".png", ".pdf", ".svg")
_LEVEL = re.compile(r"\d{1,6}(\.\d{1,6}|/\d{1,6})?", re.ASCII)
_LEVEL_MIN, _LEVEL_MAX = Fraction(1, 1000), 4
"""Above it whoever guesses is nearly always right, and nothing is hidden."""
T = TypeVar("T")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `plan`."""
    parser.set_defaults(refuse=parser.error)
    flags: list[tuple[str, str, Callable[[str], object], str]] = [
        ("--hide", "WHAT", ask.hide, "kettle, 'tv evening', 'away 8 h', .., 110Wh, 0.3kWh, or '2000W 30min'"),
        ("--share", "WHAT", ask.share, "half-hour, day, typical-day, month; also 15min, hour, curve"),
        ("--homes", "N", ask.homes, "how many homes are averaged; one unless given"),
        ("--error", "P", ask.goal, "how good the mean has to be: 5%% of a home's use, 20W, 0.5kWh"),
        ("--level", "L", _level, "the level of a window; 1 unless given, smaller is more private"),
        ("--timezone", "ZONE", _zone, "the zone of local days and months, such as Europe/Amsterdam"),
        ("--plot", "FILE", _plot, "draw error against hiding: a name that ends in .png, .pdf or .svg"),
    ]
    for flag, metavar, parse, text in flags:
        parser.add_argument(flag, metavar=metavar, type=_told(parse), help=text)
    parser.set_defaults(level=Fraction(1), timezone="UTC")
    parser.add_argument("--json", action="store_true", help="the same facts as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the third quantity, and draw it where asked; a question without an answer is a usage error."""
    try:
        answer = plan.solve(question(options))
    except ValueError as error:
        options.refuse(str(error))
    if options.plot is not None:
        if common.lacks("matplotlib", "a picture", "analysis"):
            return common.EXIT_CRASH
        importlib.import_module("meteragent.report.plan.picture").draw(answer, options.plot)
    print(plan.as_json(answer) if options.json else plan.as_text(answer))
    return 0


def question(options: argparse.Namespace) -> Question:
    """What is asked."""
    return Question(
        options.hide, options.share, options.homes, options.error, options.level, options.timezone
    )


def _told(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A parser whose refusal says what was found and what would be right."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"found {text!r}; expected {error}") from None

    return parsed


def _level(text: str) -> Fraction:
    expected = f"a number from {float(_LEVEL_MIN):g} to {_LEVEL_MAX} such as 1, 0.5 or 1/3"
    if not _LEVEL.fullmatch(text):
        raise ValueError(expected)
    try:
        level = Fraction(text)
    except ZeroDivisionError:
        raise ValueError(expected) from None
    if not _LEVEL_MIN <= level <= _LEVEL_MAX:
        raise ValueError(expected)
    return level


def _zone(text: str) -> str:
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        close = difflib.get_close_matches(text, zoneinfo.available_timezones(), n=1)
        raise ValueError(f"a time zone such as {close[0] if close else 'Europe/Amsterdam'}") from None
    return text


def _plot(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(f"a name that ends in {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}")
    if not path.parent.is_dir():
        raise ValueError("a name in a folder that exists")
    return path
