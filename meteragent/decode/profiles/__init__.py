"""The profiles of known devices, by name: each is a file, read when it is first requested."""

import dataclasses
import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from meteragent.decode.profile import CodedPart, Profile

_FOLDER = Path(__file__).parent
_MODULES = {
    **dict.fromkeys(("shelly-gen2-switch", "shelly-gen2-pm1"), "shelly"),
    **dict.fromkeys(("dsmr-p1", "dsmr-reader", "dsmr-reader-topics"), "dsmr"),
    **dict.fromkeys(("rtl_433", "rtlamr", "rtlamr2mqtt"), "ert"),
    **dict.fromkeys(("emonhub", "emonhub-csv"), "emonhub"),
    **{name: name for name in ("iammeter", "senml", "vzlogger", "wmbusmeters")},
}
"""The module of each profile that needs one."""
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
        return _read_file(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    def __contains__(self, name: object) -> bool:
        return name in _NAMES


@cache
def _read_file(name: str) -> Profile:
    """Read a profile's file, and add the facts of its module."""
    from meteragent.decode import profile_file  # noqa: PLC0415  an agent without a profile starts faster

    text = (_FOLDER / f"{name}.toml").read_text("utf-8")
    if name not in _MODULES:
        return profile_file.parse_profile(text, name)
    profile = profile_file.parse_profile(text, name, is_coded=True)
    coded: CodedPart = importlib.import_module(f"{__name__}.{_MODULES[name]}").CODED_PARTS[name]
    return dataclasses.replace(
        profile,
        quantities={**profile.quantities, **coded.quantities},
        fields=(*profile.fields, *coded.fields),
        named=coded.named or profile.named,
        needs_id=coded.needs_id,
    )


PROFILES: Mapping[str, Profile] = _Profiles()
"""Every profile, in the order in which `discover` tries them."""
