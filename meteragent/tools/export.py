"""What already left, again: the delivered records that the store still keeps, as CSV.

Only bytes that the broker has acknowledged are read, so that an export says nothing that has not left; a
record that waits is not in it. Numbers are written as the record had them, digit for digit.
"""

import csv
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from meteragent.consume import Descriptor, Record, Series, nonnegative
from meteragent.consume.message import load
from meteragent.domain.errors import RecordError, StoreError
from meteragent.domain.grid import iso_time
from meteragent.store import outbox, terms
from meteragent.wire.descriptor import describe

COLUMNS = ("stream", "meter", "time", "for", "band", "value", "unit", "sd", "descriptor", "delivered")
VIEW = "nonnegative"


class Left(NamedTuple):
    """A record that left: its stream, its fields as they were written, and when the broker had it."""

    stream: str
    payload: bytes
    delivered_ms: int

    def row(self) -> list[str]:
        """Its columns: the very digits of the record; `band` is empty where slots are not bands."""
        known = _fields(self.payload)
        fields = (known.get(name, "") for name in ("meter", "t", "for", "band", "value", "unit", "sd", "d"))
        return [self.stream, *fields, iso_time(self.delivered_ms)]


def _fields(payload: bytes) -> Mapping[str, Any]:
    """The fields of a message, its numbers as they were written."""
    return load(json.loads(payload, parse_float=str, parse_int=str))


def records(connection: sqlite3.Connection) -> Iterator[Left]:
    """All records that have left and are still kept, in the order in which they were made."""
    for row in outbox.export(connection):
        if "for" in _fields(row.payload):  # the others are descriptors and running totals
            yield Left(row.channel, row.payload, row.delivered_ms)


def write(connection: sqlite3.Connection, out: IO[str]) -> int:
    """All records as CSV with a header, line by line as they are read; 0, for no total is changed."""
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(left.row() for left in records(connection))
    return 0


def write_nonnegative(connection: sqlite3.Connection, out: IO[str]) -> int:
    """The same with one more column, the view of `consume.nonnegative`; how many totals it cannot keep.

    The view has up to six decimals. Of a day of which some records have not left yet, it is that of the
    rest: it changes when they have.

    Raises:
        StoreError: the terms of a record are not known any more.
    """
    found = list(records(connection))
    views, raised = _views(found, _descriptors(connection))
    table = csv.writer(out, lineterminator="\n")
    table.writerow((*COLUMNS, VIEW))
    table.writerows([*left.row(), _decimal(view)] for left, view in zip(found, views, strict=True))
    return raised


def _descriptors(connection: sqlite3.Connection) -> dict[str, Descriptor]:
    """The descriptors of all terms that the store has ever known."""
    found = (describe(one) for known in terms(connection).values() for one in known)
    return {shared.id: Descriptor.parse(shared.message("", 0)) for shared in found}


def _views(found: Iterable[Left], known: dict[str, Descriptor]) -> tuple[list[float], int]:
    """The view's value of each record, and of how many days or windows the total is negative."""
    meters: defaultdict[tuple[str, str, str], dict[int, Record]] = defaultdict(dict)
    for place, left in enumerate(found):
        record = Record.parse(left.payload)
        meters[left.stream, record.meter, record.unit][place] = record
    values, raised = {}, 0
    for (stream, meter, _), rows in meters.items():
        try:
            series = Series.of(rows.values(), known)
        except RecordError as error:
            raise StoreError(f"stream {stream}, meter {meter}: {error}") from None
        view = nonnegative(series)
        by_slot = dict(zip(series.records, view.values.tolist(), strict=True))
        values.update({place: by_slot[record] for place, record in rows.items()})
        raised += len(view.raised_ms)
    return [values[place] for place in sorted(values)], raised


def _decimal(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
