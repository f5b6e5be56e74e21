"""Parse P1 telegrams from the customer ports of European meters, and D0 readouts (IEC 62056-21, mode D).

A telegram begins with ``/`` and the manufacturer's name, has a line ``code(value*unit)`` for each object, and
ends with ``!``. From DSMR 4 on, a CRC-16 over everything from ``/`` to ``!`` follows, for which CR LF is
restored if a program has replaced it with LF. Some devices write the CRC without its leading zeros. A
telegram without a CRC is read only if it states neither a protocol version nor a time, as in DSMR 2 and 3 and
in D0 readouts.

In a D0 readout, codes for present values end in ``*255``. Codes with other endings are for stored past values
and are ignored. In power codes, some meters also write 255 instead of 0, as in ``1-0:1.7.255*255``. A readout
has no CRC, and anything that a gateway appends to a readout is ignored.

Austrian meters use W and Wh, without decimals; D0 readouts use W with at most two decimals. A number in W or
Wh with more decimals is refused, because a gateway must have removed the k of kW or kWh.

A telegram's time is the meter's local time with S (summer) or W (winter). W stands for the smaller and S for
the larger of the zone's offsets in the telegram's year. The repeated hour in autumn is therefore unambiguous,
and a meter that stays on winter time all year is read correctly. If no zone is given, the offsets are those
of Central European Time, UTC+1 and UTC+2.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from meteragent.decode import ARRIVAL, parse_or_refuse
from meteragent.decode.foreign import form_of_text
from meteragent.decode.number import text_of
from meteragent.domain.errors import PayloadError

_LINE = re.compile(
    r"([0-9]-[0-9]:[0-9]{1,2}\.[0-9]{1,2}\.(?:[0-9]{1,2}|255))(?:\*([0-9]{1,3}))?(\(.*\))", re.ASCII
)
_PRESENT_SUFFIX = "255"
_VALUE = re.compile(r"\((-?[0-9]{1,10}(?:\.([0-9]{1,10}))?)\*([A-Za-z0-9]+)\)", re.ASCII)
_DECIMALS_MAX = 2
_TIME = re.compile(r"\(([0-9]{12})([SW])\)", re.ASCII)
_CRC = re.compile(r"[0-9A-Fa-f]{1,4}", re.ASCII)
_TIME_CODE = "0-0:1.0.0"
_CODES_WITH_CRC = ("1-3:0.2.8", "0-0:96.1.4", _TIME_CODE)
"""The codes for protocol versions and the time: a telegram with any of these lines has a CRC."""
_HOUR = timedelta(hours=1)
_CENTRAL_EUROPEAN = {"W": _HOUR, "S": 2 * _HOUR}
_KILO = {"kW": "W", "kWh": "Wh"}
"""For each unit, the unit that is a thousandth of it."""
_POLYNOMIAL = 0xA001
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _crc_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_crc_entry(byte) for byte in range(256)]


def compute_crc(data: bytes) -> int:
    """Compute the CRC-16 with the polynomial x^16 + x^15 + x^2 + 1, lowest bit first, starting at 0."""
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


class Telegram(NamedTuple):
    """A telegram: each code's values as written, its time if it is used, and whether it is a D0 readout."""

    values: dict[str, list[str]]
    time_ms: int | None
    is_readout: bool = False

    def read_code(self, code: str, unit: str, *, is_signed: bool = False) -> Decimal | None:
        """Return a code's number in kW or kWh; None if it is missing. Raises PayloadError if it is wrong."""
        values = self.values.get(code)
        if values is None:
            return None
        match = _VALUE.fullmatch(values[0])
        if match is None or len(values) > 1 or (match[1].startswith("-") and not is_signed):
            raise PayloadError("refused_type")
        if match[3] == unit:
            return Decimal(match[1])
        decimals = len(match[2] or "")
        if match[3] != _KILO[unit] or decimals > (_DECIMALS_MAX if self.is_readout else 0):
            raise PayloadError("refused_unit")
        return Decimal(match[1]).scaleb(-3)


def parse_telegram(payload: bytes, zone: str | None = None) -> Telegram:
    """Parse a telegram. Raises PayloadError if its encoding, beginning, CRC or time is wrong.

    `zone` is the time zone of the telegram's time, or `ARRIVAL`; None means Central European Time.
    """
    text = text_of(payload).strip()
    if not text.startswith("/"):
        raise PayloadError(form_of_text(text) or "refused_type")
    body, _, crc = text.rpartition("!")  # without a ``!``, `crc` is the whole text, which is not a CRC
    values, is_readout = _code_values(body.splitlines())
    if any(code in values for code in _CODES_WITH_CRC) or (crc and not is_readout):
        _check_crc(body, crc)
    time_ms = None if zone == ARRIVAL else _time_ms(values.get(_TIME_CODE), zone)
    return Telegram(values, time_ms, is_readout)


def _code_values(lines: Sequence[str]) -> tuple[dict[str, list[str]], bool]:
    """Return each code's values, as written, and whether they are from a D0 readout. Ignore other lines."""
    values: dict[str, list[str]] = {}
    is_readout = False
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or match[2] not in (None, _PRESENT_SUFFIX):
            continue
        is_readout = is_readout or match[2] == _PRESENT_SUFFIX
        code = (
            f"{match[1].removesuffix(_PRESENT_SUFFIX)}0"
            if match[1].endswith(f".{_PRESENT_SUFFIX}")
            else match[1]
        )
        values.setdefault(code, []).append(match[3])
    return values, is_readout


def _check_crc(body: str, crc: str) -> None:
    """Check a telegram's CRC. Raises PayloadError if it is missing or wrong."""
    if "\r" not in body:
        body = body.replace("\n", "\r\n")
    if not _CRC.fullmatch(crc) or compute_crc(body.encode() + b"!") != int(crc, 16):
        raise PayloadError("refused_checksum")


def _time_ms(values: list[str] | None, zone: str | None) -> int | None:
    """Return a telegram's time in Unix ms, if there is any. Raises PayloadError if it is wrong."""
    if values is None:
        return None
    match = _TIME.fullmatch(values[0])
    if match is None or len(values) > 1:
        raise PayloadError("refused_time")
    local_time = parse_or_refuse("refused_time", ValueError, _local_time, match[1])
    offsets = _CENTRAL_EUROPEAN if zone is None else _offsets(zone, local_time.year)
    return (local_time - offsets[match[2]] - _EPOCH) // timedelta(milliseconds=1)


@cache
def _offsets(zone: str, year: int) -> dict[str, timedelta]:
    """Return a zone's offsets from UTC in a year, for winter (W) and summer (S); they may be equal."""
    offsets = [datetime(year, month, 1, tzinfo=ZoneInfo(zone)).utcoffset() or timedelta() for month in (1, 7)]
    return {"W": min(offsets), "S": max(offsets)}


def _local_time(digits: str) -> datetime:
    """Parse a local time as if it were UTC."""
    year, month, day, hour, minute, second = (int(digits[i : i + 2]) for i in range(0, 12, 2))
    return datetime(2000 + year, month, day, hour, minute, second, tzinfo=UTC)
