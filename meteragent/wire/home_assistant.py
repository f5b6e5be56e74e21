"""The MQTT discovery messages by which Home Assistant finds the private streams.

A meter is a device under its public id. The private numbers are sensors, with the guarantee (the retained
descriptor) as attributes. The messages follow from the descriptor and the configuration alone.

Home Assistant's rules (MQTT discovery, sensor and recorder; November 2026)
    power       The state class is "measurement"; the value is the mean of a slot.
    energy      Home Assistant refuses the state class "measurement" for energies. A slot's energy is a
                "total" that begins at the slot's start (`last_reset`), so the recorder adds up the slots. It
                is not "total_increasing", because private numbers may be negative.
    total       The running total is a "total" that began at `since`. It may decrease.
    cost        An amount has the device class "monetary", whose only state class is "total".
    bands       Each band has a sensor. For another band's message, its template gives an empty value, which
                the sensor ignores. The energy of a tariff's band is a "total" as above.
    available   Sensors are available while the agent's status topic says "online". Values do not expire,
                because each slot is released even if the meter sends nothing: its silence is private.
    object id   Only letters, digits, _ and - are allowed, so the id is a digest of the sink topic.
"""

import hashlib
import json
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent import __version__
from meteragent.domain.figures import three_figures
from meteragent.domain.grid import duration_text
from meteragent.domain.shapes import Profile, Shape
from meteragent.domain.units import ENERGY_UNIT, Kind
from meteragent.wire import shapes
from meteragent.wire.number import parse_ms

ONLINE = b"online"
"""The payload on `<prefix>/status` after Home Assistant has started."""

_VALUE = "{{ value_json.value }}"
_PRECISION_MAX = 6
"""The largest number of decimals that is suggested to Home Assistant."""


