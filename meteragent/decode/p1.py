"""P1 telegrams: what a Dutch, Belgian, Luxembourg, Hungarian or Swedish meter says at its customer's port.

A telegram begins with ``/`` and the maker's name, has a line for each object, ``code(value*unit)``, and ends
with ``!`` and, from DSMR 4 on, a CRC-16 of all from ``/`` to ``!``. Lines end with CR LF; where a program
has made LF of it, CR LF is put back before the sum is checked. A telegram without its sum is only read if
it states neither a version of the protocol nor a time, as those of DSMR 2 and 3 do not.

Its time is the meter's local time with S (summer, UTC+2) or W (winter, UTC+1): all these countries keep
Central European Time. A meter further east seems an hour ahead, and its readings are refused for that.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from meteragent.decode import attempt
from meteragent.decode.number import text_of
from meteragent.domain.errors import PayloadError

_LINE = re.compile(r"([0-9]-[0-9]:[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2})(\(.*\))", re.ASCII)
_VALUE = re.compile(r"\(([0-9]{1,10}(?:\.[0-9]{1,6})?)\*([A-Za-z0-9]+)\)", re.ASCII)
_TIME = re.compile(r"\(([0-9]{12})([SW])\)", re.ASCII)
_SUM = re.compile(r"[0-9A-Fa-f]{4}", re.ASCII)
_MOMENT = "0-0:1.0.0"
_SUMMED = ("1-3:0.2.8", "0-0:96.1.4", _MOMENT)
"""Versions of the protocol, and the time: telegrams that have one of these lines have a sum."""
_AHEAD_H = {"S": 2, "W": 1}
_POLYNOMIAL = 0xA001
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]


def checksum(data: bytes) -> int:
    """CRC-16 with the polynomial x^16 + x^15 + x^2 + 1, least significant bit first, from 0."""
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


class Telegram(NamedTuple):
    """A telegram whose sum is right: the values of each code, and its time (None before DSMR 4)."""

    values: dict[str, list[str]]
    time_ms: int | None

    def number(self, code: str, unit: str) -> Decimal | None:
        """The number of a code, None where there is no such line.

        Raises PayloadError when it is none, comes twice, or is stated in another unit.
        """
        found = self.values.get(code)
        if found is None:
            return None
        match = _VALUE.fullmatch(found[0])
        if match is None or len(found) > 1:
            raise PayloadError("refused_type")
        if match[2] != unit:
            raise PayloadError("refused_unit")
        return Decimal(match[1])


def telegram(payload: bytes) -> Telegram:
    """A payload as a telegram; raises PayloadError when it is none, cut short, or its sum is wrong."""
    text = text_of(payload).strip()
    if not text.startswith("/"):
        raise PayloadError("refused_type")
    body, _, stated = text.rpartition("!")  # without an end all of it is stated, which is no sum
    values = _values(body.splitlines())
    if stated or any(code in values for code in _SUMMED):
        _check(body, stated)
    return Telegram(values, _time_ms(values.get(_MOMENT)))


def _values(lines: Sequence[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is not None:
            values.setdefault(match[1], []).append(match[2])
    return values


def _check(body: str, stated: str) -> None:
    if "\r" not in body:
        body = body.replace("\n", "\r\n")
    if not _SUM.fullmatch(stated) or checksum(body.encode() + b"!") != int(stated, 16):
        raise PayloadError("refused_checksum")


def _time_ms(found: list[str] | None) -> int | None:
    if found is None:
        return None
    match = _TIME.fullmatch(found[0])
    if match is None or len(found) > 1:
        raise PayloadError("refused_time")
    local = attempt("refused_time", ValueError, _local, match[1])
    return (local - timedelta(hours=_AHEAD_H[match[2]]) - _EPOCH) // timedelta(milliseconds=1)


def _local(digits: str) -> datetime:
    """A local time, as if it were UTC."""
    year, month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(0, 12, 2))
    return datetime(2000 + year, month, day, hour, minute, second, tzinfo=UTC)
