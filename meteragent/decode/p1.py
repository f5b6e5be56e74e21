"""P1 telegrams: the output of the customer port of Dutch, Belgian, Luxembourg, Hungarian and Swedish meters.

A telegram begins with ``/`` and the manufacturer's name, has a line ``code(value*unit)`` for each object, and
ends with ``!``. From DSMR 4 on, a CRC-16 of everything from ``/`` to ``!`` follows. Lines end with CR LF; if
a program has replaced CR LF by LF, CR LF is restored before the CRC is checked. A telegram without a CRC is
read only if it states neither a protocol version nor a time, as in DSMR 2 and 3.

The time of a telegram is the meter's local time with S (summer, UTC+2) or W (winter, UTC+1), because all
these countries use Central European Time. A meter further east appears to be an hour ahead, so its readings
are refused.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from meteragent.decode import parse_without_context
from meteragent.decode.number import text_of
from meteragent.domain.errors import PayloadError

_LINE = re.compile(r"([0-9]-[0-9]:[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2})(\(.*\))", re.ASCII)
_VALUE = re.compile(r"\(([0-9]{1,10}(?:\.[0-9]{1,6})?)\*([A-Za-z0-9]+)\)", re.ASCII)
_TIME = re.compile(r"\(([0-9]{12})([SW])\)", re.ASCII)
_CRC = re.compile(r"[0-9A-Fa-f]{4}", re.ASCII)
_MOMENT = "0-0:1.0.0"
_CODES_WITH_CRC = ("1-3:0.2.8", "0-0:96.1.4", _MOMENT)
"""Protocol versions and the time: a telegram with one of these lines has a CRC."""
_AHEAD_H = {"S": 2, "W": 1}
_POLYNOMIAL = 0xA001
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _entry(byte: int) -> int:
    """Compute the CRC of one byte, an entry of the table."""
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]


def checksum(data: bytes) -> int:
    """Compute the CRC-16 with the polynomial x^16 + x^15 + x^2 + 1, least significant bit first, from 0."""
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


class Telegram(NamedTuple):
    """A valid telegram: the values of each code, and the time (None before DSMR 4)."""

    values: dict[str, list[str]]
    time_ms: int | None

    def number(self, code: str, unit: str) -> Decimal | None:
        """Return the number of a code; None if there is no such line.

        Raises PayloadError if the value is not a number or has another unit, or if the code occurs twice.
        """
        values = self.values.get(code)
        if values is None:
            return None
        match = _VALUE.fullmatch(values[0])
        if match is None or len(values) > 1:
            raise PayloadError("refused_type")
        if match[2] != unit:
            raise PayloadError("refused_unit")
        return Decimal(match[1])


def telegram(payload: bytes) -> Telegram:
    """Parse a telegram; raises PayloadError if its beginning, its end or its CRC is wrong."""
    text = text_of(payload).strip()
    if not text.startswith("/"):
        raise PayloadError("refused_type")
    body, _, crc = text.rpartition("!")  # if there is no ``!``, `crc` is the whole text, which is not a CRC
    values = _values(body.splitlines())
    if crc or any(code in values for code in _CODES_WITH_CRC):
        _check(body, crc)
    return Telegram(values, _time_ms(values.get(_MOMENT)))


def _values(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each code, as written; ignore other lines."""
    values: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is not None:
            values.setdefault(match[1], []).append(match[2])
    return values


def _check(body: str, crc: str) -> None:
    """Check the CRC of a telegram; raises PayloadError if it is missing or wrong."""
    if "\r" not in body:
        body = body.replace("\n", "\r\n")
    if not _CRC.fullmatch(crc) or checksum(body.encode() + b"!") != int(crc, 16):
        raise PayloadError("refused_checksum")


def _time_ms(values: list[str] | None) -> int | None:
    """Convert a telegram's time to ms since the epoch; None if there is none; raises PayloadError."""
    if values is None:
        return None
    match = _TIME.fullmatch(values[0])
    if match is None or len(values) > 1:
        raise PayloadError("refused_time")
    local = parse_without_context("refused_time", ValueError, _local, match[1])
    return (local - timedelta(hours=_AHEAD_H[match[2]]) - _EPOCH) // timedelta(milliseconds=1)


def _local(digits: str) -> datetime:
    """Parse a local time as if it were UTC."""
    year, month, day, hour, minute, second = (int(digits[i : i + 2]) for i in range(0, 12, 2))
    return datetime(2000 + year, month, day, hour, minute, second, tzinfo=UTC)
