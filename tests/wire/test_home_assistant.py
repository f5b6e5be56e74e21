"""Device discovery: meteragent.wire.home_assistant, against what Home Assistant's own schemas allow."""

import json
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import __version__
from meteragent.domain.units import UNITS
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.home_assistant import Discovery
from tests.support.configurations import energy, settled

# What Home Assistant's schemas allow and require: home-assistant/core in November 2026, of its integration
# mqtt the files schemas and discovery (device, topic) and sensor, of its integration sensor the file const
# (classes, units); and its documentation of the MQTT integration (what a component must have).
ROOT = {"device", "components", "origin"}
ROOT_ALLOWED = ROOT | {"availability", "state_topic", "command_topic", "qos", "encoding", "availability_mode"}
DEVICE_ALLOWED = {
    *("identifiers", "connections", "manufacturer", "model", "model_id", "name", "hw_version", "sw_version"),
    *("serial_number", "via_device", "suggested_area", "configuration_url"),
}
ORIGIN = {"name"}
ORIGIN_ALLOWED = ORIGIN | {"sw_version", "support_url"}
AVAILABILITY = {"topic"}
AVAILABILITY_ALLOWED = AVAILABILITY | {"payload_available", "payload_not_available", "value_template"}
SENSOR = {"platform", "unique_id", "state_topic"}
SENSOR_ALLOWED = SENSOR | {
    *("device_class", "expire_after", "force_update", "last_reset_value_template", "name", "options"),
    *("suggested_display_precision", "state_class", "unit_of_measurement", "value_template", "icon"),
    *("enabled_by_default", "entity_category", "json_attributes_topic", "json_attributes_template"),
}
BINARY_ALLOWED = {"availability", "payload_on", "payload_off"}
STATE_CLASSES: dict[str, set[str | None]] = {
    "power": {"measurement"},
    "energy": {None, "total", "total_increasing"},
    "monetary": {"total"},
}
CLASS_UNITS = {"power": {"W", "kW"}, "energy": {"Wh", "kWh"}, "monetary": {"EUR"}}
TOPIC = re.compile(r"homeassistant/device/[a-zA-Z0-9_-]+/config")
BLOCKED_ATTRIBUTES = {
    *("assumed_state", "available", "device_class", "device_info", "entity_category", "entity_picture"),
    *("entity_registry_enabled_default", "extra_state_attributes", "force_update", "icon", "name"),
    *("should_poll", "state", "supported_features", "unique_id", "unit_of_measurement"),
    *("last_reset", "state_class"),
}

DISCOVERY = Discovery("homeassistant", "agent/status", total=False)
SINK = "private/m/power"
SETTINGS: dict[str, dict[str, str]] = {
    "power": {},
    "kW": {"source": "unit = 'kW'", "privacy": "quantum = 0.001"},
    "energy": {"source": energy("Wh"), "privacy": "hide = '110Wh'\nquantum = 0.5"},
    "kWh": {"source": energy("kWh"), "privacy": "quantum = 0.001"},
    "register": {"source": "kind = 'register'\nunit = 'kWh'", "privacy": "quantum = 0.001"},
    "profile": {"window": "timezone = 'UTC'", "privacy": "preset = 'typical-day'"},
    "profile of energy": {
        "source": energy("kWh"),
        "window": "timezone = 'UTC'",
        "privacy": "preset = 'typical-day'\nquantum = 0.001",
    },
    "amounts": {
        "window": "length = '1d'\ntimezone = 'UTC'\n"
        "weights = { bound = 0.5, price = [{ hours = ['07-23'], price = 0.3 }] }",
    },
    "curve": {"window": "length = '1h'\nblocks = 4", "privacy": "space = 'curve'"},
}


def announced(
    name: str, label: str = "m", *, discovery: Discovery = DISCOVERY, sink: str = SINK
) -> tuple[str, dict[str, Any]]:
    """The topic, and what is said there of a stream with these settings."""
    shared = describe_terms(settled(**SETTINGS[name]))
    topic, payload = discovery.message(sink, shared.encode_message(label, 0))
    document: dict[str, Any] = json.loads(payload)
    return topic, document


