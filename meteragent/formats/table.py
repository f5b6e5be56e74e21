"""Write and read CSV as utilities exchange it, in two dialects.

    meter,start,end,value,unit,quality,sd,band,d
    m1,2026-11-20T12:00:00Z,2026-11-20T12:30:00Z,311.5,W,estimated,44.0,,1a2b3c4d

The other dialect has semicolons between columns and a decimal comma in numbers. A file is UTF-8, with a
header; times have an offset or Z. The columns `quality`, `sd`, `band` and `d` may be missing, and unknown
columns are ignored.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Literal, NamedTuple, cast

from meteragent.consume.cell import cell_of, name_of, other_kind
from meteragent.domain.errors import FormatError
from meteragent.domain.grid import END_MS, FIRST_MS, iso_time, parse_time
from meteragent.domain.identity import is_valid_name
from meteragent.domain.units import UNIT_FACTOR
from meteragent.formats.entry import Entry, Quality, to_decimal

Separator = Literal[",", ";"]
_NAMES = ("meter", "start", "end", "value", "unit", "quality", "sd", "band", "d")
_REQUIRED = _NAMES[:5]
_QUALITIES = ("measured", "estimated")
_MISSING = {"", "null", "nan", "na", "n/a", "#n/a"}
_NUMBER = re.compile(r"-?\d{1,13}(\.\d{1,6})?", re.ASCII)
_DEVIATION = re.compile(r"\d{1,20}(\.\d{1,20})?([eE][+-]?\d{1,3})?", re.ASCII)


def write(entries: Iterable[Entry], separator: Separator = ",") -> bytes:
    """Return entries as CSV, in the order given. Raises FormatError if `to_decimal` does."""
    text = io.StringIO(newline="")
    table = csv.writer(text, delimiter=separator, lineterminator="\r\n")
    table.writerow(_NAMES)
    mark = "." if separator == "," else ","
    for entry in entries:
        times = iso_time(entry.start_ms), iso_time(entry.end_ms)
        value = f"{to_decimal(entry.value):f}".replace(".", mark)
        deviation = "" if entry.sd is None else repr(entry.sd).replace(".", mark)
        row = [cell_of(entry.meter), *times, value, entry.unit, entry.quality, deviation]
        table.writerow([*row, cell_of(entry.band), entry.d])
    return text.getvalue().encode()


def read(content: bytes, left_out: Counter[str] | None = None) -> Iterator[Entry]:
    """Yield the entries of a CSV file; `left_out` counts rows without a value. FormatError if malformed."""
    left_out = Counter() if left_out is None else left_out
    if (kind := other_kind(content[:4096])) is not None:
        raise FormatError(f"this is {kind}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError("the file is not UTF-8") from None
    if text[:5] in {"sep=;", "sep=,"}:  # tells a spreadsheet the separator
        text = text.partition("\n")[2]
    header = text.partition("\n")[0]
    separator = ";" if header.count(";") > header.count(",") else ","
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    names = Counter(table.fieldnames)
    missing_names = [name for name in _REQUIRED if name not in names]
    if missing_names:
        raise FormatError(f"line 1: no column {', '.join(missing_names)}; expected {separator.join(_NAMES)}")
    repeated_names = [name for name in _NAMES if names[name] > 1]
    if repeated_names:
        raise FormatError(f"line 1: two columns {repeated_names[0]}: remove one of them")
    try:
        for row in table:
            entry = _entry(row, table.line_num, "," if separator == ";" else ".")
            if entry is None:
                left_out["a value is missing"] += 1
            else:
                yield entry
    except csv.Error:
        raise FormatError(f"line {table.line_num}: a misplaced quotation mark") from None


def _entry(row: dict[str, str | None], line: int, mark: str) -> Entry | None:
    """Return the entry of a row; None if it has no value. Raises FormatError if a cell is wrong."""
    cells = _Cells({name: row.get(name) or "" for name in _NAMES}, line, mark)
    start_ms, end_ms = cells.time("start"), cells.time("end")
    if end_ms <= start_ms:
        raise cells.refuse("end", "a time after start")
    meter = name_of(cells.texts["meter"])
    if not is_valid_name(meter):
        raise cells.refuse("meter", "a name of 1 to 128 printable characters")
    if cells.texts["unit"] not in UNIT_FACTOR:
        raise cells.refuse("unit", f"one of {', '.join(UNIT_FACTOR)}")
    if cells.texts["quality"] not in {"", *_QUALITIES}:
        raise cells.refuse("quality", f"one of {', '.join(_QUALITIES)}, or nothing")
    deviation = float(cells.number("sd", _DEVIATION, "44.0")) if cells.texts["sd"] else None
    if deviation is not None and not math.isfinite(deviation):
        raise cells.refuse("sd", "a finite number")
    if cells.texts["value"].strip().lower() in _MISSING:
        return None
    return Entry(
        meter,
        start_ms,
        end_ms,
        Fraction(cells.number("value", _NUMBER, "311.5")),
        cells.texts["unit"],
        cast("Quality", cells.texts["quality"] or "measured"),
        deviation,
        name_of(cells.texts["band"]),
        cells.texts["d"],
    )


class _Cells(NamedTuple):
    """The cells of a row, by column, with its line number and its decimal mark."""

    texts: dict[str, str]
    line: int
    mark: str

    def refuse(self, column: str, expected: str) -> FormatError:
        """Return the error for a column's cell."""
        return FormatError(f"line {self.line}: column {column}: expected {expected}")

    def time(self, column: str) -> int:
        """Parse a column's time. Raises FormatError if the time lacks an offset or is not in 1990 to 2100."""
        try:
            time_ms = parse_time(self.texts[column])
        except ValueError:
            raise self.refuse(column, "a time with an offset, such as 2026-11-20T12:00:00+01:00") from None
        if not FIRST_MS <= time_ms <= END_MS:
            raise self.refuse(column, "a time of the years 1990 to 2100")
        return time_ms

    def number(self, column: str, form: re.Pattern[str], example: str) -> str:
        """Return a column's number with a decimal point. Raises FormatError if it is not a number."""
        text = self.texts[column]
        number = text.replace(self.mark, ".")
        if (self.mark == "," and "." in text) or form.fullmatch(number) is None:
            raise self.refuse(column, f"a number such as {example.replace('.', self.mark)}")
        return number
