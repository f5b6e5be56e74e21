"""Guess what was meant by a wrong word on the command line. This module is loaded only for an error."""

import argparse
import difflib
import re
from collections.abc import Iterator


def add_hint(parser: argparse.ArgumentParser, message: str) -> str:
    """Return argparse's message, with the choice or option that was probably meant, if there is one."""
    if match := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
        close = difflib.get_close_matches(match[1], re.findall(r"[\w-]+", match[2]), n=1)
        return f"{message[: match.start()]}found {match[1]!r}; did you mean {close[0]}?" if close else message
    words = message.partition("unrecognized arguments: ")[2].split()
    close = difflib.get_close_matches(words[0].partition("=")[0], _options_of(parser), n=1) if words else []
    return f"{message}; did you mean {close[0]}?" if close else message


def _options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a parser and of its commands and actions."""
    for action in parser._actions:  # noqa: SLF001  argparse has no other list
        yield from action.option_strings
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                yield from _options_of(inner)
