"""The order of windows in outputs of the wide layout, which depends only on the set of released windows.

1. Each row group is sorted by start and then by the meter's public name. Row group k begins at the first
   start that at least k·s windows precede, where s is the size of a row group. If more than s windows
   have the same start, a hash of the public name may spread them over several row groups.
2. The set of released windows is public; the order of the input, its lists and its files are private. So
   `Order` is computed from the run's rows in the ledger, which are on disk before any window is released.
3. The input is read in its own order, in chunks. `write_sorted` writes a chunk's windows, with their noise,
   to a file next to the output, by row group. Once all chunks are stored, `row_groups` sorts the pieces of
   each row group.
4. A file exists in full or not at all, and files are written in order, so a resumed run continues after the
   last complete file.

Only releases wait in these files, never raw values. The files reveal the order of the input, so they stay
private, and the run removes them.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from meteragent.archive.files import attempt_read
from meteragent.archive.kernel import to_milliseconds
from meteragent.archive.policy import Integers, Policy

_STRING_COLUMNS = "meter", "d", "key"
_GROUPS, _BEGINS = b"groups", b"begins"


@dataclass(frozen=True, eq=False)
class Order:
    """The assignment of a run's windows to row groups of about `size` windows.

    The starts of windows on the grid are numbered. Each start from `first[j]` to before `first[j + 1]` has
    `count[j]` windows, and `before[j]` windows start before `first[j]`.
    """

    grid: Integers | int
    """The starts of a calendar's windows, or the length of a window in ms if all have the same length."""
    first: Integers
    count: Integers
    before: Integers
    size: int

    @classmethod
    def of(cls, rows: Iterable[pa.RecordBatch], policy: Policy, size: int) -> Self:
        """Return the order of the windows in these ledger rows, with about `size` windows per row group."""
        parts = [np.empty((2, 0), np.int64)]
        for batch in rows:
            starts, ends = (to_milliseconds(batch.column(name)) for name in ("start", "end"))
            changes = np.repeat([1, -1], starts.size)
            parts.append(_sum_equal(np.stack([np.concatenate([starts, ends]), changes])))
        first_ms, change = _sum_equal(np.concatenate(parts, axis=1))
        grid = policy.edges(first_ms)
        first, count = _grid_numbers(grid, first_ms), np.cumsum(change)
        before = np.cumsum(count[:-1] * np.diff(first))
        return cls(grid, first, count, np.append(np.zeros(1, np.int64), before)[: first.size], size)

    @property
    def groups(self) -> int:
        """The number of row groups, at least one."""
        if not self.first.size:
            return 1
        group, group_count = self._groups(self.first[-1:] - 1)
        return int(group[0] + group_count[0])

    def group(self, starts_ms: Integers, public_ids: pa.DictionaryArray) -> Integers:
        """Return the number of each window's row group, given its start and its meter's public name."""
        group, group_count = self._groups(_grid_numbers(self.grid, starts_ms))
        hashes = np.array([zlib.crc32(name.encode()) for name in public_ids.dictionary.to_pylist()], np.int64)
        row_hashes = hashes.take(public_ids.indices.to_numpy())
        groups: Integers = group + row_hashes % group_count
        return groups

    def _groups(self, number: Integers) -> tuple[Integers, Integers]:
        """Return, for each start, the first row group of its windows and how many row groups they use."""
        index = np.searchsorted(self.first, number, side="right") - 1
        begin = self.before[index] + (number - self.first[index]) * self.count[index]
        group = begin // self.size
        return group, np.maximum((begin + self.count[index]) // self.size - group, 1)


def _grid_numbers(grid: Integers | int, starts_ms: Integers) -> Integers:
    """Return the number of each start along the grid."""
    if isinstance(grid, int):
        return starts_ms // grid
    return np.searchsorted(grid, starts_ms).astype(np.int64)


def _sum_equal(changes: Integers) -> Integers:
    """Add up the changes (second row) of each key (first row). Return two rows again, sorted by key."""
    keys, inverse = np.unique(changes[0], return_inverse=True)
    sums = np.zeros(keys.size, np.int64)
    np.add.at(sums, inverse, changes[1])
    return np.stack([keys, sums])


def write_sorted(file: Any, batch: pa.RecordBatch, order: Order) -> None:
    """Write releases to an Arrow file, sorted by row group."""
    dictionaries = {name: batch.column(name).dictionary_encode() for name in _STRING_COLUMNS}
    group = order.group(to_milliseconds(batch.column("start")), dictionaries["meter"])
    rows = np.argsort(group, kind="stable")
    groups, begins = np.unique(group[rows], return_index=True)
    columns = [dictionaries.get(name, batch.column(name)) for name in batch.schema.names]
    schema = pa.schema(
        [(name, column.type) for name, column in zip(batch.schema.names, columns, strict=True)],
        {_GROUPS: groups.tobytes(), _BEGINS: np.append(begins, rows.size).astype(np.int64).tobytes()},
    )
    with pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(_take(pa.record_batch(columns, schema=schema), rows))


def row_groups(paths: Iterable[Path], groups: range, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield nonempty row groups, from files of `write_sorted`. Raises ArchiveError if one is unreadable."""
    pieces: dict[int, list[tuple[Path, int, int]]] = {group: [] for group in groups}
    for path in paths:
        group_numbers, begins = attempt_read(path, lambda: _group_starts(path))  # noqa: B023 - called immediately
        low, high = np.searchsorted(group_numbers, [groups.start, groups.stop])
        for index in range(low, high):
            pieces[int(group_numbers[index])].append((path, int(begins[index]), int(begins[index + 1])))
    for group in groups:
        parts = [attempt_read(piece[0], lambda: _read_group(*piece, schema)) for piece in pieces[group]]  # noqa: B023
        if parts:
            yield _sort_releases(pa.concat_batches(parts))


def _group_starts(path: Path) -> tuple[Integers, Integers]:
    """Return the numbers of a file's row groups, and where each begins, followed by the number of rows."""
    with pa.memory_map(str(path)) as file:
        facts = pa.ipc.open_file(file).schema.metadata
        return np.frombuffer(facts[_GROUPS], np.int64), np.frombuffer(facts[_BEGINS], np.int64)


def _read_group(path: Path, begin: int, end: int, schema: pa.Schema) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as file:
        batch = pa.ipc.open_file(file).get_batch(0).slice(begin, end - begin)
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ]
        return pa.record_batch(columns, schema=schema)


def _sort_releases(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sort releases by start and then by public name."""
    starts, public_ids = to_milliseconds(batch.column("start")), batch.column("meter").dictionary_encode()
    names = public_ids.dictionary.to_pylist()
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    rows = np.lexsort((rank.take(public_ids.indices.to_numpy()), starts))
    if (np.diff(rows) == 1).all():
        return batch
    return _take(batch, rows)


def _take(batch: pa.RecordBatch, rows: Integers) -> pa.RecordBatch:
    """Return these rows of a batch; integer lists of equal length are copied as rows of an array (faster)."""
    columns = []
    for column in batch.columns:
        offsets = column.offsets.to_numpy() if pa.types.is_list(column.type) else rows[:0]
        n = int(offsets[1] - offsets[0]) if offsets.size > 1 and column.type.value_type == pa.int64() else 0
        if n and not column.null_count and (np.diff(offsets) == n).all():
            values = column.flatten().to_numpy().reshape(-1, n).take(rows, axis=0)
            taken_offsets = np.arange(rows.size + 1, dtype=np.int32) * n
            columns.append(pa.ListArray.from_arrays(taken_offsets, values.ravel()))
        else:
            columns.append(column.take(pa.array(rows)))
    return pa.record_batch(columns, schema=batch.schema)
