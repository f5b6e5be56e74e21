"""What a command accepts and returns, and the arguments that several commands share.

Nothing here imports a command. An argument that needs more than argparse offers is parsed by a function in
the command's module. That module is imported only when such an argument is given or has a default.
"""

import argparse
import importlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WIDTH_MAX = 100
"""The maximum width of a help line, in characters."""

CODES = {
    0: "done",
    1: "failed; the message says why",
    2: "the command line is wrong",
    78: "the configuration is refused; the message names each line, key and expected value",
}
"""The meanings of exit codes, unless a command gives a code another meaning."""
NO_CONFIG = (0, 1, 2)
"""The exit codes of commands that read no configuration."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command's help text and arguments.

    `example` holds command lines without the program's name. `declare` adds the arguments. `meanings` holds
    the exit codes whose meanings differ from `CODES`, and `codes` the others that the command may return.
    """

    example: str
    declare: Callable[[argparse.ArgumentParser], None]
    meanings: Mapping[int, str] = field(default_factory=dict)
    codes: tuple[int, ...] = tuple(CODES)

    @property
    def epilog(self) -> str:
        """The example and the exit codes."""
        rows = [
            f"  {code:<3}  {self.meanings.get(code) or CODES[code]}"
            for code in sorted({*self.codes, *self.meanings})
        ]
        examples = [f"  meteragent {line}" for line in self.example.splitlines()]
        return "\n".join(["example:", *examples, "", "exit codes:", *rows])

    def add_to(self, parsers: Any, name: str, sentence: str) -> None:
        """Add the parser for the command, or for an action of a command, with its sentence."""
        self.declare(
            parsers.add_parser(
                name, help=sentence, description=sentence, epilog=self.epilog, formatter_class=Format
            )
        )


class Format(argparse.RawDescriptionHelpFormatter):
    """A help formatter as wide as the terminal, up to WIDTH_MAX.

    It keeps the line breaks of the description and the epilog.
    """

    def __init__(self, prog: str) -> None:
        width = min(WIDTH_MAX, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=30, width=width)


def actions_of(
    actions: Mapping[str, tuple[str, Command]], destination: str = "action"
) -> Callable[[argparse.ArgumentParser], None]:
    """Return what declares the actions of a command, each with its sentence; `destination` gets the name."""

    def declare(parser: argparse.ArgumentParser) -> None:
        """Declare the actions, which are subcommands."""
        parsers = parser.add_subparsers(required=True, metavar="ACTION", dest=destination, title="actions")
        for name, (sentence, action) in actions.items():
            action.add_to(parsers, name, sentence)

    return declare


def parsed_by(command: str, function: str) -> Callable[[str], Any]:
    """Return an argument parser that calls a function of a command's module.

    The module is imported when the parser is called.
    """

    def parse(text: str) -> Any:
        """Parse an argument with the command's function."""
        return getattr(importlib.import_module(f"meteragent.cli.{command}"), function)(text)

    return parse


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the argument `CONFIG`."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="the configuration file (TOML)")


def add_options(group: Any, *options: tuple[str, str | None, str], parse: Any = None, **more: Any) -> None:
    """Add options, each with its flag, its metavar (None if it takes no value) and its help.

    `parse` parses their values, and `more` are further arguments of argparse.
    """
    for flag, metavar, text in options:
        if metavar is None:
            group.add_argument(flag, action="store_true", help=text)
        else:
            group.add_argument(flag, metavar=metavar, type=parse, help=text, **more)


JSON = ("--json", None, "print the same facts as JSON")
"""The option of commands that print facts."""


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """Add the option `--log-level` of a service."""
    parser.add_argument_group("log").add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the lowest level to log; default: %(default)s",
    )
