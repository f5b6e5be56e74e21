"""Invented messages of devices and programs that publish the home's meter."""

import json
from typing import Any

from tests.support.profile_contract import Case

_PORTAL, _AMS, _SERIAL, _HOME = (
    "c0ffee4d1177",
    "ams-4d77",
    "3c39e7c0ffee",
    "96a14971-525a-4420-aae9-c0ffee4d4d77",
)
_METER, _ZENDURE, _EDGE = "sdm1-1", "HOA1C0FFEE77", "edge-4d77"
_LIST_1 = {
    "id": "C0:FF:EE:4D:11:77",
    "name": _AMS,
    "up": 4711,
    "t": 1795176009,
    "vcc": 3.291,
    "rssi": -61,
    "temp": 21.5,
    "data": {"P": 1431},
    "realtime": {"h": 0.71, "d": 12.5, "t": 2, "x": 2.81, "he": 0.02, "de": 0.5},
}
_LIST_3: dict[str, Any] = {
    **_LIST_1,
    "data": {
        "lv": "AIDON_V0001",
        "id": "7359992890941742",
        "type": "6525",
        "P": 0,
        "Q": 12,
        "PO": 1218,
        "QO": 0,
        "I1": 2.1,
        "U1": 231.5,
        "tPI": 41331.52,
        "tPO": 1807.25,
        "tQI": 105.3,
        "tQO": 2811.5,
        "rtc": 1795179600,
    },
}
_AMS_IDENTIFIES = (_AMS, "7359992890941742", "C0:FF:EE:4D:11:77")
_P1 = {
    "wifi_ssid": "Gartenweg",
    "wifi_strength": 77,
    "smr_version": 50,
    "meter_model": "Eigenbau 4D",
    "unique_id": "4530303434303037",
    "active_tariff": 2,
    "total_power_import_kwh": 13779.338,
    "total_power_import_t1_kwh": 10830.511,
    "total_power_import_t2_kwh": 2948.827,
    "total_power_export_kwh": 44.75,
    "total_power_export_t1_kwh": 30.25,
    "total_power_export_t2_kwh": 14.5,
    "active_power_w": -543,
    "active_power_l1_w": -676,
    "active_power_l2_w": 133,
    "active_power_average_w": 121,
    "montly_power_peak_w": 1807,
    "total_gas_m3": 2569.646,
}
_V2 = {
    "protocol_version": 50,
    "meter_model": "Eigenbau 4D",
    "unique_id": "4530303434303037",
    "timestamp": "2026-11-20T13:00:08",
    "energy_import_kwh": 13779.338,
    "energy_export_kwh": 44.75,
    "power_w": 1218,
}
_LIVE = {
    "timestamp": "2026-11-20T13:00:08.000+01:00",
    "power": 0,
    "powerProduction": 512,
    "lastMeterConsumption": 31415.926,
    "lastMeterProduction": 271.828,
    "accumulatedConsumption": 7.25,
    "accumulatedProduction": 1.5,
    "accumulatedCost": 2.25,
    "currency": "NOK",
    "voltagePhase1": 231.4,
}
_REPORT = {
    "timestamp": 1795176009,
    "messageId": 41,
    "sn": _ZENDURE,
    "properties": {"electricLevel": 78, "gridInputPower": 12, "outputHomePower": 431, "solarInputPower": 605},
}


def _case(
    profile: str, title: str, topic: str, message: Any, identifies: tuple[str, ...], **readings: Any
) -> Case:
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    return Case(profile, title, topic, payload, named, identifies)


def _victron(title: str, path: str, message: Any, **readings: Any) -> Case:
    return _case("victron", title, f"N/{_PORTAL}/grid/40/Ac/{path}", message, (_PORTAL,), **readings)


def _ams(title: str, topic: str, message: Any, **readings: Any) -> Case:
    return _case("amsreader", title, topic, message, _AMS_IDENTIFIES, **readings)


def _wizard(title: str, message: Any, **readings: Any) -> Case:
    identifies = (_SERIAL, "Gartenweg", "4530303434303037")
    return _case("homewizard", title, f"homewizard/{_SERIAL}/data", message, identifies, **readings)


def _tibber(title: str, message: Any, **readings: Any) -> Case:
    return _case("tibber", title, f"tibber/{_HOME}", message, (_HOME,), **readings)


def _bare(profile: str, topic: str, payload: bytes, name: str, outcome: Any, *identifies: str) -> Case:
    return _case(
        profile,
        f"{topic.rpartition('/')[2]}, {payload.decode()}",
        topic,
        payload,
        identifies,
        **{name: outcome},
    )


