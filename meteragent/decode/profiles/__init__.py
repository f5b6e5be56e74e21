"""The profiles of known devices, by name: one module for each family."""

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import (
    chirpstack,
    dsmr,
    emonhub,
    ert,
    glow,
    homeassistant,
    iammeter,
    senml,
    shelly,
    sml2mqtt,
    tasmota,
    vzlogger,
    wmbusmeters,
    zigbee2mqtt,
)

_FAMILIES: tuple[tuple[Profile, ...], ...] = (
    shelly.PROFILES,
    dsmr.PROFILES,
    tasmota.PROFILES,
    zigbee2mqtt.PROFILES,
    homeassistant.PROFILES,
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

PROFILES: dict[str, Profile] = {profile.name: profile for family in _FAMILIES for profile in family}
"""Every profile, in the order in which `discover` tries them."""
