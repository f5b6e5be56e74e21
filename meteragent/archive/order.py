"""The order in which windows of the wide form leave: a function of which windows leave, and of nothing else.

Windows leave by start, then by the name under which their meter leaves. Counted in that order, a row group
begins at the first start after each multiple of a fixed number of windows; where more windows than that begin
together, a hash of the name spreads them over row groups. Which windows leave is public, since OUT has them;
the order of the input, what its lists hold and how its files are cut are not, and do not enter.

The input is read once in its own order. What is released of it, with its noise, waits in a folder beside OUT,
by row group; row groups are put together from there. No raw value is written.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from meteragent.archive.files import attempt
from meteragent.archive.kernel import milliseconds
from meteragent.archive.policy import Integers, Policy

_TEXTS = "meter", "d", "key"
_GROUPS, _BEGINS = b"groups", b"begins"


@dataclass(frozen=True, eq=False)
class Order:
    """The row group of each window of a run.

    Windows are numbered along the grid by their start. From number `first[j]` to `first[j + 1]` every start
    has `count[j]` windows, and `before[j]` windows begin before; a row group has about `size` windows.
    """

    grid: Integers | int
    """The starts of a calendar's windows, or the length of a window in ms where all are as long."""
    first: Integers
    count: Integers
    before: Integers
    size: int

    @classmethod
    def of(cls, rows: Iterable[pa.RecordBatch], policy: Policy, size: int) -> Self:
        """Return the order of the windows that a ledger's rows hold: stretches of windows of one meter."""
        parts = [np.empty((2, 0), np.int64)]
        for batch in rows:
            starts, ends = (milliseconds(batch.column(name)) for name in ("start", "end"))
            changes = np.repeat([1, -1], starts.size)
            parts.append(_summed(np.stack([np.concatenate([starts, ends]), changes])))
        first_ms, change = _summed(np.concatenate(parts, axis=1))
        grid = policy.edges(first_ms)
        first, count = _numbers(grid, first_ms), np.cumsum(change)
        before = np.cumsum(count[:-1] * np.diff(first))
        return cls(grid, first, count, np.append(np.zeros(1, np.int64), before)[: first.size], size)

    @property
    def groups(self) -> int:
        """The number of row groups, one at least."""
        if not self.first.size:
            return 1
        group, several = self._groups(self.first[-1:] - 1)
        return int(group[0] + several[0])

    def group(self, starts_ms: Integers, labels: pa.DictionaryArray) -> Integers:
        """Return the row group of each window, by its start and the name under which its meter leaves."""
        group, several = self._groups(_numbers(self.grid, starts_ms))
        hashes = np.array([zlib.crc32(label.encode()) for label in labels.dictionary.to_pylist()], np.int64)
        spread = hashes.take(labels.indices.to_numpy())
        found: Integers = group + spread % several
        return found

    def _groups(self, number: Integers) -> tuple[Integers, Integers]:
        """The first row group of the windows with a number, and in how many of them such windows are."""
        at = np.searchsorted(self.first, number, side="right") - 1
        begin = self.before[at] + (number - self.first[at]) * self.count[at]
        group = begin // self.size
        return group, np.maximum((begin + self.count[at]) // self.size - group, 1)


def _numbers(grid: Integers | int, starts_ms: Integers) -> Integers:
    """The numbers of windows along a grid."""
    if isinstance(grid, int):
        return starts_ms // grid
    return np.searchsorted(grid, starts_ms).astype(np.int64)


def _summed(changes: Integers) -> Integers:
    """Sum the changes (second row) at equal numbers (first row), in order."""
    numbers, places = np.unique(changes[0], return_inverse=True)
    sums = np.zeros(numbers.size, np.int64)
    np.add.at(sums, places, changes[1])
    return np.stack([numbers, sums])


def store(file: Any, batch: pa.RecordBatch, order: Order) -> None:
    """Write releases to an Arrow file, by row group."""
    coded = {name: batch.column(name).dictionary_encode() for name in _TEXTS}
    group = order.group(milliseconds(batch.column("start")), coded["meter"])
    place = np.argsort(group, kind="stable")
    groups, begins = np.unique(group[place], return_index=True)
    columns = [coded.get(name, batch.column(name)) for name in batch.schema.names]
    schema = pa.schema(
        [(name, column.type) for name, column in zip(batch.schema.names, columns, strict=True)],
        {_GROUPS: groups.tobytes(), _BEGINS: np.append(begins, place.size).astype(np.int64).tobytes()},
    )
    with pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema).take(pa.array(place)))


class _Piece(NamedTuple):
    """Some rows of a file."""

    path: Path
    begin: int
    end: int


def row_groups(paths: Iterable[Path], groups: range, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the row groups in a range that have rows, put together from files of `store`.

    Raises ArchiveError when a file cannot be read.
    """
    pieces: dict[int, list[_Piece]] = {group: [] for group in groups}
    for path in paths:
        found, begins = attempt(path, lambda: _index(path))  # noqa: B023 - called at once
        low, high = np.searchsorted(found, [groups.start, groups.stop])
        for at in range(low, high):
            pieces[int(found[at])].append(_Piece(path, int(begins[at]), int(begins[at + 1])))
    for group in groups:
        parts = [attempt(piece.path, lambda: _rows(piece, schema)) for piece in pieces[group]]  # noqa: B023
        if parts:
            yield _sorted(pa.concat_batches(parts))


def _index(path: Path) -> tuple[Integers, Integers]:
    with pa.memory_map(str(path)) as file:
        facts = pa.ipc.open_file(file).schema.metadata
        return np.frombuffer(facts[_GROUPS], np.int64), np.frombuffer(facts[_BEGINS], np.int64)


def _rows(piece: _Piece, schema: pa.Schema) -> pa.RecordBatch:
    """Some rows of a file, as releases."""
    with pa.memory_map(str(piece.path)) as file:
        batch = pa.ipc.open_file(file).get_batch(0).slice(piece.begin, piece.end - piece.begin)
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ]
        return pa.record_batch(columns, schema=schema)


def _sorted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sort releases by start and name."""
    starts, labels = milliseconds(batch.column("start")), batch.column("meter").dictionary_encode()
    names = labels.dictionary.to_pylist()
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    place = np.lexsort((rank.take(labels.indices.to_numpy()), starts))
    if (np.diff(place) == 1).all():
        return batch
    return batch.take(pa.array(place))
