"""Zigbee2MQTT's devices and the numbers that they expose: `<base>/bridge/devices` (its documentation)."""

from collections.abc import Iterator
from typing import Any

from meteragent.decode.dialects import to_jmespath
from meteragent.tools.discover.describe.document import text_in
from meteragent.tools.discover.describe.statement import Statement
from meteragent.tools.discover.words import Role, split_words

SOURCE = "Zigbee2MQTT's list of devices"
SUFFIX = "/bridge/devices"
_FLOW = frozenset(["flow", "direction"])


def read_statements(topic: str, document: Any) -> Iterator[Statement]:
    """Yield a statement for each number that a listed device exposes."""
    base = topic.removesuffix(SUFFIX)
    for device in document if isinstance(document, list) else []:
        if isinstance(device, dict) and (name := text_in(device, "friendly_name")) is not None:
            definition = device.get("definition")
            exposes = definition.get("exposes") if isinstance(definition, dict) else None
            yield from _device(f"{base}/{name}", name, list(_features(exposes)))


def _device(topic: str, name: str, features: list[dict[str, Any]]) -> Iterator[Statement]:
    flows = [text_in(feature, "property") or "" for feature in features]
    flows = [flow for flow in flows if set(split_words(flow)) & _FLOW]
    is_plug = any(feature.get("type") == "switch" for feature in features)
    for feature in features:
        field = text_in(feature, "property")
        if feature.get("type") != "numeric" or field is None:
            continue
        direct = not set(split_words(field)) & {"energy"}
        yield Statement(
            source=SOURCE,
            topic=topic,
            value=to_jmespath([field]),
            unit=text_in(feature, "unit"),
            names=tuple(text for text in (field, text_in(feature, "description")) if text),
            device=f"z2m:{topic}",
            device_name=name,
            problem=f"its direction is in another field, {flows[0]}" if flows and direct else None,
            is_total=True,
            role=Role.DEVICE if is_plug else Role.UNKNOWN,
        )


def _features(exposes: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield all exposes and their features, including exposes that have features."""
    for expose in exposes if isinstance(exposes, list) else []:
        if isinstance(expose, dict):
            yield expose
            if depth < 4:
                yield from _features(expose.get("features"), depth + 1)
