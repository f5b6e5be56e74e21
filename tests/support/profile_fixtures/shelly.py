"""Invented messages of Shelly devices."""

import json
from typing import Any

from tests.support.profile_contract import Case

_EM, _PLUG, _OLD = "shellypro3em-c0ffee4d1177", "shellyplusplugs-c0ffee4d2288", "shellyem3-C0FFEE4D3399"
_IDENTIFIES = (_EM, _PLUG, _OLD)
_EM_STATUS: dict[str, Any] = {
    "id": 0,
    "a_current": 2.871,
    "a_voltage": 231.4,
    "a_act_power": 604.3,
    "a_aprt_power": 664.1,
    "a_pf": 0.91,
    "a_freq": 50,
    "b_current": 0.412,
    "b_voltage": 230.9,
    "b_act_power": 61.8,
    "b_aprt_power": 95.2,
    "b_pf": 0.65,
    "b_freq": 50,
    "c_current": 5.107,
    "c_voltage": 232.2,
    "c_act_power": -1180.6,
    "c_aprt_power": 1185.7,
    "c_pf": -0.99,
    "c_freq": 50,
    "n_current": None,
    "total_current": 8.39,
    "total_act_power": -514.517,
    "total_aprt_power": 1945.0,
    "user_calibrated_phase": [],
}
_EM_DATA: dict[str, Any] = {
    "id": 0,
    "a_total_act_energy": 1834207.53,
    "a_total_act_ret_energy": 0.44,
    "b_total_act_energy": 402911.26,
    "b_total_act_ret_energy": 0.02,
    "c_total_act_energy": 1277845.81,
    "c_total_act_ret_energy": 981204.77,
    "total_act": 3514964.6,
    "total_act_ret": 981205.23,
}
_SWITCH: dict[str, Any] = {
    "id": 0,
    "source": "timer",
    "output": True,
    "apower": 47.6,
    "voltage": 229.8,
    "freq": 50.0,
    "current": 0.241,
    "pf": 0.86,
    "aenergy": {"total": 18834.412, "by_minute": [793.217, 788.004, 912.55], "minute_ts": 1795176000},
    "ret_aenergy": {"total": 3.907, "by_minute": [0.0, 0.0, 0.0], "minute_ts": 1795176000},
    "temperature": {"tC": 38.4, "tF": 101.1},
}
_MINUTES = ((1795175880000, "0.91255"), (1795175940000, "0.788004"), (1795176000000, "0.793217"))
_ONE_WAY = {name: field for name, field in _SWITCH.items() if name != "ret_aenergy"}
_SUNNY: dict[str, Any] = {
    "id": 0,
    "apower": -350.2,
    "aenergy": {"total": 20834.5, "by_minute": [5836.7, 5840.1, 5829.9], "minute_ts": 1795176000},
    "ret_aenergy": {"total": 2003.907, "by_minute": [5836.7, 5840.1, 5800.0], "minute_ts": 1795176000},
}


def _rpc(device: str, method: str = "NotifyStatus", **components: Any) -> bytes:
    params = {
        "ts": 1795176034.07,
        **{name.replace("_", ":"): component for name, component in components.items()},
    }
    return json.dumps({"src": device, "dst": f"{device}/events", "method": method, "params": params}).encode()


def _case(title: str, profile: str, topic: str, payload: bytes, **readings: Any) -> Case:
    named = {name.replace("_", "-"): outcome for name, outcome in readings.items()}
    return Case(f"shelly-{profile}", title, topic, payload, named, _IDENTIFIES)


_TS = 1795176034070
_EM_POWER = {
    "power": "-514.517",
    "phase_a": "604.3",
    "phase_b": "61.8",
    "phase_c": "-1180.6",
}
_EM1 = {"id": 1, "current": 1.914, "voltage": 230.2, "act_power": 418.9, "aprt_power": 440.6, "pf": 0.95}

