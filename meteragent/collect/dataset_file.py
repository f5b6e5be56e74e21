"""Files of records: one Parquet file for each stream and each month, day or hour.

    FOLDER/record/stream=main/day=2026-11-20/records.parquet

Rows are sorted by meter, time and band. `merge_rows` never changes the first value of a key, so it may be
repeated after a crash. `replace_file` renames a complete new file into place.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from meteragent.collect.core import Row
from meteragent.domain.errors import DatabaseError
from meteragent.domain.units import HOUR_MS
from meteragent.service.whole_file import whole_file
from meteragent.store.generation import sync_folder

Length = Literal["month", "day", "hour"]
Integers = NDArray[np.int64]

NAME: Final = "records.parquet"
TIME: Final = pa.timestamp("ms", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATS: dict[Length, str] = {"month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
_KEY = ("meter", "t", "band")
_ROW_GROUP = 1 << 17


class Terms(NamedTuple):
    """The facts of a descriptor that fill columns; `quantum_u` is in millionths of the unit."""

    unit: str
    quantum_u: int
    variance: float


class Part(NamedTuple):
    """A month, day or hour of a stream, from `start_ms` to `end_ms`; `name` is the name of its folder."""

    stream: str
    name: str
    start_ms: int
    end_ms: int

    @property
    def path(self) -> Path:
        """The path of the part's file, relative to the folder `record`."""
        return Path(f"stream={quote(self.stream, safe='')}", self.name, NAME)


def part_of(stream: str, time_ms: int, length: Length) -> Part:
    """Return the part of a stream that contains `time_ms`."""
    hour = _EPOCH + timedelta(milliseconds=time_ms - time_ms % HOUR_MS)
    start = hour if length == "hour" else hour.replace(hour=0)
    end = start + (timedelta(hours=1) if length == "hour" else timedelta(days=1))
    if length == "month":
        start = start.replace(day=1)
        end = (start + timedelta(days=31)).replace(day=1)
    name = f"{length}={start:{_FORMATS[length]}}"
    return Part(stream, name, *(round((time - _EPOCH) / timedelta(milliseconds=1)) for time in (start, end)))


def parts_between(stream: str, start_ms: int, end_ms: int, length: Length) -> Iterator[Part]:
    """Yield the parts of a stream that contain a time from `start_ms` up to but not including `end_ms`."""
    while start_ms < end_ms:
        part = part_of(stream, start_ms, length)
        yield part
        start_ms = part.end_ms


def _values(rows: Sequence[Row], terms: Sequence[Terms]) -> pa.Array:
    """Return exact values as a column of 128-bit decimals."""
    value_u = np.array([row.quanta * of.quantum_u for row, of in zip(rows, terms, strict=True)], np.int64)
    words = np.column_stack([value_u, value_u >> 63])  # the lower 64 bits first
    return pa.Array.from_buffers(_VALUE, len(rows), [None, pa.py_buffer(words.tobytes())])


_VALUE: Final = pa.decimal128(19, 6)
_COLUMNS: Final[dict[str, tuple[pa.DataType, Callable[[Sequence[Row], Sequence[Terms]], Any]]]] = {
    "meter": (pa.string(), lambda rows, _: [row.meter for row in rows]),
    "t": (TIME, lambda rows, _: [row.time_ms for row in rows]),
    "until": (TIME, lambda rows, _: [row.until_ms for row in rows]),
    "band": (pa.string(), lambda rows, _: [row.band for row in rows]),
    "value": (_VALUE, _values),
    "unit": (pa.string(), lambda _, terms: [of.unit for of in terms]),
    "variance": (pa.float64(), lambda _, terms: [of.variance for of in terms]),
    "d": (pa.string(), lambda rows, _: [row.d for row in rows]),
    "draws": (pa.int32(), lambda rows, _: [row.draws for row in rows]),
}
"""The columns of a file of records: for each, its type and a function from rows and terms to its content.

`variance` is the variance of the value's noise, in unit².
"""
SCHEMA: Final = pa.schema([(name, kind) for name, (kind, _) in _COLUMNS.items()])


def table_of(rows: Sequence[Row], terms: dict[str, Terms]) -> pa.Table:
    """Return rows as the content of a file."""
    of_rows = [terms[row.d] for row in rows]
    return pa.table([pa.array(fill(rows, of_rows), kind) for kind, fill in _COLUMNS.values()], schema=SCHEMA)


@dataclass(frozen=True)
class MergeResult:
    """The content of a file after a merge, and how many deliveries were new, repeated or different.

    A delivery is one arrival of a row. It is different if the row's key exists with other content. `meter` is
    the meter of a different delivery, and empty if there was none.
    """

    table: pa.Table
    new: int
    repeated: int
    different: int
    meter: str = ""


