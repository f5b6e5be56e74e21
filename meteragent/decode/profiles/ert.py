"""American ERT meters, received by radio with rtl_433, rtlamr (with its lines sent to MQTT) or rtlamr2mqtt.

A meter sends its register about every minute (SCM, SCM+), or its register and the last 47 intervals of five
minutes (IDM), newest first. The newest interval ended ``TransmitTimeOffset`` sixteenths of a second before
the message, when the IDM's register was read. In recordings, the ends of one interval, computed from three
messages, were within 40 ms of each other, so ends are rounded to seconds and a repeated interval gets the
same time.

A count is 1 Wh, 10 Wh or more: ``source.unit`` and ``source.scale`` state its energy. A receiver picks up
hundreds of meters, so only messages from the meter ``source.id`` are used. Gas and water meters send the same
messages; the lower four bits of a meter's type state the medium (github.com/bemasher/rtlamr, meters.md),
which only rtlamr2mqtt's `state` lacks. A NetIDM has the layout of an IDM, but another packet type and other
contents.
"""

import re
from decimal import Decimal
from typing import Any, NamedTuple

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_of, number_or_text, time_of, value_at
from meteragent.decode.profile import CodedPart, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_INTERVAL_MS = 5 * MINUTE_MS
_INTERVALS = 47
_INTERVAL_MAX = 2**9 - 1
_COUNT_MAX = 2**32 - 1
_OFFSETS_PER_S = 16
_ELECTRICITY = (4, 5, 7, 8)
_IDM_PACKET = 28
_HEXADECIMAL, _CODE_MAX = re.compile(r"0x[0-9A-Fa-f]{1,2}", re.ASCII), 255
_OFFSET_MAX = _INTERVAL_MS * _OFFSETS_PER_S // 1000


class _Format(NamedTuple):
    """A message type's layout: the keys of its fields, and the path of the object that contains them."""

    type_key: str
    type: str
    path: tuple[str, ...]
    id_key: str
    count_key: str
    medium_key: str
    time_key: str | None


def _rtl_433(model: str, id_: str, count: str, medium: str) -> _Format:
    """Make the layout of an rtl_433 message, whose time is not used, because it is local and has no zone."""
    return _Format("model", model, (), id_, count, medium, None)


def _rtlamr(type_: str, id_: str, count: str, medium: str) -> _Format:
    return _Format("Type", type_, ("Message",), id_, count, medium, "Time")


def _whole_number(value: Any, largest: int) -> int:
    """Return a value that is a whole number from 0 to `largest`. Raises PayloadError for other values."""
    number = number_of(value)
    if not 0 <= number <= largest or number != number.to_integral_value():
        raise PayloadError("refused_type")
    return int(number)


def _read_serial(value: Any) -> str:
    """Return a meter's id as a string. Raises PayloadError if the value is not a whole number."""
    text = str(number_of(value))
    if not text.isdecimal():
        raise PayloadError("refused_type")
    return text


def _read_code(message: Any, key: str) -> int:
    """Return a code, which is a number or a string such as 0x17. Raises PayloadError for other values."""
    value = value_at(message, key)
    if isinstance(value, str) and _HEXADECIMAL.fullmatch(value):
        return int(value, 16)
    return _whole_number(value, _CODE_MAX)


def _check_medium(message: Any, medium_key: str) -> None:
    """Check that a message is about electricity. Raises PayloadError (`other` for other or unknown media)."""
    word, code = value_at(message, "MeterType"), _read_code(message, medium_key)
    if word not in (None, "Electric") or code & 0xF not in _ELECTRICITY:
        raise PayloadError("other")


def _check_packet(message: Any) -> None:
    """Check that a message with intervals is an IDM. Raises PayloadError (`other` for a NetIDM)."""
    if _read_code(message, "PacketTypeID") != _IDM_PACKET:
        raise PayloadError("other")


def _end_ms(sent_ms: int | None, offset: int) -> int | None:
    """Return the newest interval's end, rounded to seconds, relative to the arrival if `sent_ms` is None."""
    age_ms = offset * 1000 // _OFFSETS_PER_S
    end_ms = (sent_ms or 0) - age_ms
    rounded_ms = (end_ms + 500) // 1000 * 1000
    return rounded_ms if sent_ms is not None else rounded_ms or None


def _read_intervals(message: Any, sent_ms: int | None, id_: str | None) -> list[PayloadNumber]:
    """Return the intervals of an IDM, oldest first. Raises PayloadError if one is missing or wrong."""
    blocks = value_at(message, "DifferentialConsumptionIntervals")
    if blocks is None:
        raise PayloadError("refused_missing")
    if not isinstance(blocks, list) or len(blocks) != _INTERVALS:
        raise PayloadError("refused_type")
    end_ms = _end_ms(sent_ms, _read_offset(message)) or 0
    intervals = [
        PayloadNumber(
            end_ms - position * _INTERVAL_MS or None, Decimal(_whole_number(block, _INTERVAL_MAX)), id_
        )
        for position, block in enumerate(blocks)
    ]
    return intervals[::-1]


