"""Invented messages of Glow, ChirpStack, IAMMETER and devices that send SenML."""

import json
from typing import Any

from meteragent.domain.units import Kind
from tests.support.profile_contract import Case

_MAC, _MPAN, _EUI, _SERIAL = "C0FFEE4D5599", "2711828182845", "70b3d5c0ffee4d66", "C0FFEE77"
_GLOW_MS, _NOON_MS = 1795176008000, 1795176000123
_GLOW = {
    "electricitymeter": {
        "timestamp": "2026-11-20T12:00:08Z",
        "energy": {
            "export": {"cumulative": 14.142, "units": "kWh"},
            "import": {
                "cumulative": 9182.736,
                "day": 4.321,
                "week": 43.217,
                "month": 211.077,
                "units": "kWh",
                "mpan": _MPAN,
                "supplier": "Gartenstrom",
                "price": {"unitrate": 0.2468, "standingcharge": 0.5432},
            },
        },
        "power": {"value": 0.613, "units": "kW"},
    }
}
_GAS = {
    "gasmeter": {
        "timestamp": "2026-11-20T12:00:08Z",
        "energy": {"import": {"cumulative": 511.3, "units": "kWh"}},
        "power": {"value": 0.2, "units": "kW"},
    }
}
_UPLINK = {
    "deduplicationId": "3a1f6f9c-1c55-4a1e-9e51-7c0ffee4d001",
    "time": "2026-11-20T12:00:00.123456789+00:00",
    "deviceInfo": {"deviceName": "Gartenweg9", "devEui": _EUI, "tags": {}},
    "fCnt": 918,
    "data": "AbcDzwE=",
    "object": {"power": 417.25, "energy": 31415.926, "meter": {"total-energy": 31.4}},
    "rxInfo": [{"gatewayId": "0016c0ffee4d7788", "location": {"latitude": 52.1234, "longitude": 4.4321}}],
}
_ROWS = [
    [231.7, 2.61, 604.5, 1834.207, 0.44, 49.99, 0.91],
    [230.9, 0.41, 61.75, 402.911, 0.02, 49.99, 0.65],
    [232.2, 5.11, -1180.5, 1277.846, 981.205, 49.99, 0.99],
]
_TOTAL = [231.6, 0, -514.25, 3514.964, 981.665, 49.99, 0.9]


def _glow(title: str, fields: dict[str, Any], **readings: Any) -> Case:
    topic = f"glow/{_MAC}/SENSOR/electricitymeter"
    return Case("glow", title, topic, json.dumps(fields).encode(), readings, (_MAC, _MPAN, "Gartenstrom"))


def _iammeter(title: str, readings: dict[str, Any], **rows: Any) -> Case:
    head = {"method": "uploadsn", "mac": "C0FFEE4D8811", "version": "1.75", "server": "em", "SN": _SERIAL}
    payload = json.dumps({**head, **rows}).encode()
    return Case("iammeter", title, f"device/{_SERIAL}/realtime", payload, readings, (_SERIAL, "C0FFEE4D8811"))


def _chirpstack(title: str, fields: dict[str, Any], readings: dict[str, Any], **options: Any) -> Case:
    topic = f"application/1/device/{_EUI}/event/up"
    identifies = (_EUI, "Gartenweg9", "0016c0ffee4d7788")
    return Case("chirpstack", title, topic, json.dumps(fields).encode(), readings, identifies, **options)


def _senml(title: str, pack: list[dict[str, Any]], readings: dict[str, Any], **options: Any) -> Case:
    return Case(
        "senml", title, f"senml/{_SERIAL}", json.dumps(pack).encode(), readings, (_SERIAL,), **options
    )


CASES = (
    _glow(
        "the electricity meter",
        _GLOW,
        **{
            "power": ((_GLOW_MS, "613"),),
            "import": ((_GLOW_MS, "9182736"),),
            "export": ((_GLOW_MS, "14142"),),
        },
    ),
    _glow("the gas meter", _GAS, **{"power": "other", "import": "other"}),
    _glow(
        "another unit",
        {"electricitymeter": {**_GLOW["electricitymeter"], "power": {"value": 613, "units": "W"}}},
        power="refused_unit",
    ),
    _chirpstack(
        "an uplink",
        _UPLINK,
        {"power": ((_NOON_MS, "417.25"),), "object": "refused_missing"},
        unit="W",
        kind=Kind.POWER,
    ),
    _chirpstack(
        "an uplink's registers",
        _UPLINK,
        {"energy": ((_NOON_MS, "31415.926"),), 'meter."total-energy"': ((_NOON_MS, "31.4"),)},
        unit="Wh",
        kind=Kind.REGISTER,
    ),
    _chirpstack(
        "no codec",
        {name: field for name, field in _UPLINK.items() if name != "object"},
        {"power": "refused_missing"},
        unit="W",
    ),
    _iammeter(
        "three phases",
        {
            "power": ((None, "-514.25"),),
            "power-a": ((None, "604.5"),),
            "power-b": ((None, "61.75"),),
            "power-c": ((None, "-1180.5"),),
            "import": ((None, "3514964"),),
            "import-a": ((None, "1834207"),),
            "import-b": ((None, "402911"),),
            "import-c": ((None, "1277846"),),
            "export": ((None, "981665"),),
            "export-a": ((None, "440"),),
            "export-b": ((None, "20"),),
            "export-c": ((None, "981205"),),
        },
        Datas=_ROWS,
    ),
    _iammeter("three phases and their sum", {"power": ((None, "-514.25"),)}, Datas=[*_ROWS, _TOTAL]),
    _iammeter(
        "one phase",
        {"power": ((None, "1044"),), "import": ((None, "1834207"),), "power-b": "refused_missing"},
        Data=[231.7, 4.61, 1044, 1834.207, 0.44],
    ),
    _iammeter(
        "a Solax inverter",
        {"power": "refused_type"},
        Data=[0.8, 0.7, 254.1, 437.7, 2.5, 241.1, 549, 35, 19.7, 10157.7],
    ),
    _senml(
        "power, a register and the voltage",
        [
            {"bn": "urn:dev:mac:c0ffee4d9933:", "n": "power", "u": "W", "v": 1618},
            {"n": "energy", "u": "J", "v": 9000000},
            {"n": "voltage", "u": "V", "v": 231.5},
        ],
        {
            "the only power": ((None, "1618"),),
            "the only register": ((None, "2500"),),
            "the only interval": ((None, "2500"),),
            "the only sum": "other",
            "power": ((None, "1618"),),
            "voltage": "refused_unit",
            "current": "other",
        },
    ),
    _senml(
        "registers by name",
        [
            {"n": "in/energy", "u": "J", "v": 9000000},
            {"n": "out/energy", "u": "J", "v": 3600000},
            {"n": "load", "u": "W", "v": 800.5, "s": 7200000},
        ],
        {
            "in/energy": ((None, "2500"),),
            "out/energy": ((None, "1000"),),
            "load": ((None, "2000"),),
        },
        kind=Kind.REGISTER,
    ),
    _senml(
        "a sum",
        [{"n": "urn:dev:ow:10e2073a:load", "u": "W", "v": 800.5, "s": 7200000}],
        {"the only sum": ((None, "2000"),), "the only power": ((None, "800.5"),)},
    ),
)
