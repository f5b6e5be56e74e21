"""Redaction of CSV: rows with equally many cells, the first of which may be a header."""

import re

from meteragent.tools.redact.replacement import Replacements

_SEPARATORS = (";", "\t", ",")
_LINE_END = re.compile(r"(\r?\n)")


def redact(text: str, replacements: Replacements) -> str | None:
    """Redact CSV, in which each row after the first has a number, time or state; None for other text."""
    lines = _LINE_END.split(text)
    row_texts = [line for line in lines[::2] if line]
    separator = next((mark for mark in _SEPARATORS if mark in row_texts[0]), ",")
    rows = {line: _cells(line, separator) for line in row_texts}
    first, *later_rows = rows.values()
    has_data = (any(replacements.is_datum(_content(cell)) for cell in row) for row in later_rows or [first])
    if not first or not all(has_data) or any(len(row) != len(first) for row in later_rows):
        return None
    redacted = {line: separator.join(_cell(cell, replacements) for cell in row) for line, row in rows.items()}
    return "".join(redacted.get(line, line) for line in lines)


def _cells(line: str, separator: str) -> list[str]:
    """Split a row into cells as they are written; return none if a quotation mark is out of place."""
    cell = re.compile(rf' *"(?:[^"]|"")*" *|[^"{separator}]*')
    cells, end = [], -1
    while end < len(line):
        match = cell.match(line, end + 1)
        if match is None or (match.end() < len(line) and line[match.end()] != separator):
            return []
        cells.append(match[0])
        end = match.end()
    return cells


def _cell(cell: str, replacements: Replacements) -> str:
    """Redact a cell, but keep its white space and quotation marks."""
    content = _content(cell)
    start = cell.index(content)
    return cell[:start] + replacements.redact_value(content) + cell[start + len(content) :]


def _content(cell: str) -> str:
    return cell.strip(' \t"')