def _read_offset(message: Any) -> int:
    """Return the time since the newest interval's end, in 1/16 s. Raises PayloadError above five minutes."""
    offset = _whole_number(value_at(message, "TransmitTimeOffset"), _COUNT_MAX)
    if offset > _OFFSET_MAX:
        raise PayloadError("refused_time")
    return offset


def _read_message(payload: bytes, form: _Format) -> tuple[Any, str, int | None]:
    """Return the message, its meter and its time. Raises PayloadError (`other` for other types and media)."""
    document = document_of(payload)
    type_ = value_at(document, form.type_key)
    if type_ is None:
        raise PayloadError("refused_missing")
    if type_ != form.type:
        raise PayloadError("other")
    message = value_at(document, *form.path)
    _check_medium(message, form.medium_key)
    if form.type == "IDM":
        _check_packet(message)
    time_ms = None if form.time_key is None else time_of(value_at(document, form.time_key))
    return message, _read_serial(value_at(message, form.id_key)), time_ms


def _register_reader(form: _Format) -> Read:
    """Make a reader of a register; an IDM's register was read when the newest interval ended."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the register, its time and its meter. Raises PayloadError if the message is refused."""
        message, id_, time_ms = _read_message(payload, form)
        count = Decimal(_whole_number(value_at(message, form.count_key), _COUNT_MAX))
        if form.type == "IDM":
            time_ms = _end_ms(time_ms, _read_offset(message))
        return (PayloadNumber(time_ms, count, id_),)

    return read


def _interval_reader(form: _Format) -> Read:
    """Make a reader of an IDM's intervals."""

    def read(payload: bytes) -> list[PayloadNumber]:
        """Read the intervals, oldest first. Raises PayloadError if the message is refused."""
        message, id_, time_ms = _read_message(payload, form)
        return _read_intervals(message, time_ms, id_)

    return read


def _read_attribute_intervals(payload: bytes) -> list[PayloadNumber]:
    """Read the intervals in rtlamr2mqtt's attributes, which are an IDM without its id and register."""
    message = document_of(payload)
    _check_medium(message, "ERTType")
    _check_packet(message)
    return _read_intervals(message, None, None)


def _read_state(payload: bytes) -> tuple[PayloadNumber]:
    """Read rtlamr2mqtt's register: a number, or a string in the format that its configuration sets."""
    document = document_of(payload)
    number = number_or_text(value_at(document, "reading"))
    return (PayloadNumber(time_of(value_at(document, "lastseen")), number),)


def _quantities(scm: _Format, scm_plus: _Format, idm: _Format) -> dict[str, Quantity]:
    timed = scm.time_key is not None
    return {
        "scm": Quantity(Kind.REGISTER, None, _register_reader(scm), has_time=timed, is_count=True),
        "scm-plus": Quantity(Kind.REGISTER, None, _register_reader(scm_plus), has_time=timed, is_count=True),
        "idm": Quantity(Kind.REGISTER, None, _register_reader(idm), has_time=timed, is_count=True),
        "intervals": Quantity(
            Kind.INTERVAL_ENERGY, None, _interval_reader(idm), _INTERVAL_MS, has_time=timed, is_count=True
        ),
    }


_FIELDS = (
    *("MeterType", "Electric", "ERTType", "EndpointType", "PacketTypeID", "ERTSerialNumber", "EndpointID"),
    *("Consumption", "LastConsumptionCount", "TransmitTimeOffset", "DifferentialConsumptionIntervals", "IDM"),
)
"""The names that all programs use."""
_RTL_433 = CodedPart(
    _quantities(
        _rtl_433("ERT-SCM", "id", "consumption_data", "ert_type"),
        _rtl_433("SCMplus", "id", "Consumption", "EndpointType"),
        _rtl_433("IDM", "ERTSerialNumber", "LastConsumptionCount", "ERTType"),
    ),
    needs_id=True,
    fields=(*_FIELDS, "model", "ERT-SCM", "SCMplus", "consumption_data", "ert_type"),
)
_RTLAMR = CodedPart(
    _quantities(
        _rtlamr("SCM", "ID", "Consumption", "Type"),
        _rtlamr("SCM+", "EndpointID", "Consumption", "EndpointType"),
        _rtlamr("IDM", "ERTSerialNumber", "LastConsumptionCount", "ERTType"),
    ),
    needs_id=True,
    fields=(*_FIELDS, "Time", "Message", "Type", "SCM", "SCM+"),
)
_RTLAMR2MQTT = CodedPart(
    {
        "reading": Quantity(Kind.REGISTER, None, _read_state),
        "intervals": Quantity(
            Kind.INTERVAL_ENERGY, None, _read_attribute_intervals, _INTERVAL_MS, has_time=False, is_count=True
        ),
    },
    fields=(*_FIELDS, "reading", "lastseen"),
)

CODED_PARTS = {"rtl_433": _RTL_433, "rtlamr": _RTLAMR, "rtlamr2mqtt": _RTLAMR2MQTT}
