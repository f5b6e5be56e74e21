"""Redaction of JSON: keys, strings, numbers, and times under the keys from which profiles read times."""

import json
import re

from meteragent.tools.redact.replacement import Replacements

_TOKEN = re.compile(
    r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<colon>\s*:)?|(?P<number>-?\d[\d.eE+-]*)|[A-Za-z]+|.', re.DOTALL
)
"""A token of a valid document; words are literals such as null."""
_SHORT = 2
"""Keys up to this length are kept, because two characters identify nobody."""
_TIMES = frozenset(["t", "bt", "ts", "time", "timestamp", "minute_ts"])
_CODES = frozenset(["Type", "ERTType", "EndpointType", "ert_type", "PacketTypeID", "bver"])
_CODE = re.compile(r"\d{1,3}|0x[0-9A-Fa-f]{1,2}", re.ASCII)
"""A value that is kept under one of the keys `_CODES`, because it states the kind of message."""


def redact(text: str, replacements: Replacements) -> str | None:
    """Redact a JSON document; return None if the text is not JSON."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    pieces, key = [], ""
    for token in _TOKEN.finditer(text):
        content, number = token["string"], token["number"]
        if token["colon"]:
            key = content
            name = content if len(content) <= _SHORT else replacements.redact_name(content)
            pieces.append(f'"{name}"{token["colon"]}')
            continue
        if content is not None:
            redacted = _redact_nested(content, replacements) or _value(content, key, replacements)
            pieces.append(f'"{redacted}"')
        else:
            pieces.append(token[0] if number is None else _value(number, key, replacements))
        if not token[0].isspace():
            key = ""  # a key applies to the next value only
    return "".join(pieces)


def _redact_nested(content: str, replacements: Replacements) -> str | None:
    """Redact an object or a list in a string; return None if the string does not spell one."""
    inner = json.loads(f'"{content}"') if content.lstrip()[:1] in ("{", "[") else ""
    is_spelt_as_written = json.dumps(inner, ensure_ascii=False) == f'"{content}"'
    redacted = redact(inner, replacements) if is_spelt_as_written else None
    return None if redacted is None else json.dumps(redacted, ensure_ascii=False)[1:-1]


def _value(text: str, key: str, replacements: Replacements) -> str:
    """Redact a number, or the content of a string."""
    if key in _CODES and _CODE.fullmatch(text):
        return text
    return (key in _TIMES and replacements.shift_unix_time(text)) or replacements.redact_value(text)
