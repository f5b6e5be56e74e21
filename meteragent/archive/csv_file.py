"""Read CSV files, as a `mapping` describes them, and yield batches of meter, time in UTC and value.

`CsvTable` cuts a file into blocks of whole lines. First it reads all blocks to check every cell; later it
reads single blocks. Times are rewritten to ISO 8601 before pyarrow converts them, because strptime accepts
days that do not exist.
"""

import csv as cells
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from meteragent.archive.files import path_in_errors
from meteragent.archive.local_time import RowsAroundRepeats, rows_around_repeats, second_occurrences, to_utc
from meteragent.archive.mapping import CER, UNIX, Mapping, iso_rewriting
from meteragent.archive.number import Flags
from meteragent.archive.policy import LAST_MS, Integers
from meteragent.consume.cell import SEPARATOR_LINES, other_kind
from meteragent.domain.errors import ArchiveError
from meteragent.domain.units import DAY_MS, HOUR_MS

_BLOCK_BYTES = 8 << 20
_PARTS = ("meter", "time", "value")
_ROUNDED = r"^$|^\d[.,]\d+E[+]\d+$"  # an empty name, or a long number rounded by a spreadsheet


@dataclass(eq=False, slots=True)
class Block:
    """Whole lines of a file; `is_second` marks the rows that are the second occurrence of a local time."""

    offset: int
    size: int
    rows: int
    times_ms: tuple[int, int]
    meters: tuple[str, str]
    is_second: Flags | None = None


class _WrongCellError(ValueError):
    """A cell that cannot be read; its arguments are its row, the part of a reading, and what was expected."""


class _Rows(NamedTuple):
    """The requested columns of a block; `repeat_ms` is how much later a local time recurs (0: never)."""

    size: int
    meter: Any
    value: Any
    time_ms: Any = None
    local_ms: Any = None
    repeat_ms: Any = None


class Header(NamedTuple):
    """The names of a file's columns, their separator, and where the rows begin."""

    names: list[str]
    separator: str
    first: int


def read_header(path: Path, mapping: Mapping) -> Header:
    """Read the header. Raises ArchiveError if the file is not CSV in UTF-8, or has no header."""
    with path_in_errors(path), path.open("rb") as file:
        head = file.read(4096)
        if kind := other_kind(head):
            raise ArchiveError(f"{path}: this is {kind}")
        file.seek(3 if head.startswith(b"\xef\xbb\xbf") else 0)
        line = file.readline(_BLOCK_BYTES)
        stated = SEPARATOR_LINES.get(line.strip().lower())
        for _ in range(mapping.header - (stated is None)):
            line = file.readline(_BLOCK_BYTES)
        first = file.tell() if mapping.header else 0
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ArchiveError(f"{path}: not UTF-8: save it as 'CSV UTF-8'") from None
    separator = mapping.separator or stated or max(";,\t|", key=text.count)
    names = [] if "\r" in text else next(cells.reader([text], delimiter=separator), [])
    if len(names) < 2:
        raise ArchiveError(f"{path}: the header is no line with {separator!r}: state archive.csv.separator")
    if not mapping.header:
        names = [str(number) for number in range(1, len(names) + 1)]
    return Header([name.strip() for name in names], separator, first)


