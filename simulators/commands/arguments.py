"""The command-line arguments of all commands.

They are not declared in the commands' modules, because `--help` must work without the extras.
"""

import argparse
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from meteragent.domain.grid import parse_duration
from meteragent.domain.presets import DEFAULT, OFFERED_PRESETS, PRESETS
from simulators.commands import option
from simulators.commands.option import positive
from simulators.homes.region import REGIONS
from simulators.homes.signature import DAY_0
from simulators.papers import ITEMS
from simulators.utility.row import MONTH_DAYS

WITHIN_A_DAY = [name for name in OFFERED_PRESETS if PRESETS[name].length != "1mo"]
"""The presets whose windows divide a day, as the attackers that test `check` require."""
_PRESETS = f"{', '.join(WITHIN_A_DAY[:-1])} or {WITHIN_A_DAY[-1]} (default %(default)s)"
DEFAULT_MECHANISM = "linf epsilon=1/40"
BEGIN, END = "<!-- compared: begin -->", "<!-- compared: end -->"
"""The marks between which `compare --into` writes its table; a region's name is added after `compared`."""
MQTT: dict[str, Any] = {
    "url": "mqtt://127.0.0.1:1883",
    "topic": "meters/{meter}/power",
    "meters": 1,
    "speed": 1.0,
}
"""The options of `replay` that apply only to MQTT, with their defaults."""


