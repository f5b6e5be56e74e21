"""The arguments of the commands.

They are separate from the commands' modules, so that `--help` works without the extras.
"""

import argparse
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from meteragent.domain.grid import parse_duration
from simulators import option
from simulators.papers import ITEMS
from simulators.signature import DAY_0
from simulators.utility_row import MONTH_DAYS

DEFAULT_MECHANISM = "linf epsilon=1/40"
BEGIN, END = "<!-- compared: begin -->", "<!-- compared: end -->"
"""The marks between which `compare --into` writes its table."""
MQTT: dict[str, Any] = {
    "url": "mqtt://127.0.0.1:1883",
    "topic": "meters/{meter}/power",
    "meters": 1,
    "speed": 1.0,
}
"""The options of `replay` that apply to MQTT only, with their defaults."""


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
        type=option.level_range,
        default="0.3:30:7",
        metavar="LO:HI:K",
        help="K levels of linf from LO to HI (default %(default)s)",
    )
    add(
        "--radius",
        type=option.radius,
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
    add("items", nargs="*", type=option.item, metavar="ITEM", help="a figure or an example (default: all)")
    add("--out", type=Path, metavar="DIR", help="folder for pictures and their numbers")
    add("--seed", type=option.at_least(0), default=0, help="seed of everything (default %(default)s)")
    add(
        "--size",
        type=option.at_least(2),
        default=100,
        metavar="N",
        help="number of programmes (default %(default)s)",
    )
    add("--trials", type=option.at_least(1), default=2000, help="trials of each attack (default %(default)s)")


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
        help="compare two totals of the homes: with noise from two operators, and with noise in every home",
    )


def generate(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators generate`."""
    add = parser.add_argument
    add("--seed", type=int, required=True, metavar="N", help="seed of everything, from 0 on")
    add("--homes", type=option.count, default=100, metavar="N", help="number of homes (default %(default)s)")
    add("--days", type=option.count, default=7, metavar="N", help="number of days (default %(default)s)")
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
        help="time between readings, from 1s to 1d, a divisor of the day (default %(default)s)",
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
        help="spark: on its workers, to folders of Parquet in DIR (default %(default)s)",
    )
    add("--plot", type=Path, metavar="FILE", help="also draw the first day: .png, .pdf or .svg")
    add("--topic", default="meters/{meter}/power", help="topic for MQTT (default %(default)s)")


def compare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators compare`."""
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of real traces, with homes/ and tracebase/",
    )
    add("--into", type=Path, metavar="FILE", help=f"replace the text between {BEGIN} and {END} there")


def world(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators world`."""
    add = parser.add_argument
    add("--seed", type=int, required=True, metavar="N", help="seed of everything, from 0 on")
    add("--homes", type=option.count, default=20, metavar="N", help="number of homes (default %(default)s)")
    add("--days", type=option.count, default=1, metavar="N", help="number of days (default %(default)s)")
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write to; replaces existing files")


def simtest(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators simtest`."""
    parser.description = (
        "Run the agent under seeded faults (crashes, outages, bad disks and clocks) in virtual time, and"
        " check every step. The first schedule that violates an invariant ends the run with exit code 1; it"
        " is shrunk and printed, and --replay runs what was printed."
    )
    add = parser.add_argument
    add(
        "--seeds",
        type=option.positive,
        default=100_000,
        metavar="N",
        help="number of schedules (default %(default)s)",
    )
    add(
        "--from", dest="first", type=option.seed, default=0, metavar="SEED", help="seed of the first schedule"
    )
    add("--seed", type=option.seed, metavar="SEED", help="print and run the schedule of this seed only")
    add("--replay", type=Path, metavar="FILE", help="run a printed schedule; - reads it from standard input")
    add(
        "--jobs",
        type=option.positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes (default %(default)s)",
    )
    add(
        "--log",
        type=Path,
        metavar="FILE",
        help="append finished parts to this file and continue where it ends; violations do not stop the run",
    )


def replay(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m simulators replay`."""
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a Parquet or CSV file, or a folder house_* of UK-DALE")
    add("--url", type=option.refusing(option.url), help=f"the broker (default {MQTT['url']})")
    add("--topic", help=f"topic of each meter (default {MQTT['topic']})")
    add(
        "--meters",
        type=option.refusing(option.meters),
        metavar="N",
        help="number of meters, m1 .. mN, that send the trace",
    )
    add(
        "--speed",
        type=option.refusing(option.speed),
        metavar="FACTOR",
        help="multiple of real time (default 1), or max",
    )
    add(
        "--out",
        type=option.refusing(option.trace_file),
        metavar="FILE.csv|FILE.parquet",
        help="write to this file, not to MQTT",
    )
    add("--time", metavar="COLUMN", help="the column of times (default: the first)")
    add("--watts", metavar="COLUMN", help="the column of power (default: the total, or the second)")
    add("--unit", choices=("W", "kW"), help="its unit, if neither its name nor the data set states it")
    add(
        "--start",
        type=option.refusing(option.start),
        default="column",
        help="time of the first reading: an RFC 3339 time, now, or column (as in the trace; the default)",
    )
    add(
        "--limit",
        type=option.refusing(parse_duration),
        metavar="DURATION",
        help="replay only this long, such as 31d",
    )
    add(
        "--loop",
        type=option.refusing(option.loops),
        default=1,
        metavar="N",
        help="repeat N times; 0: until interrupted",
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
