"""The CSV export of the delivered records that the store still keeps.

Only messages that the broker has acknowledged are exported, so an export contains only records that have
already been sent. The numbers of a record are written digit for digit; only the column `nonnegative` is
computed.
"""

import csv
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from meteragent.consume import Descriptor, Record, Series, nonnegative
from meteragent.consume.cell import cell_of
from meteragent.consume.message import load
from meteragent.domain.errors import RecordError, StoreError
from meteragent.domain.grid import iso_time
from meteragent.store import commands, terms
from meteragent.wire.descriptor import describe

COLUMNS = ("stream", "meter", "time", "for", "band", "value", "unit", "sd", "descriptor", "delivered")
VIEW = "nonnegative"
_FIELDS = ("meter", "t", "for", "band", "value", "unit", "sd", "d")


class ExportedRecord(NamedTuple):
    """A delivered record: its stream, its payload, and the time at which the broker confirmed it."""

    stream: str
    payload: bytes
    delivered_ms: int

    def row(self) -> list[str]:
        """Return the columns, with the record's exact digits; `band` is empty if the slot is not a band."""
        values = _fields(self.payload)
        fields = [values.get(name, "") for name in _FIELDS]
        for index in map(_FIELDS.index, ("meter", "band")):
            fields[index] = cell_of(fields[index])
        return [self.stream, *fields, iso_time(self.delivered_ms)]


def _fields(payload: bytes) -> Mapping[str, Any]:
    """Return a message's fields, with numbers as strings of exactly their digits."""
    return load(json.loads(payload, parse_float=str, parse_int=str))


def records(connection: sqlite3.Connection) -> Iterator[ExportedRecord]:
    """Yield the delivered records that are still kept, in the order of their commits."""
    for row in commands.delivered(connection):
        # Descriptors and running totals have no field `for`, and a withdrawn descriptor has no payload.
        if row.payload and "for" in _fields(row.payload):
            yield ExportedRecord(row.stream, row.payload, row.delivered_ms)


def write(connection: sqlite3.Connection, file: IO[str]) -> int:
    """Write all records as CSV with a header, line by line. Return 0, because every total is preserved."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(record.row() for record in records(connection))
    return 0


def write_nonnegative(connection: sqlite3.Connection, file: IO[str]) -> int:
    """Write the CSV with the view of `consume.nonnegative` as an additional column.

    Return the number of totals that the view cannot preserve.

    The view has up to six decimals. If records of a day or window are missing from the export, the view
    is computed without them, so it can change when those records are delivered. Raises StoreError if the
    records of a meter do not form a series, for example because the store does not have the terms of a
    record.
    """
    exported = list(records(connection))
    views, raised_count = _views(exported, descriptors(connection))
    table = csv.writer(file, lineterminator="\n")
    table.writerow((*COLUMNS, VIEW))
    table.writerows([*row.row(), _decimal(view)] for row, view in zip(exported, views, strict=True))
    return raised_count


def descriptors(connection: sqlite3.Connection) -> dict[str, Descriptor]:
    """Return the descriptors of all terms in the store, by id."""
    described = (describe(row) for rows in terms(connection).values() for row in rows)
    return {descriptor.id: Descriptor.parse(descriptor.message("", 0)) for descriptor in described}


def _views(exported: Iterable[ExportedRecord], descriptors: dict[str, Descriptor]) -> tuple[list[float], int]:
    """Return the view's value for each record, and the number of days or windows with a negative total."""
    meters: defaultdict[tuple[str, str, str], dict[int, Record]] = defaultdict(dict)
    for index, row in enumerate(exported):
        record = Record.parse(row.payload)
        meters[row.stream, record.meter, record.unit][index] = record
    values, raised_count = {}, 0
    for (stream, meter, _), rows in meters.items():
        try:
            series = Series.of(rows.values(), descriptors)
        except RecordError as error:
            raise StoreError(f"stream {stream}, meter {meter}: {error}") from None
        view = nonnegative(series)
        by_slot = dict(zip(series.records, view.values.tolist(), strict=True))
        values.update({index: by_slot[record] for index, record in rows.items()})
        raised_count += len(view.raised_ms)
    return [values[index] for index in sorted(values)], raised_count


def _decimal(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
