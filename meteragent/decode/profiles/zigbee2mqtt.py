"""Zigbee2MQTT: plugs and meters on Zigbee."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of
from meteragent.decode.number import total
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind


def _sum(*names: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of the sum of fields; a message with none of them is counted as `other`."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the sum; raises PayloadError."""
        document = document_of(payload)
        if not isinstance(document, dict):
            raise PayloadError("refused_type")
        if not any(name in document for name in names):
            raise PayloadError("other")
        return (PayloadNumber(None, total(number_of(document.get(name)) for name in names)),)

    return read


ZIGBEE2MQTT = Profile(
    name="zigbee2mqtt",
    title="a plug or meter on Zigbee2MQTT",
    topics=("zigbee2mqtt/{meter}",),
    quantities={
        "power": Quantity(Kind.POWER, Fraction(1), _sum("power"), timed=False),
        "power-all": Quantity(
            Kind.POWER, Fraction(1), _sum("power", "power_phase_b", "power_phase_c"), timed=False
        ),
        "energy": Quantity(Kind.REGISTER, Fraction(1000), _sum("energy"), timed=False),
        "produced": Quantity(Kind.REGISTER, Fraction(1000), _sum("produced_energy"), timed=False),
    },
    every_ms=MINUTE_MS,
    hold_ms=HOUR_MS,
    period_ms=0,
    dead_band_known=False,
    identifies="the device's name, by default its IEEE address",
    personal=("device", "friendly_name", "ieee_address", "linkquality"),
    traps=(
        "sent when a value has changed by the device's configured step: source.dead_band states it",
        "power is phase A on meters with three phases: power-all is the sum of the three",
        "each message repeats the last values of the other fields; some devices are polled instead",
        "no time of measurement (last_seen is the radio's): arrival counts",
        "retained messages are not readings",
    ),
)

PROFILES = (ZIGBEE2MQTT,)
