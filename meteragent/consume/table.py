"""The records in the tables of `meteragent collect`, as `collect` and `Slots` return them from messages.

Intervals in SQL are a normal approximation; those of `consume` are exact, and these functions read the rows
from which both are computed. They take a connection of psycopg 3 to the database, and need nothing else.
"""

import json
from collections.abc import Collection
from typing import Any

import numpy as np

from meteragent.consume.message import Descriptor, Record
from meteragent.consume.series import Series
from meteragent.consume.slots import Slots
from meteragent.domain.grid import iso_time
from meteragent.domain.units import MICRO

_FACTS = """
SELECT d.facts::text FROM meteragent.descriptor d JOIN meteragent.terms USING (d) WHERE stream = %s ORDER BY d
"""
_ROWS = """
SELECT meter, (extract(epoch FROM t) * 1000)::bigint, (extract(epoch FROM until) * 1000)::bigint,
       band, quanta, d, draws
FROM meteragent.record
WHERE stream = %s AND t >= %s::timestamptz AND t < %s::timestamptz AND (%s::text[] IS NULL OR meter = ANY(%s))
ORDER BY meter, t, band
"""


def read_table(
    connection: Any, stream: str, start_ms: int, end_ms: int, meters: Collection[str] | None = None
) -> dict[str, Series]:
    """Read the series of each of these meters, or of all: the slots that start from `start_ms` to `end_ms`.

    There is an object for each slot; for thousands of meters see `read_slots`.

    Raises:
        RecordError: a row does not agree with its descriptor, or rows overlap.
    """
    descriptors = _descriptors(connection, stream)
    records: dict[str, list[Record]] = {}
    for meter, time_ms, until_ms, band, quanta, d, draws in _rows(
        connection, stream, start_ms, end_ms, meters
    ):
        terms = descriptors[d]
        value, deviation = quanta * terms.mechanism.quantum, float(terms.facts["sd"])
        record = Record(
            meter, time_ms, until_ms - time_ms, value, terms.unit, deviation, d, band or None, draws
        )
        records.setdefault(meter, []).append(record)
    return {meter: Series.of(rows, descriptors) for meter, rows in records.items()}


def read_slots(
    connection: Any, stream: str, start_ms: int, end_ms: int, meters: Collection[str] | None = None
) -> Slots:
    """Read the slots of these meters, or of all, that start from `start_ms` to `end_ms`, for `by_feeder`.

    Raises:
        ValueError: there are none, or as in `Slots`.
    """
    descriptors = _descriptors(connection, stream)
    rows = _rows(connection, stream, start_ms, end_ms, meters)
    ids = sorted({row[5] for row in rows})  # floating-point sums over several terms depend on this order
    names = tuple(dict.fromkeys(row[0] for row in rows))
    terms_of, meter_of = ({name: i for i, name in enumerate(words)} for words in (ids, names))
    starts = {(row[5], row[1]) for row in rows}
    window_ms = {(d, time_ms): descriptors[d].window_ms(time_ms) for d, time_ms in starts}
    columns = (
        [meter_of[row[0]] for row in rows],
        [terms_of[row[5]] for row in rows],
        [window_ms[row[5], row[1]] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [int(row[4] * descriptors[row[5]].mechanism.quantum * MICRO) for row in rows],
    )
    arrays = (np.array(column, np.int64) for column in columns)
    return Slots(names, tuple(descriptors[d] for d in ids), *arrays)


def _descriptors(connection: Any, stream: str) -> dict[str, Descriptor]:
    of_no_meter = {"meter": "", "valid_from": "1970-01-01T00:00:00Z"}
    facts = [json.loads(text) for (text,) in connection.execute(_FACTS, (stream,)).fetchall()]
    parsed_descriptors = [Descriptor.parse(fields | of_no_meter) for fields in facts]
    return {descriptor.id: descriptor for descriptor in parsed_descriptors}


def _rows(
    connection: Any, stream: str, start_ms: int, end_ms: int, meters: Collection[str] | None
) -> list[tuple[str, int, int, str, int, str, int]]:
    names = None if meters is None else list(meters)
    parameters = stream, iso_time(start_ms), iso_time(end_ms), names, names
    rows: list[tuple[str, int, int, str, int, str, int]] = connection.execute(_ROWS, parameters).fetchall()
    return rows
