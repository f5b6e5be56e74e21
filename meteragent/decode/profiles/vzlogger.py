"""vzlogger: a bare number, or ``{"timestamp": <ms>, "value": <number>}`` with the option `timestamp`.

A topic consists of the configured prefix, the channel's name (`chn0`, or its `mqtt_topic`), and `agg` or
`raw`. The configuration shipped with vzlogger has the prefix `vzlogger/data`; the default is `vzlogger`.

A message states neither quantity nor unit, although an OBIS code on ``../id`` announces the quantity once.
The configuration therefore states both.
"""

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import bare
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.units import MINUTE_MS, Kind


def _read(payload: bytes) -> tuple[PayloadNumber]:
    """Read the number and, from JSON, its time. Raises PayloadError if either is missing or wrong."""
    if not payload.lstrip().startswith(b"{"):
        return bare(payload)
    document = document_of(payload)
    return (PayloadNumber(time_of(value_at(document, "timestamp")), number_of(value_at(document, "value"))),)


VZLOGGER = Profile(
    name="vzlogger",
    title="a channel of vzlogger",
    topics=(
        "vzlogger/data/{meter}/agg",
        "vzlogger/data/{meter}/raw",
        "vzlogger/{meter}/agg",
        "vzlogger/{meter}/raw",
    ),
    quantities={
        "power": Quantity(Kind.POWER, None, _read),
        "register": Quantity(Kind.REGISTER, None, _read),
    },
    every_ms=10_000,
    hold_ms=5 * MINUTE_MS,
    personal=("../id", "../uuid"),
    traps=(
        "vzlogger's interval and aggtime define how often it sends: set source.every to match",
        "a message states neither quantity nor unit: ../id has the OBIS code, such as 1-0:16.7.0",
        "vzlogger's configuration (mqtt, topic) can set a prefix other than vzlogger/data and vzlogger",
        "raw and agg are the same measurement: read only one of them",
        "registers are in Wh for most SML meters and in kWh for most D0 meters",
        "with the option retain, an old value arrives at every start: retained messages are not readings",
    ),
)

PROFILES = (VZLOGGER,)
