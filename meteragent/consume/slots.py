"""The released slots of many meters as columns, from messages or Parquet, for statistics over many homes.

A row is a slot of a meter. Every released value is a whole number of millionths of the unit and is stored as
such, so sums are exact and do not depend on the order or the engine of the computation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from meteragent.consume import archive
from meteragent.consume.message import Descriptor
from meteragent.consume.rules import require_total
from meteragent.consume.series import Integers, Series
from meteragent.domain.units import MICRO
from meteragent.extras import hint, missing_module

_SUM_MAX_U: Final = 2**62


@dataclass(frozen=True, eq=False)
class Slots:
    """Released slots as columns of equal length; the rows may be in any order.

    `meter` and `terms` are indices into `meters` and `descriptors`. `window_ms` is the start of the slot's
    window; the slots of one window share a noise bound unless the metric is l1. `value_u` is in millionths of
    the unit.
    """

    meters: tuple[str, ...]
    descriptors: tuple[Descriptor, ...]
    meter: Integers
    terms: Integers
    window_ms: Integers
    start_ms: Integers
    end_ms: Integers
    value_u: Integers

    def __post_init__(self) -> None:
        require_total(self.descriptors)
        order = np.lexsort((self.start_ms, self.meter))
        meter, start, end = (column[order] for column in (self.meter, self.start_ms, self.end_ms))
        overlap = (meter[1:] == meter[:-1]) & (start[1:] < end[:-1])
        if overlap.any() or len(set(self.meters)) != len(self.meters):
            raise ValueError("two slots of a meter overlap: one of them is from another release")

    def __repr__(self) -> str:
        return f"<Slots: {len(self.meter):,} of {len(self.meters):,} meters, in {self.unit}>"

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return self.descriptors[0].unit

    @cached_property
    def summable_u(self) -> NDArray[Any]:
        """`value_u`; if a sum might exceed 64 bits, as Python's integers, whose size is not limited."""
        largest_u = max(abs(int(self.value_u.min())), abs(int(self.value_u.max())))
        return self.value_u.astype(object) if largest_u * self.value_u.size >= _SUM_MAX_U else self.value_u

    @classmethod
    def of(cls, meters: Iterable[Series]) -> Self:
        """Return the slots of the given series.

        Raises ValueError if there are no records, or records differ in kind or unit; slots are bands; values
        are neither energies or means of the load nor amounts; two slots of a meter overlap; or two series
        have the same meter.
        """
        homes = list(meters)
        descriptors = {id_: descriptor for series in homes for id_, descriptor in series.descriptors.items()}
        indices = {id_: index for index, id_ in enumerate(sorted(descriptors))}
        records = [record for series in homes for record in series.records]
        lengths = [len(series.records) for series in homes]
        return cls(
            tuple(series.meter for series in homes),
            tuple(descriptors[id_] for id_ in indices),
            np.repeat(np.arange(len(homes)), lengths),
            np.array([indices[record.descriptor] for record in records], np.int64),
            np.concatenate([series.window_ms for series in homes] or [np.zeros(0, np.int64)]),
            np.concatenate([series.time_ms for series in homes] or [np.zeros(0, np.int64)]),
            np.concatenate([series.end_ms for series in homes] or [np.zeros(0, np.int64)]),
            np.array([int(record.value * MICRO) for record in records], np.int64),
        )

    @classmethod
    def read(cls, folders: Path | Iterable[Path], filters: Any = None) -> Self:
        """Read the slots of an archive's output (`meteragent sanitise`), or of several, into memory.

        `filters` select rows, as in `pyarrow.parquet.read_table`, by the columns `meter`, `start`, `end`, `d`
        and `key`. Raises RecordError as `archive.open_outputs` does; ValueError as `of_releases` does, or if
        the types of outputs' columns differ; and ModuleNotFoundError, with the command that installs pyarrow,
        if it is missing.
        """
        if missing_module("archive") == "pyarrow":
            raise ModuleNotFoundError(f"Slots.read needs pyarrow: {hint('archive')}", name="pyarrow")
        import pyarrow as pa  # noqa: PLC0415 -- only archives need it

        outputs = archive.open_outputs(folders)
        tables = [table.replace_schema_metadata(None) for table in archive.part_tables(outputs, filters)]
        try:
            table = pa.concat_tables(tables)
        except pa.ArrowInvalid:
            raise ValueError("the columns of outputs differ: read each output by itself") from None
        return cls.of_releases(table, outputs.descriptors.values())

    @classmethod
    def of_releases(cls, table: Any, descriptors: Iterable[Descriptor]) -> Self:
        """Return the slots of an archive's releases.

        `table` is an Arrow table with the columns `meter`, `start`, `end` and `d`. If a row is a window, the
        table also has the column `values`; if a row is a slot, it has the column `value`. Raises ValueError
        if a row names a descriptor that is not among `descriptors`, or has no values; a value is missing or
        exceeds 64 bits; or as in `of`.
        """
        import pyarrow as pa  # noqa: PLC0415 -- as in `read`

        table = table.combine_chunks()
        descriptors_by_id = {descriptor.id: descriptor for descriptor in descriptors}
        names, meter = _number_strings(table["meter"], pa)
        ids, d = _number_strings(table["d"], pa)
        if not set(ids) <= set(descriptors_by_id):
            raise ValueError("a release names a descriptor that is not among `descriptors`")
        sorted_ids = sorted(ids)  # floating-point sums over several terms depend on this order
        terms = np.array([sorted_ids.index(id_) for id_ in ids], np.int64)[d]
        row_descriptors = tuple(descriptors_by_id[id_] for id_ in sorted_ids)
        start_ms, end_ms = (
            table[name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
            for name in ("start", "end")
        )
        if "value" in table.column_names:
            window_ms, value_u = _starts(row_descriptors, terms, start_ms), _micro(table["value"], pa)
            return cls(names, row_descriptors, meter, terms, window_ms, start_ms, end_ms, value_u)
        row, slot_start_ms, slot_end_ms = _slot_intervals(table["values"], start_ms, end_ms)
        value_u = _micro(table["values"].combine_chunks().flatten(), pa)
        return cls(
            names, row_descriptors, meter[row], terms[row], start_ms[row], slot_start_ms, slot_end_ms, value_u
        )


def _slot_intervals(values: Any, start_ms: Integers, end_ms: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the row, start and end of each slot if a row is a window. Raises ValueError for an empty row."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- as in `Slots.read`

    lengths = pc.list_value_length(values).fill_null(0).to_numpy().astype(np.int64)
    if not lengths.size or not lengths.all():
        raise ValueError("a release has no values")
    steps, row = (end_ms - start_ms) // lengths, np.repeat(np.arange(lengths.size), lengths)
    position = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    slot_start_ms = start_ms[row] + position * steps[row]
    return row, slot_start_ms, slot_start_ms + steps[row]


def _starts(descriptors: tuple[Descriptor, ...], terms: Integers, start_ms: Integers) -> Integers:
    """Return the start of each slot's window; `start_ms` holds the starts of the slots."""
    distinct_rows, inverse = np.unique(np.column_stack([terms, start_ms]), axis=0, return_inverse=True)
    starts = [descriptors[index].window_of_slot_ms(time_ms) for index, time_ms in distinct_rows.tolist()]
    return np.array(starts, np.int64)[inverse.reshape(-1)]


def _number_strings(column: Any, pa: Any) -> tuple[tuple[str, ...], Integers]:
    """Return the distinct strings of a column, and the index of each row's string among them."""
    dictionary = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return tuple(dictionary.dictionary.to_pylist()), dictionary.indices.to_numpy().astype(np.int64)


def _micro(values: Any, pa: Any) -> Integers:
    """Convert numbers to whole millionths. Raises ValueError if one is null or exceeds 64 bits."""
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    exact = column.cast(pa.decimal128(38, 6))
    words = np.frombuffer(exact.buffers()[1], "<i8").reshape(-1, 2)[exact.offset : exact.offset + len(exact)]
    if exact.null_count or (words[:, 1] != words[:, 0] >> 63).any():
        raise ValueError("a value of a release is missing, or exceeds 64 bits")
    return words[:, 0].astype(np.int64)
