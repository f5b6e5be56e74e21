"""The commands that show what is promised and what leaves: `check`, `audit`, `plan`, `demo` and `schema`."""

import argparse
import os
from typing import Any

from meteragent.cli.usage.command import JSON, NO_CONFIG, Command, add_config, add_options, parsed_by
from meteragent.report.catalogue import of_environment
from meteragent.texts import LANGUAGES


def check(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `check`."""
    add_config(parser)
    output = parser.add_argument_group("output")
    add_language(output)
    statement = ("--statement", None, "print a page for your data protection records (Markdown)")
    add_options(output.add_mutually_exclusive_group(), JSON, statement)
    add_options(
        parser.add_argument_group("events"),
        ("--event", "'2000W 30min'", "also show how well an event of your own is hidden; can be repeated"),
        parse=parsed_by("check", "parse_event"),
        action="append",
        default=[],
    )


def audit(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `audit`."""
    add_config(parser)
    add_options(
        parser.add_argument_group("effort"),
        (
            "--samples",
            "N",
            "the number of windows for each statistic; default: as many as a few seconds allow",
        ),
        parse=parsed_by("audit", "parse_samples"),
    )
    add_options(parser.add_argument_group("output"), JSON)


def plan(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `plan`."""
    parser.set_defaults(refuse=parser.error)
    question = parser.add_argument_group("the question: two of --hide, --share and --error")
    assumptions = parser.add_argument_group("assumptions")
    output = parser.add_argument_group("output")
    hide = "what to hide: kettle, 'tv evening', '8 h away', ..., 110Wh, 0.3kWh, or '2000W 30min'"
    share = "what to share: half-hour, day, typical-day, month, 15min, hour, curve, month-cost, 'day,month'"
    error = "the largest acceptable error: 5%% of a home's use, 20W, 0.5kWh, 0.05EUR; or one for each share"
    plot = "write a plot of error against hidden energy to a file whose name ends in .png, .pdf or .svg"
    rows = (
        (question, "--hide", "WHAT", hide),
        (question, "--share", "WHAT", share),
        (question, "--error", "P", error),
        (question, "--homes", "N", "how many homes to average; default: 1"),
        (assumptions, "--price", "P", "for costs: the largest absolute price per kWh; default: 0.5EUR"),
        (assumptions, "--level", "L", "the level of a window; smaller is more private; default: 1"),
        (assumptions, "--timezone", "ZONE", "the time zone of local days and months; default: UTC"),
        (output, "--plot", "FILE", plot),
    )
    for group, flag, metavar, text in rows:
        add_options(group, (flag, metavar, text), parse=parsed_by("plan", f"parse_{flag[2:]}"))
    parser.set_defaults(level="1", timezone="UTC")  # strings: argparse parses them too
    add_language(output)
    add_options(output, JSON)


def add_language(group: Any) -> None:
    """Add the option `--lang`."""
    group.add_argument(
        "--lang",
        choices=LANGUAGES,
        default=of_environment(os.environ),
        help="the language of the text; default: from LC_ALL, LC_MESSAGES or LANG, or else English",
    )


def demo(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `demo`."""
    crowd = "compare two totals of the homes: with noise from two operators, and with noise in every home"
    add_options(
        parser.add_argument_group("size"),
        ("--homes", "N", "how many homes; default: 100"),
        ("--days", "N", "how many days; default: 1"),
        ("--crowd", None, crowd),
    )
    folder = ("--out", "DIR", "the folder for the picture and the report")
    add_options(parser.add_argument_group("output"), folder)


SCHEMAS = ("config", "record", "descriptor", "total", "status", "prices", "manifest", "asyncapi")
"""What `schema` can describe: the configuration, each message, an archive's manifest, and all topics."""


def schema(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of `schema`."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        choices=SCHEMAS,
        default="config",
        help=f"what to describe: {', '.join(SCHEMAS)}; default: %(default)s",
    )


COMMANDS = {
    "check": Command("check home.toml --event '2000W 30min'", check),
    "audit": Command(
        "audit home.toml --samples 100000",
        audit,
        {1: "failed, perhaps because scipy is missing; the message says why", 3: "a promise is broken"},
    ),
    "plan": Command(
        "plan --hide kettle --share half-hour --homes 100",
        plan,
        {1: "failed: --plot needs matplotlib, which is not installed"},
        NO_CONFIG,
    ),
    "demo": Command(
        "demo --homes 20\ndemo --crowd",
        demo,
        {2: "the command line is wrong, or the simulators or the extra crowd are not installed"},
        NO_CONFIG,
    ),
    "schema": Command(
        "schema > meteragent.schema.json\nschema record > record.schema.json", schema, codes=NO_CONFIG
    ),
}
