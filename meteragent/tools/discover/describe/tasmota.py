"""Tasmota's own descriptions: `tasmota/discovery/<mac>/config` and `/sensors`, and answers to `Status`.

`config` states the topics of a device, and `sensors` holds a SENSOR message. A device sends its SENSOR
message every five minutes by default, so its description is often the only message that is heard.

Source: the documentation of Tasmota (MQTT, discovery; command `Status`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from meteragent.tools.discover.describe.document import document_in, newest_in, text_in
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.words import Role

_DISCOVERY = re.compile(r"(?P<device>[^/]+(?:/[^/]+)*/discovery/[^/]+)/(?P<part>config|sensors)")
_STATUS = re.compile(r"stat/(?P<device>.+)/STATUS(?:\d{1,2})?")


class Device(NamedTuple):
    """A device: the topic of its SENSOR messages, its name, an example message or None, and its role."""

    topic: str
    name: str
    example: bytes | None
    role: Role


def is_description(topic: str) -> bool:
    """Return whether a topic carries one of Tasmota's descriptions."""
    return bool(_STATUS.fullmatch(topic)) or (
        bool(_DISCOVERY.fullmatch(topic)) and topic.startswith("tasmota/")
    )


def read_devices(logs: Mapping[str, TopicLog]) -> Iterator[Device]:
    """Yield the devices that describe themselves, or whose answer to `Status` holds a SENSOR message."""
    for topic, log in logs.items():
        match, document = _DISCOVERY.fullmatch(topic), document_in(log.newest)
        if not isinstance(document, dict):
            continue
        if match is not None and match["part"] == "config":
            sensors = document_in(newest_in(logs, f"{match['device']}/sensors"))
            yield from _configured_device(document, sensors)
        elif (status := _STATUS.fullmatch(topic)) is not None and isinstance(document.get("StatusSNS"), dict):
            name, example = status["device"], json.dumps(document["StatusSNS"]).encode()
            yield Device(f"tele/{name}/SENSOR", name, example, Role.UNKNOWN)


def _configured_device(config: Mapping[str, Any], sensors: Any) -> Iterator[Device]:
    """Yield the device of a complete configuration; its topic is the full topic with the third prefix."""
    name, full, prefixes = text_in(config, "t"), text_in(config, "ft"), config.get("tp")
    if name is None or full is None or not isinstance(prefixes, list) or len(prefixes) != 3:
        return
    topic = full.replace("%prefix%", str(prefixes[2])).replace("%topic%", name)
    topic = topic.replace("%hostname%", text_in(config, "hn") or "").rstrip("/")
    if "%" in topic or not topic:
        return
    example = sensors.get("sn") if isinstance(sensors, dict) else None
    message = json.dumps(example).encode() if isinstance(example, dict) else None
    relays = config.get("rl")
    has_relay = isinstance(relays, list) and 1 in relays
    yield Device(f"{topic}/SENSOR", name, message, Role.DEVICE if has_relay else Role.UNKNOWN)
