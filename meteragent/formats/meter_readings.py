"""The message payload MeterReadings of IEC 61968-9 (2nd edition, CIM profile of 2011), for writing only.

    MeterReadings > MeterReading > IntervalBlocks > IntervalReadings (timeStamp, value, ReadingQualities)

Each meter has a MeterReading, with one IntervalBlocks element for each ReadingType. A ReadingType is 18
numbers that state the quantity, the unit and the length of the intervals. A `timeStamp` is the end of its
interval. The quality of a released value is 2.8.0: estimated by the system that manages meter data. The
comment next to it states the standard deviation and the descriptor's id.

IEC sells the schema, which was not used here. The elements and their order follow published documents
(docs/formats.md).
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Final

from meteragent.domain.errors import FormatError
from meteragent.domain.grid import iso_time
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS
from meteragent.formats.entry import Entry, require_intervals, to_decimal
from meteragent.formats.xml import add_child, encode_document

NAMESPACE: Final = "{http://iec.ch/TC57/2011/MeterReadings#}"

_PERIOD: Final = {
    MINUTE_MS: 3,
    5 * MINUTE_MS: 6,
    10 * MINUTE_MS: 1,
    15 * MINUTE_MS: 2,
    30 * MINUTE_MS: 5,
    HOUR_MS: 7,
    DAY_MS: 4,
}
"""The code of each interval length that has a code."""
_ESTIMATED, _VALID = "2.8.0", "2.0.0"

ET.register_namespace("m", NAMESPACE.strip("{}"))


def reading_type(entry: Entry) -> str:
    """Return an entry's ReadingType. Raises FormatError for an interval length that has no code."""
    period = _PERIOD.get(entry.end_ms - entry.start_ms)
    if period is None:
        raise FormatError(
            "meter-readings cannot carry intervals of this length, only of 1, 5, 10, 15, 30 or 60 min or 1 d"
        )
    average, accumulation, kind, uom = (0, 4, 12, 72) if entry.is_energy else (2, 6, 37, 38)
    kilo = 3 if entry.unit.startswith("k") else 0
    return f"0.{average}.{period}.{accumulation}.0.1.{kind}.0.0.0.0.0.0.0.0.{kilo}.{uom}.0"


def write(entries: Iterable[Entry], _now_ms: int = 0) -> bytes:
    """Return entries as a payload. Raises FormatError if the payload cannot carry one of them."""
    root = ET.Element(f"{NAMESPACE}MeterReadings")
    for meter, meter_entries in groupby(require_intervals(entries, "meter-readings"), attrgetter("meter")):
        element = add_child(root, f"{NAMESPACE}MeterReading")
        values = sorted(meter_entries, key=lambda entry: (reading_type(entry), entry.start_ms))
        for code, block in groupby(values, reading_type):
            _block(element, code, block)
        add_child(
            add_child(add_child(element, f"{NAMESPACE}Meter"), f"{NAMESPACE}Names"), f"{NAMESPACE}name", meter
        )
    return encode_document(root)


def _block(parent: ET.Element, code: str, entries: Iterable[Entry]) -> None:
    element = add_child(parent, f"{NAMESPACE}IntervalBlocks")
    for entry in entries:
        reading = add_child(element, f"{NAMESPACE}IntervalReadings")
        add_child(reading, f"{NAMESPACE}timeStamp", iso_time(entry.end_ms))
        add_child(reading, f"{NAMESPACE}value", f"{to_decimal(entry.value):f}")
        quality = add_child(reading, f"{NAMESPACE}ReadingQualities")
        if entry.sd is not None:
            comment = f"standard deviation {entry.sd!r} {entry.unit}, descriptor {entry.d}"
            add_child(quality, f"{NAMESPACE}comment", comment)
        quality_code = _ESTIMATED if entry.quality == "estimated" else _VALID
        add_child(quality, f"{NAMESPACE}ReadingQualityType", ref=quality_code)
    add_child(element, f"{NAMESPACE}ReadingType", ref=code)
