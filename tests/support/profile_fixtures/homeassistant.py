"""Invented messages of Home Assistant's statestream and of ESPHome."""

from typing import Any

from meteragent.domain.units import Kind
from tests.support.profile_contract import Case

_SENSOR, _NODE = "hauszaehler_jansen_leistung", "keller-stromzaehler-4d7731"


def _stream(title: str, payload: bytes, *, unit: str = "W", kind: Kind = Kind.POWER, **readings: Any) -> Case:
    topic = f"homeassistant/sensor/{_SENSOR}/state"
    return Case(
        "homeassistant-statestream", title, topic, payload, readings, (_SENSOR,), kind=kind, unit=unit
    )


def _node(title: str, payload: bytes, *, unit: str = "W", kind: Kind = Kind.POWER, **readings: Any) -> Case:
    topic = f"{_NODE}/sensor/power/state"
    return Case("esphome", title, topic, payload, readings, (_NODE,), kind=kind, unit=unit)


CASES = (
    _stream("watts", b"512.4", power=((None, "512.4"),)),
    _stream("kilowatts", b"0.5124", unit="kW", power=((None, "512.4"),)),
    _stream("a register", b"18834.41", unit="kWh", kind=Kind.REGISTER, energy=((None, "18834410"),)),
    _stream("unknown", b"unknown", power="refused_unavailable"),
    _stream("unavailable", b"unavailable", power="refused_unavailable"),
    _stream("None", b"None", power="refused_unavailable"),
    _stream("removed", b"", power="refused_empty"),
    _stream("a word", b"on", power="refused_type"),
    _node("watts", b"87.25\n", power=((None, "87.25"),)),
    _node("a register", b"771.402", unit="kWh", kind=Kind.REGISTER, energy=((None, "771402"),)),
    _node("before the first measurement", b"nan", power="refused_not_finite"),
)
