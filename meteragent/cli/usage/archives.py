"""The commands for archives: `sanitise`, `convert` and `key`."""

import argparse
from pathlib import Path

from meteragent.cli.usage.command import JSON, NO_CONFIG, Command, actions_of, add_options, parsed_by


def sanitise(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sanitise`."""
    parser.add_argument("input", metavar="IN.parquet", type=Path, help="a file, or a folder of files")
    parser.add_argument("output", metavar="OUT.parquet", type=Path, help="a folder that does not exist yet")
    parser.add_argument_group("promise").add_argument(
        "--config", metavar="CONFIG", type=Path, required=True, help="a configuration with an [archive] table"
    )
    group = parser.add_argument_group("run")
    group.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="where the run is computed: on this machine or on Spark; default: %(default)s",
    )
    clamp = "release even if more than half of the numbers are outside window.range, and clamp them to it"
    add_options(
        group,
        ("--dry-run", None, "show what a run would do, and write nothing"),
        ("--clamp", None, clamp),
    )
    add_options(parser.add_argument_group("output"), JSON)


def convert(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `convert`."""
    parser.add_argument(
        "input",
        metavar="IN",
        type=Path,
        help="an output folder of `sanitise`, a dataset of `collect`, or a file: CSV or Green Button",
    )
    parser.add_argument("output", metavar="OUT", type=Path, help="a file that does not exist yet")
    parser.add_argument_group("format").add_argument(
        "--to",
        required=True,
        choices=("csv", "csv-semicolon", "green-button", "meter-readings", "readings"),
        help="the format to write; readings means a Parquet file for `sanitise`",
    )
    text = "the stream to read from a dataset of `collect`; default: %(default)s"
    add_options(parser.add_argument_group("dataset"), ("--stream", "NAME", text), default="main")


def key_file(parser: argparse.ArgumentParser) -> None:
    """Declare the argument `FILE` of all actions of `key`; it is the only argument of `key show`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the key's file")


def key_new(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `key new`."""
    key_file(parser)
    group = parser.add_argument_group("the key")
    tenant = ("--tenant", "NAME", "the owner of the windows")
    add_options(group, tenant, parse=parsed_by("key", "parse_tenant"), required=True)
    text = "a day in the first epoch; default: no limit, for archives older than their key"
    add_options(group, ("--from", "DATE", text), parse=parsed_by("key", "parse_date"), dest="begin")
    group.add_argument(
        "--every",
        choices=("month", "day"),
        default="month",
        help="the length of an epoch, which is the unit that `forget` erases; default: %(default)s",
    )


def key_forget(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `key forget`."""
    key_file(parser)
    add_options(
        parser.add_argument_group("what to forget"),
        ("--before", "DATE", "a day in the first epoch to keep"),
        parse=parsed_by("key", "parse_date"),
        required=True,
    )


_NO_KEY = {78: "the file holds no key, or other users can read it"}
_KEY_ACTIONS: dict[str, tuple[str, Command]] = {
    "new": (
        "Create a key. Anyone who has its file can remove the noise from releases; see SECURITY.md.",
        Command("key new archive.key --tenant example --from 2025-01-01", key_new, codes=NO_CONFIG),
    ),
    "show": (
        "Show a key's tenant, its first epoch and today's public id, but never the secret.",
        Command("key show archive.key", key_file, _NO_KEY),
    ),
    "forget": (
        "Erase the keys of all epochs that end by a date; this file can never release their windows again.",
        Command("key forget archive.key --before 2026-01-01", key_forget, _NO_KEY),
    ),
}


COMMANDS = {
    "sanitise": Command(
        "sanitise homes.parquet private.parquet --config archive.toml --dry-run",
        sanitise,
        {78: "the configuration or the key is refused", 130: "interrupted; the same command resumes the run"},
    ),
    "convert": Command(
        "convert private.parquet private.xml --to green-button\n"
        "convert usage.xml homes.parquet --to readings",
        convert,
        {1: "failed: a format cannot carry a value, or a file cannot be read; the message says why"},
        NO_CONFIG,
    ),
    "key": Command(
        "key new archive.key --tenant example --from 2025-01-01 --every month\n"
        "key forget archive.key --before 2026-01-01",
        actions_of(_KEY_ACTIONS),
        _NO_KEY,
    ),
}