CASES = (
    _victron("the power", "Power", {"value": -1218.5}, power=((None, "-1218.5"),)),
    _victron("a phase", "L2/Power", {"value": 431}, power=((None, "431"),)),
    _victron("the register", "Energy/Forward", {"value": 8913.25}, **{"import": ((None, "8913250"),)}),
    _victron("the energy fed in", "Energy/Reverse", {"value": 41.5}, export=((None, "41500"),)),
    _victron("no meter", "Power", {"value": None}, power="refused_missing"),
    _victron("an empty message", "Power", b"", power="refused_empty"),
    _ams(
        "a list of power alone",
        f"amsleser/{_AMS}",
        _LIST_1,
        **{"power": ((None, "1431"),), "power_net": "refused_missing", "import": "other"},
    ),
    _ams(
        "the list of registers",
        f"amsleser/{_AMS}",
        _LIST_3,
        **{
            "power": ((None, "0"),),
            "power_returned": ((None, "1218"),),
            "power_net": ((None, "-1218"),),
            "import": ((None, "41331520"),),
            "export": ((None, "1807250"),),
        },
    ),
    _ams(
        "power in the format of Home Assistant",
        f"amsleser/{_AMS}/power",
        {"lv": "AIDON_V0001", "id": "7359992890941742", "P": 812, "PO": 0, "I1": 3.5},
        **{"power": ((None, "812"),), "power_net": ((None, "812"),), "import": "other"},
    ),
    _ams(
        "registers in the format of Home Assistant",
        f"amsleser/{_AMS}/energy",
        {"tPI": 41331.52, "tPO": 1807.25, "rtc": "2026-11-20T12:00:10Z"},
        **{"power": "other", "import": ((None, "41331520"),), "export": ((None, "1807250"),)},
    ),
    _ams("prices", f"amsleser/{_AMS}", {"id": "C0:FF:EE:4D:11:77", "prices": {"0": 0.31}}, power="other"),
    _wizard(
        "a P1 meter",
        _P1,
        **{"power": ((None, "-543"),), "import": ((None, "13779338"),), "export": ((None, "44750"),)},
    ),
    _wizard(
        "a P1 meter by version 2 of the API",
        _V2,
        **{"power": ((None, "1218"),), "import": ((None, "13779338"),), "export": ((None, "44750"),)},
    ),
    _wizard(
        "a P1 meter without sums of tariffs",
        {name: field for name, field in _P1.items() if not name.endswith("port_kwh")},
        **{"import": ((None, "13779338"),), "export": ((None, "44750"),)},
    ),
    _wizard(
        "a socket with one register",
        {
            "wifi_strength": 92,
            "total_power_import_t1_kwh": 0.101,
            "total_power_export_t1_kwh": 0.523,
            "active_power_w": -900.194,
        },
        **{
            "power": ((None, "-900.194"),),
            "import": "refused_missing",
            "import_single": ((None, "101"),),
            "export_single": ((None, "523"),),
        },
    ),
    _wizard("a water meter", {"total_liter_m3": 123.456, "active_liter_lpm": 7.2}, power="other"),
    _tibber(
        "a measurement",
        _LIVE,
        **{
            "power": ((None, "0"),),
            "power_returned": ((None, "512"),),
            "power_net": ((None, "-512"),),
            "import": ((None, "31415926"),),
            "export": ((None, "271828"),),
        },
    ),
    _tibber(
        "an answer without production",
        {"data": {"liveMeasurement": {**_LIVE, "power": 701, "powerProduction": None}}},
        power=((None, "701"),),
        power_net="refused_missing",
    ),
    _tibber("something else", {"currency": "NOK"}, power="other"),
    _bare("evcc", "evcc/site/grid/power", b"-361.5", "power", ((None, "-361.5"),)),
    _bare("evcc", "evcc/site/grid/energy", b"15030.566", "energy", ((None, "15030566"),)),
    _bare("evcc", "evcc/site/homePower", b"812.75", "home", ((None, "812.75"),)),
    _bare("mbmd", f"mbmd/{_METER}/Power", b"-1218.50", "power", ((None, "-1218.5"),), _METER),
    _bare("mbmd", f"mbmd/{_METER}/Import", b"8913.250", "import", ((None, "8913250"),), _METER),
    _bare("mbmd", f"mbmd/{_METER}/Export", b"41.5", "export", ((None, "41500"),), _METER),
    _bare(
        "openems", f"edge/{_EDGE}/channel/_sum/GridActivePower", b"-431", "power", ((None, "-431"),), _EDGE
    ),
    _bare(
        "openems",
        f"edge/{_EDGE}/channel/_sum/GridBuyActiveEnergy",
        b"8913250",
        "import",
        ((None, "8913250"),),
        _EDGE,
    ),
    _bare(
        "openems",
        f"edge/{_EDGE}/channel/_sum/GridSellActiveEnergy",
        b"41500",
        "export",
        ((None, "41500"),),
        _EDGE,
    ),
    _bare("openems", f"edge/{_EDGE}/channel/_sum/GridActivePower", b"null", "power", "refused_type", _EDGE),
    _case(
        "zendure",
        "a report",
        f"zendure/{_ZENDURE}/properties/report",
        _REPORT,
        (_ZENDURE,),
        power=((None, "12"),),
        power_returned=((None, "431"),),
        power_net=((None, "-419"),),
    ),
    _case(
        "zendure",
        "a report of what has changed, on the device's own topic",
        f"/R3mn8U/{_ZENDURE}/properties/report",
        {"timestamp": 1795176009, "messageId": 42, "properties": {"packNum": 2}, "packData": [{"sn": "C1"}]},
        (_ZENDURE,),
        power="other",
        power_returned="other",
        power_net="other",
    ),
    _bare(
        "zendure", f"Zendure/sensor/{_ZENDURE}/gridInputPower", b"12", "power_in", ((None, "12"),), _ZENDURE
    ),
    _bare(
        "zendure",
        f"Zendure/sensor/{_ZENDURE}/outputHomePower",
        b"431",
        "power_out",
        ((None, "431"),),
        _ZENDURE,
    ),
)
