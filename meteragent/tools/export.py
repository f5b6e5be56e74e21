"""The export of the delivered records that the store still keeps, digit for digit as sent."""

import csv
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

from meteragent.consume import Descriptor
from meteragent.consume.cell import cell_of
from meteragent.consume.message import load_fields
from meteragent.domain.grid import iso_time
from meteragent.store import Connection, commands, stored_terms
from meteragent.store.outbox import DeliveredRow
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.grammar import RECORD

_FIELDS = tuple(name for name in RECORD.rows if name != "v")
COLUMNS = ("stream", *_FIELDS, "delivered")


def _row(record: DeliveredRow) -> list[str]:
    """Return the columns, with the record's exact digits; missing fields are empty."""
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


def write_table(connection: Connection, file: IO[str]) -> None:
    """Write all records as CSV with a header, line by line."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(map(_row, delivered_records(connection)))


def write_lines(connection: Connection, file: IO[str]) -> None:
    """Write all records as JSON, one per line: the record as it was sent, its stream and its delivery."""
    for row in delivered_records(connection):
        fields_text = json.dumps(
            {"stream": row.stream, "delivered": iso_time(row.delivered_ms)}, separators=(",", ":")
        )
        file.write(f"{fields_text[:-1]},{row.payload.decode()[1:]}\n")


def read_descriptors(connection: Connection) -> dict[str, Descriptor]:
    """Return the descriptors of all terms in the store, by id."""
    described = (describe_terms(row) for rows in stored_terms(connection).values() for row in rows)
    return {descriptor.id: Descriptor.parse(descriptor.encode_message("", 0)) for descriptor in described}
