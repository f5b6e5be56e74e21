"""Read the records that `meteragent collect` has stored, as `Series` or `Slots`.

Intervals in SQL are normal approximations, whereas the intervals of `consume` are exact. Both are computed
from the rows that these functions read. The functions take either a psycopg 3 connection to the database, or
the folder of a dataset, which needs pyarrow.
"""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from meteragent.consume.message import Descriptor, Record
from meteragent.consume.series import Series
from meteragent.consume.slots import Slots
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import iso_time
from meteragent.domain.units import MICRO

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FACTS = """
SELECT d, facts FROM meteragent.descriptor WHERE d IN (SELECT d FROM meteragent.terms WHERE stream = %s)
"""
_ROWS = """
SELECT meter, (extract(epoch FROM t) * 1000)::bigint, (extract(epoch FROM until) * 1000)::bigint,
       band, quanta, d, draws
FROM meteragent.record
WHERE stream = %s AND t >= %s::timestamptz AND t < %s::timestamptz AND (%s::text[] IS NULL OR meter = ANY(%s))
ORDER BY meter, t, band
"""


class UnfitMeters(RecordError, ValueError):
    """The error for `meters` whose records contradict each other or cannot be added to other meters' records.

    An example is a meter whose kind of values was changed. Read the other meters with `without=error.meters`.
    """

    def __init__(self, reason: str, meters: Collection[str]) -> None:
        self.meters = tuple(sorted(meters))
        more = ", .." if len(self.meters) > 3 else ""
        super().__init__(f"{reason}: {', '.join(self.meters[:3])}{more} ({len(self.meters)} in all)")


def read_table(
    source: Any,
    stream: str,
    start_ms: int,
    end_ms: int,
    meters: Collection[str] | None = None,
    without: Collection[str] = (),
) -> dict[str, Series]:
    """Read a series for each meter from the slots that start at or after `start_ms` and before `end_ms`.

    If `meters` is None, all meters are read, except those in `without`. Each slot becomes an object in
    memory; for thousands of meters use `read_slots`. Raises UnfitMeters if the records of a meter make no
    series (see `Series.of`).
    """
    descriptors = _fetch_descriptors(source, stream)
    records: dict[str, list[Record]] = {}
    terms_by_id: dict[str, dict[str, Descriptor]] = {}
    rows = _fetch(source, stream, (start_ms, end_ms), meters, descriptors)
    for meter, time_ms, until_ms, band, value, d, draws in rows:
        if meter in without:
            continue
        terms = descriptors[d]
        deviation = terms.record_check.sd
        if terms_by_id.setdefault(meter, {}).setdefault(terms.id, terms) is not terms:
            raise RecordError("two descriptors of one meter with the same id")
        record = Record(
            meter, time_ms, until_ms - time_ms, value, terms.unit, deviation, terms.id, band or None, draws
        )
        records.setdefault(meter, []).append(record)
    series, unfit = {}, []
    for meter, meter_records in records.items():
        try:
            series[meter] = Series.of(meter_records, terms_by_id[meter])
        except RecordError:
            unfit.append(meter)
    if unfit:
        raise UnfitMeters("meters whose records make no series, such as of two units", unfit)
    return series


