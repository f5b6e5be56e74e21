"""Read traces (power over time) from files, and write traces to files.

A file is Parquet or CSV with a column of times and one of watts. Times are timestamps (UTC if they have no
zone) or numbers: Unix seconds or milliseconds or, if the Parquet metadata key `day` names a day, seconds from
its midnight (UTC). `csv_columns` reads CSV, where times outside the years 1990 to 2100 are refused.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv, parquet

from meteragent.domain.errors import ArchiveError, ConfigError
from meteragent.domain.grid import END_MS, FIRST_MS
from meteragent.domain.units import DAY_MS
from simulators.traces.csv_columns import CsvColumns

_EPOCH = date(1970, 1, 1)
_YEAR_2000_S = 946_684_800
_TIME = pa.timestamp("ms", "UTC")
_HOMES = 3
"""If at least one in this many readings differs from another of the same time, they are of several homes."""
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

        The final reading marks when the last value ends, so that this value has a duration.
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

    Rows of Parquet without a time, and all rows without a finite number of watts, are omitted. The others are
    sorted by time; if several have the same time, the first is kept. Times become whole milliseconds. Raises
    TraceError if the file cannot be read or is not a trace.
    """
    with opened(Path(path)) as columns:
        return read(columns, time, watts)


@contextmanager
def opened(path: Path, csv: dict[str, Any] | None = None) -> Iterator[Columns]:
    """Open a Parquet or CSV file, which may be packed with gzip. Raises TraceError if it cannot be read.

    `csv` holds keys of the table [archive.csv] of `sanitise`. A file is CSV if its name ends in .csv, or if
    `csv` is given.
    """
    if not path.exists():
        raise TraceError(f"{path}: no such file")
    with TemporaryDirectory() as folder:
        unpacked = Path(folder) / path.stem
        try:
            if path.suffix.lower() == ".gz":
                with gzip.open(path) as packed, unpacked.open("wb") as file:
                    shutil.copyfileobj(packed, file)
            name = unpacked if unpacked.exists() else path
            is_csv = csv is not None or name.suffix.lower() == ".csv"
            yield CsvColumns(name, csv or {}) if is_csv else _ParquetColumns(name)
        except TraceError:
            raise
        except (ArchiveError, ConfigError) as error:
            raise TraceError(str(error).replace(str(unpacked), str(path))) from None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise TraceError(f"{path} cannot be read as a Parquet or CSV file: {error}") from error


class _ParquetColumns:
    """A Parquet file with named columns."""

    unit, is_end = None, False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.names: list[str] = parquet.read_schema(path).names
        self.usual = (*self.names, None, None)[:2]

    def read(self, time: str, watts: str, where: tuple[str, str] | None) -> pa.Table:
        """Return the two columns of all rows, or of those with a text in a column."""
        table = parquet.read_table(self._path)
        if where is not None:
            table = table.filter(compute.equal(table[where[0]].cast(pa.string()), where[1]))
        return table.select([time, watts])


Columns = CsvColumns | _ParquetColumns
"""An open file with named columns."""


def read(
    columns: Columns, time: str | None = None, watts: str | None = None, where: str | None = None
) -> Trace:
    """Read the trace in two columns of an open file, as `load` does.

    `where` chooses one home of several, such as `dataid=661`: the rows whose column dataid has the text 661.
    """
    names, usual = columns.names, columns.usual
    choices = f"there are: {', '.join(names)}"
    condition = None
    if where is not None:
        column, _, value = where.partition("=")
        condition = column, value
    for index, name in enumerate((time, watts, condition and condition[0])):
        if name is None and index < 2 and usual[index] is None:
            raise TraceError(f"there is no column {index + 1}; {choices}")
        if name is not None and name not in names:
            raise TraceError(f"there is no column {name}; {choices}")
    table = columns.read(time or usual[0], watts or usual[1], condition)
    if condition is not None and not table.num_rows:
        raise TraceError(f"no row has {condition[1]} in column {condition[0]}")
    trace = _trace(table, names)
    return trace.starting(int(trace.times_ms[0]) - trace.step_ms) if columns.is_end else trace


def _trace(table: pa.Table, names: list[str]) -> Trace:
    """Return the trace in a table of times and watts; `names` are those of all columns of the file."""
    time, watts = table.column_names
    rows = table.drop_null()
    if pa.types.is_floating(rows[0].type):
        rows = rows.filter(compute.is_finite(rows[0]))
    times_ms, power = (
        _times_ms(rows[0], time, _midnight_ms(table.schema.metadata), names),
        _watts(rows[1], watts),
    )
    finite = np.isfinite(power)
    if _are_clock_times(power[finite]):
        raise TraceError(
            f"column {watts} holds clock times, not watts: choose a column of watts (--watts of replay); "
            f"there are: {', '.join(names)}"
        )
    times_ms, power = times_ms[finite], power[finite]
    distinct_ms, index, inverse = np.unique(times_ms, return_index=True, return_inverse=True)
    conflict_count = int(np.count_nonzero(power != power[index][inverse]))
    if conflict_count > 1 and _HOMES * conflict_count >= len(power):
        raise TraceError(
            f"{conflict_count:,} of {len(power):,} readings have the time of another and other watts: are"
            f" they of several homes? Choose one (where=...); there are: {', '.join(names)}"
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
        # Milliseconds since 1990, if they were taken as seconds, would be times after the year 20000.
        is_ms = not midnight_ms and numbers.size > 0 and bool(numbers.min() >= FIRST_MS)
        scaled = numbers if is_ms else numbers * 1000
        return _check_times(np.asarray(np.floor(scaled + 0.5), np.int64) + midnight_ms, name)
    choice = f"name the column of times with time=...; there are: {', '.join(names)}"
    raise TraceError(f"column {name} holds {kind}, which is neither times nor seconds; {choice}")


def _check_times(times_ms: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Return the times. Raises TraceError if a time is after 2100, because it is in another unit."""
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
