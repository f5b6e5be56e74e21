"""Devices and bridges that publish the home's meter or battery, and LoRaWAN meters: the messages of a day.

The messages are in the formats of the documentation that each profile names, with the fields beside the
number that a device of the family sends.
"""

from collections.abc import Callable
from typing import Any

from tests.support.device import Device, Messages, Moment, bare, bare_power, document, kwh

_EUI = "70b3d5c0ffee4d66"
_V3_TOPIC = f"application/17/device/{_EUI}/event/up"
_TTN_DEVICES = "v3/zaehler@ttn/devices"


def _counter(wh: int) -> float:
    return float(kwh(wh))


def _import_and_export(power_w: int) -> tuple[int, int]:
    return max(power_w, 0), max(-power_w, 0)


def _sml(moment: Moment) -> Messages:
    registers = {"Total_in": _counter(moment.drawn_wh), "Total_out": _counter(moment.fed_wh)}
    section = {"Meter_Number": "0a014c4f5800c0ffee77", "Power_curr": moment.power_w, **registers}
    return document("tele/head/SENSOR", Time="2026-01-01T00:00:00", SML=section)


def _sml_power(moment: Moment) -> Messages:
    section = {"E_in": _counter(moment.drawn_wh), "Watt_Summe": moment.power_w}
    return document("tele/lk13/SENSOR", Time="2026-01-01T00:00:00", LK13BE=section, TempUnit="C")


