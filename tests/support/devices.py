"""Devices of each family that send what their own counter says: the messages of a home's day."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.support.device import Device, Messages, Moment, bare, document, kwh
from tests.support.home_devices import HOME_DEVICES
from tests.support.profile_fixtures.dsmr import telegram


def _notify(device: str, moment: Moment, component: str, **fields: Any) -> Messages:
    params = {"ts": moment.time_ms / 1000, component: {"id": 0, **fields}}
    return document(
        f"{device}/events/rpc", src=device, dst=f"{device}/events", method="NotifyStatus", params=params
    )


def _switch(device: str, component: str) -> Callable[[Moment], Messages]:
    """Make the writer of a switch, whose aenergy counts both directions."""

    def write(moment: Moment) -> Messages:
        """Write the status of the component."""
        energy, returned = {"total": moment.drawn_wh + moment.fed_wh}, {"total": moment.fed_wh}
        return _notify(device, moment, component, apower=moment.power_w, aenergy=energy, ret_aenergy=returned)

    return write


def _p1(hours: int, *, units: str = "kWh") -> Callable[[Moment], Messages]:
    """Make the writer of telegrams in winter time, so many hours ahead of UTC."""

    def write(moment: Moment) -> Messages:
        """Write a telegram whose two tariffs share the register."""
        local = datetime.fromtimestamp(moment.time_ms // 1000, UTC) + timedelta(hours=hours)
        low, high = moment.drawn_wh // 3, moment.drawn_wh - moment.drawn_wh // 3
        import_w, export_w = max(moment.power_w, 0), max(-moment.power_w, 0)
        lines = [f"0-0:1.0.0({local:%y%m%d%H%M%S}W)"]
        if units == "kWh":
            lines += [f"1-0:1.8.1({kwh(low)}*kWh)", f"1-0:1.8.2({kwh(high)}*kWh)"]
            lines += [f"1-0:2.8.1({kwh(moment.fed_wh)}*kWh)", "1-0:2.8.2(000000.000*kWh)"]
            lines += [f"1-0:1.7.0({kwh(import_w)}*kW)", f"1-0:2.7.0({kwh(export_w)}*kW)"]
        else:
            lines += [f"1-0:1.8.0({moment.drawn_wh:09d}*Wh)", f"1-0:1.7.0({import_w:09d}*W)"]
        return [(f"p1/{hours}/{units}", telegram("ISK5\\2M550T-1012", *lines))]

    return write


def _d0(moment: Moment) -> Messages:
    lines = [f"1-0:1.8.0*255({kwh(moment.drawn_wh)}*kWh)", f"1-0:16.7.0*255({moment.power_w}.00*W)"]
    return [("d0/raw", telegram("ESY5Q3DA1004 V3.04", *lines, has_checksum=False))]


def _dsmr_reader(moment: Moment) -> Messages:
    low = moment.drawn_wh // 3
    return document(
        "dsmr/json",
        timestamp=moment.time,
        electricity_delivered_1=kwh(low),
        electricity_delivered_2=kwh(moment.drawn_wh - low),
        electricity_currently_delivered=kwh(max(moment.power_w, 0)),
        electricity_currently_returned=kwh(max(-moment.power_w, 0)),
    )


def _phases(topic: str, names: tuple[str, str], *, is_kilo: bool) -> Callable[[Moment], Messages]:
    """Make the writer of two topics that share the counter."""

    def write(moment: Moment) -> Messages:
        """Write both."""
        low = moment.drawn_wh // 3
        numbers = (low, moment.drawn_wh - low)
        return [
            (topic.replace("{phase}", name), (kwh(wh) if is_kilo else str(wh)).encode())
            for name, wh in zip(names, numbers, strict=True)
        ]

    return write


def _tasmota(moment: Moment) -> Messages:
    energy = {"Total": float(kwh(moment.drawn_wh)), "Today": 0.1, "Power": moment.power_w}
    return document("tele/plug/SENSOR", Time="2026-01-01T00:00:00", ENERGY=energy)


def _teleinfo(moment: Moment) -> Messages:
    low = moment.drawn_wh // 3
    frame = {"ADCO": "021528000001", "OPTARIF": "HC..", "HCHC": f"{low:09d}", "PAPP": "00610"}
    frame["HCHP"] = f"{moment.drawn_wh - low:09d}"
    return document("tele/tic/SENSOR", Time="2026-01-01T00:00:00", TIC=frame)


def _ert(moment: Moment) -> int:
    return moment.drawn_wh // 10


_ID = 51423977
_SERVER = "0a014c4f5800c0ffee77"

DEVICES = (
    Device(
        "shelly-gen2-em",
        "em/events/rpc",
        "import",
        lambda m: _notify("em", m, "emdata:0", total_act=m.drawn_wh, total_act_ret=m.fed_wh),
    ),
    Device(
        "shelly-gen2-em",
        "net/events/rpc",
        "power",
        lambda m: _notify("net", m, "em:0", total_act_power=m.power_w),
        kind="power",
    ),
    Device(
        "shelly-gen2-em1",
        "em1/events/rpc",
        "import",
        lambda m: _notify("em1", m, "em1data:0", total_act_energy=m.drawn_wh, total_act_ret_energy=0),
    ),
    Device("shelly-gen2-switch", "sw/events/rpc", "consumed", _switch("sw", "switch:0")),
    Device("shelly-gen2-pm1", "pm/events/rpc", "consumed", _switch("pm", "pm1:0")),
    Device(
        "shelly-gen1",
        "shellies/em/emeter/{phase}/total",
        "total",
        _phases("shellies/em/emeter/{phase}/total", ("0", "1"), is_kilo=False),
        keys={"phases": ["0", "1"]},
    ),
    Device("dsmr-p1", "p1/1/kWh", "import", _p1(1)),
    Device("dsmr-p1", "p1/1/kWh", "power-net", lambda _: [], kind="power"),
    Device("dsmr-p1", "p1/0/kWh", "import", _p1(0), keys={"timezone": "Europe/Dublin"}),
    Device("dsmr-p1", "p1/2/Wh", "import", _p1(2, units="Wh"), keys={"timezone": "Europe/Vilnius"}),
    Device("dsmr-p1", "d0/raw", "import", _d0, keys={"timezone": "arrival"}),
    Device("dsmr-reader", "dsmr/json", "import", _dsmr_reader),
    Device(
        "dsmr-reader-topics",
        "dsmr/reading/{phase}",
        "register",
        _phases("dsmr/reading/{phase}", ("electricity_delivered_1", "electricity_delivered_2"), is_kilo=True),
        keys={"phases": ["electricity_delivered_1", "electricity_delivered_2"]},
    ),
    Device("tasmota", "tele/plug/SENSOR", "total", _tasmota),
    Device("tasmota-teleinfo", "tele/tic/SENSOR", "total", _teleinfo),
    Device(
        "zigbee2mqtt",
        "zigbee2mqtt/plug",
        "energy",
        lambda m: document("zigbee2mqtt/plug", energy=float(kwh(m.drawn_wh)), power=m.power_w),
    ),
    Device(
        "homeassistant-statestream",
        "homeassistant/sensor/house/state",
        "energy",
        bare("homeassistant/sensor/house/state"),
    ),
    Device("esphome", "cellar/sensor/energy/state", "energy", bare("cellar/sensor/energy/state")),
    Device(
        "vzlogger",
        "vzlogger/data/chn0/raw",
        "register",
        lambda m: document("vzlogger/data/chn0/raw", timestamp=m.time_ms, value=m.drawn_wh),
    ),
    Device(
        "sml2mqtt",
        f"sml2mqtt/{_SERVER}/0100010800ff",
        "register",
        bare(f"sml2mqtt/{_SERVER}/0100010800ff"),
    ),
    Device(
        "wmbusmeters",
        f"wmbusmeters/{_ID}",
        "import",
        lambda m: document(
            f"wmbusmeters/{_ID}",
            media="electricity",
            meter="amiplus",
            id=str(_ID),
            total_energy_consumption_kwh=float(kwh(m.drawn_wh)),
            timestamp=m.time,
        ),
    ),
    Device(
        "rtl_433",
        "rtl_433/attic/events",
        "scm",
        lambda m: document(
            "rtl_433/attic/events", model="ERT-SCM", id=_ID, ert_type=7, consumption_data=_ert(m)
        ),
        Fraction(10),
        keys={"id": str(_ID), "scale": 10},
    ),
    Device(
        "rtlamr",
        f"rtlamr/{_ID}",
        "scm",
        lambda m: document(
            f"rtlamr/{_ID}", Time=m.time, Type="SCM", Message={"ID": _ID, "Type": 7, "Consumption": _ert(m)}
        ),
        Fraction(10),
        keys={"id": str(_ID), "scale": 10},
    ),
    Device(
        "rtlamr2mqtt",
        "rtlamr/mine/state",
        "reading",
        lambda m: document("rtlamr/mine/state", reading=m.drawn_wh, lastseen=m.time),
    ),
    Device(
        "emonhub",
        "emon/emonTx5",
        "E1",
        lambda m: document("emon/emonTx5", P1=m.power_w, E1=m.drawn_wh, time=m.time_ms / 1000),
    ),
    Device(
        "emonhub-csv",
        "emonhub/rx/5/values",
        "2 of 2",
        lambda m: [("emonhub/rx/5/values", f"{m.power_w},{m.drawn_wh}".encode())],
    ),
    Device(
        "glow",
        "glow/0123456789AB/SENSOR/electricitymeter",
        "import",
        lambda m: document(
            "glow/0123456789AB/SENSOR/electricitymeter",
            electricitymeter={
                "timestamp": m.time,
                "energy": {"import": {"cumulative": float(kwh(m.drawn_wh)), "units": "kWh"}},
            },
        ),
    ),
    Device(
        "senml",
        "senml/meter",
        "the only register",
        lambda m: [
            (
                "senml/meter",
                json.dumps([{"bt": m.time_ms / 1000, "n": "e", "u": "Wh", "v": m.drawn_wh}]).encode(),
            )
        ],
    ),
    Device(
        "chirpstack",
        "application/1/device/0101010101010101/event/up",
        "energy",
        lambda m: document(
            "application/1/device/0101010101010101/event/up",
            time=m.time,
            deviceInfo={"devEui": "0101010101010101"},
            object={"energy": m.drawn_wh},
        ),
    ),
    Device(
        "iammeter",
        "device/01234567/realtime",
        "import",
        lambda m: document(
            "device/01234567/realtime",
            SN="01234567",
            Data=[230.1, 1.1, m.power_w, float(kwh(m.drawn_wh)), 0.5],
        ),
    ),
    *HOME_DEVICES,
)
"""A device of each family whose counter is read, and some whose power is."""
