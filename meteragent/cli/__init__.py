"""The command line: parse the arguments, run the command, and return its exit code (DESIGN 5).

`usage` declares commands and arguments, and `exit_codes` the exit codes. Each command is a module of this
package with a function `run(options)`. The module is imported only when the command runs, so the agent
starts without the libraries of archives, pages and plans.
"""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from meteragent import __version__, extras
from meteragent.cli import usage
from meteragent.cli.exit_codes import EXIT_CRASH, EXIT_USAGE, exit_code_of, fail
from meteragent.cli.outlet import escape_output
from meteragent.domain import errors


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. Raises SystemExit for --help, --version and wrong arguments."""
    _open_standard_streams()
    with escape_output():
        return _run(sys.argv[1:] if arguments is None else arguments)


def _run(words: Sequence[str]) -> int:
    if "_ARGCOMPLETE" in os.environ and extras.missing_module("completion") is None:  # the shell asks
        importlib.import_module("argcomplete").autocomplete(usage.make_parser(__version__))
    parser = usage.make_parser(__version__, words[0] if words else "")
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(EXIT_USAGE)
    options = parser.parse_args(words)
    try:
        code: int = importlib.import_module(f"meteragent.cli.{options.command}").run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe and cannot see a verdict
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CRASH
    except Exception as error:  # noqa: BLE001  every failure ends the process with a code
        return _report_failure(error, options)
    return code


def _report_failure(error: BaseException, options: argparse.Namespace) -> int:
    """Print the reason for a failure; return its exit code. Only the first error of a group is reported."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, errors.ConfigError):
        located = importlib.import_module("meteragent.config").locate_error(error, options.config)
        print(located, file=sys.stderr)
        return exit_code_of(error)
    if isinstance(error, (errors.DatabaseError, errors.KeyRefused, errors.PageError, errors.StoreError)):
        return fail(error, exit_code_of(error))
    for frame in traceback.extract_tb(error.__traceback__):
        print(f"  {frame.filename}:{frame.lineno} in {frame.name}", file=sys.stderr)
    # The text of an unknown exception might contain a payload; that of an error of the disk cannot.
    device_errors = importlib.import_module("meteragent.store.file").DEVICE_ERRORS
    text = str(error) if isinstance(error, (errors.MeteragentError, *device_errors)) else ""
    return fail(f"crash: {type(error).__name__} {text}".rstrip(), exit_code_of(error))


def _open_standard_streams() -> None:
    """Open the null device for each closed standard stream; else the next file opened would get its text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: the stream's own
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
