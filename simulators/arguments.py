"""The arguments of the commands that need the analysis extra.

They are separate from the commands' modules, so that `--help` works without the extra.
"""

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from simulators import option
from simulators.papers import ITEMS
from simulators.utility_row import MONTH_DAYS

DEFAULT_MECHANISM = "linf epsilon=1/40"


def attack(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators attack`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "scene", choices=("programmes", "presence", "check", "register", "linkage"), help="the question"
    )
    add = parser.add_argument
    add(
        "--mechanism",
        action="append",
        metavar="MECHANISM",
        help=f'compared with "none"; may be repeated (default "{DEFAULT_MECHANISM}")',
    )
    add(
        "--preset",
        default="appliance",
        help="for check: television, appliance, street or day (default %(default)s)",
    )
    scene(parser)
    add("--json", action="store_true", help="print all figures as JSON")
    add("--out", type=Path, metavar="FILE", help="write all figures as JSON to this file, too")


def scene(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that `attack` and `frontier` have in common."""
    add = parser.add_argument
    add(
        "--attack",
        "--attacker",
        action="append",
        dest="attackers",
        metavar="ATTACKER",
        help="may be repeated (default: all of ours)",
    )
    add(
        "--size",
        type=option.positive,
        metavar="N",
        help="number of programmes or homes (default 100; for check and register 20, for linkage 200)",
    )
    add(
        "--slots",
        type=option.positive,
        default=30,
        help="slots in a window: of 10 s each, or in a half hour (default %(default)s)",
    )
    add("--times", type=option.positive, default=1, metavar="M", help="release the same window M times")
    add(
        "--event",
        default="kettle",
        help="for presence: part of an event's name in `check` (default %(default)s)",
    )
    add(
        "--trials",
        type=option.positive,
        default=4000,
        help="number of attacks, and of windows to learn from (default %(default)s)",
    )
    add("--seed", type=option.seed, default=0, help="seed of everything (default %(default)s)")
    add("--data", type=Path, metavar="FOLDER", help="use real traces: FOLDER/tracebase and FOLDER/homes")


def frontier(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators frontier`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add(
        "--scene",
        choices=("programmes", "presence"),
        default="programmes",
        help="the question (default %(default)s)",
    )
    add("--mechanism", action="append", metavar="MECHANISM", help="may be repeated (default: all of ours)")
    add(
        "--level",
        type=_parse_levels,
        default="0.3:30:7",
        metavar="LO:HI:K",
        help="K levels of linf from LO to HI (default %(default)s)",
    )
    add(
        "--radius",
        type=_parse_radius,
        default="40",
        metavar="W",
        help="epsilon = level / radius (default %(default)s)",
    )
    scene(parser)
    add("--out", type=Path, metavar="F.csv", help="write all points as CSV")
    add("--plot", type=Path, metavar="F.pdf", help="draw all points, as PDF or PNG")


def paper(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators paper`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "items:\n  " + "\n  ".join(ITEMS)
    add = parser.add_argument
    add("items", nargs="*", type=_item, metavar="ITEM", help="a figure or an example (default: all)")
    add("--out", type=Path, metavar="DIR", help="folder for pictures and their numbers")
    add("--seed", type=_at_least(0), default=0, help="seed of everything (default %(default)s)")
    add(
        "--size",
        type=_at_least(2),
        default=100,
        metavar="N",
        help="number of programmes (default %(default)s)",
    )
    add("--trials", type=_at_least(1), default=2000, help="trials of each attack (default %(default)s)")


def pictures(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators pictures`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=option.seed, default=0, metavar="N", help="seed (default %(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the pictures")
    parser.add_argument(
        "--trials",
        type=option.positive,
        default=2000,
        metavar="N",
        help="attacks per point (default %(default)s)",
    )


def tariff(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators tariff`."""
    add = parser.add_argument
    add("--homes", type=option.positive, default=300, help="simulated homes (default %(default)s)")
    add("--draws", type=option.positive, default=100, help="releases of each month (default %(default)s)")
    add("--seed", type=option.seed, default=0, help="seed of everything (default %(default)s)")
    add("--data", type=Path, metavar="FOLDER", help="also use the real traces in FOLDER/homes")
    add("--json", action="store_true", help="print all figures as JSON")


def crowd(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators crowd`."""
    add = parser.add_argument
    add("--slots", type=option.positive, default=2000, help="totals of each row (default %(default)s)")
    add("--seed", type=option.seed, default=0, help="seed of homes and pads (default %(default)s)")
    add("--json", action="store_true", help="print all figures as JSON")


def utility(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators utility`."""
    add = parser.add_argument
    add(
        "--preset",
        default="appliance",
        help="television, appliance, street or day (default %(default)s)",
    )
    add("--homes", type=option.positive, default=1000, help="simulated homes (default %(default)s)")
    add(
        "--days",
        type=option.positive,
        default=MONTH_DAYS,
        help="days; a month needs 30 (default %(default)s)",
    )
    add("--seed", type=option.seed, default=0, help="seed of everything (default %(default)s)")
    add("--json", action="store_true", help="print the rows as JSON")
    add("--plot", type=Path, metavar="F.pdf", help="draw the rows, as PDF or PNG")


DECLARATIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "attack": attack,
    "crowd": crowd,
    "frontier": frontier,
    "paper": paper,
    "pictures": pictures,
    "tariff": tariff,
    "utility": utility,
}
"""For each command, the function that declares its arguments."""


def _parse_levels(text: str) -> list[Fraction]:
    try:
        return option.levels(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parse_radius(text: str) -> Fraction:
    try:
        radius = Fraction(text)
    except (ValueError, ZeroDivisionError):
        radius = Fraction(0)
    if radius <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of watts above 0")
    return radius


def _at_least(minimum: int) -> Callable[[str], int]:
    """Return a parser of whole numbers that are at least `minimum`."""

    def parse(text: str) -> int:
        """Parse a number; raise argparse's error for anything else."""
        if not text.isdecimal() or not minimum <= int(text) < 1 << 64:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {minimum} to 2**64 - 1")
        return int(text)

    return parse


def _item(text: str) -> str:
    """Parse an item's name; raise argparse's error if there is no such item."""
    if text not in ITEMS:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(ITEMS)}")
    return text
