"""ChirpStack v4: an uplink as JSON, with what the device profile's codec made of it under ``object``.

The fields of ``object`` are the codec's, so ``source.value`` is a JMESPath expression relative to it, and
kind and unit are the configuration's. ``time`` is when a gateway received the uplink, RFC 3339.
"""

from collections.abc import Callable, Sequence

from meteragent.decode import Found
from meteragent.decode.json import at, document_of, finder, number_of, time_of
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind


def _field(path: str) -> Callable[[bytes], Sequence[Found]]:
    """The reader of a codec's field; raises ValueError where `path` is no JMESPath expression."""
    find = finder(path)

    def read(payload: bytes) -> tuple[Found]:
        document = document_of(payload)
        number, eui = number_of(find(at(document, "object"))), at(document, "deviceInfo", "devEui")
        return (Found(time_of(at(document, "time")), number, eui if isinstance(eui, str) else None),)

    return read


def _named(kind: Kind, path: str) -> Quantity | None:
    try:
        return Quantity(kind, None, _field(path))
    except ValueError:
        return None


CHIRPSTACK = Profile(
    name="chirpstack",
    title="a LoRaWAN meter behind ChirpStack v4",
    topics=("application/1/device/{meter}/event/up",),
    quantities={
        "power": Quantity(Kind.POWER, None, _field("power")),
        "energy": Quantity(Kind.REGISTER, None, _field("energy")),
    },
    named=_named,
    every_ms=15 * MINUTE_MS,
    period_ms=15 * MINUTE_MS,
    hold_ms=HOUR_MS,
    identifies="the device's EUI",
    dead_band_known=False,
    personal=("deviceInfo", "devAddr", "rxInfo", "txInfo", "data"),
    traps=(
        "an uplink each quarter of an hour is assumed: source.every states the device's own period",
        "instead of application/1 the topic has the application's id",
        "any other field of object by its path, such as value = 'meter.\"total-energy\"'",
        "rxInfo says where the gateways stand that heard it, and so where the meter is",
        "without a codec in the device profile there is no object",
        "the same frame may come again under a later time: an uplink that was not confirmed",
    ),
)

PROFILES = (CHIRPSTACK,)