def sensors_of(document: dict[str, Any], *, diagnostic: bool = False) -> dict[str, dict[str, Any]]:
    """The sensors of the private numbers, or the diagnostic entities."""
    return {
        name: component
        for name, component in document["components"].items()
        if ("entity_category" in component) == diagnostic
    }


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_home_assistant_takes_it(name: str, total: bool) -> None:
    """Every key is one that its schemas allow, those required are there, classes and units fit."""
    topic, document = announced(name, discovery=DISCOVERY._replace(total=total))
    assert TOPIC.fullmatch(topic)
    assert ROOT <= document.keys() <= ROOT_ALLOWED
    assert document["device"].keys() <= DEVICE_ALLOWED
    assert document["device"]["identifiers"]
    assert ORIGIN <= document["origin"].keys() <= ORIGIN_ALLOWED
    for availability in document["availability"]:
        assert AVAILABILITY <= availability.keys() <= AVAILABILITY_ALLOWED
    assert sensors_of(document)
    for sensor in sensors_of(document).values():
        assert SENSOR <= sensor.keys() <= SENSOR_ALLOWED
        assert sensor["platform"] == "sensor"
        assert sensor.get("state_class") in STATE_CLASSES[sensor["device_class"]]
        assert sensor["unit_of_measurement"] in CLASS_UNITS[sensor["device_class"]]
        assert sensor["suggested_display_precision"] >= 0
        if "last_reset_value_template" in sensor:
            assert sensor["state_class"] == "total"


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_expires_and_nothing_must_grow(name: str) -> None:
    """No sensor is unavailable because a meter is silent, and none claims that its numbers only rise."""
    _, document = announced(name, discovery=DISCOVERY._replace(total=True))
    for sensor in document["components"].values():  # the diagnostic ones, too
        assert "expire_after" not in sensor
        assert sensor.get("state_class") != "total_increasing"


def test_a_power_stream_is_a_measurement() -> None:
    """In words: the device has the label, its sensor reads the records and has the guarantee beside."""
    topic, document = announced("power", "a home")
    device = topic.split("/")[2]
    assert document["device"] == {
        "identifiers": [device],
        "name": "a home",
        "manufacturer": "meteragent",
        "model": "Private power: hides 110 Wh in any 30 min",
        "sw_version": __version__,
    }
    assert sensors_of(document) == {
        "power": {
            "platform": "sensor",
            "unique_id": f"{device}_power",
            "name": "Private power",
            "state_topic": "private/m/power",
            "value_template": "{{ value_json.value }}",
            "device_class": "power",
            "unit_of_measurement": "W",
            "suggested_display_precision": 0,
            "state_class": "measurement",
            "json_attributes_topic": "private/m/power/privacy",
        }
    }


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("profile", "Private power: hides 1,501 Wh in each band of the day"),
        ("curve", "Private power: hides 110 Wh in any 15 min"),
        ("register", "Private energy: hides 110 Wh in any 30 min"),
    ],
)
def test_people_read_the_model(name: str, model: str) -> None:
    """What is hidden, and within what, has no code of ISO 8601."""
    assert announced(name)[1]["device"]["model"] == model


@pytest.mark.parametrize(("name", "unit"), [("energy", "Wh"), ("kWh", "kWh"), ("register", "kWh")])
def test_the_energy_of_a_slot_begins_with_the_slot(name: str, unit: str) -> None:
    """Home Assistant adds slot to slot: each is a total that was reset at its start, `t` of its record."""
    sensor = announced(name)[1]["components"]["energy"]
    assert (sensor["device_class"], sensor["unit_of_measurement"]) == ("energy", unit)
    assert (sensor["state_class"], sensor["last_reset_value_template"]) == ("total", "{{ value_json.t }}")


@pytest.mark.parametrize(("name", "unit"), [("power", "Wh"), ("kW", "kWh"), ("energy", "Wh"), ("kWh", "kWh")])
def test_the_running_total_is_a_total_that_may_fall(name: str, unit: str) -> None:
    """On its own topic, as an energy, where it is asked for; it began at its `since`."""
    assert "total" not in announced(name)[1]["components"]
    sensor = announced(name, discovery=DISCOVERY._replace(total=True))[1]["components"]["total"]
    assert sensor["state_topic"] == "private/m/power/total"
    assert (sensor["device_class"], sensor["unit_of_measurement"]) == ("energy", unit)
    assert (sensor["state_class"], sensor["last_reset_value_template"]) == ("total", "{{ value_json.since }}")