def _ams_list(moment: Moment, **data: Any) -> Messages:
    realtime = {"h": 0.71, "d": 12.5, "t": 2, "x": 2.81, "he": 0.02, "de": 0.5}
    fields = {"id": "C0:FF:EE:4D:11:77", "name": "ams-4d77", "up": 4711, "t": moment.time_ms // 1000}
    return document("amsleser/home", **fields, vcc=3.291, rssi=-61, temp=21.5, data=data, realtime=realtime)


def _ams(moment: Moment) -> Messages:
    """Write the list of the power alone, and the list of the hour, which has the registers."""
    import_w, export_w = _import_and_export(moment.power_w)
    names = {"lv": "AIDON_V0001", "id": "7359992890941742", "type": "6525"}
    powers = {"P": import_w, "Q": 12, "PO": export_w, "QO": 0, "I1": 2.1, "U1": 231.5}
    registers = {
        "tPI": _counter(moment.drawn_wh),
        "tPO": _counter(moment.fed_wh),
        "tQI": 105.3,
        "tQO": 2811.5,
    }
    hourly = names | powers | registers | {"rtc": moment.time_ms // 1000}
    return [*_ams_list(moment, P=import_w), *_ams_list(moment, **hourly)]


def _ams_power(moment: Moment) -> Messages:
    import_w, export_w = _import_and_export(moment.power_w)
    return document(
        "amsleser/garage/power", lv="AIDON_V0001", id="735999", P=import_w, Q=0, PO=export_w, QO=9
    )


def _wizard(moment: Moment) -> Messages:
    low = moment.drawn_wh // 3
    return document(
        "homewizard/p1/data",
        smr_version=50,
        meter_model="Eigenbau 4D",
        active_tariff=2,
        total_power_import_t1_kwh=_counter(low),
        total_power_import_t2_kwh=_counter(moment.drawn_wh - low),
        total_power_export_t1_kwh=_counter(moment.fed_wh),
        total_power_export_t2_kwh=0,
        active_power_w=moment.power_w,
    )


def _wizard_2(moment: Moment) -> Messages:
    return document(
        "homewizard/v2",
        protocol_version=50,
        timestamp="2026-01-01T00:00:00",
        energy_import_kwh=_counter(moment.drawn_wh),
        energy_export_kwh=_counter(moment.fed_wh),
        power_w=moment.power_w,
    )


def _wizard_socket(moment: Moment) -> Messages:
    return document(
        "homewizard/socket/data",
        wifi_strength=94,
        total_power_import_t1_kwh=_counter(moment.drawn_wh),
        total_power_export_t1_kwh=0,
        active_power_w=moment.power_w,
    )


def _clamps(moment: Moment, name: str) -> Messages:
    """Write both clamps of a meter; the power has no sign, and clamp b measures nothing."""
    return document(
        f"zigbee2mqtt/{name}",
        energy_a=_counter(moment.drawn_wh),
        energy_b=0,
        energy_flow_a="producing" if moment.power_w < 0 else "consuming",
        energy_flow_b="consuming",
        energy_produced_a=_counter(moment.fed_wh),
        energy_produced_b=0,
        linkquality=47,
        power_a=abs(moment.power_w),
        power_ab=moment.power_w,
        power_b=0,
    )


def _tibber(moment: Moment) -> Messages:
    """Write a measurement without the register, and one with it."""
    import_w, export_w = _import_and_export(moment.power_w)
    live = {"timestamp": moment.time, "power": import_w, "accumulatedConsumption": 7.25, "currency": "NOK"}
    registers = {"lastMeterConsumption": _counter(moment.drawn_wh), "powerProduction": export_w}
    short = {**live, "lastMeterConsumption": None, "powerProduction": None}
    return [*document("tibber/home", **short), *document("tibber/home", **live, **registers)]


def _tibber_power(moment: Moment) -> Messages:
    import_w, export_w = _import_and_export(moment.power_w)
    live = {
        "timestamp": moment.time,
        "power": import_w,
        "powerProduction": export_w,
        "accumulatedConsumption": 7.25,
    }
    return document("tibber/cabin", data={"liveMeasurement": live})


def _zendure(moment: Moment) -> Messages:
    """Write a report of what has changed beside the powers, and a report of all."""
    import_w, export_w = _import_and_export(moment.power_w)
    powers = {"gridInputPower": import_w, "outputHomePower": export_w, "solarInputPower": 605}
    stamp = {"timestamp": moment.time_ms // 1000, "messageId": 41, "sn": "HOA1C0FFEE77"}
    topic = "/R3mn8U/HOA1C0FFEE77/properties/report"
    return [
        *document(topic, **stamp, properties={"electricLevel": 78}),
        *document(topic, **stamp, properties={"electricLevel": 78, **powers}),
    ]


def _chirpstack_v3(moment: Moment) -> Messages:
    return document(
        _V3_TOPIC,
        applicationID="17",
        applicationName="zaehler",
        deviceName="gartenweg9",
        devEUI=_EUI,
        rxInfo=[{"gatewayID": "0016c0ffee4d7788", "time": moment.time, "rssi": -61}],
        txInfo={"frequency": 868100000, "dr": 5},
        fCnt=918,
        fPort=2,
        data="AbcDzwE=",
        object={"energy": moment.drawn_wh},
    )


def _ttn(moment: Moment, device: str) -> Messages:
    uplink = {
        "f_port": 2,
        "f_cnt": 918,
        "frm_payload": "AbcDzwE=",
        "decoded_payload": {"energy": moment.drawn_wh, "power": moment.power_w},
        "rx_metadata": [{"gateway_ids": {"gateway_id": "garten-gw"}, "rssi": -61}],
        "received_at": moment.time.replace("Z", ".000000000Z"),
    }
    ids = {"device_id": device, "application_ids": {"application_id": "zaehler"}, "dev_eui": _EUI}
    return document(
        f"{_TTN_DEVICES}/{device}/up", end_device_ids=ids, received_at=moment.time, uplink_message=uplink
    )


def _victron(instance: int, path: str, number: float) -> Messages:
    return document(f"N/c0ffee4d1177/grid/{instance}/Ac/{path}", value=number)


def _power(
    profile: str, topic: str, value: str, write: Callable[[Moment], Messages] | None = None, **keys: Any
) -> Device:
    """Return a device whose power has no time; without a writer, it sends a bare number."""
    return Device(
        profile, topic, value, write or bare_power(topic), kind="power", keys=keys, uses_arrival=True
    )


_CHANNEL = "edge/edge0/channel/_sum"

HOME_DEVICES = (
    Device("tasmota-sml", "tele/head/SENSOR", "import", _sml),
    _power("tasmota-sml", "tele/lk13/SENSOR", "power", _sml_power),
    Device(
        "victron",
        "N/c0ffee4d1177/grid/40/Ac/Energy/Forward",
        "import",
        lambda m: _victron(40, "Energy/Forward", _counter(m.drawn_wh)),
    ),
    _power(
        "victron",
        "N/c0ffee4d1177/grid/41/Ac/Power",
        "power",
        lambda m: _victron(41, "Power", m.power_w),
        dead_band=0,
    ),
    Device("amsreader", "amsleser/home", "import", _ams),
    _power("amsreader", "amsleser/garage/power", "power-net", _ams_power),
    Device("homewizard", "homewizard/p1/data", "import", _wizard),
    Device("homewizard", "homewizard/socket/data", "import-single", _wizard_socket),
    _power("homewizard", "homewizard/v2", "power", _wizard_2, every="1h"),
    Device("evcc", "evcc/site/grid/energy", "energy", bare("evcc/site/grid/energy", is_kilo=True)),
    _power("evcc", "evcc/site/grid/power", "power", every="1h"),
    Device("zigbee2mqtt-flow", "zigbee2mqtt/clamps", "energy-a", lambda m: _clamps(m, "clamps")),
    _power("zigbee2mqtt-flow", "zigbee2mqtt/feed", "power-a", lambda m: _clamps(m, "feed"), dead_band=0),
    Device(
        "zigbee2mqtt-attribute",
        "zigbee2mqtt/socket/energy",
        "energy",
        bare("zigbee2mqtt/socket/energy", is_kilo=True),
    ),
    _power("zigbee2mqtt-attribute", "zigbee2mqtt/socket/power", "power", dead_band=0),
    Device("mbmd", "mbmd/sdm1-1/Import", "import", bare("mbmd/sdm1-1/Import", is_kilo=True)),
    _power("mbmd", "mbmd/sdm1-1/Power", "power", every="1h"),
    Device("tibber", "tibber/home", "import", _tibber),
    _power("tibber", "tibber/cabin", "power-net", _tibber_power),
    _power("zendure", "/R3mn8U/HOA1C0FFEE77/properties/report", "power-net", _zendure, every="1h"),
    Device("openems", f"{_CHANNEL}/GridBuyActiveEnergy", "import", bare(f"{_CHANNEL}/GridBuyActiveEnergy")),
    _power("openems", f"{_CHANNEL}/GridActivePower", "power", dead_band=0),
    Device("chirpstack-v3", _V3_TOPIC, "energy", _chirpstack_v3),
    Device("ttn-v3", f"{_TTN_DEVICES}/main/up", "energy", lambda m: _ttn(m, "main")),
    Device("ttn-v3", f"{_TTN_DEVICES}/feed/up", "power", lambda m: _ttn(m, "feed"), kind="power"),
)
"""A device of each of these families whose counter is read, or whose power is."""
