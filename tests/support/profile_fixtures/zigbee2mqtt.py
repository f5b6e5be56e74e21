"""Invented messages of Zigbee2MQTT."""

import json
from typing import Any

from tests.support.profile_contract import Case

_NAME = "0x00124b00c0ffee77"
_PLUG: dict[str, Any] = {
    "child_lock": "UNLOCK",
    "current": 0.44,
    "device": {
        "friendlyName": _NAME,
        "ieeeAddr": _NAME,
        "manufacturerName": "Eigenbau",
        "networkAddress": 51377,
    },
    "energy": 318.47,
    "last_seen": "2026-11-20T12:30:07.113Z",
    "linkquality": 102,
    "power": 83.6,
    "state": "ON",
    "voltage": 229.7,
}


def _case(title: str, message: Any, **readings: Any) -> Case:
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    payload = json.dumps(message).encode()
    return Case("zigbee2mqtt", title, f"zigbee2mqtt/{_NAME}", payload, named, (_NAME,))


_CLAMPS: dict[str, Any] = {
    "ac_frequency": 49.98,
    "energy_a": 4.5,
    "energy_b": 148.31,
    "energy_flow_a": "producing",
    "energy_flow_b": "consuming",
    "energy_produced_a": 2923.33,
    "energy_produced_b": 632.34,
    "linkquality": 47,
    "power_a": 1844.8,
    "power_ab": -1831.5,
    "power_b": 13.3,
    "voltage": 227.8,
}


def _flow(title: str, message: Any, **readings: Any) -> Case:
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    payload = json.dumps(message).encode()
    return Case("zigbee2mqtt-flow", title, f"zigbee2mqtt/{_NAME}", payload, named, (_NAME,))


def _attribute(title: str, name: str, payload: bytes, **readings: Any) -> Case:
    return Case("zigbee2mqtt-attribute", title, f"zigbee2mqtt/{_NAME}/{name}", payload, readings, (_NAME,))


CASES = (
    _case(
        "a plug",
        _PLUG,
        power=((None, "83.6"),),
        power_all="refused_missing",
        energy=((None, "318470"),),
        produced="other",
    ),
    _case(
        "a meter with three phases",
        {
            "power": 411.2,
            "power_phase_b": -87.5,
            "power_phase_c": 1203.9,
            "energy": 7714.31,
            "produced_energy": 1940.06,
            "linkquality": 87,
        },
        power_all=((None, "1527.6"),),
        energy=((None, "7714310"),),
        produced=((None, "1940060"),),
    ),
    _case(
        "a meter of Tuya with three phases, whose power is their sum",
        {
            "power": 1527.6,
            "power_phase_a": 411.2,
            "power_phase_b": -87.5,
            "power_phase_c": 1203.9,
            "energy": 7714.31,
            "linkquality": 87,
        },
        power=((None, "1527.6"),),
    ),
    _case(
        "a negative power of 32 bits that is sent as a positive one",
        {**_PLUG, "power": 429496420},
        power="refused_wrapped",
        energy=((None, "318470"),),
    ),
    _case("not known yet", {**_PLUG, "power": None}, power="refused_missing", energy=((None, "318470"),)),
    _case("something else", {"state": "OFF", "linkquality": 99}, power="other", energy="other"),
    _flow(
        "two clamps, of which one produces",
        _CLAMPS,
        power_a=((None, "-1844.8"),),
        power_b=((None, "13.3"),),
        power_ab=((None, "-1831.5"),),
        energy_a=((None, "4500"),),
        energy_b=((None, "148310"),),
        produced_a=((None, "2923330"),),
        produced_b=((None, "632340"),),
        power="other",
    ),
    _flow(
        "one clamp that consumes",
        {"power": 431.5, "energy_flow": "consuming", "energy": 12.5},
        power=((None, "431.5"),),
        power_a="other",
    ),
    _flow(
        "one clamp that produces",
        {"power": 431.5, "energy_flow": "producing"},
        power=((None, "-431.5"),),
    ),
    _attribute("power on its own topic", "power", b"83.6", power=((None, "83.6"),)),
    _attribute("energy on its own topic", "energy", b"318.47", energy=((None, "318470"),)),
    _attribute("produced on its own topic", "produced_energy", b"1.5", produced=((None, "1500"),)),
    _attribute("no power yet", "power", b"null", power="refused_type"),
)
