"""Home Assistant's discovery messages, for one component or for a device with many components.

Their topics are `<prefix>/<component>/[<node>/]<object>/config`.

Source: the documentation of Home Assistant's MQTT integration (discovery messages, device discovery,
abbreviations).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from meteragent.tools.discover.describe.document import text_in
from meteragent.tools.discover.describe.statement import Statement
from meteragent.tools.discover.describe.template import path_of

SOURCE = "Home Assistant's discovery message"
_NAMES = {
    "stat_t": "state_topic",
    "unit_of_meas": "unit_of_measurement",
    "dev_cla": "device_class",
    "stat_cla": "state_class",
    "val_tpl": "value_template",
    "dev": "device",
    "o": "origin",
    "cmps": "components",
    "p": "platform",
    "obj_id": "object_id",
    "uniq_id": "unique_id",
    "def_ent_id": "default_entity_id",
    "e": "encoding",
}
_DEVICE_NAMES = {"ids": "identifiers", "cns": "connections", "mf": "manufacturer", "mdl": "model"}
_TOPICS = ("state_topic",)


def is_description(topic: str) -> bool:
    """Return whether a topic has the form of a discovery message."""
    return topic.endswith("/config") and topic.count("/") >= 3


def statements(topic: str, document: Mapping[str, Any]) -> Iterator[Statement]:
    """Yield a statement for each sensor with a state topic; none for other components.

    The agent's own devices are skipped, because their numbers are records and not readings.
    """
    segments = topic.split("/")
    root = _expand(document)
    origin = root.get("origin")
    if isinstance(origin, dict) and text_in(origin, "name") == "meteragent":
        return
    components = root.get("components")
    if isinstance(components, dict):
        shared = {key: root[key] for key in ("state_topic", "encoding") if key in root}
        for key, component in components.items():
            if isinstance(component, dict):
                fields = shared | _expand(component, base=text_in(root, "~"))
                if fields.get("platform") == "sensor":
                    yield from _sensor(fields, root, key, segments[-2])
    elif "sensor" in segments[:-2] or (segments[-3:-2] == ["sensor"]):
        for statement in _sensor(root, root, segments[-2], "/".join(segments[-3:-1])):
            yield replace(statement, unit_topic=topic)


def _expand(document: Mapping[str, Any], base: str | None = None) -> dict[str, Any]:
    """Expand abbreviated keys, and replace `~` at the beginning or end of the state topic with the base."""
    fields = {_NAMES.get(key, key): value for key, value in document.items()}
    base = text_in(fields, "~") or base
    for name in _TOPICS:
        topic = text_in(fields, name)
        if topic is not None and base is not None:
            topic = base + topic[1:] if topic.startswith("~") else topic
            fields[name] = topic[:-1] + base if topic.endswith("~") else topic
    return fields


def _sensor(fields: Mapping[str, Any], root: Mapping[str, Any], key: str, place: str) -> Iterator[Statement]:
    topic = text_in(fields, "state_topic")
    if topic is None:
        return
    value, problem = path_of(text_in(fields, "value_template"))
    place = topic if value is not None else topic.rpartition("/")[0] or place
    device = root.get("device")
    device = (
        {_DEVICE_NAMES.get(name, name): part for name, part in device.items()}
        if isinstance(device, dict)
        else {}
    )
    device_name = text_in(device, "name") or ""
    names = [text_in(fields, "name"), value, key, text_in(fields, "object_id"), text_in(fields, "unique_id")]
    if value is None:
        names.insert(2, topic.rpartition("/")[2])
    yield Statement(
        source=SOURCE,
        topic=topic,
        value=value,
        unit=text_in(fields, "unit_of_measurement"),
        names=tuple(name for name in names if name),
        device=f"ha:{_identifier(device) or place}",
        device_name=device_name,
        device_model=" ".join(filter(None, (text_in(device, "manufacturer"), text_in(device, "model")))),
        device_class=text_in(fields, "device_class"),
        state_class=text_in(fields, "state_class"),
        problem=problem,
    )


def _identifier(device: Mapping[str, Any]) -> str | None:
    """Return the first identifier or connection of a device."""
    for name in ("identifiers", "connections"):
        value = device.get(name)
        while isinstance(value, list) and value:
            value = value[-1] if name == "connections" and not isinstance(value[0], list) else value[0]
        if isinstance(value, str) and value:
            return value
    return None
