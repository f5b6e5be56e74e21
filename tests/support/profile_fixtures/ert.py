"""Invented messages of American ERT meters, as rtl_433, rtlamr and rtlamr2mqtt send them."""

import json
from typing import Any

from tests.support.profile_contract import Case

_MINE, _NEIGHBOUR = "51423977", "60718884"
_NOON_MS = 1_795_176_000_000
_COUNTS = [7, 11, 3, 0, 0, 24, *(i * 37 % 50 for i in range(40)), 9]
"""The last 47 intervals, newest first."""
_OFFSET = 4088
"""The age of the newest interval in 1/16 s: 255.5 s."""
_END_MS = _NOON_MS - 255_000
"""The end of the newest interval, 255 s before noon: the half second is rounded up."""
_BLOCK = {"DifferentialConsumptionIntervals": _COUNTS, "TransmitTimeOffset": _OFFSET}


def _intervals(end_ms: int) -> tuple[tuple[int, str], ...]:
    """Return the intervals as readings of 1 Wh for each count, oldest first."""
    placed = [(end_ms - place * 300_000, str(count)) for place, count in enumerate(_COUNTS)]
    return tuple(reversed(placed))


def _rtlamr(type_: str, **fields: Any) -> bytes:
    head = {"Time": "2026-11-20T07:00:00.000416322-05:00", "Offset": 0, "Length": 0, "Type": type_}
    return json.dumps({**head, "Message": fields}, separators=(",", ":")).encode()


def _rtl_433(model: str, **fields: Any) -> bytes:
    return json.dumps({"time": "2026-11-20 07:00:00", "model": model, **fields, "mic": "CRC"}).encode()


def _case(profile: str, topic: str, title: str, payload: bytes, id_: str | None, **readings: Any) -> Case:
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    return Case(profile, title, topic, payload, named, (_MINE, _NEIGHBOUR, "cellar-pi"), id=id_, unit="Wh")


def _heard(title: str, payload: bytes, **readings: Any) -> Case:
    return _case("rtl_433", "rtl_433/cellar-pi/events", title, payload, _MINE, **readings)


def _line(title: str, payload: bytes, **readings: Any) -> Case:
    return _case("rtlamr", f"rtlamr/{_MINE}", title, payload, _MINE, **readings)


CASES = (
    _heard(
        "an SCM",
        _rtl_433("ERT-SCM", id=int(_MINE), ert_type=7, encoder_tamper=0, consumption_data=16777201),
        scm=((None, "16777201"),),
        scm_plus="other",
        intervals="other",
    ),
    _heard(
        "an SCM of a neighbour",
        _rtl_433("ERT-SCM", id=int(_NEIGHBOUR), ert_type=7, encoder_tamper=0, consumption_data=7413),
        scm="refused_meter",
    ),
    _heard(
        "an SCM+",
        _rtl_433(
            "SCMplus",
            id=int(_MINE),
            EndpointID=int(_MINE),
            Consumption=38141,
            EndpointType="0x07",
            MeterType="Electric",
        ),
        scm_plus=((None, "38141"),),
    ),
    _heard(
        "an IDM, its time local",
        _rtl_433(
            "IDM",
            PacketTypeID="0x1C",
            ERTType="0x17",
            ERTSerialNumber=int(_MINE),
            LastConsumptionCount=471131,
            **_BLOCK,
        ),
        idm=((-255_000, "471131"),),
        intervals=_intervals(-255_000),
    ),
    _heard(
        "the same packet read as another kind",
        _rtl_433("NETIDM", ERTSerialNumber=int(_MINE), LastConsumptionCount=11, **_BLOCK),
        idm="other",
    ),
    _heard(
        "an SCM+ of gas, in words and in its type",
        _rtl_433("SCMplus", id=int(_MINE), EndpointType="0xBC", Consumption=38141, MeterType="Gas"),
        scm_plus="other",
    ),
    _heard("a thermometer", _rtl_433("Acurite-Tower", id=12042, temperature_C=21.3), scm="other"),
    _line(
        "an SCM",
        _rtlamr("SCM", ID=int(_MINE), Type=7, TamperPhy=0, TamperEnc=1, Consumption=471160, ChecksumVal=9),
        scm=((_NOON_MS, "471160"),),
        idm="other",
    ),
    _line(
        "an SCM+",
        _rtlamr("SCM+", EndpointType=7, EndpointID=int(_MINE), Consumption=38141, Tamper=18688),
        scm_plus=((_NOON_MS, "38141"),),
    ),
    _line(
        "an IDM",
        _rtlamr(
            "IDM",
            PacketTypeID=28,
            ERTType=7,
            ERTSerialNumber=int(_MINE),
            TamperCounters="CwIAZw8A",
            LastConsumptionCount=471131,
            **_BLOCK,
        ),
        idm=((_END_MS, "471131"),),
        intervals=_intervals(_END_MS),
    ),
    _line(
        "an id with leading zeros",
        _rtlamr("SCM", ID=77, Type=7, Consumption=471160).replace(b":77", b":00000077"),
        scm="refused_json",
    ),
    _case(
        "rtlamr2mqtt",
        f"rtlamr/{_MINE}/state",
        "a register",
        b'{"reading": 471160, "lastseen": "2026-11-20T07:00:00-05:00"}',
        None,
        reading=((_NOON_MS, "471160"),),
    ),
    _case(
        "rtlamr2mqtt",
        f"rtlamr/{_MINE}/attributes",
        "an IDM's attributes",
        json.dumps(
            {"PacketTypeID": 28, "ERTType": 7, "PowerOutageFlags": "AAAAAAAA", **_BLOCK, "protocol": "idm"}
        ).encode(),
        None,
        intervals=_intervals(-255_000),
    ),
)