def merge_rows(content: pa.Table, rows: pa.Table, deliveries: Integers) -> MergeResult:
    """Add rows to a file's content, and keep only the first row of each key; count all deliveries."""
    union = pa.concat_tables([content, rows])
    order_of_arrival = np.concatenate([np.zeros(content.num_rows, np.int64), np.arange(1, rows.num_rows + 1)])
    keys = [(name, "ascending") for name in (*_KEY, "arrival")]
    order = pc.sort_indices(
        union.select(_KEY).append_column("arrival", pa.array(order_of_arrival)), sort_keys=keys
    )
    union, row = union.take(order), order.to_numpy()
    count = np.concatenate([np.zeros(content.num_rows, np.int64), deliveries])[row]
    index = np.arange(row.size)
    is_first = ~_equal_rows(union.select(_KEY), np.maximum(index - 1, 0))
    is_first[:1] = True
    is_equal = _equal_rows(union, np.maximum.accumulate(np.where(is_first, index, 0)))
    new = int((is_first & (row >= content.num_rows)).sum())
    repeated = int(count[is_equal].sum()) - new
    table = union if is_first.all() else union.filter(pa.array(is_first))
    indices = np.flatnonzero(~is_equal)
    meter = str(union["meter"][int(indices[-1])]) if indices.size else ""
    return MergeResult(table, new, repeated, int(count[~is_equal].sum()), meter)


def _equal_rows(table: pa.Table, other_row: Integers) -> NDArray[np.bool_]:
    """Return, for each row, whether it equals the row whose index `other_row` gives."""
    flags = np.ones(table.num_rows, np.bool_)
    for column in table.columns:
        column_flags = pc.equal(column, column.take(pa.array(other_row))).combine_chunks()
        flags &= column_flags.to_numpy(zero_copy_only=False)
    return flags


def overlap_flags(content: pa.Table, rows: pa.Table) -> NDArray[np.bool_]:
    """Return, for each row, whether it overlaps another slot of its meter in the content of files."""
    if not content.num_rows or not rows.num_rows:
        return np.zeros(rows.num_rows, np.bool_)
    names = pa.concat_tables([content.select(["meter"]), rows.select(["meter"])])["meter"]
    codes = names.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    (start, end, is_band), (row_start, row_end, row_is_band) = _slot_times(content), _slot_times(rows)
    origin = min(int(start.min()), int(row_start.min()))
    width = int(max(start.max(), row_start.max()) - origin + 1).bit_length()
    key = (codes << width) | (np.concatenate([start, row_start]) - origin)  # the meter, then the start
    order = np.argsort(key[: start.size], kind="stable")
    slot, row = key[: start.size][order], key[start.size :]
    start, end, is_band = start[order], end[order], is_band[order]
    lower, upper = np.searchsorted(slot, row, "left"), np.searchsorted(slot, row, "right")

    def is_of_meter(index: Integers, code: Integers) -> NDArray[np.bool_]:
        """Return whether an index is valid and its slot belongs to the meter with the given code."""
        is_valid = (index >= 0) & (index < slot.size)
        return np.asarray(is_valid & (slot[index.clip(0, slot.size - 1)] >> width == code))

    code = row >> width
    has_same_start = upper > lower
    peer = lower.clip(0, slot.size - 1)
    differs = has_same_start & ((end[peer] != row_end) | (is_band[peer] != row_is_band))
    overlaps_next = is_of_meter(upper, code) & (start[upper.clip(0, slot.size - 1)] < row_end)
    overlaps_previous = is_of_meter(lower - 1, code) & (end[(lower - 1).clip(0)] > row_start)
    return np.asarray(differs | overlaps_next | overlaps_previous)


def _slot_times(table: pa.Table) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return the start and the end of each row's slot in ms, and whether the slot is a band."""
    start, end = (table[name].cast(pa.int64()).to_numpy() for name in ("t", "until"))
    is_band = pc.not_equal(table["band"], "").combine_chunks().to_numpy(zero_copy_only=False)
    return start, end, np.asarray(is_band)


def read_file(path: Path, meters: Collection[str] | None = None) -> pa.Table:
    """Read a file of records, or its rows of some meters. Raises DatabaseError or OSError."""
    if not path.exists():
        return SCHEMA.empty_table()
    try:
        filters = None if meters is None else [("meter", "in", set(meters))]
        return pq.read_table(path, partitioning=None, filters=filters).cast(SCHEMA)
    except (pa.ArrowException, ValueError):
        pass
    raise DatabaseError(f"{path}: not a file of records: restore it, or move it away")


def replace_file(path: Path, root: Path, fill: Callable[[Any], object]) -> None:
    """Replace a file below `root` durably; readers never see an unfinished file."""
    new_folders = [folder for folder in path.parents if root in folder.parents and not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, part=root / ".part") as file:
        fill(file)
    for folder in new_folders:
        sync_folder(folder.parent)


def write_table(path: Path, root: Path, table: pa.Table) -> None:
    """Replace a file below `root` with a table."""
    replace_file(path, root, lambda file: pq.write_table(table, file, row_group_size=_ROW_GROUP))
