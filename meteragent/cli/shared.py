"""Arguments that several commands share.

Nothing here imports a command. An argument that needs more than argparse offers is parsed by a function in
the command's module. That module is imported only when such an argument is given or has a default.
"""

import argparse
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from meteragent.report.catalogue import LANGUAGES, of_environment


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


def add_json(group: Any) -> None:
    """Add the option `--json`."""
    group.add_argument("--json", action="store_true", help="print the same facts as JSON")


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """Add the option `--log-level` of a service."""
    parser.add_argument_group("log").add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the lowest level that is logged; default: %(default)s",
    )


def add_language(group: Any) -> None:
    """Add the option `--lang`."""
    group.add_argument(
        "--lang",
        choices=LANGUAGES,
        default=of_environment(os.environ),
        help="the language of the text; default: from LC_ALL, LC_MESSAGES or LANG, or else English",
    )
