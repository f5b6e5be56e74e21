"""The CSV export of the delivered records that the store still keeps, digit for digit as sent."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from meteragent.consume import Descriptor, Record, Series, nonnegative
from meteragent.consume.cell import cell_of
from meteragent.consume.message import load_fields
from meteragent.domain.errors import RecordError, StoreError
from meteragent.domain.grid import iso_time
from meteragent.store import Connection, commands, stored_terms
from meteragent.store.outbox import DeliveredRow
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.grammar import RECORD

_FIELDS = tuple(name for name in RECORD.rows if name != "v")
COLUMNS = ("stream", *_FIELDS, "delivered")
VIEW = "nonnegative"


def _row(record: DeliveredRow) -> list[str]:
    """Return the columns, with the record's exact digits; what a record does not have is empty."""
    values = _fields(record.payload)
    fields = {name: values.get(name, "") for name in _FIELDS}
    fields |= {name: cell_of(fields[name]) for name in ("meter", "band")}
    return [record.stream, *fields.values(), iso_time(record.delivered_ms)]


def _fields(payload: bytes) -> Mapping[str, Any]:
    """Return a message's fields, with numbers as strings of exactly their digits."""
    return load_fields(json.loads(payload, parse_float=str, parse_int=str))


def delivered_records(connection: Connection) -> Iterator[DeliveredRow]:
    """Yield the delivered records that are still kept, in the order of their commits."""
    for row in commands.delivered_rows(connection):
        # Descriptors and running totals have no field `for`, and a withdrawn descriptor has no payload.
        if row.payload and "for" in _fields(row.payload):
            yield row


def write_records(connection: Connection, file: IO[str]) -> int:
    """Write all records as CSV with a header, line by line. Return 0, because every total is preserved."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(map(_row, delivered_records(connection)))
    return 0


def write_nonnegative(connection: Connection, file: IO[str]) -> int:
    """Write the CSV with the view of `consume.nonnegative`, up to six decimals, as an additional column.

    Return the number of totals that the view cannot preserve. If records of a day or window are missing, the
    view is computed without them, and can change later. Raises StoreError if a meter's records are no series.
    """
    exported = list(delivered_records(connection))
    views, raised_count = _views(exported, read_descriptors(connection))
    table = csv.writer(file, lineterminator="\n")
    table.writerow((*COLUMNS, VIEW))
    decimals = (f"{view:.6f}".rstrip("0").rstrip(".") for view in views)
    table.writerows([*_row(row), decimal] for row, decimal in zip(exported, decimals, strict=True))
    return raised_count


def read_descriptors(connection: Connection) -> dict[str, Descriptor]:
    """Return the descriptors of all terms in the store, by id."""
    described = (describe_terms(row) for rows in stored_terms(connection).values() for row in rows)
    return {descriptor.id: Descriptor.parse(descriptor.encode_message("", 0)) for descriptor in described}


def _views(exported: Iterable[DeliveredRow], descriptors: dict[str, Descriptor]) -> tuple[list[float], int]:
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
