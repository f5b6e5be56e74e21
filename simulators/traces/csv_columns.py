"""Read columns of CSV files with the readers of `meteragent sanitise`.

These readers refuse a cell that they cannot parse, and name its line and column. Keys of their table
[archive.csv], such as ``{"layout": "redd"}``, say how a file is written. If they state neither a format nor a
time zone, the time in the first row decides: Unix seconds or, before 1990, seconds from another instant; Unix
milliseconds; times with an offset, or in UTC.
"""

import csv as cells
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute

from meteragent.archive.csv_file import CsvTable, read_header
from meteragent.archive.mapping import LAYOUTS, Mapping
from meteragent.config.model import Archive, Source
from meteragent.domain.errors import ArchiveError
from meteragent.domain.grid import FIRST_MS
from meteragent.domain.readings import ReadingRules
from meteragent.domain.units import Kind

_NUMBER = re.compile(r"-?[0-9]+([.,][0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OFFSET = re.compile(r":[0-9]{2}([.][0-9]+)? *(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
_PEEK_BYTES = 1 << 20


class CsvColumns:
    """A CSV file with named columns; `unit` is the unit that the layout states, if any.

    `usual` names the default columns of times and watts. `is_end` is true if values end at their times.
    """

    def __init__(self, path: Path, keys: dict[str, Any]) -> None:
        """Read the header. Raises ConfigError for a wrong key; ArchiveError if the file cannot be read."""
        self._path, self._keys, self._first_number = path, keys, float(FIRST_MS)
        layout = LAYOUTS.get(str(keys.get("layout")), {})
        merged = {"stamp": "start"} | layout | keys
        self._layout, self.unit, self.is_end = layout, layout.get("unit"), merged["stamp"] == "end"
        self._has_format = bool({"format", "timezone"} & merged.keys())
        self._header = read_header(path, self._mapping(Archive(key_file=Path(), csv=self._own_keys(None))))
        self.names = self._header.names
        is_row = any(_NUMBER.fullmatch(name) or _DATE.match(name) for name in self.names)
        if is_row and merged.get("header") != 0:
            remedy = "write a header, or read the file with csv={'header': 0, ...}"
            raise ArchiveError(f"{path}: its first line holds numbers, not names of columns: {remedy}")
        self.usual = (merged.get("time", self.names[0]), merged.get("value", self.names[1]))

    def read(self, time: Any, watts: str, where: tuple[str, str] | None) -> pa.Table:
        """Return times in UTC and watts, of all rows or of those whose column `where[0]` has text `where[1]`.

        Raises ArchiveError if a cell cannot be read.
        """
        columns = [time] if isinstance(time, str) else time
        keys = self._own_keys(where) | self._format(columns) | {"time": columns}
        meter = {"meter": where[0]} if where else {}
        mapping = self._mapping(Archive(key_file=Path(), value=watts, csv=keys, **meter))
        if self._first_number < FIRST_MS // 1000:
            mapping = replace(mapping, first_ms=0)
        table, names = CsvTable(self._path, mapping), ("home", "time", "watts")
        chosen = ["time", "watts", "home"] if where else ["time", "watts"]
        schema = pa.schema([("time", pa.timestamp("ms", "UTC")), ("watts", pa.float64())])
        batches = []
        for index in range(len(table.blocks)):
            batch = table.read(index, names, chosen)
            if where is not None:
                batch = batch.filter(compute.equal(batch.column("home").cast(pa.string()), where[1]))
            batches.append(batch.select(["time", "watts"]).cast(schema))
        rows = pa.Table.from_batches(batches, schema)
        return pa.table([rows.column(0), _whole(rows.column(1))], [" ".join(columns), watts])

    def _own_keys(self, where: object) -> dict[str, Any]:
        return self._keys | {"meters": "column" if where else "path", "stamp": "start"}

    def _format(self, columns: list[str]) -> dict[str, str]:
        """Return the keys that say how times are written, from the first row if the caller states none."""
        if self._has_format or not set(columns) <= set(self.names):
            return {}
        with self._path.open("rb") as file:
            file.seek(self._header.first)
            lines = file.read(_PEEK_BYTES).decode("utf-8-sig", "replace").splitlines()
        rows = cells.reader((line for line in lines if line.strip()), delimiter=self._header.separator)
        row = next(rows, [])
        if len(row) != len(self.names):
            return {"timezone": "UTC"}
        cell = " ".join(row[self.names.index(name)].strip() for name in columns)
        if not any(letter.isdigit() for letter in cell):
            choice = f"name the column of times with time=...; there are: {', '.join(self.names)}"
            raise ArchiveError(f"{self._path}: column {' '.join(columns)} holds no times; {choice}")
        if _NUMBER.fullmatch(cell):
            self._first_number = float(cell.replace(",", "."))
            return {"format": "unix ms" if self._first_number >= FIRST_MS else "unix s"}
        return {} if _OFFSET.search(cell) else {"timezone": "UTC"}

    def _mapping(self, archive: Archive) -> Mapping:
        unit = self._layout.get("unit", "W")
        source = Source(topic="-", kind=Kind.POWER, unit=unit)
        readings = ReadingRules(Kind.POWER, unit, 0, 0, 0, 0, 0, None, None, None, 1)
        mapping = Mapping.read_columns(archive, source, readings)[1]
        assert mapping is not None  # there is a table [archive.csv]
        return mapping


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole numbers as integers."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
