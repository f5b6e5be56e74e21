"""ChirpStack v4: an uplink as JSON, with the output of the device profile's codec under ``object``.

The codec defines the fields of ``object``, so ``source.value`` is a JMESPath expression relative to
``object``, and the configuration states kind and unit. ``time`` is the RFC 3339 time at which a gateway
received the uplink.
"""

from collections.abc import Callable, Sequence

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, finder, number_of, time_of, value_at
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind


def _field(path: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of a codec's field; raises ValueError if `path` is not a JMESPath expression."""
    find = finder(path)

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the field, the time of reception and the device's EUI; raises PayloadError."""
        document = document_of(payload)
        number = number_of(find(value_at(document, "object")))
        eui = value_at(document, "deviceInfo", "devEui")
        return (
            PayloadNumber(time_of(value_at(document, "time")), number, eui if isinstance(eui, str) else None),
        )

    return read


def _named(kind: Kind, path: str) -> Quantity | None:
    """Make the quantity of a codec's field; None if `path` is not a JMESPath expression."""
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
        "the topic holds the application's id in place of 1 in application/1",
        "any other field of object is named by its path, such as value = 'meter.\"total-energy\"'",
        "rxInfo has the positions of the receiving gateways and so reveals where the meter is",
        "without a codec in the device profile there is no object",
        "an unconfirmed uplink may come again, as the same frame under a later time",
    ),
)

PROFILES = (CHIRPSTACK,)
