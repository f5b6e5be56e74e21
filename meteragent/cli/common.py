"""Parts that several commands share: parsing of arguments, and hints for users."""

import argparse
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from meteragent import extras
from meteragent.cli.exit_codes import fail
from meteragent.domain.errors import LinkError
from meteragent.domain.problem import connection_advice

T = TypeVar("T")


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser for argparse; its errors quote the argument and state what the ValueError says."""

    def parse_argument(text: str) -> T:
        """Parse an argument. Raises ArgumentTypeError if the argument is invalid."""
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"found {text!r}; expected {error}") from None

    return parse_argument


def program_words(script: str, interpreter: str, on_path: str | None) -> str:
    """Return the words that start this program; `on_path` is the file that a shell runs for `meteragent`."""
    path = Path(script)
    if path.name == "__main__.py" and path.parent.name == "meteragent":
        return f"{shlex.quote(interpreter)} -m meteragent"
    is_on_path = on_path is not None and os.path.realpath(on_path) == os.path.realpath(script)
    return "meteragent" if is_on_path or path.name != "meteragent" else shlex.quote(script)


def connection_failure(reason: LinkError) -> str:
    """Return why listening to a broker failed, and what to do, naming options instead of keys."""
    if reason.code:
        key = re.compile(r"source\.(\w+)")
        cure = key.sub(lambda key: "--" + key[1].replace("_", "-"), connection_advice(reason.code, "source"))
        return f"{reason}. {cure}"
    hint = "; is the address in --url right, and is the broker running?"
    return f"{reason}{hint if 'cannot connect' in str(reason) else ''}"


def report_missing_extra(extra: str, purpose: str) -> bool:
    """Print how to install an extra if one of its modules is missing; return whether one is."""
    module = extras.missing_module(extra)
    if module is not None:
        fail(f"{purpose} needs {module}: {extras.hint(extra)}")
    return module is not None
