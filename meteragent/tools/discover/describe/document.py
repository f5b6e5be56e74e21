"""Descriptions as JSON documents."""

import json
from collections.abc import Mapping
from typing import Any

from meteragent.tools.discover.listener import TopicLog


def document_in(payload: bytes) -> Any:
    """Parse a description; return None if it is not JSON."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def newest_in(logs: Mapping[str, TopicLog], topic: str) -> bytes:
    """Return the newest payload of a topic, or b""."""
    return logs[topic].newest if topic in logs else b""


def text_in(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field if it is a non-empty string, else None."""
    value = fields.get(name)
    return value if isinstance(value, str) and value else None