def read_slots(
    source: Any,
    stream: str,
    start_ms: int,
    end_ms: int,
    meters: Collection[str] | None = None,
    without: Collection[str] = (),
) -> Slots:
    """Read the slots that start at or after `start_ms` and before `end_ms`, for `by_feeder`.

    If `meters` is None, all meters are read, except those in `without`. Raises UnfitMeters if some meters'
    values are of another kind than most, and ValueError if there are no slots, or as in `Slots.of`.
    """
    descriptors = _fetch_descriptors(source, stream)
    rows = _fetch(source, stream, (start_ms, end_ms), meters, descriptors)
    rows = [row for row in rows if row[0] not in without]
    _require_one_kind({(row[0], row[5]) for row in rows}, descriptors)
    # Floating-point sums over several terms depend on this order.
    ids = sorted({row[5] for row in rows}, key=lambda d: descriptors[d].digest)
    names = tuple(dict.fromkeys(row[0] for row in rows))
    id_indices, meter_indices = ({key: i for i, key in enumerate(keys)} for keys in (ids, names))
    starts = {(row[5], row[1]) for row in rows}
    window_ms = {(d, time_ms): descriptors[d].window_of_slot_ms(time_ms) for d, time_ms in starts}
    slots = Counter((row[0], row[5], window_ms[row[5], row[1]]) for row in rows)
    if crowded := {meter for (meter, d, _), count in slots.items() if count > descriptors[d].n}:
        raise UnfitMeters("meters with more slots in a window than its descriptor states", crowded)
    columns = (
        [meter_indices[row[0]] for row in rows],
        [id_indices[row[5]] for row in rows],
        [window_ms[row[5], row[1]] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [int(row[4] * MICRO) for row in rows],
    )
    arrays = (np.array(column, np.int64) for column in columns)
    return Slots(names, tuple(descriptors[d] for d in ids), *arrays)


def _require_one_kind(
    terms_of_meters: Collection[tuple[str, Any]], descriptors: dict[Any, Descriptor]
) -> None:
    """Raise UnfitMeters for the meters that have values of another kind than most meters."""
    meters_by_kind: dict[Any, set[str]] = {}
    for meter, d in terms_of_meters:
        terms = descriptors[d]
        kind = (terms.kind, terms.unit, bool(terms.shape.names), terms.shape.is_summable)
        meters_by_kind.setdefault(kind, set()).add(meter)
    *fewer, _ = sorted(meters_by_kind.values(), key=len) or [set()]
    if fewer:
        raise UnfitMeters("meters whose values cannot be added to those of most meters", set().union(*fewer))


def _fetch_descriptors(source: Any, stream: str) -> dict[Any, Descriptor]:
    """Return a stream's descriptors by the key in column `d`: a number or, in files, the digest."""
    if isinstance(source, Path):
        texts = _read_parquet(source / "descriptor.parquet", [("stream", "=", stream)], ["d", "facts"])
    else:
        texts = source.execute(_FACTS, (stream,)).fetchall()
    return {d: Descriptor.parse_stored(text) for d, text in texts}


def _fetch(
    source: Any,
    stream: str,
    span_ms: tuple[int, int],
    meters: Collection[str] | None,
    descriptors: dict[Any, Descriptor],
) -> list[tuple[str, int, int, str, Fraction, Any, int]]:
    """Return meter, start, end, band, exact value, descriptor and draws of each record, sorted."""
    if isinstance(source, Path):
        return _read_dataset_rows(source, stream, span_ms, meters)
    names = None if meters is None else list(meters)
    parameters = stream, *map(iso_time, span_ms), names, names
    rows = source.execute(_ROWS, parameters).fetchall()
    quanta = {d: terms.mechanism.quantum for d, terms in descriptors.items()}
    return [(*row[:4], row[4] * quanta[row[5]], *row[5:]) for row in rows]


def _read_dataset_rows(
    folder: Path, stream: str, span_ms: tuple[int, int], meters: Collection[str] | None
) -> list[tuple[str, int, int, str, Fraction, str, int]]:
    start, end = (_EPOCH + timedelta(milliseconds=time_ms) for time_ms in span_ms)
    filters: list[Any] = [("t", ">=", start), ("t", "<", end)]
    filters += [] if meters is None else [("meter", "in", set(meters))]
    path = folder / "record" / f"stream={quote(stream, safe='')}"
    rows = _read_parquet(path, filters, ["meter", "t", "until", "band", "value", "d", "draws"])
    ordered_rows = sorted(rows, key=lambda row: (row[0], row[1], row[3]))
    return [
        (meter, _ms(t), _ms(until), band, Fraction(value), d, draws)
        for meter, t, until, band, value, d, draws in ordered_rows
    ]


def _read_parquet(path: Path, filters: list[Any], columns: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of a Parquet file or folder, or an empty list if the path does not exist."""
    import pyarrow.parquet as pq  # noqa: PLC0415 -- only datasets need it

    if not path.exists():
        return []
    table = pq.read_table(path, columns=columns, filters=filters)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _ms(time: datetime) -> int:
    return round((time - _EPOCH) / timedelta(milliseconds=1))