def attack(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators attack`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "scene", choices=("programmes", "presence", "check", "register", "linkage"), help="the question above"
    )
    add = parser.add_argument
    add(
        "--mechanism",
        action="append",
        metavar="MECHANISM",
        help=f'mechanism to compare with "none"; may be repeated (default "{DEFAULT_MECHANISM}")',
    )
    add(
        "--preset",
        default=DEFAULT,
        help=f"preset for check: {_PRESETS}",
    )
    scene(parser)
    add("--json", action="store_true", help="print all figures as JSON, not as a table")
    add("--out", type=Path, metavar="FILE", help="also write all figures as JSON to this file")


def scene(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that `attack` and `frontier` have in common."""
    add = parser.add_argument
    add(
        "--attack",
        "--attacker",
        action="append",
        dest="attackers",
        metavar="ATTACKER",
        help="an attacker; may be repeated (default: all built-in attackers)",
    )
    add(
        "--size",
        type=positive,
        metavar="N",
        help="number of programmes or homes (default 100; for check and register 20, for linkage 200)",
    )
    add(
        "--slots",
        type=positive,
        default=30,
        help="slots per window: of 10 s each for programmes; equal parts of a half hour for presence"
        " (default %(default)s)",
    )
    add("--times", type=positive, default=1, metavar="M", help="release the same window M times")
    add(
        "--event",
        default="kettle",
        help="for presence: part of the name of an event in `meteragent check` (default %(default)s)",
    )
    add(
        "--trials",
        type=positive,
        default=4000,
        help="number of attacks, and of windows from which attackers learn (default %(default)s)",
    )
    add("--seed", type=option.seed, default=0, help="random seed (default %(default)s)")
    add(
        "--data",
        type=Path,
        metavar="FILE|FOLDER",
        help="use real traces: a CSV or Parquet file, or those in FOLDER/tracebase and FOLDER/homes",
    )


def frontier(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators frontier`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add(
        "--scene",
        choices=("programmes", "presence"),
        default="programmes",
        help="the question, as in `attack` (default %(default)s)",
    )
    add(
        "--mechanism",
        action="append",
        metavar="MECHANISM",
        help="a mechanism; may be repeated (default: all built-in ones)",
    )
    add(
        "--level",
        type=option.refusing(option.levels),
        default="0.3:30:7",
        metavar="LO:HI:K",
        help="K levels of linf from LO to HI, evenly spaced on a log scale (default %(default)s)",
    )
    add(
        "--radius",
        type=option.radius,
        default="40",
        metavar="W",
        help="radius in W: epsilon is level / radius (default %(default)s)",
    )
    scene(parser)
    add("--out", type=Path, metavar="F.csv", help="write all points to this CSV file")
    add("--plot", type=Path, metavar="F.pdf", help="draw all points in this PDF or PNG file")


def paper(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators paper`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "items:\n  " + "\n  ".join(ITEMS)
    add = parser.add_argument
    add("items", nargs="*", type=option.item, metavar="ITEM", help="a figure or an example (default: all)")
    add("--out", type=Path, metavar="DIR", help="folder for pictures and their numbers")
    add("--seed", type=option.seed, default=0, help="random seed (default %(default)s)")
    add(
        "--size",
        type=option.at_least(2),
        default=100,
        metavar="N",
        help="number of programmes (default %(default)s)",
    )
    add("--trials", type=positive, default=2000, help="trials per attack (default %(default)s)")


def pictures(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators pictures`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--seed", type=option.seed, default=0, metavar="N", help="random seed (default %(default)s)")
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the pictures")
    add(
        "--trials",
        type=positive,
        default=2000,
        metavar="N",
        help="attacks per point (default %(default)s)",
    )


def tariff(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators tariff`."""
    add = parser.add_argument
    add("--homes", type=positive, default=300, help="number of simulated homes (default %(default)s)")
    add("--draws", type=positive, default=100, help="number of releases of a month (default %(default)s)")
    add("--seed", type=option.seed, default=0, help="random seed (default %(default)s)")
    add("--data", type=Path, metavar="FOLDER", help="also use the real traces in FOLDER/homes")
    add("--json", action="store_true", help="print all figures as JSON")


def crowd(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators crowd`."""
    add = parser.add_argument
    add("--slots", type=positive, default=2000, help="number of totals per row (default %(default)s)")
    add("--seed", type=option.seed, default=0, help="random seed (default %(default)s)")
    add("--json", action="store_true", help="print all figures as JSON")


def utility(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators utility`."""
    add = parser.add_argument
    add(
        "--preset",
        default=DEFAULT,
        help=f"preset: {_PRESETS}",
    )
    add("--homes", type=positive, default=1000, help="number of simulated homes (default %(default)s)")
    add(
        "--days",
        type=positive,
        default=MONTH_DAYS,
        help="number of days; the row of a month needs 30 (default %(default)s)",
    )
    add("--seed", type=option.seed, default=0, help="random seed (default %(default)s)")
    add("--json", action="store_true", help="print the rows as JSON, not as a table")
    add("--plot", type=Path, metavar="F.pdf", help="draw the rows in this PDF or PNG file")


def demo(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators demo`."""
    add = parser.add_argument
    add(
        "--homes",
        type=option.homes,
        default=100,
        metavar="N",
        help="number of homes, at least 2 (default %(default)s)",
    )
    add(
        "--days",
        type=option.days,
        default=1,
        metavar="N",
        help="number of days; 30 make a month (default %(default)s)",
    )
    add(
        "--out",
        type=Path,
        default=Path("demo-out"),
        metavar="DIR",
        help="output folder (default %(default)s)",
    )
    add(
        "--crowd",
        action="store_true",
        help="compare the total with noise from two operators and the total with noise from every home",
    )


def generate(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators generate`."""
    add = parser.add_argument
    add("--seed", type=int, required=True, metavar="N", help="random seed, at least 0")
    add("--homes", type=positive, default=100, metavar="N", help="number of homes (default %(default)s)")
    add("--days", type=positive, default=7, metavar="N", help="number of days (default %(default)s)")
    add(
        "--first-day",
        type=date.fromisoformat,
        default=DAY_0,
        metavar="DATE",
        help="date of the first day (default %(default)s)",
    )
    add(
        "--step",
        type=option.step,
        default="15min",
        metavar="DURATION",
        help="time between readings, from 1s to 1d; must divide a day (default %(default)s)",
    )
    add(
        "--resolution",
        type=float,
        default=1.0,
        metavar="W",
        help="the meter's resolution (default %(default)s)",
    )
    add(
        "--out",
        required=True,
        metavar="DIR|FILE.parquet|FILE.csv|mqtt://HOST",
        help="where to write or send; replaces existing files",
    )
    add(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="spark: Spark's workers write folders of Parquet files into DIR (default %(default)s)",
    )
    add("--region", choices=REGIONS, help="homes of today in Germany or Great Britain, with their weather")
    add("--plot", type=Path, metavar="FILE", help="also draw the first day in this .png, .pdf or .svg")
    add("--topic", default="meters/{meter}/power", help="topic for MQTT (default %(default)s)")


def compare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators compare`."""
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of real traces, with homes/ and tracebase/",
    )
    add("--region", choices=REGIONS, help="compare streets of this region with published figures instead")
    add("--into", type=Path, metavar="FILE", help=f"replace the text between {BEGIN} and {END} in FILE")


def world(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators world`."""
    add = parser.add_argument
    add("--seed", type=int, required=True, metavar="N", help="random seed, at least 0")
    add("--homes", type=positive, default=20, metavar="N", help="number of homes (default %(default)s)")
    add("--days", type=positive, default=1, metavar="N", help="number of days (default %(default)s)")
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write to; replaces existing files")


def simtest(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators simtest`."""
    parser.description = (
        "Run the agent under seeded faults (crashes, outages, bad disks and clocks) in virtual time, and"
        " check every step; --of runs another service. The run ends with exit code 1 at the first schedule"
        " that violates an invariant. That schedule is shrunk and printed, and --replay runs it again."
    )
    add = parser.add_argument
    add(
        "--of",
        dest="service",
        choices=("agent", "collect", "operators"),
        default="agent",
        help="what runs (default %(default)s); the others need the extra collect or crowd",
    )
    add(
        "--seeds",
        type=positive,
        default=100_000,
        metavar="N",
        help="number of schedules (default %(default)s)",
    )
    add(
        "--from", dest="first", type=option.seed, default=0, metavar="SEED", help="seed of the first schedule"
    )
    add(
        "--fresh",
        action="store_true",
        help="begin with a seed that follows from the checked-out commit, instead of --from",
    )
    add("--seed", type=option.seed, metavar="SEED", help="print and run the schedule of this seed only")
    add("--replay", type=Path, metavar="FILE", help="run a printed schedule; - reads it from standard input")
    add(
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default %(default)s)",
    )
    add(
        "--log",
        type=Path,
        metavar="FILE",
        help="append finished parts to this file and continue after them; violations do not stop the run",
    )


def replay(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators replay`."""
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a Parquet or CSV file, or a folder house_* of UK-DALE")
    add("--url", type=option.refusing(option.url), help=f"mqtt://[user:password@]host; default {MQTT['url']}")
    add("--topic", help=f"topic of each meter (default {MQTT['topic']})")
    add(
        "--meters",
        type=option.meters,
        metavar="N",
        help="number of meters, m1 .. mN, that send the trace",
    )
    add(
        "--speed",
        type=option.refusing(option.speed),
        metavar="FACTOR",
        help="multiple of real time (default 1), or `max`",
    )
    add(
        "--out",
        type=option.refusing(option.trace_file),
        metavar="FILE.csv|FILE.parquet",
        help="write to this file instead of sending over MQTT",
    )
    add("--time", metavar="COLUMN", help="the column of times (default: the first)")
    add("--timezone", metavar="ZONE", help="of CSV: the zone of local times, which are read as UTC otherwise")
    add("--watts", metavar="COLUMN", help="the column of power (default: the home's total, or the second)")
    add("--unit", choices=("W", "kW"), help="unit of --watts, if neither its name nor the data set states it")
    add(
        "--start",
        type=option.refusing(option.start),
        default="column",
        help="time of the first reading: an RFC 3339 time, `now`, or `column` (as in the trace; the default)",
    )
    add(
        "--limit",
        type=option.refusing(parse_duration),
        metavar="DURATION",
        help="replay only this much of the trace, such as 31d",
    )
    add(
        "--loop",
        type=option.refusing(option.loops),
        default=1,
        metavar="N",
        help="replay the trace N times (default 1); 0: until interrupted",
    )


DECLARATIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "attack": attack,
    "compare": compare,
    "crowd": crowd,
    "demo": demo,
    "frontier": frontier,
    "generate": generate,
    "paper": paper,
    "pictures": pictures,
    "replay": replay,
    "simtest": simtest,
    "tariff": tariff,
    "utility": utility,
    "world": world,
}
"""For each command, the function that declares its arguments."""