class Discovery(NamedTuple):
    """The settings of discovery.

    prefix    the prefix of the topics
    status    the agent's status topic
    total     whether running totals are sent
    page_url  the address of the agent's page, to which the device links; None if there is no page
    """

    prefix: str
    status: str
    total: bool
    page_url: str | None = None

    @property
    def birth_topic(self) -> str:
        """The topic on which Home Assistant announces its start."""
        return f"{self.prefix}/status"

    def message(self, sink_topic: str, descriptor: bytes) -> tuple[str, bytes]:
        """Return the topic and the payload of the retained message that announces a sink topic's sensors."""
        facts = json.loads(descriptor)
        device = f"meteragent_{hashlib.sha256(sink_topic.encode()).hexdigest()[:16]}"
        shape = shapes.read_shape(facts, parse_ms(facts["length"]), parse_ms(facts["step"]))
        sensors = _sensors(shape, facts, sink_topic)
        if self.total and shape.is_additive:
            sensors["total"] = _total(facts, sink_topic)
        attributes = {"json_attributes_topic": f"{sink_topic}/privacy"}
        components = {name: sensor | attributes for name, sensor in sensors.items()}
        components |= _diagnostics(facts, sink_topic, self.status)
        for name, component in components.items():
            components[name] = {"platform": "sensor", "unique_id": f"{device}_{name}"} | component
        link = {"configuration_url": self.page_url} if self.page_url else {}
        document = {
            "device": {
                "identifiers": [device],
                "name": facts["meter"],
                "manufacturer": "meteragent",
                "model": f"Private {_quantity_name(shape, facts)}: hides {_hidden_words(shape, facts)}",
                "sw_version": __version__,
                **link,
            },
            "origin": {"name": "meteragent", "sw_version": __version__},
            "availability": [{"topic": self.status, "value_template": "{{ value_json.status }}"}],
            "qos": 1,
            "components": components,
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return f"{self.prefix}/device/{device}/config", text.encode()


def _hidden_words(shape: Shape, facts: dict[str, Any]) -> str:
    """Return the words for the hidden energy, and for the time within which it is hidden."""
    energy = f"{three_figures(Fraction(facts['hides_wh']))} Wh"
    if facts.get("in_all"):
        return f"{energy} in all bands together" if shape.names else f"{energy} in all"
    return f"{energy} in {'each band of the day' if shape.names else f'any {duration_text(shape.step_ms)}'}"


def _quantity_name(shape: Shape, facts: dict[str, Any]) -> str:
    return "cost" if shape.is_priced else "energy" if shape.is_energy(Kind(facts["kind"])) else "power"


def _sensors(shape: Shape, facts: dict[str, Any], sink_topic: str) -> dict[str, dict[str, Any]]:
    """Return the sensors of the records by name: one sensor or, if slots are bands, one for each band."""
    quantity = _quantity_name(shape, facts)
    sensor = _sensor(
        f"Private {quantity}{shapes.ROWS[shape.space].words(shape)}",
        sink_topic,
        unit_of_measurement=facts["unit"],
        suggested_display_precision=_decimals(Fraction(facts["quantum"])),
    )
    if quantity == "power":
        sensor |= {"device_class": "power", "state_class": "measurement"}
    elif shape.is_summable:  # with a class, others would be offered as total consumption
        sensor["device_class"] = "monetary" if quantity == "cost" else quantity
        if not isinstance(shape, Profile):  # the values of a mean day do not add up to all energy
            sensor |= {"state_class": "total", "last_reset_value_template": "{{ value_json.t }}"}
    if not shape.names:
        return {quantity: sensor}
    return {f"{quantity}_{index}": sensor | _band(quantity, name) for index, name in enumerate(shape.names)}


def _sensor(name: str, topic: str, value: str = "value_json.value", **fields: Any) -> dict[str, Any]:
    return {"name": name, "state_topic": topic, "value_template": f"{{{{ {value} }}}}"} | fields


def _band(quantity: str, name: str) -> dict[str, str]:
    template = f"{{% if value_json.band == '{name}' %}}{_VALUE}{{% endif %}}"
    return {"name": f"Private {quantity} {name.replace('/', '–')}", "value_template": template}


def _total(facts: dict[str, Any], sink_topic: str) -> dict[str, Any]:
    return _sensor(
        "Private total",
        f"{sink_topic}/total",
        device_class="energy",
        state_class="total",
        last_reset_value_template="{{ value_json.since }}",
        unit_of_measurement=ENERGY_UNIT[facts["unit"]],
        suggested_display_precision=3 if facts["unit"].startswith("k") else 0,
    )


def _diagnostics(facts: dict[str, Any], sink_topic: str, status: str) -> dict[str, dict[str, Any]]:
    """Return the diagnostic entities by name; their states follow from terms, schedule and status."""
    privacy_topic, hidden_text = f"{sink_topic}/privacy", f"{float(Fraction(facts['hides_wh'])):.6g}"
    agent = _sensor(
        "Agent",
        status,
        "value_json.status",
        payload_on="online",
        payload_off="offline",
        device_class="running",
        availability=[{"topic": status, "value_template": "online"}],  # always; off if the agent is stopped
    )
    entities = {
        "agent": {"platform": "binary_sensor"} | agent,
        "noise": _sensor("Noise", privacy_topic, "value_json.sd", unit_of_measurement=facts["unit"]),
        "hidden": _sensor("Energy hidden", privacy_topic, unit_of_measurement="Wh")
        | {"value_template": hidden_text},
        "slot": _sensor("Slot start", sink_topic, "value_json.t", device_class="timestamp"),
    }
    return {name: entity | {"entity_category": "diagnostic"} for name, entity in entities.items()}


def _decimals(quantum: Fraction) -> int:
    """Return the number of decimals in multiples of the quantum, at most `_PRECISION_MAX`."""
    return next((n for n in range(_PRECISION_MAX) if (quantum * 10**n).denominator == 1), _PRECISION_MAX)
