"""The line numbers of the keys in a TOML file, which `tomllib` does not report.

`tomllib` has accepted the text, so the scanner only looks for the ends of statements, keys and values. Four
constructs need care:

* a string may contain anything; there are four kinds of quotes, and two of them may span several lines;
* an array may span several lines, with comments between its elements;
* `a.b.c = 1` and `[a.b]` also create the tables above the last name;
* below `[[a]]`, and in `[a.b]` after it, `a` is the newest element of the array.

A path consists of names of tables and keys, and of indices of elements, from 0. The line of a path, counted
from 1, is that of its first mention.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

Path = tuple[str | int, ...]

_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'  # up to two further quotes belong to the string
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_KEY = re.compile(r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[ \t]*\.[ \t]*)+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_BARE = re.compile(r"[^,\]}#\n]+")
"""A number, a date or a boolean, up to the character that ends it."""
_PARTS = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def find_key_lines(text: str) -> dict[Path, int]:
    """Return the line numbers of a TOML document's keys, tables and elements; none if nested too deeply."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    try:
        scanner.read_document()
    except RecursionError:
        return {}
    return scanner.lines


def line_of(path: Path, key_lines: Mapping[Path, int]) -> int | None:
    """Return the line of `path` or, if the file lacks it, of the nearest table or array around it, if any."""
    return next((key_lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in key_lines), None)


def path_of(key: str) -> Path:
    """Return the path of a key such as `stream[1].privacy.radius`."""
    return tuple(int(index) if index else name for name, index in _PARTS.findall(key))


class _Scanner:
    """A scanner that reads a document once; `lines` maps each path to the line of its first mention."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text, self._position = text, 0
        self._line, self._counted_position = 1, 0
        self._elements: dict[Path, int] = {}

    def read_document(self) -> None:
        """Read all statements."""
        table: Path = ()
        self._skip_blank()
        while self._position < len(self._text):
            if self._text.startswith("[", self._position):
                table = self._read_header()
            else:
                self._read_assignment(table)
            self._skip_blank()

    def _read_header(self) -> Path:
        """Read `[a.b]` or `[[a.b]]`; return the table to which the following statements belong."""
        line, is_array = self._line_here(), self._text.startswith("[[", self._position)
        self._position += 1 + is_array
        self._skip_blank()
        *parents, name = self._read_key()
        self._skip_blank()
        self._position += 1 + is_array
        table: Path = ()
        for parent in parents:
            table = self._record_table((*table, parent), line)
        table = (*table, name)
        if is_array:
            self._elements[table] = self._elements.get(table, -1) + 1
        return self._record_table(table, line)

    def _record_table(self, table: Path, line: int) -> Path:
        """Record the line of a table in a header; return its path, or that of an array's newest element."""
        self.lines.setdefault(table, line)
        if table in self._elements:
            table = (*table, self._elements[table])
            self.lines.setdefault(table, line)
        return table

    def _read_assignment(self, table: Path) -> None:
        """Read `a.b = value` below a table."""
        line = self._line_here()
        path = table
        for name in self._read_key():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self._skip_blank()
        self._position += 1  # the equals sign
        self._skip_blank()
        self._read_value(path)

    def _read_value(self, path: Path) -> None:
        opening = self._text[self._position]
        if opening == "[":
            self._read_array(path)
        elif opening == "{":
            self._read_inline_table(path)
        else:
            self._match(_STRING if opening in "\"'" else _BARE)

    def _read_array(self, path: Path) -> None:
        index = 0
        self._position += 1
        while not self._skip_to_next("]"):
            element = (*path, index)
            self.lines[element] = self._line_here()
            self._read_value(element)
            index += 1

    def _read_inline_table(self, path: Path) -> None:
        """Read `{ a = 1, b = 2 }`."""
        self._position += 1
        while not self._skip_to_next("}"):
            self._read_assignment(path)

    def _skip_to_next(self, bracket: str) -> bool:
        """Skip to the next element or past the closing bracket; return whether the list has ended."""
        self._skip_blank()
        if self._text.startswith(",", self._position):
            self._position += 1
            self._skip_blank()
        ends = self._text.startswith(bracket, self._position)
        self._position += ends
        return ends

    def _read_key(self) -> list[str]:
        """Read a key, dotted or not; return its parts."""
        table: Any = tomllib.loads(f"{self._match(_KEY)} = 0")
        parts = []
        while isinstance(table, dict):
            ((name, table),) = table.items()
            parts.append(name)
        return parts

    def _skip_blank(self) -> None:
        if match := _BLANK.match(self._text, self._position):
            self._position = match.end()

    def _match(self, pattern: re.Pattern[str]) -> str:
        """Return the string that a pattern matches at the current position, and move past it."""
        match = pattern.match(self._text, self._position)
        if match is None:
            raise ValueError("not TOML")
        self._position = match.end()
        return match[0]

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_position, self._position)
        self._counted_position = self._position
        return self._line
