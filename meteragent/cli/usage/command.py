"""What a command accepts and returns, and the arguments that several commands share.

A command's module is imported only to parse an argument that is given or has a default.
"""

import argparse
import importlib
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from meteragent.cli.exit_codes import EXIT_CODES, EXIT_CRASH, EXIT_USAGE

WIDTH_MAX = 100
"""The maximum width of a help line, in characters."""

NO_CONFIG = (0, EXIT_CRASH, EXIT_USAGE)
"""The exit codes of commands that read no configuration."""

Argument = tuple[str, dict[str, Any]]
"""A positional argument or an option: its name, and its settings for argparse."""


def argument(name: str, metavar: str | None, text: str, **settings: Any) -> Argument:
    """Return an argument; an option with neither a metavar nor choices takes no value."""
    if metavar is not None:
        settings["metavar"] = metavar
    elif "choices" not in settings:
        settings["action"] = "store_true"
    return name, {"help": text, **settings}


@dataclass(frozen=True, slots=True)
class Command:
    """A command's help text and arguments.

    `example` holds command lines without the program's name. `groups` maps the title of each group (empty for
    positional arguments) to its arguments; of options in a list, at most one may be given. `meanings` are the
    exit codes whose meanings differ from `EXIT_CODES`, and `codes` all other exit codes. `actions` are
    subcommands, each with its help text; the name of the chosen subcommand is stored in `destination`.
    """

    example: str
    groups: Mapping[str, Sequence[Argument | list[Argument]]]
    meanings: Mapping[int, str] = field(default_factory=dict)
    codes: tuple[int, ...] = tuple(EXIT_CODES)
    actions: "Mapping[str, tuple[str, Command]]" = field(default_factory=dict)
    destination: str = "action"

    @property
    def epilog(self) -> str:
        """The example and the exit codes."""
        rows = [
            f"  {code:<3}  {self.meanings.get(code) or EXIT_CODES[code]}"
            for code in sorted({*self.codes, *self.meanings})
        ]
        examples = [f"  meteragent {line}" for line in self.example.splitlines()]
        return "\n".join(["example:", *examples, "", "exit codes:", *rows])

    def add_to(self, parsers: Any, name: str, sentence: str) -> None:
        """Add the parser for the command, or for an action of a command, with the help text `sentence`."""
        texts = {"help": sentence, "description": sentence, "epilog": self.epilog}
        parser = parsers.add_parser(name, formatter_class=HelpFormatter, **texts)
        parser.set_defaults(refuse=parser.error)
        for title, arguments in self.groups.items():
            group = parser.add_argument_group(title) if title else parser
            for item in arguments:
                place = group.add_mutually_exclusive_group() if isinstance(item, list) else group
                for argument_name, settings in item if isinstance(item, list) else [item]:
                    place.add_argument(argument_name, **settings)
        if self.actions:
            subparsers = parser.add_subparsers(
                required=True, metavar="ACTION", dest=self.destination, title="actions"
            )
            for action_name, (action_sentence, action) in self.actions.items():
                action.add_to(subparsers, action_name, action_sentence)


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the command, choice or option that was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and end the process."""
        hints: Any = importlib.import_module("meteragent.cli.usage.hints")
        super().error(hints.add_hint(self, message))


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A help formatter as wide as the terminal, up to WIDTH_MAX, that keeps line breaks and command lines."""

    def __init__(self, prog: str) -> None:
        width = min(WIDTH_MAX, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=30, width=width)

    def add_argument(self, action: argparse.Action) -> None:
        """Add an argument, with room for the indent of commands, which argparse does not count."""
        super().add_argument(action)
        indent = 2 if action.nargs == argparse.PARSER else 0
        self._action_max_length = self._action_max_length + indent

    def _fill_text(self, text: str, width: int, _indent: str) -> str:
        lines = text.splitlines()
        hangings = [" " * 7 * line.startswith("  ") for line in lines]  # the width of an exit code
        return "\n".join(
            line if line.startswith("  meteragent") else textwrap.fill(line, width, subsequent_indent=hanging)
            for line, hanging in zip(lines, hangings, strict=True)
        )


def parsed_by(command: str, function: str) -> Callable[[str], Any]:
    """Return a parser of an argument, which imports a command's module and calls its function."""

    def parse(text: str) -> Any:
        """Parse an argument with the command's function."""
        return getattr(importlib.import_module(f"meteragent.cli.{command}"), function)(text)

    return parse


CONFIG = argument("config", "CONFIG", "the configuration file (TOML)", type=Path)
JSON = argument("--json", None, "print the same facts as JSON")
LOG_LEVEL = argument(
    "--log-level",
    None,
    "the lowest level to log; default: %(default)s",
    choices=("debug", "info", "warning", "error"),
    default="info",
)
STOPPED = "stopped by SIGTERM or Ctrl-C"
"""The meaning of exit code 0 for a command that runs until it is stopped."""
