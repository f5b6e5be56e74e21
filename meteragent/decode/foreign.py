"""The forms of payloads that programs often send but no decoder reads, so that a refusal says what to do.

A form is the name of a counter, whose text says what to send instead (`domain.counters.REFUSALS`). Only the
notation is recognised, by the beginning of a payload, and no part of the payload is returned.
"""

import base64
import re
import zlib
from binascii import Error
from collections.abc import Callable

_HEAD = 1000
"""The number of characters or bytes that are examined."""
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_PACKED = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"BZh", b"\xfd7zXZ\0")
"""The first bytes of gzip, zstd, lz4, bzip2 and xz."""
_SPARKPLUG = re.compile(rb"\x08[\x80-\xff]{5}[\x01-\x7f][\x12\x18]", re.DOTALL)
"""A protobuf message: a time in milliseconds, then a metric or a sequence number."""
_ENCRYPTED = re.compile(rb".{0,40}?\xdb\x08", re.DOTALL)
"""A DLMS message with the 8-byte title of the system that encrypted it, alone or in a frame."""
_FRAME = re.compile(rb"\x1b{4}\x01{4}|\x68(.)\1\x68|\x7e[\xa0-\xaf]|\x0f.{4}[\x00\x0c]", re.DOTALL)
"""The beginnings of SML, M-Bus, HDLC, and DLMS without a frame."""
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}[ :,-]?){12,}", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}", re.ASCII)
_NOTATION = re.compile(
    r"[\[({]\s*(?:'|\(|\{\s*(?:'|\w+\s*:)|[A-Za-z_]\w*\s*:)"
    r"|\(.*,.*\)\Z|b(?:'.*'|\".*\")\Z|\[object |\w+\((?:\w+=|[\[{'(<]).*\)\Z",
    re.DOTALL,
)
"""A program's own notation of a dictionary, a list of texts or dictionaries, a tuple, bytes, or an object."""
_INFLUX = re.compile(
    r"[^\s,={\"]+(?:,[^\s,=]+=[^\s,=]+)* +[^\s,=]+=(?:[+-]?\.?\d|\"|(?:t|f|true|false)\b)", re.IGNORECASE
)
"""InfluxDB's line protocol: a measurement, its tags, and the first of its fields."""
_TELEGRAM_LINE = re.compile(
    r"^(?:\d-\d{1,3}:)?\d{1,3}\.\d{1,3}\.\d{1,3}(?:\*\d{1,3})?\(|\A![0-9A-Fa-f]{4}\Z", re.ASCII | re.MULTILINE
)
"""A line of a telegram, or its checksum."""
_SUFFIX = re.compile(r"[+-]?[\d.,]+\s*\*?(?:[kM]?Wh?|watts?)", re.ASCII | re.IGNORECASE)
_COMMA = re.compile(
    r"[+-]?(?:\d+,\d+|\d{1,3}(?:[ .'\u00a0\u202f]\d{3})+,\d+|\d{1,3}(?:,\d{3})+\.\d+"
    r"|\d{1,3}(?:['\u00a0\u202f,]\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3}){2,})",
    re.ASCII,
)
_COMMA_IN_JSON = re.compile(r"\"\s*:\s*[+-]?\d+,\d+\s*[,}]", re.ASCII)
_ITEM = re.compile(rf"\s*(?:[\w.]+\s*[=:]\s*)?{_NUMBER}\s*", re.ASCII)
"""An item of a list that is a number, perhaps with its name."""
_OTHER_ITEM = re.compile(r"[\w .:+/%°-]{0,40}")
"""An item that may stand next to a number, such as a time, a state or a unit."""


def form_of(payload: bytes) -> str | None:
    """Return the form of a payload; None if it is none of the known forms."""
    try:
        return form_of_bytes(payload) or form_of_text(payload.decode())
    except UnicodeDecodeError:
        return None


def form_of_bytes(payload: bytes) -> str | None:
    """Return the form of a binary payload: compressed, Sparkplug, or a frame of a meter's port."""
    head = payload[:_HEAD]
    if head.startswith(_PACKED) or _is_zlib(head):
        return "refused_compressed"
    if _SPARKPLUG.match(head):
        return "refused_sparkplug"
    return "refused_encrypted" if _ENCRYPTED.match(head) or _FRAME.match(head) else None


def _is_zlib(head: bytes) -> bool:
    try:
        return head[:1] == b"x" and bool(zlib.decompressobj().decompress(head, 1))
    except zlib.error:
        return False


def form_of_text(text: str) -> str | None:
    """Return the form of a text; None if it is none of the known forms."""
    head = text[:_HEAD].strip(" \t\r\n\0")
    return next((form for form, matches in _FORMS.items() if matches(head)), None) or _form_inside(head)


def _form_inside(text: str) -> str | None:
    """Return the form of the bytes that a text spells in hexadecimal or base64."""
    try:
        if _HEX.fullmatch(text) and not text.isdecimal():
            return form_of_bytes(bytes.fromhex(re.sub("[:,-]", "", text)))
        if _BASE64.fullmatch(text):
            return form_of_bytes(base64.b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, Error):
        pass
    return None


def _is_part(text: str) -> bool:
    return not text.startswith("/") and _TELEGRAM_LINE.search(text) is not None


def _is_influx(text: str) -> bool:
    escaped = text.replace("\\ ", "_").replace("\\,", "_").replace("\\=", "_")
    return _INFLUX.match(escaped) is not None


def _has_comma(text: str) -> bool:
    is_json = text.startswith(("{", "["))
    return (_COMMA_IN_JSON.search(text) if is_json else _COMMA.fullmatch(text)) is not None


def _is_list(text: str) -> bool:
    """Return whether a text consists of short items, of which at least one is a number.

    If items are separated by commas or spaces, as in sentences, every item must be a number.
    """
    content = text.strip("[]{}")
    separator = next((separator for separator in ";|\t\n, " if separator in content), None)
    items = content.split(separator) if separator is not None else []
    numbers = sum(_ITEM.fullmatch(item) is not None for item in items)
    if separator in (",", " ", None):
        return len(items) > 1 and numbers == len(items)
    return numbers > 0 and all(_OTHER_ITEM.fullmatch(item) or _ITEM.fullmatch(item) for item in items)


_FORMS: dict[str, Callable[[str], object]] = {
    "refused_notation": _NOTATION.match,
    "refused_part": _is_part,
    "refused_influx": _is_influx,
    "refused_suffix": _SUFFIX.fullmatch,
    "refused_comma": _has_comma,
    "refused_list": _is_list,
}
