"""The commands for archives: `sanitise`, `convert` and `key`."""

from pathlib import Path

from meteragent.cli.usage.command import JSON, NO_CONFIG, Command, argument, parsed_by

_ENGINE = "where the run is computed: on this machine or on Spark; default: %(default)s"
_ACCEPT = "release although --dry-run shows a Check: read each of them first"
_INPUT = "an output folder of `sanitise`, a dataset of `collect`, or a file: CSV or Green Button"
_FORMATS = ("csv", "csv-semicolon", "green-button", "meter-readings", "readings")
_TO = (
    "csv-semicolon: CSV with decimal commas; green-button: ESPI as XML; meter-readings: CIM as XML;"
    " readings: a Parquet file for `sanitise`"
)
_METER = "the name of the only meter of a Green Button file, in place of its address"
_CONFIG = "a configuration of `sanitise` whose [archive.csv] table says how to read the file"
_FROM = "a day in the first epoch; default: no limit, for archives older than their key"
_EVERY = "the length of an epoch, which is the unit that `forget` erases; default: %(default)s"

_NO_KEY = {78: "the file holds no key, or other users can read it"}
_KEY_FILE = argument("file", "FILE", "the key's file", type=Path)
_PARSE_DATE = parsed_by("key", "parse_date")
_NEW_KEY = (
    argument(
        "--tenant", "NAME", "the owner of the windows", type=parsed_by("key", "parse_tenant"), required=True
    ),
    argument("--from", "DATE", _FROM, type=_PARSE_DATE, dest="begin"),
    argument("--every", None, _EVERY, choices=("month", "day"), default="month"),
)
_BEFORE = argument("--before", "DATE", "a day in the first epoch to keep", type=_PARSE_DATE, required=True)
_KEY_ACTIONS = {
    "new": (
        "Create a key. Anyone who has its file can remove the noise from releases; see SECURITY.md.",
        Command(
            "key new archive.key --tenant example --from 2025-01-01",
            {"": [_KEY_FILE], "the key": _NEW_KEY},
            codes=NO_CONFIG,
        ),
    ),
    "show": (
        "Show a key's tenant, its first epoch and today's public id, but never the secret.",
        Command("key show archive.key", {"": [_KEY_FILE]}, _NO_KEY),
    ),
    "forget": (
        "Erase the keys of all epochs that end by a date; this file can never release their windows again.",
        Command(
            "key forget archive.key --before 2026-01-01",
            {"": [_KEY_FILE], "what to forget": [_BEFORE]},
            _NO_KEY,
        ),
    ),
}


COMMANDS = {
    "sanitise": Command(
        "sanitise homes.parquet private.parquet --config archive.toml --dry-run",
        {
            "": [
                argument("input", "IN.parquet", "files or a table: a path, file://, s3:// or iceberg://"),
                argument("output", "OUT.parquet", "a folder that does not exist yet"),
            ],
            "promise": [
                argument(
                    "--config", "CONFIG", "a configuration with an [archive] table", type=Path, required=True
                )
            ],
            "run": [
                argument("--engine", None, _ENGINE, choices=("local", "spark"), default="local"),
                argument("--dry-run", None, "show what a run would do, and write nothing"),
                argument("--accept-checks", None, _ACCEPT),
            ],
            "output": [JSON],
        },
        {
            78: "the configuration, key or input is refused",
            130: "interrupted; the same command resumes the run",
        },
    ),
    "convert": Command(
        "convert private.parquet private.xml --to green-button\n"
        "convert usage.xml homes.parquet --to readings\n"
        "convert homes.csv homes.parquet --to readings --config archive.toml",
        {
            "": [
                argument("input", "IN", _INPUT, type=Path),
                argument("output", "OUT", "a file that does not exist yet", type=Path),
            ],
            "format": [argument("--to", None, _TO, required=True, choices=_FORMATS)],
            "meter": [argument("--meter", "NAME", _METER)],
            "CSV of any form": [argument("--config", "CONFIG", _CONFIG, type=Path)],
            "dataset": [
                argument(
                    "--stream",
                    "NAME",
                    "the stream to read from a dataset of `collect`; default: %(default)s",
                    default="main",
                )
            ],
            "output": [JSON],
        },
        {1: "failed: a format cannot carry a value, or a file cannot be read; the message says why"},
        NO_CONFIG,
    ),
    "key": Command(
        "key new archive.key --tenant example --from 2025-01-01 --every month\n"
        "key forget archive.key --before 2026-01-01",
        {},
        _NO_KEY,
        actions=_KEY_ACTIONS,
    ),
}
