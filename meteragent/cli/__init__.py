"""The commands: parse arguments, run one, exit with the right code (DESIGN 5).

0   done, or stopped by SIGTERM        3   a guarantee is violated (audit)
1   crash; store in use or restored   78   bad configuration (EX_CONFIG)
2   the command cannot be run as it was typed

Each command is a module here with `arguments(parser)` and `run(options)`. Only the one that is asked for is
imported: the agent starts without what archives, pages and plans need.
"""

import argparse
import importlib
import os
import sqlite3
import sys
import traceback
from collections.abc import Sequence

from meteragent import __version__
from meteragent.cli.common import EXIT_CONFIG, EXIT_CRASH
from meteragent.domain.errors import ConfigError, KeyRefused, MeteragentError, StoreError

COMMANDS = {
    "run": "Run the agent until SIGTERM.",
    "check": "Say what a configuration promises, hides and costs.",
    "audit": "Test that the mechanism a configuration runs keeps its word.",
    "ledger": "Show the privacy spent per meter and period.",
    "export": "Write what already left, again.",
    "health": "Ask the running agent how it is; 1 when something is wrong.",
    "plan": "From any two of what to hide, what to share, how many homes at what error: the third.",
    "discover": "Listen to a broker and propose configurations for the meters that it has.",
    "tap": "Show raw readings beside what left, live, in a terminal only.",
    "redact": "Make a recorded payload fit for a bug report: shape kept, nothing said.",
    "sanitise": "Release an archive in Parquet, each window once, here or on Spark.",
    "key": "Make, show and forget the key that archives' noise comes from.",
    "demo": "The whole chain with simulated homes, in about a minute.",
    "schema": "The JSON Schema of the configuration, for editors and programs.",
}

_SAFE_TO_SHOW = (MeteragentError, OSError, sqlite3.Error)
"""Exceptions whose text cannot hold a reading; of the others only type and place are shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    _open_standard_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser(arguments).parse_args(arguments)
    try:
        code: int = importlib.import_module(f"meteragent.cli.{options.command}").run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has had enough: what a verdict would have been is not known
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CRASH
    except Exception as error:  # noqa: BLE001  whatever it is, the process ends with a code
        return _failed(error, options)
    return code


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser; it has the arguments of those commands that are among the words."""
    parser = argparse.ArgumentParser("meteragent", description="Privacy for smart-meter streams.")
    parser.add_argument("--version", action="version", version=f"meteragent {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, sentence in COMMANDS.items():
        command = commands.add_parser(name, help=sentence, description=sentence)
        if name in arguments:
            importlib.import_module(f"meteragent.cli.{name}").arguments(command)
    return parser


def _failed(error: BaseException, options: argparse.Namespace) -> int:
    """Say why a command failed; returns its exit code."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConfigError):
        print(f"{options.config}: {error}", file=sys.stderr)
        return EXIT_CONFIG
    if isinstance(error, (KeyRefused, StoreError)):
        print(f"meteragent: {error}", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, KeyRefused) else EXIT_CRASH
    for frame in traceback.extract_tb(error.__traceback__):
        print(f"  {frame.filename}:{frame.lineno} in {frame.name}", file=sys.stderr)
    # The text of an unknown exception might hold a payload.
    text = str(error) if isinstance(error, _SAFE_TO_SHOW) else ""
    print(f"meteragent: crash: {type(error).__name__} {text}".rstrip(), file=sys.stderr)
    return EXIT_CRASH


def _open_standard_streams() -> None:
    """Open the null device in place of standard streams that are closed, as by `>&-`.

    Otherwise the next file or socket takes the number of the stream, and what is printed goes there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: the stream's own
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
