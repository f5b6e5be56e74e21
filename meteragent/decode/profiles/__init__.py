"""The profiles of known devices, by name: one module a family."""

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import (
    chirpstack,
    emonhub,
    ert,
    glow,
    iammeter,
    senml,
    shelly,
    sml2mqtt,
    vzlogger,
    wmbusmeters,
)

_FAMILIES: tuple[tuple[Profile, ...], ...] = (
    shelly.PROFILES,
    vzlogger.PROFILES,
    sml2mqtt.PROFILES,
    wmbusmeters.PROFILES,
    ert.PROFILES,
    emonhub.PROFILES,
    glow.PROFILES,
    senml.PROFILES,
    chirpstack.PROFILES,
    iammeter.PROFILES,
)

PROFILES: dict[str, Profile] = {one.name: one for family in _FAMILIES for one in family}
"""Every profile there is, in the order in which `discover` tries them."""
