"""What left of many meters, as columns: for statistics over thousands of them, from messages or from Parquet.

A row is a slot of a meter. Values are whole millionths of the unit, which every released value is, so that
sums are exact and equal in whatever order and by whatever engine they are made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from meteragent.consume import archive
from meteragent.consume.message import Descriptor
from meteragent.consume.series import Integers, Series
from meteragent.domain.units import MICRO


@dataclass(frozen=True, eq=False)
class Slots:
    """Released slots: columns of one length, in any order.

    `meter` and `terms` are places in `meters` and `descriptors`; `window_ms` is where the slot's window
    starts: slots of one window share their radius of noise.
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
        if len({(one.kind, one.unit) for one in self.descriptors}) != 1:
            raise ValueError("no slots, or slots that differ in kind or unit, have no total")
        if any(one.bands for one in self.descriptors):
            raise ValueError("the bands of mean days are not of one time: they have no total here")
        order = np.lexsort((self.start_ms, self.meter))
        meter, start, end = (column[order] for column in (self.meter, self.start_ms, self.end_ms))
        overlap = (meter[1:] == meter[:-1]) & (start[1:] < end[:-1])
        if overlap.any() or len(set(self.meters)) != len(self.meters):
            raise ValueError("a meter with two slots that overlap: one of them is of another release")

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return self.descriptors[0].unit

    @classmethod
    def of(cls, meters: Iterable[Series]) -> Self:
        """The records of series.

        Raises:
            ValueError: there are none, they differ in kind or unit, or are bands.
        """
        homes = list(meters)
        known = {id_: one for series in homes for id_, one in series.descriptors.items()}
        places = {id_: place for place, id_ in enumerate(sorted(known))}
        records = [record for series in homes for record in series.records]
        lengths = [len(series.records) for series in homes]
        return cls(
            tuple(series.meter for series in homes),
            tuple(known[id_] for id_ in places),
            np.repeat(np.arange(len(homes)), lengths),
            np.array([places[record.descriptor] for record in records], np.int64),
            np.concatenate([series.window_ms for series in homes] or [np.zeros(0, np.int64)]),
            np.concatenate([series.time_ms for series in homes] or [np.zeros(0, np.int64)]),
            np.concatenate([series.end_ms for series in homes] or [np.zeros(0, np.int64)]),
            np.array([int(record.value * MICRO) for record in records], np.int64),
        )

    @classmethod
    def read(cls, folder: Path, filters: Any = None) -> Self:
        """The slots of an archive's output (`meteragent sanitise`), in memory.

        `filters` say which, as for `pyarrow.parquet.read_table`: on meter, start, end, d.

        Raises:
            RecordError: it is none, or not complete.
            ValueError: as `released`.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415 -- who has no archives needs none

        known = archive.descriptors(folder)
        return cls.released(pq.read_table(folder, filters=filters), known.values())

    @classmethod
    def released(cls, table: Any, descriptors: Iterable[Descriptor]) -> Self:
        """The slots of an archive's releases, an Arrow table: meter, start, end, d, and values or value.

        A row is a window, or a slot.

        Raises:
            ValueError: a row names a descriptor that is not given, or has no values; or as `of`.
        """
        import pyarrow as pa  # noqa: PLC0415 -- as in `read`

        table = table.combine_chunks()
        known: Mapping[str, Descriptor] = {one.id: one for one in descriptors}
        names, meter = _places(table["meter"], pa)
        ids, d = _places(table["d"], pa)
        if not set(ids) <= set(known):
            raise ValueError("a release whose descriptor is not among those given")
        by_id = sorted(ids)  # sums under several terms are added in this order
        terms = np.array([by_id.index(id_) for id_ in ids], np.int64)[d]
        found = tuple(known[id_] for id_ in by_id)
        start_ms, end_ms = (
            table[name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
            for name in ("start", "end")
        )
        if "value" in table.column_names:
            window_ms = _windows(found, terms, start_ms)
            return cls(names, found, meter, terms, window_ms, start_ms, end_ms, _micro(table["value"], pa))
        row, begin_ms, until_ms = _cut(table["values"], start_ms, end_ms)
        value_u = _micro(table["values"].combine_chunks().flatten(), pa)
        return cls(names, found, meter[row], terms[row], start_ms[row], begin_ms, until_ms, value_u)


def _cut(values: Any, start_ms: Integers, end_ms: Integers) -> tuple[Integers, Integers, Integers]:
    """Of each slot of windows its row, its start and its end."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- as in `Slots.read`

    lengths = pc.list_value_length(values).fill_null(0).to_numpy().astype(np.int64)
    if not lengths.size or not lengths.all():
        raise ValueError("a release without values")
    steps, row = (end_ms - start_ms) // lengths, np.repeat(np.arange(lengths.size), lengths)
    within = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    begin_ms = start_ms[row] + within * steps[row]
    return row, begin_ms, begin_ms + steps[row]


def _windows(descriptors: tuple[Descriptor, ...], terms: Integers, start_ms: Integers) -> Integers:
    """Where the windows start that slots lie in."""
    alike, place = np.unique(np.column_stack([terms, start_ms]), axis=0, return_inverse=True)
    found = [descriptors[one].window_ms(time_ms) for one, time_ms in alike.tolist()]
    return np.array(found, np.int64)[place.reshape(-1)]


def _places(column: Any, pa: Any) -> tuple[tuple[str, ...], Integers]:
    """The distinct texts of a column, and of each row which."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return tuple(coded.dictionary.to_pylist()), coded.indices.to_numpy().astype(np.int64)


def _micro(values: Any, pa: Any) -> Integers:
    """Exact numbers, whole or decimal, as whole millionths; raises ValueError beyond 64 bits."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    exact = whole.cast(pa.decimal128(38, 6))
    words = np.frombuffer(exact.buffers()[1], "<i8").reshape(-1, 2)[exact.offset : exact.offset + len(exact)]
    if exact.null_count or (words[:, 1] != words[:, 0] >> 63).any():
        raise ValueError("a release with a value that is missing, or beyond 64 bits")
    return words[:, 0].astype(np.int64)
