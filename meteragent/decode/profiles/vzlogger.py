"""vzlogger: a bare number, or ``{"timestamp": <ms>, "value": <number>}`` where its option `timestamp` is on.

What a channel measures and in which unit is not in its messages: it is announced once as an OBIS code on
``../id``. So both are the configuration's.
"""

from meteragent.decode import Found
from meteragent.decode.json import at, document_of, number_of, time_of
from meteragent.decode.number import bare
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.units import MINUTE_MS, Kind


def _read(payload: bytes) -> tuple[Found]:
    if not payload.lstrip().startswith(b"{"):
        return bare(payload)
    document = document_of(payload)
    return (Found(time_of(at(document, "timestamp")), number_of(at(document, "value"))),)


VZLOGGER = Profile(
    name="vzlogger",
    title="a channel of vzlogger",
    topics=("vzlogger/{meter}/agg", "vzlogger/{meter}/raw"),
    quantities={
        "power": Quantity(Kind.POWER, None, _read),
        "register": Quantity(Kind.REGISTER, None, _read),
    },
    every_ms=10_000,
    hold_ms=5 * MINUTE_MS,
    personal=("../id", "../uuid"),
    traps=(
        "how often it sends is its configuration's (interval, aggtime): source.every states it",
        "a message does not say what it is nor in which unit: ../id has the OBIS code, such as 1-0:16.7.0",
        "raw and agg are one measurement: only one of them is to be read",
        "registers are in Wh for most SML meters and in kWh for most D0 meters",
        "with its option retain an old value comes at every start: retained messages are no readings",
    ),
)

PROFILES = (VZLOGGER,)
