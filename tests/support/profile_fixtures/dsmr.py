"""Invented P1 telegrams, and the messages that dsmr-reader publishes from them."""

import json
from typing import Any

from tests.support.profile_contract import Case

_SERIALS = (
    "4530303034303031373530323838316A",
    "4730303339303031373530323838316B",
    "3153414733313030303335303832317C",
    "8711000011223344",
    "48616C6C6F2042757572",
)


def _crc(data: bytes) -> int:
    """Return the checksum of a telegram, bit by bit as the standard defines it."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def telegram(header: str, *lines: str, has_checksum: bool = True) -> bytes:
    """Return a telegram with its checksum."""
    body = ("\r\n".join([f"/{header}", "", *lines]) + "\r\n!").encode()
    return body + (f"{_crc(body):04X}\r\n".encode() if has_checksum else b"\r\n")


_V2 = (
    f"0-0:96.1.1({_SERIALS[0]})",
    "1-0:1.8.1(04217.553*kWh)",
    "1-0:1.8.2(03908.114*kWh)",
    "1-0:2.8.1(00122.001*kWh)",
    "1-0:2.8.2(00310.447*kWh)",
    "0-0:96.14.0(0002)",
    "1-0:1.7.0(0001.34*kW)",
    "1-0:2.7.0(0000.00*kW)",
    "0-0:17.0.0(0999.00*kW)",
    "0-0:96.3.10(1)",
    "0-0:96.13.1()",
    f"0-0:96.13.0({_SERIALS[4]})",
    "0-1:24.1.0(3)",
    f"0-1:96.1.0({_SERIALS[1]})",
    "0-1:24.3.0(261120110000)(00)(60)(1)(0-1:24.2.1)(m3)",
    "(01744.219)",
)
_PEAKS = (
    "0-0:98.1.0(3)(1-0:1.6.0)(1-0:1.6.0)(260501000000S)(260412181500S)(06.134*kW)"
    "(260601000000S)(260523201500S)(05.933*kW)(260701000000S)(260609193000S)(05.514*kW)"
)
_V5 = (
    "1-3:0.2.8(50)",
    "0-0:1.0.0(261120133007W)",
    f"0-0:96.1.1({_SERIALS[0]})",
    "1-0:1.8.1(005317.408*kWh)",
    "1-0:1.8.2(006201.937*kWh)",
    "1-0:2.8.1(000871.226*kWh)",
    "1-0:2.8.2(002045.118*kWh)",
    "0-0:96.14.0(0002)",
    "1-0:1.7.0(00.417*kW)",
    "1-0:2.7.0(01.206*kW)",
    "1-0:99.97.0(1)(0-0:96.7.19)(260214031522W)(0000004122*s)",
    "1-0:32.7.0(231.4*V)",
    "1-0:31.7.0(003*A)",
    "1-0:21.7.0(00.417*kW)",
    "1-0:22.7.0(00.000*kW)",
    f"0-1:96.1.0({_SERIALS[1]})",
    "0-1:24.2.1(261120133000W)(02511.874*m3)",
)
_BELGIUM = (
    "0-0:96.1.4(50217)",
    f"0-0:96.1.1({_SERIALS[2]})",
    "0-0:1.0.0(260704184512S)",
    "1-0:1.8.1(000611.774*kWh)",
    "1-0:1.8.2(000402.981*kWh)",
    "1-0:2.8.1(001377.065*kWh)",
    "1-0:2.8.2(000418.342*kWh)",
    "1-0:1.4.0(00.131*kW)",
    "1-0:1.6.0(260703193000S)(05.872*kW)",
    _PEAKS,
    "1-0:1.7.0(00.058*kW)",
    "1-0:2.7.0(00.000*kW)",
    f"0-1:96.1.1({_SERIALS[1]})",
)
_HUNGARY = (
    "0-0:1.0.0(261120133010W)",
    "0-0:42.0.0(AUX8711000011223344)",
    f"0-0:96.1.0({_SERIALS[3]})",
    "1-0:1.8.0(004411.228*kWh)",
    "1-0:1.8.1(003011.115*kWh)",
    "1-0:1.8.2(001400.113*kWh)",
    "1-0:1.8.3(000000.000*kWh)",
    "1-0:2.8.0(000092.871*kWh)",
    "1-0:2.8.1(000092.871*kWh)",
    "1-0:2.8.2(000000.000*kWh)",
    "1-0:1.7.0(00.344*kW)",
    "1-0:2.7.0(00.000*kW)",
    "0-0:98.1.0(261101000000W)(004217.004*kWh)(00012.345*kvarh)",
)
_AUSTRIA = (
    "0-0:96.1.0(1KFM0200000000)",
    "0-0:1.0.0(261120133007W)",
    "1-0:1.8.0(002484519*Wh)",
    "1-0:1.8.1(002000000*Wh)",
    "1-0:1.8.2(000484519*Wh)",
    "1-0:1.7.0(000334*W)",
    "1-0:2.8.0(000000057*Wh)",
    "1-0:2.7.0(000000*W)",
    "1-0:3.8.0(000000812*varh)",
)
_D0 = (
    "1-0:0.0.0*255(1ESY1004000000)",
    "1-0:1.8.0*255(00125.2568857*kWh)",
    "1-0:1.8.0*01(00117.1000000*kWh)",
    "1-0:2.8.0*255(00006.0030000*kWh)",
    "1-0:16.7.0*255(-000259.20*W)",
    "1-0:96.5.0*255(001C0104)",
    "0-0:96.1.255*255(1ESY1004000000)",
)
_HAGER = (
    "1-0:0.0.0*255(1095110000000000)",
    "1-0:1.8.0*255(000412.1736*kWh)",
    "1-0:96.5.5*255(82)",
    "0-0:96.1.255*255(0000000000)",
    "1-0:1.7.255*255(000481*W)",
)
_VALUES = (
    rb"1-0:[12]\.8\.[012](?:\*255)?\(([0-9.]+)",
    rb"1-0:(?:[12]|16)\.7\.(?:0|255)(?:\*255)?\((-?[0-9.]+)",
)
_NOW = 1795177807000
_JSON: dict[str, Any] = {
    "id": 48213377,
    "timestamp": "2026-11-20T12:30:07Z",
    "electricity_delivered_1": "5317.408",
    "electricity_returned_1": "871.226",
    "electricity_delivered_2": "6201.937",
    "electricity_returned_2": "2045.118",
    "electricity_currently_delivered": "0.417",
    "electricity_currently_returned": "1.206",
    "phase_currently_delivered_l1": "0.417",
    "extra_device_timestamp": "2026-11-20T12:30:00Z",
    "extra_device_delivered": "2511.874",
    "phase_voltage_l1": 231,
}
_READ = {
    "power": ((_NOW, "417"),),
    "power-returned": ((_NOW, "1206"),),
    "power-net": ((_NOW, "-789"),),
    "import": ((_NOW, "11519345"),),
    "export": ((_NOW, "2916344"),),
}


def _p1(title: str, payload: bytes, **readings: Any) -> Case:
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    return Case("dsmr-p1", title, "dsmr/raw", payload, named, _SERIALS, _VALUES)


def _all(name: str) -> dict[str, str]:
    return dict.fromkeys(_READ, name)


_TELEGRAM = telegram("XMX5LGBBFG1009325446", *_V5)

CASES = (
    _p1("DSMR 5", _TELEGRAM, **_READ),
    _p1("DSMR 5, its line ends changed on the way", _TELEGRAM.replace(b"\r\n", b"\n"), **_READ),
    _p1(
        "DSMR 5, a digit changed on the way",
        _TELEGRAM.replace(b"0.417", b"0.418"),
        **_all("refused_checksum"),
    ),
    _p1(
        "DSMR 5 without its sum",
        telegram("XMX5LGBBFG1009325446", *_V5, has_checksum=False),
        **_all("refused_checksum"),
    ),
    _p1("DSMR 5 without its end", _TELEGRAM.partition(b"!")[0], **_all("refused_checksum")),
    _p1(
        "DSMR 2.2, which has neither sum nor time",
        telegram("KMP5 KA6U001585575011", *_V2, has_checksum=False),
        power=((None, "1340"),),
        power_returned=((None, "0"),),
        power_net=((None, "1340"),),
        **{"import": ((None, "8125667"),), "export": ((None, "432448"),)},
    ),
    _p1(
        "Fluvius, with its months of peaks, in summer",
        telegram("FLU5\\253770234_A", *_BELGIUM),
        power=((1783183512000, "58"),),
        power_net=((1783183512000, "58"),),
        **{"import": ((1783183512000, "1014755"),), "export": ((1783183512000, "1795407"),)},
    ),
    _p1(
        "EON Hungary, with a register of all tariffs",
        telegram("SAX5TAH1234567890AB", *_HUNGARY),
        power=((1795177810000, "344"),),
        **{"import": ((1795177810000, "4411228"),), "export": ((1795177810000, "92871"),)},
    ),
    _p1(
        "only one tariff",
        telegram("XMX5LGBBFG1009325446", *[line for line in _V5 if ":1.8.2" not in line]),
        power=((_NOW, "417"),),
        **{"import": "refused_missing", "export": ((_NOW, "2916344"),)},
    ),
    _p1(
        "another unit",
        telegram("XMX5LGBBFG1009325446", *[line.replace("kW)", "kVA)") for line in _V5]),
        power="refused_unit",
    ),
    _p1(
        "a register of another unit",
        telegram("XMX5LGBBFG1009325446", *[line.replace("kWh)", "kvarh)") for line in _V5]),
        **{"power": ((_NOW, "417"),), "import": "refused_unit"},
    ),
    _p1(
        "a month that is none",
        telegram("XMX5LGBBFG1009325446", *[line.replace("261120133007W", "261320133007W") for line in _V5]),
        power="refused_time",
    ),
    _p1(
        "Austria, in W and Wh",
        telegram("KFM5KAIFA-METER", *_AUSTRIA),
        power=((_NOW, "334"),),
        power_returned=((_NOW, "0"),),
        power_net=((_NOW, "334"),),
        **{"import": ((_NOW, "2484519"),), "export": ((_NOW, "57"),)},
    ),
    _p1(
        "kW that lost its k",
        telegram("XMX5LGBBFG1009325446", *[line.replace("kW", "W") for line in _V5]),
        power="refused_unit",
        **{"import": "refused_unit"},
    ),
    _p1(
        "a D0 readout with both directions and values of the past",
        telegram("ESY5Q3DA1004 V3.04", *_D0, has_checksum=False),
        power_net=((None, "-259.2"),),
        **{"import": ((None, "125256.8857"),), "export": ((None, "6003"),)},
    ),
    _p1(
        "a D0 readout of a Hager meter",
        telegram("HAG5eHZ010C_EHZ1WA02", *_HAGER, has_checksum=False),
        power=((None, "481"),),
        power_net="refused_missing",
        **{"import": ((None, "412173.6"),), "export": "refused_missing"},
    ),
    _p1("JSON", b'{"timestamp": "2026-11-20T12:30:07Z"}', power="refused_type"),
    Case("dsmr-reader", "a telegram", "dsmr/json", json.dumps(_JSON).encode(), _READ, time=("timestamp",)),
    Case(
        "dsmr-reader",
        "a telegram with numbers, in local time",
        "dsmr/json",
        json.dumps(
            {
                **_JSON,
                "timestamp": "2026-11-20T13:30:07+01:00",
                "electricity_currently_delivered": 0.417,
                "electricity_currently_returned": 0,
            }
        ).encode(),
        {"power": ((_NOW, "417"),), "power-returned": ((_NOW, "0"),), "import": _READ["import"]},
        time=("timestamp",),
    ),
    Case(
        "dsmr-reader",
        "a telegram of a mapping without the time",
        "dsmr/json",
        json.dumps({name: value for name, value in _JSON.items() if "timestamp" not in name}).encode(),
        {name: ((None, readings[0][1]),) for name, readings in _READ.items()},
    ),
    Case(
        "dsmr-reader",
        "a meter that has just one tariff's register",
        "dsmr/json",
        json.dumps({**_JSON, "electricity_delivered_2": None}).encode(),
        {"import": "refused_missing", "power": _READ["power"]},
        time=("timestamp",),
    ),
    Case(
        "dsmr-reader-topics",
        "power",
        "dsmr/reading/electricity_currently_delivered",
        b"0.417",
        {"power": ((None, "417"),)},
    ),
    Case(
        "dsmr-reader-topics",
        "a tariff's register, which is summed with the other by its topic",
        "dsmr/reading/electricity_delivered_2",
        b"6201.937",
        {"register": ((None, "6201937"),)},
    ),
    Case(
        "dsmr-reader-topics",
        "nothing",
        "dsmr/reading/electricity_delivered_2",
        b"None",
        {"register": "refused_type"},
    ),
)
