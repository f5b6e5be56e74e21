"""How Home Assistant finds the private streams by itself: MQTT device discovery, byte for byte.

A meter that leaves is a device, named by its label; its numbers are sensors, which have the guarantee
(the retained descriptor) as attributes. All of it is made from the descriptor, so from public bytes, and
is the same for the same terms whatever the meter does.

What Home Assistant's rules ask for (its MQTT discovery, sensor and recorder; looked up in November 2026)
    power       state class "measurement": the mean of a slot
    energy      state class "measurement" is refused for energies. A slot's energy is a "total" that begins
                at the slot's start (`last_reset`): the recorder adds slot to slot. Not "total_increasing":
                private numbers may be negative
    total       the running total: "total" that began at its `since`, which moves when a slot was missing;
                it may fall
    bands       one sensor for each, as a topic's messages name theirs; what is empty is ignored. A band
                is the mean day of a window: its energy has no state class, which is allowed
    available   as long as the agent is, by its status topic. Nothing expires: whether a meter is alive is
                nobody's business, and each slot has its number
    object id   letters, digits, _ and - only, so a digest of the sink topic, which names stream and meter
"""

import hashlib
import json
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent import __version__

ONLINE = b"online"
"""What Home Assistant says on `<prefix>/status` when it has started."""

_ENERGY = {"W": "Wh", "kW": "kWh"}
_VALUE = "{{ value_json.value }}"
_PRECISION_MAX = 6


class Discovery(NamedTuple):
    """What is announced: below which topic, whose status says that the agent runs, and with a total."""

    prefix: str
    status: str
    total: bool

    @property
    def birth(self) -> str:
        """Where Home Assistant says that it has started."""
        return f"{self.prefix}/status"

    def message(self, sink_topic: str, descriptor: bytes) -> tuple[str, bytes]:
        """The topic and the payload, to be retained, for the records of a sink topic under these terms."""
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
                "model": f"Private {_quantity(facts)}: {facts['hides_wh']} Wh hidden in {facts['step']}",
            },
            "origin": {"name": "meteragent", "sw_version": __version__},
            "availability": [{"topic": self.status, "value_template": "{{ value_json.status }}"}],
            "qos": 1,
            "components": sensors,
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return f"{self.prefix}/device/{device}/config", text.encode()


def _quantity(facts: dict[str, Any]) -> str:
    return "power" if facts["kind"] == "power" else "energy"


def _sensors(facts: dict[str, Any], sink_topic: str) -> dict[str, dict[str, Any]]:
    """The sensor of the records; of a profile one for each band."""
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
    elif "bands" not in facts:
        sensor |= {"state_class": "total", "last_reset_value_template": "{{ value_json.t }}"}
    if "bands" not in facts:
        return {quantity: sensor}
    return {f"{quantity}_{at}": sensor | _band(quantity, name) for at, name in enumerate(facts["bands"])}


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
    """How many decimals a multiple of the quantum has, as far as they are shown."""
    return next((n for n in range(_PRECISION_MAX) if (quantum * 10**n).denominator == 1), _PRECISION_MAX)
