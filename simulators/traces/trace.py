"""Read traces (power over time) from files, and write traces to files.

A file is Parquet or CSV with a column of times and one of watts. Times are timestamps (UTC if they have no
zone) or numbers: seconds from midnight (UTC) of the day that the Parquet metadata key `day` names or, without
such a key, Unix seconds or milliseconds.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv, parquet

from meteragent.domain.grid import END_MS, FIRST_MS
from meteragent.domain.units import DAY_MS

_EPOCH = date(1970, 1, 1)
_YEAR_2000_S = 946_684_800
_TIME = pa.timestamp("ms", "UTC")
_CSV = re.compile(r"\.csv(\.gz)?$", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]+([.,][0-9]+)?")
_HOMES = 3
"""If at least one of this many readings contradicts another, they are of several homes."""
_ROWS_AT_ONCE = 1 << 16
"""Laps with fewer rows are written several at a time, because many small row groups are slow to read."""


class TraceError(ValueError):
    """The error for a file that cannot be read or is not a load trace; the message gives the reason."""


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """The power of one meter: `times_ms` since the Unix epoch, strictly increasing, and `watts` at each.

    Both have one entry per reading, and at least two. Watts are integers if they are integers in the file.
    """

    times_ms: NDArray[np.int64]
    watts: NDArray[np.int64] | NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.times_ms)

    @property
    def step_ms(self) -> int:
        """The nominal time between two readings: the median, in ms."""
        return int(np.median(np.diff(self.times_ms)))

    def limited(self, duration_ms: int) -> Trace:
        """Return the readings less than `duration_ms` after the first one.

        Raises TraceError if there are fewer than two.
        """
        count = int(np.searchsorted(self.times_ms, self.times_ms[0] + duration_ms))
        return _check_length(self.times_ms[:count], self.watts[:count])

    def starting(self, start_ms: int) -> Trace:
        """Return the trace shifted in time, so that it starts at `start_ms`."""
        return replace(self, times_ms=self.times_ms - self.times_ms[0] + start_ms)

    def ended(self) -> Trace:
        """Return the trace with a final reading, which repeats the last value a nominal step later.

        The final reading marks when the last value ends, so that its duration counts.
        """
        end_ms = self.times_ms[-1] + self.step_ms
        return Trace(np.append(self.times_ms, end_ms), np.append(self.watts, self.watts[-1]))

    def laps(self, loops: int) -> Iterator[Trace]:
        """Yield a trace that has a final reading `loops` times (0: endlessly), one lap after another.

        A lap ends where the next begins, so only the last lap keeps its final reading. No time is skipped or
        repeated.
        """
        period_ms = int(self.times_ms[-1] - self.times_ms[0])
        for lap in range(loops - 1) if loops else count():
            yield Trace(self.times_ms[:-1] + lap * period_ms, self.watts[:-1])
        yield replace(self, times_ms=self.times_ms + (loops - 1) * period_ms)


def load(path: Path | str, time: str | None = None, watts: str | None = None) -> Trace:
    """Read a trace: the columns `time` and `watts`, by default the first and the second.

    Rows without a time or a finite number of watts are omitted. The others are sorted by time; if several
    have the same time, the first is kept. Times become whole milliseconds. Raises TraceError if the file
    cannot be read or is not a trace.
    """
    return of_table(open_table(Path(path)), time, watts)


def open_table(path: Path) -> pa.Table:
    """Read all columns of a Parquet or CSV file. Raises TraceError if that fails."""
    if not path.exists():
        raise TraceError(f"{path}: no such file")
    try:
        return _read_csv(path) if _CSV.search(path.name) else parquet.read_table(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TraceError(f"{path} cannot be read as a Parquet or CSV file: {error}") from error


def _read_csv(path: Path) -> pa.Table:
    """Read a CSV file, with semicolons and a decimal comma if its header has them."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file:
        header = file.readline()
        is_european = header.count(b";") > header.count(b",")
        parse = csv.ParseOptions(delimiter=";" if is_european else ",")
        convert = csv.ConvertOptions(decimal_point="," if is_european else ".")
        file.seek(0)
        table = csv.read_csv(file, parse_options=parse, convert_options=convert)
    repeated_names = {name for name in table.column_names if table.column_names.count(name) > 1}
    if repeated_names:
        raise ValueError(f"two columns {repeated_names.pop()}")
    if any(_NUMBER.fullmatch(name.strip()) for name in table.column_names):
        raise ValueError("its first line holds numbers, not names of columns: write a header")
    return table


