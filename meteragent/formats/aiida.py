"""Near-real-time documents of CIM 1.12, written as AIIDA (EDDIE) sends them: one JSON envelope per line.

AIIDA sends what a meter shows at an instant, whereas a record is the mean of an interval. A record's envelope
states the end of the interval, the mean in kW as quantity type 2 (active power consumption), and the quality
ESTIMATED; for a measured value, the quality is AS_PROVIDED. An envelope has no field for the length of the
interval or the standard deviation. Energies are refused, because the type for energies, 0, means the reading
of a register.
"""

import json
import uuid
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from meteragent.domain.errors import FormatError
from meteragent.domain.grid import iso_time
from meteragent.formats.entry import Entry, decimal, require_intervals

_CONSUMPTION_KW: Final = "2"
_NAME_MAX: Final = 60
_QUALITY: Final = {"estimated": "ESTIMATED", "measured": "AS_PROVIDED"}
_NAMESPACE: Final = uuid.UUID("2c0f0f0c-9f2e-4a52-8a5e-3f0c8c2f7b11")
"""The namespace of the documents' ids, so that a repeated conversion yields the same ids."""


def write(entries: Iterable[Entry], now_ms: int) -> bytes:
    """Return entries as envelopes, one per line. Raises FormatError if an envelope cannot carry an entry."""
    lines = [json.dumps(envelope(entry, now_ms)) for entry in require_intervals(entries, "aiida")]
    return "".join(f"{line}\n" for line in lines).encode()


def envelope(entry: Entry, now_ms: int) -> dict[str, Any]:
    """Return the envelope of a mean power. Raises FormatError if an envelope cannot carry the entry."""
    if entry.is_energy:
        raise FormatError("aiida cannot carry energies of intervals: use green-button or meter-readings")
    if len(entry.meter) > _NAME_MAX:
        raise FormatError("aiida cannot carry a meter's name of more than 60 characters")
    creation_time = iso_time(now_ms - now_ms % 1000)
    name = f"{entry.meter} {entry.end_ms} {entry.d}"
    quantity = {
        "quantity": _kilowatts(entry),
        "type": _CONSUMPTION_KW,
        "quality": _QUALITY[entry.quality],
    }
    series = {
        "version": "1.0",
        "dateAndOrTime.dateTime": iso_time(entry.end_ms),
        "Quantity": [quantity],
        "registeredResource.mRID": {"value": entry.meter, "codingScheme": "NAT"},
    }
    return {
        "MessageDocumentHeader": {
            "creationDateTime": creation_time,
            "MetaInformation": {
                "documentType": "near-real-time-market-document",
                "dataSourceId": entry.meter,
            },
        },
        "MarketDocument": {
            "mRID": str(uuid.uuid5(_NAMESPACE, name)),
            "createdDateTime": creation_time,
            "TimeSeries": [series],
        },
    }


def _kilowatts(entry: Entry) -> float:
    """Return the mean power in kW as a float with the same digits, or raise FormatError if there is none."""
    exact = decimal(entry.base_value) / 1000
    number = float(exact)
    if Fraction(Decimal(repr(number))) != entry.base_value / 1000:
        raise FormatError("aiida cannot carry a number of more than 15 digits")
    return number