@pytest.mark.parametrize(("name", "kind"), [("profile", "power"), ("profile of energy", "energy")])
def test_each_band_of_a_mean_day_has_its_sensor(name: str, kind: str) -> None:
    """As their records share a topic: each takes its own band's, and what is empty is ignored."""
    sensors = sensors_of(announced(name)[1])
    assert list(sensors) == [f"{kind}_{at}" for at in range(4)]
    first = sensors[f"{kind}_0"]
    assert first["name"] == f"Private {kind} 00:00–06:00"
    own = "{% if value_json.band == '00:00/06:00' %}{{ value_json.value }}{% endif %}"
    assert first["value_template"] == own
    assert first.get("state_class") == ("measurement" if kind == "power" else None)
    assert len({sensor["unique_id"] for sensor in sensors.values()}) == 4


@pytest.mark.parametrize(
    ("name", "decimals"), [("power", 0), ("kW", 3), ("energy", 1), ("profile", 2), ("register", 3)]
)
def test_numbers_are_shown_to_the_quantum(name: str, decimals: int) -> None:
    """No digit that is never other than 0, and all that are."""
    sensors = sensors_of(announced(name)[1])
    assert {sensor["suggested_display_precision"] for sensor in sensors.values()} == {decimals}


def test_available_is_the_agent() -> None:
    """One topic for all meters: the status, of which `online` and `offline` are what is expected."""
    assert announced("power")[1]["availability"] == [
        {"topic": "agent/status", "value_template": "{{ value_json.status }}"}
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_diagnostic_entities_state_what_is_public(name: str) -> None:
    """They read the status, the descriptor and the start of a slot, never a value."""
    _, document = announced(name)
    entities = sensors_of(document, diagnostic=True)
    assert set(entities) == {"agent", "noise", "hidden", "slot"}
    topics = {"agent": "agent/status", "noise": f"{SINK}/privacy", "hidden": f"{SINK}/privacy", "slot": SINK}
    device = document["device"]["identifiers"][0]
    for component, entity in entities.items():
        allowed = SENSOR_ALLOWED | BINARY_ALLOWED if component == "agent" else SENSOR_ALLOWED
        assert SENSOR <= entity.keys() <= allowed
        assert entity["entity_category"] == "diagnostic"
        assert entity["state_topic"] == topics[component]
        assert entity["unique_id"] == f"{device}_{component}"
        assert "state_class" not in entity
        assert "value_json.value" not in entity["value_template"]
    facts = json.loads(describe_terms(settled(**SETTINGS[name])).encode_message("m", 0))
    assert entities["noise"]["unit_of_measurement"] == facts["unit"]
    assert isinstance(facts["sd"], int | float)
    assert float(entities["hidden"]["value_template"]) == pytest.approx(
        float(Fraction(facts["hides_wh"])), rel=1e-5
    )


def test_the_agent_is_shown_as_stopped_and_not_as_unavailable() -> None:
    """Its entity is available with any status, also with the last will."""
    agent = sensors_of(announced("power")[1], diagnostic=True)["agent"]
    assert (agent["platform"], agent["device_class"]) == ("binary_sensor", "running")
    assert (agent["payload_on"], agent["payload_off"]) == ("online", "offline")
    assert agent["availability"] == [{"topic": "agent/status", "value_template": "online"}]


def test_the_device_links_to_the_page() -> None:
    """Only if the configuration has an address for browsers."""
    assert "configuration_url" not in announced("power")[1]["device"]
    discovery = DISCOVERY._replace(page_url="http://gateway.local:8321")
    assert announced("power", discovery=discovery)[1]["device"]["configuration_url"] == discovery.page_url


@pytest.mark.parametrize("name", SETTINGS)
def test_the_guarantee_fits_into_attributes(name: str) -> None:
    """No field of a descriptor has a name that Home Assistant keeps for itself."""
    facts = json.loads(describe_terms(settled(**SETTINGS[name])).encode_message("m", 0))
    assert not facts.keys() & BLOCKED_ATTRIBUTES


@given(st.text(min_size=1, max_size=128), st.text(min_size=1, max_size=128))
def test_any_label_is_announced_on_a_topic_that_is_allowed(one: str, other: str) -> None:
    """The name is the label, the topic a digest: two meters have two devices, whatever they are called."""
    (topic, document), (second, _) = (announced("power", x, sink=f"private/{x}") for x in (one, other))
    assert document["device"]["name"] == one
    assert TOPIC.fullmatch(topic)
    assert (topic == second) is (one == other)


def test_all_kinds_and_units_are_tested() -> None:
    """A kind or a unit that is added needs a device of its own."""
    found = {(t.readings.kind, t.readings.unit) for t in (settled(**keys) for keys in SETTINGS.values())}
    assert {kind for kind, _ in found} == set(UNITS)
    assert {unit for _, unit in found} == {unit for units in UNITS.values() for unit in units}