def of_table(table: pa.Table, time: str | None = None, watts: str | None = None) -> Trace:
    """Return the trace in two columns of a table, as `load` does."""
    names = [_column_name(table, name, index) for index, name in enumerate((time, watts))]
    rows = table.select(names).drop_null()
    if pa.types.is_floating(rows[0].type):
        rows = rows.filter(compute.is_finite(rows[0]))
    times_ms, power = (
        _times_ms(rows[0], names[0], _midnight_ms(table.schema.metadata), table.column_names),
        _watts(rows[1], names[1]),
    )
    finite = np.isfinite(power)
    if _are_clock_times(power[finite]):
        raise TraceError(
            f"column {names[1]} holds clock times, not watts: choose a column of watts (--watts of replay); "
            f"there are: {', '.join(table.column_names)}"
        )
    times_ms, power = times_ms[finite], power[finite]
    distinct_ms, index, inverse = np.unique(times_ms, return_index=True, return_inverse=True)
    conflict_count = int(np.count_nonzero(power != power[index][inverse]))
    if conflict_count > 1 and _HOMES * conflict_count >= len(power):
        raise TraceError(
            f"{conflict_count:,} of {len(power):,} readings have the time of another and other watts: are"
            f" they of several homes? Choose one (where=...); there are: {', '.join(table.column_names)}"
        )
    return _check_length(distinct_ms, power[index])


def write(trace: Trace, path: Path, loops: int, progress: Callable[[int], object]) -> int:
    """Write a trace `loops` times, without its final reading, to a file that `load` can read.

    The columns are time (UTC, milliseconds) and watts. `progress` is called with the number of readings in
    each batch. Return the number of readings. Raises OSError if writing fails.
    """
    readings = len(trace) - 1
    laps = trace.laps(loops)
    schema = pa.schema([("time", _TIME), ("watts", pa.from_numpy_dtype(trace.watts.dtype))])
    path.parent.mkdir(parents=True, exist_ok=True)
    with writer(path, schema) as file:
        while batch := list(islice(laps, max(1, _ROWS_AT_ONCE // readings))):
            times_ms = np.concatenate([lap.times_ms[:readings] for lap in batch])
            watts = np.concatenate([lap.watts[:readings] for lap in batch])
            file.write_table(pa.table([pa.array(times_ms, _TIME), pa.array(watts)], schema=schema))
            progress(len(times_ms))
    return loops * readings


def writer(path: Path, schema: Any) -> Any:
    """Return a context manager that writes tables to Parquet, or to CSV if the path ends in .csv."""
    if path.suffix == ".csv":
        return csv.CSVWriter(path, schema)
    return parquet.ParquetWriter(path, schema, compression="zstd")


def _column_name(table: Any, name: str | None, index: int) -> str:
    columns: list[str] = table.column_names
    if name is None and index < len(columns):
        return columns[index]
    if name is None or name not in columns:
        raise TraceError(f"there is no column {name or index + 1}; there are: {', '.join(columns)}")
    return name


def _midnight_ms(metadata: dict[bytes, bytes] | None) -> int:
    """Return the Unix time, in ms, from which a file counts seconds."""
    day = (metadata or {}).get(b"day")
    return (date.fromisoformat(day.decode()) - _EPOCH).days * DAY_MS if day else 0


def _times_ms(column: Any, name: str, midnight_ms: int, names: list[str]) -> NDArray[np.int64]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        times_ms = column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64()).to_numpy()
        return _check_times(np.asarray(times_ms, np.int64), name)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = np.clip(np.asarray(column.to_numpy(), np.float64), -1e15, 1e15)
        # As seconds, numbers of milliseconds since 1990 would be times after the year 20000.
        is_ms = not midnight_ms and numbers.size > 0 and bool(numbers.min() >= FIRST_MS)
        scaled = numbers if is_ms else numbers * 1000
        return _check_times(np.asarray(np.floor(scaled + 0.5), np.int64) + midnight_ms, name)
    choice = f"name the column of times with time=...; there are: {', '.join(names)}"
    raise TraceError(f"column {name} holds {kind}, which is neither times nor seconds; {choice}")


def _check_times(times_ms: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Return the times. Raises TraceError if one is after 2100, because it is in another unit."""
    if times_ms.size and times_ms.max() >= END_MS:
        raise TraceError(f"column {name} holds times after 2100: seconds and milliseconds are understood")
    return times_ms


def _watts(column: Any, name: str) -> NDArray[np.int64] | NDArray[np.float64]:
    if pa.types.is_integer(column.type):
        numbers = column.to_numpy()
        if numbers.size and numbers.max() > np.iinfo(np.int64).max:
            raise TraceError(f"column {name} holds numbers beyond 63 bits, which are not watts")
        return np.asarray(numbers, np.int64)
    if pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(), np.float64)
    raise TraceError(f"column {name} holds {column.type}, which is not watts")


def _are_clock_times(values: NDArray[np.int64] | NDArray[np.float64]) -> bool:
    """Return whether all values are Unix times since 2000, in s or ms; no load in W is as large."""
    return len(values) > 0 and float(values.min()) >= _YEAR_2000_S


def _check_length(times_ms: NDArray[np.int64], watts: NDArray[np.int64] | NDArray[np.float64]) -> Trace:
    if len(times_ms) < 2:
        raise TraceError(f"a trace has at least two readings; here there are {len(times_ms)}")
    return Trace(times_ms, watts)
