"""CSV for spreadsheets: keep names from being read as formulas, and recognise files that are not CSV."""

import codecs
import re
from typing import Final

SEPARATOR_LINES: Final = {b"sep=;": ";", b"sep=,": ",", b"sep=\t": "\t"}  # Excel's lines before the header
_KINDS = {
    b"PK\x03\x04": "an Excel workbook or a zip archive: save it as 'CSV UTF-8', or unpack it",
    b"\x1f\x8b": "packed with gzip: unpack it",
    codecs.BOM_UTF16_LE: "UTF-16, as Excel's 'Unicode text': save it as 'CSV UTF-8'",
    b"PAR1": "Parquet, not CSV",
    b"\x89HDF": "HDF5, as NILMTK's data sets: write its tables as CSV",
    b"<": "HTML or XML, not CSV: is it a page that asks for a login?",
}

_FORMULA = re.compile(r"'*[=+\-@]")


def cell_of(name: str) -> str:
    """Return a name, preceded by ' if it begins like a formula (=, +, - or @), so that it stays a text."""
    return f"'{name}" if _FORMULA.match(name) else name


def name_of(cell: str) -> str:
    """Return the name that `cell_of` wrote into a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def other_kind(head: bytes) -> str | None:
    """Return what a file that begins with `head` is, and what to do; None if it may be CSV in UTF-8."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    kinds = (kind for mark, kind in _KINDS.items() if head.startswith(mark) or text.startswith(mark))
    return next(kinds, "binary, or text in UTF-16: save it as 'CSV UTF-8'" if b"\0" in head else None)
