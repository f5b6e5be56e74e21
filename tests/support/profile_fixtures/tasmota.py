"""Invented messages of Tasmota."""

import json
from typing import Any

from tests.support.profile_contract import Case

_NAME = "tasmota_4D7731"
_ENERGY: dict[str, Any] = {
    "TotalStartTime": "2024-02-11T09:14:55",
    "Total": 1431.772,
    "Yesterday": 4.881,
    "Today": 2.306,
    "Period": 14,
    "Power": 173,
    "ApparentPower": 209,
    "ReactivePower": 117,
    "Factor": 0.83,
    "Voltage": 231,
    "Current": 0.904,
}


def _sensor(**sections: Any) -> bytes:
    return json.dumps({"Time": "2026-11-20T13:30:00", **sections, "TempUnit": "C"}).encode()


def _plug(title: str, payload: bytes, **readings: Any) -> Case:
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    return Case("tasmota", title, f"tele/{_NAME}/SENSOR", payload, named, (_NAME,))


def _head(title: str, payload: bytes, **readings: Any) -> Case:
    return Case(
        "tasmota-sml", title, f"tele/{_NAME}/SENSOR", payload, readings, (_NAME, "0a014c4f5800c0ffee77")
    )


def _linky(title: str, frame: Any, **readings: Any) -> Case:
    payload = _sensor(TIC=frame, ENERGY={"Power": 745, "Total": 48112.345})
    return Case("tasmota-teleinfo", title, f"tele/{_NAME}/SENSOR", payload, readings, (_NAME, "041288113377"))


_BASE = {
    "ADCO": "041288113377",
    "OPTARIF": "BASE",
    "ISOUSC": "45",
    "BASE": "048112345",
    "PTEC": "TH..",
    "IINST": "003",
    "IMAX": "090",
    "PAPP": "00745",
    "HHPHC": "A",
    "MOTDETAT": "000000",
}
_TEMPO = {
    "ADCO": "041288113377",
    "OPTARIF": "BBR(",
    "BBRHCJB": "011223345",
    "BBRHPJB": "022110987",
    "BBRHCJW": "003311224",
    "BBRHPJW": "004400551",
    "BBRHCJR": "001177883",
    "BBRHPJR": "000009001",
    "PTEC": "HPJB",
    "PAPP": "01250",
}
_STANDARD = {
    "ADSC": "041288113377",
    "PRM": "19402877113355",
    "NGTF": "      BASE      ",
    "EAST": "048112345",
    "EASF01": "030100221",
    "EASF02": "018012124",
    "EAIT": "001904771",
    "SINSTS": "00745",
    "SINSTI": "00000",
}

CASES = (
    _plug(
        "a plug",
        _sensor(ENERGY=_ENERGY),
        power=((None, "173"),),
        power_1=((None, "173"),),
        power_2="refused_missing",
        total=((None, "1431772"),),
        export="refused_missing",
    ),
    _plug(
        "two channels",
        _sensor(ENERGY={**_ENERGY, "Power": [173.4, 58.25], "Total": [1431.772, 211.09]}),
        power=((None, "231.65"),),
        power_1=((None, "173.4"),),
        power_2=((None, "58.25"),),
        power_3="refused_missing",
        total=((None, "1642862"),),
    ),
    _plug(
        "three phases that feed in",
        _sensor(ENERGY={**_ENERGY, "Power": [120, -640, 77], "ExportActive": [0.004, 318.117, 2.9]}),
        power=((None, "-443"),),
        power_3=((None, "77"),),
        export=((None, "321021"),),
    ),
    _plug(
        "another sensor",
        _sensor(AM2301={"Temperature": 21.4, "Humidity": 48.2}),
        power="other",
        total="other",
    ),
    _plug("no channel", _sensor(ENERGY={**_ENERGY, "Power": []}), power="refused_missing"),
    _plug(
        "null",
        _sensor(ENERGY={**_ENERGY, "Power": None}),
        power="refused_missing",
        total=((None, "1431772"),),
    ),
    _plug("after EnergyTotal 0", _sensor(ENERGY={**_ENERGY, "Total": 0}), total=((None, "0"),)),
    _linky("one tariff", _BASE, total=((None, "48112345"),), export="other"),
    _linky(
        "two tariffs",
        {**{k: v for k, v in _BASE.items() if k != "BASE"}, "HCHC": "012345678", "HCHP": "034567891"},
        total=((None, "46913569"),),
    ),
    _linky("six tariffs", _TEMPO, total=((None, "42232991"),)),
    _linky("standard mode", _STANDARD, total=((None, "48112345"),), export=((None, "1904771"),)),
    _linky("a frame of what changed", {"PAPP": "00760", "IINST": "003"}, total="other"),
    _linky("one tariff of two", {"ADCO": "041288113377", "HCHP": "034567891"}, total="refused_missing"),
    _head(
        "a reading head with the usual names",
        _sensor(SML={"Total_in": 7712.4531, "Total_out": 12.3, "Power_curr": -431.5}),
        **{
            "power": ((None, "-431.5"),),
            "import": ((None, "7712453.1"),),
            "export": ((None, "12300"),),
        },
    ),
    _head(
        "a section without a name, beside another sensor",
        _sensor(**{"": {"Total_in": 2173.5, "Power_curr": -136.39}, "AM2301": {"Temperature": 21.4}}),
        **{"power": ((None, "-136.39"),), "import": ((None, "2173500"),), "export": "other"},
    ),
    _head(
        "the names of another script",
        _sensor(
            LK13BE={"E_in": 31415.926, "E_out": 2.7, "Watt_Summe": 218, "Server_id": "0a014c4f5800c0ffee77"}
        ),
        **{
            "power": ((None, "218"),),
            "import": ((None, "31415926"),),
            "export": ((None, "2700"),),
        },
    ),
    _head(
        "the names of a script that sends the power at once",
        _sensor(SML={"Power": 318, "ImportActive": 5772.156, "ExportActive": 142.857}),
        **{"power": ((None, "318"),), "import": ((None, "5772156"),), "export": ((None, "142857"),)},
    ),
    _head("a script's current power", _sensor(SML={"curr_w": 507}), power=((None, "507"),)),
    _head("a power without a number", _sensor(SML={"Power_curr": None}), power="refused_missing"),
)
