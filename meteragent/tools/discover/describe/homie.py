"""Devices that follow the Homie convention.

In versions 3 and 4, each attribute has its own topic; in version 5, the description is JSON.

Source: the Homie convention, versions 3.0.1, 4.0.0 and 5.0.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from meteragent.tools.discover.describe.document import newest_in, text_in
from meteragent.tools.discover.describe.statement import Statement
from meteragent.tools.discover.listener import TopicLog

SOURCE = "the device's Homie description"
DESCRIPTION = "/$description"
_UNIT = "/$unit"
_TARGET = "it can be set, so it is a target and not a measurement"
_NUMBERS = frozenset({"integer", "float"})


def is_description(topic: str) -> bool:
    """Return whether a topic is that of an attribute of the convention."""
    return topic.rpartition("/")[2].startswith("$")


def read_attributes(logs: Mapping[str, TopicLog]) -> Iterator[Statement]:
    """Yield a statement for each property of versions 3 and 4 that has a unit."""
    for topic, log in logs.items():
        place = topic.removesuffix(_UNIT)
        if place == topic or place.count("/") < 3 or not log.payloads:
            continue
        device = place.rsplit("/", 2)[0]
        if not _text(logs, f"{device}/$homie"):
            continue
        yield _statement(
            place,
            (_text(logs, f"{place}/$name"), place.rpartition("/")[2], place.split("/")[-2]),
            _text(logs, topic),
            (device, _text(logs, f"{device}/$name")),
            _text(logs, f"{place}/$datatype"),
            is_settable=_text(logs, f"{place}/$settable") == "true",
        )


def read_statements(topic: str, document: Any) -> Iterator[Statement]:
    """Yield a statement for each property in a description of version 5."""
    device = topic.removesuffix(DESCRIPTION)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    for node, about in nodes.items() if isinstance(nodes, dict) else ():
        properties = about.get("properties") if isinstance(about, dict) else None
        for key, fields in properties.items() if isinstance(properties, dict) else ():
            if isinstance(fields, dict):
                yield _statement(
                    f"{device}/{node}/{key}",
                    (text_in(fields, "name"), key, node),
                    text_in(fields, "unit"),
                    (device, text_in(document, "name")),
                    text_in(fields, "datatype"),
                    is_settable=fields.get("settable") is True,
                )


def _statement(
    topic: str,
    names: tuple[str | None, ...],
    unit: str | None,
    device: tuple[str, str | None],
    datatype: str | None,
    *,
    is_settable: bool,
) -> Statement:
    """Return the statement about a property; `device` is its device's topic and name."""
    problem = None if datatype in _NUMBERS else f"its data type is {datatype or 'not stated'}, not a number"
    return Statement(
        source=SOURCE,
        topic=topic,
        value=None,
        unit=unit,
        names=tuple(name for name in names if name),
        device=f"homie:{device[0]}",
        device_name=device[1] or "",
        problem=_TARGET if is_settable else problem,
    )


def _text(logs: Mapping[str, TopicLog], topic: str) -> str | None:
    return newest_in(logs, topic).decode(errors="replace").strip() or None