class CsvTable:
    """A CSV file whose cells have been checked; `meter` is the meter of all rows if no column names it."""

    def __init__(self, path: Path, mapping: Mapping, meter: str = "") -> None:
        """Read all rows. Raises ArchiveError if the file or one of its cells cannot be read."""
        self.path, self._mapping, self._meter = path, mapping, meter
        self.blocks, self.ambiguous_readings, self._columns = list[Block](), 0, dict[str, list[str]]()
        names, self._separator, first = read_header(path, mapping)
        self._decimal, self._width = mapping.decimal or ("," if self._separator == ";" else "."), len(names)
        for part, columns in mapping.parts.items():
            if wrong := [name for name in columns if names.count(name.strip()) != 1]:
                problem = "more than one has this name" if wrong[0].strip() in names else "no such column"
                is_row = mapping.header and any(cell.lstrip("+-.,")[:1].isdigit() for cell in names)
                choices = "header = 0 if there is no header" if is_row else f"there are: {', '.join(names)}"
                raise self._refusal(f"column {wrong[0]!r}: {problem}; {choices}")
            self._columns[part] = [str(names.index(name.strip())) for name in columns]
        self._check_blocks(first)

    def _refusal(self, problem: str) -> ArchiveError:
        return ArchiveError(f"{self.path}: {problem}")

    def _check_blocks(self, first: int) -> None:
        """Read all blocks of lines, and fill in `blocks` and `ambiguous_readings`."""
        near, tail = list[RowsAroundRepeats](), b""
        with self.path.open("rb") as file:
            file.seek(first)
            while data := tail + file.read(_BLOCK_BYTES - len(tail)):
                end = len(data) if len(data) < _BLOCK_BYTES else data.rfind(b"\n") + 1
                if not end:
                    raise self._refusal(f"line {self._line(first, 0)}: longer than {_BLOCK_BYTES:,} bytes")
                rows = self._rows(data[:end], first)
                if rows.size:
                    span_ms = int(rows.time_ms.min()), int((rows.time_ms + rows.repeat_ms).max())
                    names = pc.min_max(rows.meter.dictionary).as_py()
                    if (zone := self._mapping.timezone) is not None:
                        near.append(rows_around_repeats(rows.local_ms, zone, rows.meter, len(self.blocks)))
                    self.blocks.append(Block(first, end, rows.size, span_ms, (names["min"], names["max"])))
                first, tail = first + end, data[end:]
        if near:
            hours = RowsAroundRepeats(*map(np.concatenate, zip(*near, strict=True)))
            is_second, is_unclear = second_occurrences(hours)
            if is_unclear.any():
                index = int(np.argmax(is_unclear))
                line = self._line(self.blocks[hours.block[index]].offset, int(hours.row[index]))
                place = f"line {line}: column {self._mapping.parts['time'][-1]!r}"
                advice = f"sort each meter's rows by time, or remove this hour's ({int(is_unclear.sum()):,})"
                problem = f"this time occurs twice in {zone}, and the order of rows does not tell which it is"
                raise self._refusal(f"{place}: {problem}: {advice}")
            is_repeated = hours.repeat_ms > 0
            for index in np.unique(hours.block[is_repeated]).tolist():
                self.blocks[index].is_second = is_second[is_repeated & (hours.block == index)]
            self.ambiguous_readings = int(is_repeated.sum())

    def read(self, index: int, names: tuple[str, str, str], columns: list[str]) -> pa.RecordBatch:
        """Return a block's `columns`; `names` are meter, time, value. Raises ArchiveError if it changed."""
        block = self.blocks[index]
        with self.path.open("rb") as file:
            file.seek(block.offset)
            data = file.read(block.size)
        parts = {part for part, name in zip(_PARTS, names, strict=True) if name in columns}
        try:
            rows = self._convert(data, parts)
        except ValueError:
            rows = _Rows(-1, None, None)
        if rows.size != block.rows:
            raise self._refusal("changed while it was being read")
        arrays = {names[2]: rows.value, names[0]: rows.meter}
        if rows.time_ms is not None:
            time_ms = rows.time_ms + self._mapping.shift_ms
            if block.is_second is not None:
                time_ms[rows.repeat_ms > 0] += rows.repeat_ms[rows.repeat_ms > 0] * block.is_second
            arrays[names[1]] = pa.array(time_ms).view(pa.timestamp("ms", "UTC"))
        return pa.record_batch([arrays[name] for name in columns], columns)

    def _rows(self, data: bytes, offset: int) -> _Rows:
        """Convert lines that begin at `offset`. Raises ArchiveError if a cell cannot be read."""
        try:
            return self._convert(data, set(_PARTS))
        except _WrongCellError as error:
            wrong: Any = error.args
        except ValueError:
            wrong = self._first_wrong(
                [line for line in data.splitlines(keepends=True) if line.strip(b"\r\n")]
            )
        row, part, expected = wrong
        place = (
            ": column " + " + ".join(map(repr, self._mapping.parts[part])) if part in self._columns else ""
        )
        raise self._refusal(f"line {self._line(offset, row)}{place}: expected {expected}")

    def _first_wrong(self, lines: list[bytes]) -> tuple[int, str, str]:
        """Return the first row that cannot be read, the part that is wrong, and what would be right."""
        low, high, wrong = 0, len(lines), list[str]()
        while high - low > 1 or not wrong:
            middle = (low + high + 1) // 2
            wrong = []
            for part in self._columns:
                try:
                    self._convert(b"".join(lines[low:middle]), {part})
                except ValueError:
                    wrong.append(part)
            low, high = (low, middle) if wrong else (middle, high)
        expected = {
            "meter": "a name in UTF-8: save the file as 'CSV UTF-8'",
            "time": self._mapping.example,
            "value": f"a number such as 311{self._decimal}5, or nothing; for other texts: null = ['...']",
            "row": f"{self._width} cells between {self._separator!r}, and quotation marks that are closed",
        }
        return low, (part := "row" if len(wrong) == len(self._columns) else wrong[0]), expected[part]

    def _line(self, offset: int, row: int) -> int:
        """Return the line number of a row, counted from the row at `offset`; empty lines are not rows."""
        with self.path.open("rb") as file:
            ends = range(0, offset, _BLOCK_BYTES)
            number = sum(file.read(min(_BLOCK_BYTES, offset - end)).count(b"\n") for end in ends)
            while row >= 0 and (line := file.readline()):
                number, row = number + 1, row - bool(line.strip(b"\r\n"))
        return number

    def _convert(self, data: bytes, parts: set[str]) -> _Rows:
        """Convert lines. Raises ValueError (_WrongCellError or Arrow's) if a cell cannot be read."""
        if not data.strip(b"\r\n"):
            return _Rows(0, None, None)
        times = pa.float64() if self._mapping.format in UNIX else pa.string()
        types = {"meter": pa.dictionary(pa.int32(), pa.string()), "time": times, "value": pa.float64()}
        columns = {part: self._columns[part] for part in _PARTS if part in parts & self._columns.keys()}
        kinds = {number: types[part] for part, numbers in columns.items() for number in numbers}
        options = csv.ConvertOptions(column_types=kinds, include_columns=list(kinds) or ["0"])
        options.null_values = [*options.null_values, "Null", *self._mapping.null]
        options.decimal_point = self._decimal
        read = csv.ReadOptions(column_names=[str(number) for number in range(self._width)])
        parse = csv.ParseOptions(delimiter=self._separator)
        table = csv.read_csv(pa.BufferReader(data), read, parse, options).combine_chunks()
        arrays = {part: [table.column(n).chunk(0) for n in numbers] for part, numbers in columns.items()}
        meter, value = (arrays[part][0] if part in arrays else None for part in ("meter", "value"))
        if "meter" not in self._columns:
            meter = pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(table.num_rows, np.int32)), [self._meter]
            )
        elif meter is not None:
            is_wrong = pc.match_substring_regex(meter.dictionary, _ROUNDED).to_numpy(zero_copy_only=False)
            expected = "a meter's name, not rounded as 5,41E+17 (make it a text before saving)"
            _require(~is_wrong[meter.indices.to_numpy()], "meter", expected)
        return _Rows(table.num_rows, meter, value, *(self._times(arrays["time"]) if "time" in arrays else ()))

    def _times(self, columns: list[pa.Array]) -> tuple[Integers, ...]:
        """Return `time_ms` (UTC), `local_ms` and `repeat_ms` of `_Rows`."""
        form, zone = self._mapping.format, self._mapping.timezone
        if form in UNIX:
            numbers = np.clip(columns[0].fill_null(0).to_numpy(zero_copy_only=False), 0, 1e14)
            time_ms = local_ms = np.floor(numbers * UNIX[str(form)] + 0.5).astype(np.int64)
        else:
            time_ms = local_ms = self._clock_times(pc.binary_join_element_wise(*columns, " "))
        repeat_ms = np.zeros_like(time_ms)
        if zone is not None:
            time_ms, repeat_ms = to_utc(local_ms, zone)
            _require(repeat_ms >= 0, "time", f"a time that exists in {zone}, where clocks were set forward")
        _require((time_ms >= self._mapping.first_ms) & (time_ms < LAST_MS), "time", self._mapping.example)
        return time_ms, local_ms, repeat_ms

    def _clock_times(self, text: pa.Array) -> Integers:
        """Return times in ms: in UTC if they have offsets, else local."""
        form = self._mapping.format
        if form == CER:
            day, half_hour = np.divmod(text.cast(pa.int64()).to_numpy(), 100)
            _require((day >= 1) & (half_hour >= 1) & (half_hour <= 48), "time", self._mapping.example)
            return np.asarray((39 * 365 + 9 + day) * DAY_MS + half_hour * (HOUR_MS // 2))
        text = text.dictionary_encode()  # rewriting is slow, and times repeat from meter to meter
        pattern = ("^$", "") if form is None else iso_rewriting(form)
        times = pc.replace_substring_regex(text.dictionary, *pattern)
        is_end = pc.match_substring(times, " 24:00").to_numpy(zero_copy_only=False)
        times = pc.replace_substring(times, " 24:00", " 00:00")
        kind = pa.timestamp("ns", None if self._mapping.timezone else "UTC")
        distinct_ms = times.cast(kind).cast(pa.int64()).to_numpy() // 1_000_000 + is_end * DAY_MS
        return np.asarray(distinct_ms[text.indices.to_numpy()])


def _require(is_right: Flags, part: str, expected: str) -> None:
    """Raise _WrongCellError for the first row that is wrong."""
    if not is_right.all():
        raise _WrongCellError(int(np.argmin(is_right)), part, expected)
