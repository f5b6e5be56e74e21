"""Home Assistant's statestream and ESPHome: a topic for each sensor, whose payload is a bare text."""

from collections.abc import Callable, Sequence

from meteragent.decode import PayloadNumber
from meteragent.decode.number import bare
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind

_NO_VALUE = (b"unknown", b"unavailable", b"none")


def _state(payload: bytes) -> Sequence[PayloadNumber]:
    """Read the number that is a sensor's state; raises PayloadError."""
    if payload.strip().lower() in _NO_VALUE:
        raise PayloadError("refused_unavailable")
    return bare(payload)


def _quantities(read: Callable[[bytes], Sequence[PayloadNumber]]) -> dict[str, Quantity]:
    return {
        "power": Quantity(Kind.POWER, None, read, timed=False),
        "energy": Quantity(Kind.REGISTER, None, read, timed=False),
    }


_UNIT = "the payload has no unit: source.unit states it"
_NO_TIME = "no time: arrival counts"

STATESTREAM = Profile(
    name="homeassistant-statestream",
    title="Home Assistant's mqtt_statestream",
    topics=("homeassistant/sensor/{meter}/state",),
    quantities=_quantities(_state),
    every_ms=MINUTE_MS,
    hold_ms=HOUR_MS,
    period_ms=0,
    dead_band_known=False,
    identifies="the sensor's name",
    personal=("friendly_name and other attributes, which have separate topics",),
    traps=(
        "unknown and unavailable are neither readings nor 0",
        _UNIT + "; Home Assistant shows it as unit_of_measurement",
        "sent when the state changes, by a step of the sensor's integration: source.dead_band states it",
        _NO_TIME + "; last_updated has a separate topic",
    ),
)
ESPHOME = Profile(
    name="esphome",
    title="an ESPHome device over MQTT",
    topics=("{meter}/sensor/power/state",),
    quantities=_quantities(bare),
    every_ms=MINUTE_MS,
    hold_ms=15 * MINUTE_MS,
    dead_band_known=False,
    identifies="the device's name, which may end in its MAC address",
    traps=(
        "nan, sent before the first measurement, is refused",
        _UNIT,
        "sent each update_interval, which source.every states; a delta filter, if any, is source.dead_band",
        _NO_TIME,
    ),
)

PROFILES = (STATESTREAM, ESPHOME)
