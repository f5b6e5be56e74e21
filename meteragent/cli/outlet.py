"""Escape text on its way to a terminal, so that what a device or a broker wrote cannot control the terminal.

Tables, errors and logs contain names, topics and reasons from others. A terminal would obey control
characters in them (clear the screen, fill the clipboard), and show text with bidirectional marks in another
order. So standard error, which logs and errors use, is always an `EscapedStream`; standard output only if it
is a terminal, so that files and pipes get every byte.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, TextIO, cast

LINE_MAX: Final = 4_000
"""The largest number of characters of a line that are shown."""
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Controls except tab and line feed, marks of direction and other invisible characters, and surrogates."""


_COLOURS: Final = {
    31: re.compile("^(?:meteragent: |VIOLATED|ERROR|CRITICAL).*", re.MULTILINE),
    33: re.compile("^(?:Warning|Warnung|WARNING|NOT possible|NICHT möglich)", re.MULTILINE),
    32: re.compile("^(?:All is well|All [0-9,]+ checks passed|Possible|Möglich)", re.MULTILINE),
}


def escape_invisible(text: str) -> str:
    """Return a text with each invisible character as its escape in Python, and no line too long."""
    text = _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    if len(text) <= LINE_MAX:
        return text
    lines = text.split("\n")
    return "\n".join(line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]} .." for line in lines)


def _colour(text: str) -> str:
    """Return a text with its failures in red, its warnings in yellow and good verdicts in green."""
    for code, pattern in _COLOURS.items():
        text = pattern.sub(f"\x1b[{code}m\\g<0>\x1b[0m", text)
    return text


class EscapedStream:
    """A stream that escapes the invisible characters of a text, except a carriage return at the beginning."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        is_dumb = os.environ.get("TERM") in {None, "dumb"}
        self._has_colours = stream.isatty() and not is_dumb and not os.environ.get("NO_COLOR")

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        is_rewritten = text.startswith("\r")  # to overwrite the line
        escaped_text = escape_invisible(text[is_rewritten:])
        self._stream.write(
            "\r" * is_rewritten + (_colour(escaped_text) if self._has_colours else escaped_text)
        )
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write texts, one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def escape_output() -> Iterator[None]:
    """Escape what the standard streams write (see the module) until the block ends."""
    streams = sys.stdout, sys.stderr
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, EscapedStream(sys.stdout))
    sys.stderr = cast(TextIO, EscapedStream(sys.stderr))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
