"""vzlogger: a bare number, or ``{"timestamp": <ms>, "value": <number>}`` with the option `timestamp`.

A topic consists of the configured prefix (`vzlogger`; as shipped, `vzlogger/data`), the channel's name
(`chn0`, or its `mqtt_topic`), and `agg` or `raw`. A message states neither quantity nor unit, although an
OBIS code on ``../id`` announces the quantity once.
"""

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import read_bare
from meteragent.decode.profile import CodedPart, Quantity
from meteragent.domain.units import Kind


def _read(payload: bytes) -> tuple[PayloadNumber]:
    """Read the number and, from JSON, its time. Raises PayloadError if either is missing or wrong."""
    if not payload.lstrip().startswith(b"{"):
        return read_bare(payload)
    document = document_of(payload)
    return (PayloadNumber(time_of(value_at(document, "timestamp")), number_of(value_at(document, "value"))),)


CODED_PARTS = {
    "vzlogger": CodedPart(
        {"power": Quantity(Kind.POWER, None, _read), "register": Quantity(Kind.REGISTER, None, _read)},
        fields=("timestamp", "value"),
    )
}
