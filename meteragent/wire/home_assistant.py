"""MQTT device discovery, byte for byte, by which Home Assistant finds the private streams.

A meter is a device under its public name. Its private numbers are sensors, which have the guarantee (the
retained descriptor) as attributes. All of this is made from the descriptor, so from public bytes, and is the
same for the same terms whatever the meter does.

Home Assistant's rules (its MQTT discovery, sensor and recorder, as of November 2026)
    power       state class "measurement": the mean of a slot
    energy      state class "measurement" is refused for energies. A slot's energy is a "total" that begins
                at the slot's start (`last_reset`), so the recorder adds up the slots. Not "total_increasing":
                private numbers may be negative
    total       the running total: a "total" that began at its `since`, which moves on after a missing slot;
                it may fall
    bands       one sensor for each band; a message names its band, and sensors ignore an empty value. The
                energy of a band in a window is a "total" as above, but a band of a mean day is part of that
                day: its energy has no state class, which is allowed
    available   as long as the agent is, by its status topic. Nothing expires: whether a meter is alive is
                private, and each slot has its number anyway
    object id   letters, digits, _ and - only, so a digest of the sink topic, which names stream and meter
"""

import hashlib
import json
import re
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent import __version__
from meteragent.domain.figures import figures
from meteragent.domain.grid import duration_text
from meteragent.domain.shape import Space
from meteragent.domain.units import HOUR_MS, MINUTE_MS

ONLINE = b"online"
"""The payload on `<prefix>/status` when Home Assistant has started."""

_ENERGY = {"W": "Wh", "kW": "kWh"}
_VALUE = "{{ value_json.value }}"
_PRECISION_MAX = 6
_ISO_PARTS = re.compile(r"([\d.]+)([HMS])", re.ASCII)
_PART_MS = {"H": HOUR_MS, "M": MINUTE_MS, "S": 1000}


class Discovery(NamedTuple):
    """The announcement of sensors: its topic prefix, the agent's status topic, with or without a total."""

    prefix: str
    status: str
    total: bool

    @property
    def birth(self) -> str:
        """The topic on which Home Assistant announces its start."""
        return f"{self.prefix}/status"

    def message(self, sink_topic: str, descriptor: bytes) -> tuple[str, bytes]:
        """Return the topic and the payload of the retained message that announces a sink topic's sensors."""
        facts = json.loads(descriptor)
        device = f"meteragent_{hashlib.sha256(sink_topic.encode()).hexdigest()[:16]}"
        sensors = _sensors(facts, sink_topic)
        if self.total:
            sensors["total"] = _total(facts, sink_topic)
        attributes = f"{sink_topic}/privacy"
        for name, sensor in sensors.items():
            shared = {"platform": "sensor", "unique_id": f"{device}_{name}"}
            sensors[name] = shared | sensor | {"json_attributes_topic": attributes}
        document = {
            "device": {
                "identifiers": [device],
                "name": facts["meter"],
                "manufacturer": "meteragent",
                "model": f"Private {_quantity(facts)}: hides {_hidden(facts)}",
                "sw_version": __version__,
            },
            "origin": {"name": "meteragent", "sw_version": __version__},
            "availability": [{"topic": self.status, "value_template": "{{ value_json.status }}"}],
            "qos": 1,
            "components": sensors,
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return f"{self.prefix}/device/{device}/config", text.encode()


def _hidden(facts: dict[str, Any]) -> str:
    """Write which energy is hidden and within what, in plain sight of Home Assistant's users."""
    energy = f"{figures(Fraction(facts['hides_wh']))} Wh"
    if facts.get("in_all"):
        return f"{energy} in all bands together"
    if "bands" in facts:
        return f"{energy} in each band of the day"
    parts = _ISO_PARTS.findall(facts["step"])
    return f"{energy} in any {duration_text(round(sum(Fraction(n) * _PART_MS[unit] for n, unit in parts)))}"


def _quantity(facts: dict[str, Any]) -> str:
    return "power" if facts["unit"] in _ENERGY else "energy"


def _sensors(facts: dict[str, Any], sink_topic: str) -> dict[str, dict[str, Any]]:
    """Return the sensor of the records by name; one for each band if slots are bands."""
    quantity = _quantity(facts)
    sensor = {
        "name": f"Private {quantity}",
        "state_topic": sink_topic,
        "value_template": _VALUE,
        "device_class": quantity,
        "unit_of_measurement": facts["unit"],
        "suggested_display_precision": _decimals(Fraction(facts["quantum"])),
    }
    if quantity == "power":
        sensor["state_class"] = "measurement"
    elif facts.get("space") != Space.PROFILE:
        sensor |= {"state_class": "total", "last_reset_value_template": "{{ value_json.t }}"}
    if "bands" not in facts:
        return {quantity: sensor}
    return {
        f"{quantity}_{index}": sensor | _band(quantity, name) for index, name in enumerate(facts["bands"])
    }


def _band(quantity: str, name: str) -> dict[str, str]:
    of_this = f"{{% if value_json.band == '{name}' %}}{_VALUE}{{% endif %}}"
    return {"name": f"Private {quantity} {name.replace('/', '–')}", "value_template": of_this}


def _total(facts: dict[str, Any], sink_topic: str) -> dict[str, Any]:
    unit = facts["unit"]
    return {
        "name": "Private total",
        "state_topic": f"{sink_topic}/total",
        "value_template": _VALUE,
        "device_class": "energy",
        "state_class": "total",
        "last_reset_value_template": "{{ value_json.since }}",
        "unit_of_measurement": _ENERGY.get(unit, unit),
        "suggested_display_precision": 3 if unit.startswith("k") else 0,
    }


def _decimals(quantum: Fraction) -> int:
    """Return the number of decimals of a multiple of the quantum, at most as many as are shown."""
    return next((n for n in range(_PRECISION_MAX) if (quantum * 10**n).denominator == 1), _PRECISION_MAX)
