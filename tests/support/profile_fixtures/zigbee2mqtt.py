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


def _case(what: str, message: Any, **readings: Any) -> Case:
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    payload = json.dumps(message).encode()
    return Case("zigbee2mqtt", what, f"zigbee2mqtt/{_NAME}", payload, named, (_NAME,))


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
)
