"""Invented uplinks of LoRaWAN meters behind network servers that name their fields otherwise."""

import json
from typing import Any

from meteragent.domain.units import Kind
from tests.support.profile_contract import Case

_EUI, _DEVICE, _NOON_MS = "70b3d5c0ffee4d66", "gartenweg9", 1795176000123
_V3 = {
    "applicationID": "17",
    "applicationName": "zaehler",
    "deviceName": _DEVICE,
    "devEUI": _EUI,
    "rxInfo": [{"gatewayID": "0016c0ffee4d7788", "time": "2026-11-20T12:00:00Z", "rssi": -61}],
    "txInfo": {"frequency": 868100000, "dr": 5},
    "fCnt": 918,
    "fPort": 2,
    "data": "AbcDzwE=",
    "object": {"power": 417.25, "energy": 31415.926, "meter": {"total": 31.4}},
}
_TTN = {
    "end_device_ids": {
        "device_id": _DEVICE,
        "application_ids": {"application_id": "zaehler"},
        "dev_eui": _EUI,
    },
    "received_at": "2026-11-20T12:00:00.456789012Z",
    "uplink_message": {
        "f_port": 2,
        "f_cnt": 918,
        "frm_payload": "AbcDzwE=",
        "decoded_payload": {"power": 417.25, "energy": 31415.926, "meter": {"total": 31.4}},
        "rx_metadata": [{"gateway_ids": {"gateway_id": "garten-gw"}, "rssi": -61}],
        "received_at": "2026-11-20T12:00:00.123456789Z",
    },
}
_OWN: dict[str, dict[str, Any]] = {
    "power": {"unit": "W", "kind": Kind.POWER},
    "register": {"unit": "Wh", "kind": Kind.REGISTER},
}


def _case(profile: str, title: str, message: Any, kind: str, **readings: Any) -> Case:
    place = "application/17/device" if profile == "chirpstack-v3" else "v3/zaehler@ttn/devices"
    topic = f"{place}/{_EUI}/event/up" if profile == "chirpstack-v3" else f"{place}/{_DEVICE}/up"
    identifies = (_EUI, _DEVICE)
    return Case(profile, title, topic, json.dumps(message).encode(), readings, identifies, **_OWN[kind])


def _without(message: Any, name: str) -> dict[str, Any]:
    return {key: field for key, field in message.items() if key != name}


CASES = (
    _case("chirpstack-v3", "an uplink", _V3, "power", power=((None, "417.25"),)),
    _case(
        "chirpstack-v3",
        "an uplink's registers",
        _V3,
        "register",
        **{"energy": ((None, "31415.926"),), "meter.total": ((None, "31.4"),)},
    ),
    _case("chirpstack-v3", "no codec", _without(_V3, "object"), "power", power="refused_missing"),
    _case("ttn-v3", "an uplink", _TTN, "power", power=((_NOON_MS, "417.25"),)),
    _case(
        "ttn-v3",
        "an uplink's registers",
        _TTN,
        "register",
        **{"energy": ((_NOON_MS, "31415.926"),), "meter.total": ((_NOON_MS, "31.4"),)},
    ),
    _case(
        "ttn-v3",
        "no payload formatter",
        {**_TTN, "uplink_message": _without(_TTN["uplink_message"], "decoded_payload")},
        "power",
        power="refused_missing",
    ),
    _case(
        "ttn-v3", "a join", {"end_device_ids": {"dev_eui": _EUI}, "join_accept": {}}, "power", power="other"
    ),
)
