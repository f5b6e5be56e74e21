"""Redaction of P1 telegrams (DSMR) and D0 readouts: the header, the values and the checksum."""

import re

from meteragent.decode.p1 import compute_crc
from meteragent.tools.redact.replacement import OBIS, Replacements

_LINE_END = re.compile(r"(\r?\n)")
_HEADER = re.compile(r"/([A-Za-z]{3})(\d)(.*)", re.ASCII | re.DOTALL)
_OBJECT = re.compile(rf"({OBIS})?((?:\([^()]*\))+)", re.ASCII)
"""An object; a line without a code continues the previous line."""
_END = re.compile(r"!([0-9A-Fa-f]{0,4})", re.ASCII)
_VALUE = re.compile(r"(?<=[(*])[^()*]+")


def redact(text: str, replacements: Replacements) -> str | None:
    """Redact telegrams, of which the last may be cut off; return None if a line does not fit a telegram.

    The baud digit of a header is kept. A checksum without leading zeros gets four digits.
    """
    recorded_parts, redacted_parts = list[str](), list[str]()
    start = None
    for line in _LINE_END.split(text):
        if header := _HEADER.fullmatch(line):
            start = len(recorded_parts)
            redacted_line = (
                f"/{replacements.redact_word(header[1])}{header[2]}{replacements.redact_word(header[3])}"
            )
        elif not line.strip():
            redacted_line = line
        elif start is None:
            return None
        elif item := _OBJECT.fullmatch(line):
            values = _VALUE.sub(lambda value: replacements.redact_value(value[0]), item[2])
            redacted_line = f"{item[1] or ''}{values}"
        elif end := _END.fullmatch(line):
            recorded_text, redacted_text = "".join(recorded_parts[start:]), "".join(redacted_parts[start:])
            redacted_line = f"!{_checksum(end[1], f'{recorded_text}!', f'{redacted_text}!')}"
            start = None
        else:
            return None
        recorded_parts.append(line)
        redacted_parts.append(redacted_line)
    return "".join(redacted_parts)


def _checksum(stated_digits: str, recorded_text: str, redacted_text: str) -> str:
    """Return the checksum of a redacted telegram: correct if the original was, otherwise wrong.

    The original checksum may cover the lines as recorded or, if a program replaced CR LF by LF, with CR LF.
    """
    if not stated_digits:
        return ""
    with_cr = tuple(_LINE_END.sub("\r\n", text) for text in (recorded_text, redacted_text))
    for covered, new in ((recorded_text, redacted_text), with_cr):
        if compute_crc(covered.encode()) == int(stated_digits, 16):
            return f"{compute_crc(new.encode()):04X}"
    return f"{compute_crc(redacted_text.encode()) ^ 0xFFFF:04X}"
