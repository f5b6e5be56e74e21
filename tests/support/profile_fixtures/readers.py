"""Invented messages of programs that read meters: vzlogger, sml2mqtt, wmbusmeters, emonhub."""

import json
from typing import Any

from meteragent.domain.units import Kind
from tests.support.profile_contract import Case

_SERVER = "0a014c4f5800c0ffee77"
_AMI = {
    "_": "telegram",
    "media": "electricity",
    "meter": "amiplus",
    "name": "Kellerzaehler",
    "id": "70314159",
    "total_energy_consumption_kwh": 27182.818,
    "current_power_consumption_kw": 0.431,
    "total_energy_production_kwh": 16.18,
    "current_power_production_kw": 0,
    "voltage_at_phase_1_v": 233,
    "total_energy_consumption_tariff_1_kwh": 20000.111,
    "customer": "Gartenweg9",
    "device_date_time": "2026-11-20 13:59",
    "timestamp": "2026-11-20T12:00:31Z",
}
_AMI_MS = 1795176031000
_AMI_IDENTIFIES = ("Kellerzaehler", "70314159", "Gartenweg9")
_USUAL = [name for name in _AMI if name.startswith(("current_", "total_"))]
_IMPORT = ((_AMI_MS, "27182818"),)
_EMON: dict[str, Any] = {
    "power1": 318,
    "power2": -1204,
    "vrms": 241.37,
    "pulsecount": 918273,
    "time": 1795176009.25,
    "rssi": -61,
}


def _ami(title: str, readings: dict[str, Any], **changes: Any) -> Case:
    fields = {name: value for name, value in {**_AMI, **changes}.items() if value is not ...}
    return Case(
        "wmbusmeters",
        title,
        "wmbusmeters/70314159",
        json.dumps(fields, separators=(",", ":")).encode(),
        readings,
        _AMI_IDENTIFIES,
    )


CASES = (
    Case(
        "vzlogger",
        "a channel with its option timestamp",
        "vzlogger/data/chn1/agg",
        b'{ "timestamp": 1795176004117, "value": 812.5 }',
        {"power": ((1795176004117, "812.5"),), "register": ((1795176004117, "812.5"),)},
        unit="W",
    ),
    Case(
        "vzlogger",
        "a channel without it",
        "vzlogger/data/chn1/raw",
        b"9031544.200000",
        {"register": ((None, "9031544.2"),)},
        unit="Wh",
    ),
    Case("vzlogger", "no value", "vzlogger/chn1/raw", b"nan", {"power": "refused_not_finite"}, unit="W"),
    Case(
        "sml2mqtt",
        "power",
        f"sml2mqtt/{_SERVER}/0100100700ff",
        b"-2417.3",
        {"power": ((None, "-2417.3"),)},
        (_SERVER,),
    ),
    Case(
        "sml2mqtt",
        "a register in kWh",
        f"sml2mqtt/{_SERVER}/0100010800ff",
        b"14142.1356",
        {"register": ((None, "14142135.6"),)},
        (_SERVER,),
        unit="kWh",
    ),
    Case(
        "sml2mqtt",
        "the register of the energy fed in, in kWh",
        f"sml2mqtt/{_SERVER}/0100020800ff",
        b"271.8281",
        {"export": ((None, "271828.1"),)},
        (_SERVER,),
        unit="kWh",
    ),
    _ami(
        "a telegram",
        {
            "power": ((_AMI_MS, "431"),),
            "power-production": ((_AMI_MS, "0"),),
            "import": ((_AMI_MS, "27182818"),),
            "export": ((_AMI_MS, "16180"),),
        },
    ),
    _ami(
        "a power that is null",
        {"power": "refused_missing", "import": ((_AMI_MS, "27182818"),)},
        current_power_consumption_kw=None,
    ),
    _ami("a heat meter", {"power": "other", "import": "other"}, media="heat"),
    _ami("water", {"power": "other", "import": "other"}, media="water"),
    _ami(
        "an em24",
        {"power": ((_AMI_MS, "-120"),), "import": _IMPORT},
        meter="em24",
        power_kw=-0.12,
        current_power_consumption_kw=...,
    ),
    _ami(
        "an abbb23",
        {"power": ((_AMI_MS, "18194.069"),), "import": _IMPORT},
        meter="abbb23",
        active_consumption_kw=18.194069,
        current_power_consumption_kw=...,
    ),
    _ami(
        "a nemo",
        {
            "power": ((_AMI_MS, "97830"),),
            "power-production": ((_AMI_MS, "0"),),
            "import": ((_AMI_MS, "6735835000"),),
        },
        meter="nemo",
        active_positive_3phase_kw=97.83,
        active_negative_3phase_kw=0,
        total_active_positive_3phase_kwh=6735835,
        **dict.fromkeys(_USUAL, ...),
    ),
    _ami(
        "two tariffs and no total",
        {
            "import": "refused_missing",
            "import of 2 tariffs": ((_AMI_MS, "43541742"),),
            "import of 3 tariffs": "refused_missing",
            "export of 2 tariffs": "refused_missing",
        },
        total_energy_consumption_kwh=None,
        total_energy_consumption_tariff_1_kwh=25011.061,
        total_energy_consumption_tariff_2_kwh=18530.681,
    ),
    _ami(
        "tariffs that a driver has and its meter does not use",
        {"import of 2 tariffs": "refused_ambiguous"},
        meter="abbb23",
        total_energy_consumption_tariff_2_kwh=0,
    ),
    Case(
        "emonhub",
        "a node's inputs",
        "emon/emontx3",
        json.dumps(_EMON).encode(),
        {
            "power1": ((1795176009250, "318"),),
            "power2": ((1795176009250, "-1204"),),
            "pulsecount": ((1795176009250, "918273"),),
            "P1": "refused_missing",
        },
        unit="W",
    ),
    Case(
        "emonhub",
        "a node of the continuous firmware",
        "emon/emonTx5",
        json.dumps(
            {"MSG": 6, "V1": 239.2, "P1": 1201, "P2": -4, "E1": 55123, "pulse": 71, "time": 1795176009}
        ).encode(),
        {
            "P1": ((1795176009000, "1201"),),
            "P2": ((1795176009000, "-4"),),
            "E1": ((1795176009000, "55123"),),
            "pulse": ((1795176009000, "71"),),
            "power1": "refused_missing",
        },
        unit="W",
    ),
    Case("emonhub", "an energy alone", "emon/emonTx5/E1", b"55123", {"E1": ((None, "55123"),)}),
    Case("emonhub", "an input alone", "emon/emontx3/power1", b"318.4", {"power1": ((None, "318.4"),)}),
    Case(
        "emonhub-csv",
        "a node's values",
        "emonhub/rx/10/values",
        b"318,-1204.5,-886,241.37,0,0,0,0,0,0,918273",
        {
            "1 of 11": ((None, "318"),),
            "2 of 11": ((None, "-1204.5"),),
            "2 of 12": "refused_columns",
        },
        value_places=(rb"^([^,]*),([^,]*)", rb"^[^,]*,([^,]*)"),
        kind=Kind.POWER,
        unit="W",
    ),
)
