"""The profiles of known devices, by name. Each is in a file or, for a family that needs code, in a module.

A file is read when its profile is first requested, so an agent reads only the files that it uses.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from meteragent.decode import profile_file
from meteragent.decode.profile import Profile
from meteragent.decode.profiles import dsmr, emonhub, ert, iammeter, senml, shelly, vzlogger, wmbusmeters

_FOLDER = Path(__file__).parent
_CODE: dict[str, Profile] = {
    profile.name: profile
    for module in (dsmr, vzlogger, wmbusmeters, ert, emonhub, senml, iammeter)
    for profile in module.PROFILES
}
_NAMES = (
    *("shelly-gen2-em", "shelly-gen2-em1", "shelly-gen2-switch", "shelly-gen2-pm1", "shelly-gen1"),
    *("dsmr-p1", "dsmr-reader", "dsmr-reader-topics", "tasmota", "tasmota-teleinfo", "tasmota-sml"),
    *("zigbee2mqtt", "zigbee2mqtt-flow", "zigbee2mqtt-attribute", "victron", "amsreader", "homewizard"),
    *("evcc", "homeassistant-statestream", "esphome", "vzlogger", "sml2mqtt", "mbmd", "tibber"),
    *("wmbusmeters", "rtl_433", "rtlamr", "rtlamr2mqtt", "emonhub", "emonhub-csv", "glow", "senml"),
    *("chirpstack", "chirpstack-v3", "ttn-v3", "zendure", "openems", "iammeter"),
)


class _Profiles(Mapping[str, Profile]):
    """All profiles, in the order in which `discover` tries them."""

    def __getitem__(self, name: str) -> Profile:
        if name not in _NAMES:
            raise KeyError(name)
        return _CODE[name] if name in _CODE else _read_file(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    def __contains__(self, name: object) -> bool:
        return name in _NAMES


@cache
def _read_file(name: str) -> Profile:
    """Read a profile's file, and add the quantities that need code."""
    profile = profile_file.parse((_FOLDER / f"{name}.toml").read_text("utf-8"), name)
    return dataclasses.replace(profile, quantities={**profile.quantities, **shelly.MINUTES.get(name, {})})


PROFILES: Mapping[str, Profile] = _Profiles()
"""Every profile, in the order in which `discover` tries them."""