CASES = (
    _case(
        "a notification of all that em:0 says",
        "gen2-em",
        f"{_EM}/events/rpc",
        _rpc(_EM, em_0=_EM_STATUS),
        **{name: ((_TS, watts),) for name, watts in _EM_POWER.items()},
        **{"import": "other", "export": "other"},
    ),
    _case(
        "the status of em:0",
        "gen2-em",
        f"{_EM}/status/em:0",
        json.dumps(_EM_STATUS).encode(),
        **{name: ((None, watts),) for name, watts in _EM_POWER.items()},
        **{"import": "refused_missing"},
    ),
    _case(
        "a notification of the registers",
        "gen2-em",
        f"{_EM}/events/rpc",
        _rpc(_EM, emdata_0=_EM_DATA),
        **{"power": "other", "import": ((_TS, "3514964.6"),), "export": ((_TS, "981205.23"),)},
    ),
    _case(
        "the status of emdata:0",
        "gen2-em",
        f"{_EM}/status/emdata:0",
        json.dumps(_EM_DATA).encode(),
        **{"import": ((None, "3514964.6"),), "export": ((None, "981205.23"),)},
    ),
    _case(
        "a notification without the quantity",
        "gen2-em",
        f"{_EM}/events/rpc",
        _rpc(_EM, em_0={"id": 0, "a_current": 2.9}, sys={"unixtime": 1795176034}),
        power="other",
        phase_a="other",
    ),
    _case(
        "an event",
        "gen2-em",
        f"{_EM}/events/rpc",
        _rpc(_EM, "NotifyEvent", events=[{"component": "em:0", "event": "config_changed"}]),
        power="other",
    ),
    _case(
        "an answer to somebody's question",
        "gen2-em",
        f"{_EM}/events/rpc",
        _rpc(_EM, "EM.GetStatus", em_0=_EM_STATUS),
        power="other",
    ),
    _case(
        "a power that is null",
        "gen2-em",
        f"{_EM}/events/rpc",
        _rpc(_EM, em_0={**_EM_STATUS, "total_act_power": None, "errors": ["power_meter_failure"]}),
        power="refused_missing",
    ),
    _case(
        "two channels in one notification",
        "gen2-em1",
        f"{_EM}/events/rpc",
        _rpc(_EM, em1_0={**_EM1, "id": 0, "act_power": 77.3}, em1_1=_EM1),
        power=((_TS, "77.3"),),
        power_1=((_TS, "418.9"),),
        power_2="other",
    ),
    _case(
        "the status of a channel",
        "gen2-em1",
        f"{_EM}/status/em1:1",
        json.dumps(_EM1).encode(),
        power=((None, "418.9"),),
    ),
    _case(
        "the registers of channels",
        "gen2-em1",
        f"{_EM}/events/rpc",
        _rpc(
            _EM,
            em1data_0={"id": 0, "total_act_energy": 55102.81, "total_act_ret_energy": 9.04},
            em1data_2={"id": 2, "total_act_energy": 77418.32, "total_act_ret_energy": 8.15},
        ),
        **{
            "import": ((_TS, "55102.81"),),
            "export": ((_TS, "9.04"),),
            "import_1": "other",
            "import_2": ((_TS, "77418.32"),),
            "export_2": ((_TS, "8.15"),),
        },
    ),
    _case(
        "the status of a plug",
        "gen2-switch",
        f"{_PLUG}/status/switch:0",
        json.dumps(_SWITCH).encode(),
        power=((None, "47.6"),),
        consumed=((None, "18830.505"),),
        returned=((None, "3.907"),),
        energy=((None, "18834.412"),),
        minutes=_MINUTES,
        energy_minutes=_MINUTES,
    ),
    _case(
        "a full notification of a plug",
        "gen2-switch",
        f"{_PLUG}/events/rpc",
        _rpc(_PLUG, "NotifyFullStatus", switch_0=_SWITCH, wifi={"sta_ip": "192.0.2.77", "ssid": "Gartenweg"}),
        power=((_TS, "47.6"),),
        power_1="other",
        consumed=((_TS, "18830.505"),),
        consumed_1="other",
        minutes=_MINUTES,
    ),
    _case(
        "the minute's notification of a plug, without its power",
        "gen2-switch",
        f"{_PLUG}/events/rpc",
        _rpc(_PLUG, switch_0={"id": 0, "aenergy": _SWITCH["aenergy"]}),
        power="other",
        consumed="refused_missing",
        returned="other",
        energy=((_TS, "18834.412"),),
        minutes="refused_missing",
        energy_minutes=_MINUTES,
    ),
    _case(
        "the status of a plug that does not count what is fed in",
        "gen2-switch",
        f"{_PLUG}/status/switch:0",
        json.dumps(_ONE_WAY).encode(),
        power=((None, "47.6"),),
        consumed="refused_missing",
        returned="refused_missing",
        energy=((None, "18834.412"),),
        minutes="refused_missing",
        energy_minutes=_MINUTES,
    ),
    _case(
        "the status of a plug behind which panels feed in",
        "gen2-switch",
        f"{_PLUG}/status/switch:0",
        json.dumps(_SUNNY).encode(),
        power=((None, "-350.2"),),
        consumed=((None, "18830.593"),),
        returned=((None, "2003.907"),),
        energy=((None, "20834.5"),),
        minutes=((1795175880000, "0.0299"), (1795175940000, "0"), (1795176000000, "0")),
    ),
    _case(
        "minutes of old firmware, which begin somewhere",
        "gen2-switch",
        f"{_PLUG}/status/switch:0",
        json.dumps({**_SWITCH, "aenergy": {**_SWITCH["aenergy"], "minute_ts": 1795176017}}).encode(),
        minutes="refused_time",
        power=((None, "47.6"),),
    ),
    _case(
        "a PM Mini that does not count what is fed in",
        "gen2-pm1",
        f"{_PLUG}/status/pm1:0",
        json.dumps(_ONE_WAY).encode(),
        energy=((None, "18834.412"),),
        energy_minutes=_MINUTES,
    ),
    _case(
        "a PM Mini",
        "gen2-pm1",
        f"{_PLUG}/status/pm1:0",
        json.dumps(_SWITCH).encode(),
        power=((None, "47.6"),),
        consumed=((None, "18830.505"),),
        returned=((None, "3.907"),),
        energy=((None, "18834.412"),),
        minutes=_MINUTES,
        energy_minutes=_MINUTES,
    ),
    _case("phase 1", "gen1", f"shellies/{_OLD}/emeter/1/power", b"811.43", power=((None, "811.43"),)),
    _case("a register", "gen1", f"shellies/{_OLD}/emeter/0/total", b"73144.9", total=((None, "73144.9"),)),
    _case(
        "the energy fed in",
        "gen1",
        f"shellies/{_OLD}/emeter/0/total_returned",
        b"1873.4",
        returned=((None, "1873.4"),),
    ),
    _case("watt-minutes", "gen1", f"shellies/{_OLD}/relay/0/energy", b"73143", energy=((None, "1219.05"),)),
    _case("no number", "gen1", f"shellies/{_OLD}/relay/0/power", b"overpower", power="refused_type"),
)
