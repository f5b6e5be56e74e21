"""Home Assistant's discovery messages, for one component or for a device with many components.

Their topics are `<prefix>/<component>/[<node>/]<object>/config`.

Source: the documentation of Home Assistant's MQTT integration (discovery messages, device discovery,
abbreviations).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from meteragent.decode.dialects import parse_steps, to_jmespath
from meteragent.tools.discover.describe.document import text_in
from meteragent.tools.discover.describe.statement import Statement

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

# Templates come from strangers, so matching must take linear time: no text may match in two ways.
_OUTER = re.compile(r"\{\{-?(?P<path>[^{}]*?)-?\}\}", re.DOTALL)
_CONSTANT = r"""(?:\w++\s*+=\s*+)?(?:-?[\d.]++|'[^'|]*+'|"[^"|]*+"|[Nn]one|true|false)"""
_ARGUMENTS = rf"\(\s*+(?:{_CONSTANT}(?:\s*+,\s*+{_CONSTANT})*+)?\s*+\)"
_FILTER = re.compile(rf"(?:float|int|round|default|d|is_defined)(?:\s*+{_ARGUMENTS})?+")
_NOT_PLAIN = "its template calculates, and a configuration cannot: {}"
_SHOWN = 60


def is_description(topic: str) -> bool:
    """Return whether a topic has the form of a discovery message."""
    return topic.endswith("/config") and topic.count("/") >= 3


def read_statements(topic: str, document: Mapping[str, Any]) -> Iterator[Statement]:
    """Yield a statement for each sensor with a state topic, except the agent's own sensors."""
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
    topic = text_in(fields, "state_topic")
    if topic is not None and base is not None:
        topic = base + topic[1:] if topic.startswith("~") else topic
        fields["state_topic"] = topic[:-1] + base if topic.endswith("~") else topic
    return fields


def _sensor(fields: Mapping[str, Any], root: Mapping[str, Any], key: str, place: str) -> Iterator[Statement]:
    topic = text_in(fields, "state_topic")
    if topic is None:
        return
    value, problem = _path_of(text_in(fields, "value_template"))
    place = topic if value is not None else topic.rpartition("/")[0] or place
    about: dict[str, Any] = root["device"] if isinstance(root.get("device"), dict) else {}
    device = {_DEVICE_NAMES.get(name, name): part for name, part in about.items()}
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
        device_name=text_in(device, "name") or "",
        device_model=" ".join(filter(None, (text_in(device, "manufacturer"), text_in(device, "model")))),
        device_class=text_in(fields, "device_class"),
        state_class=text_in(fields, "state_class"),
        problem=problem,
    )


def _identifier(device: Mapping[str, Any]) -> str | None:
    for name in ("identifiers", "connections"):
        value = device.get(name)
        while isinstance(value, list) and value:
            value = value[-1] if name == "connections" and not isinstance(value[0], list) else value[0]
        if isinstance(value, str) and value:
            return value
    return None


# Value templates that are plain paths into a JSON document -------------------------------------------


def _path_of(template: str | None) -> tuple[str | None, str | None]:
    """Return a template's JMESPath expression (None: the payload itself), and the problem, if any."""
    if template is None or not template.strip():
        return None, None
    match = _OUTER.fullmatch(template.strip())
    if match is None:
        return None, _problem(template)
    head, *filters = match["path"].split("|")
    if not all(_FILTER.fullmatch(name.strip()) for name in filters):
        return None, _problem(template)
    name, path = head.strip(), None
    if name == "value":
        return None, None
    if name.startswith("value_json"):
        path = parse_steps(name.removeprefix("value_json"))
    return (None, _problem(template)) if not path else (to_jmespath(path), None)


def _problem(template: str) -> str:
    text = " ".join(template.split())
    return _NOT_PLAIN.format(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …")
