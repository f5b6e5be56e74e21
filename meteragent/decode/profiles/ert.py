"""American ERT meters by radio: rtl_433, rtlamr (its lines on MQTT) and rtlamr2mqtt.

A meter tells its register every minute or so (SCM, SCM+), or the register and the last 47 intervals of five
minutes (IDM). Intervals stand newest first. The newest ended, and the IDM's register was read,
``TransmitTimeOffset`` sixteenths of a second before the message; in recordings the same interval's end, told
three times, lay within 40 ms, so ends are rounded to seconds and what is told again has the same time.

Counts are 1 or 10 Wh (or more) by meter: ``source.unit`` and ``source.scale`` say what a count is.
A receiver hears hundreds of meters: only messages of ``source.id`` count.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent.decode import Found
from meteragent.decode.json import at, document_of, number_of, time_of
from meteragent.decode.number import number_in
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_INTERVAL_MS = 5 * MINUTE_MS
_TOLD_MS = 2 * _INTERVAL_MS
"""An interval that a slot's end cuts is told up to so long after that, some messages not being heard."""
_INTERVALS = 47
_INTERVAL_MAX = 2**9 - 1
_COUNT_MAX = 2**32 - 1
_OFFSETS_PER_S = 16
_OFFSET_MAX = _INTERVAL_MS * _OFFSETS_PER_S // 1000


class _Format(NamedTuple):
    """Where a kind of message has what: `under` are the objects around its fields."""

    type_key: str
    type: str
    under: tuple[str, ...]
    id_key: str
    count_key: str
    time_key: str | None


def _rtl_433(model: str, id_: str, count: str) -> _Format:
    """rtl_433's own time is local and has no zone: it is not used."""
    return _Format("model", model, (), id_, count, None)


def _rtlamr(type_: str, id_: str, count: str) -> _Format:
    return _Format("Type", type_, ("Message",), id_, count, "Time")


def _whole(found: Any, largest: int) -> int:
    """A count; raises PayloadError where it is none."""
    number = number_of(found)
    if not 0 <= number <= largest or number != number.to_integral_value():
        raise PayloadError("refused_type")
    return int(number)


def _serial(found: Any) -> str:
    """A meter's id as it is written; raises PayloadError where it is none."""
    text = str(number_of(found))
    if not text.isdecimal():
        raise PayloadError("refused_type")
    return text


def _end_ms(sent_ms: int | None, offset: int) -> int | None:
    """When the newest interval ended, to the second; before the arrival where there is no time."""
    before_ms = offset * 1000 // _OFFSETS_PER_S
    end_ms = (sent_ms or 0) - before_ms
    rounded_ms = (end_ms + 500) // 1000 * 1000
    return rounded_ms if sent_ms is not None else rounded_ms or None


def _intervals(message: Any, sent_ms: int | None, id_: str | None) -> list[Found]:
    """The intervals of an IDM, oldest first."""
    blocks = at(message, "DifferentialConsumptionIntervals")
    if blocks is None:
        raise PayloadError("refused_missing")
    if not isinstance(blocks, list) or len(blocks) != _INTERVALS:
        raise PayloadError("refused_type")
    end_ms = _end_ms(sent_ms, _offset(message)) or 0
    found = [
        Found(end_ms - place * _INTERVAL_MS or None, Decimal(_whole(block, _INTERVAL_MAX)), id_)
        for place, block in enumerate(blocks)
    ]
    return found[::-1]


def _offset(message: Any) -> int:
    """How long the interval had run, in 1/16 s; raises PayloadError where it is longer than one is."""
    offset = _whole(at(message, "TransmitTimeOffset"), _COUNT_MAX)
    if offset > _OFFSET_MAX:
        raise PayloadError("refused_time")
    return offset


def _message(payload: bytes, form: _Format) -> tuple[Any, str, int | None]:
    """A message of a kind, its meter and its time; others are counted as `other`."""
    document = document_of(payload)
    type_ = at(document, form.type_key)
    if type_ is None:
        raise PayloadError("refused_missing")
    if type_ != form.type:
        raise PayloadError("other")
    message = at(document, *form.under)
    time_ms = None if form.time_key is None else time_of(at(document, form.time_key))
    return message, _serial(at(message, form.id_key)), time_ms


def _register(form: _Format) -> Callable[[bytes], Sequence[Found]]:
    """The reader of a register; an IDM's was read when its newest interval ended."""

    def read(payload: bytes) -> tuple[Found]:
        message, id_, time_ms = _message(payload, form)
        count = Decimal(_whole(at(message, form.count_key), _COUNT_MAX))
        if form.type == "IDM":
            time_ms = _end_ms(time_ms, _offset(message))
        return (Found(time_ms, count, id_),)

    return read


def _blocks(form: _Format) -> Callable[[bytes], Sequence[Found]]:
    """The reader of an IDM's intervals."""

    def read(payload: bytes) -> list[Found]:
        message, id_, time_ms = _message(payload, form)
        return _intervals(message, time_ms, id_)

    return read


def _attributes(payload: bytes) -> list[Found]:
    """The intervals in the attributes that rtlamr2mqtt sends: the message less its id and register."""
    return _intervals(document_of(payload), None, None)


def _state(payload: bytes) -> tuple[Found]:
    """The register that rtlamr2mqtt sends: a number, or a text in the format of its configuration."""
    document = document_of(payload)
    reading = at(document, "reading")
    number = number_in(reading) if isinstance(reading, str) else number_of(reading)
    return (Found(time_of(at(document, "lastseen")), number),)


def _quantities(scm: _Format, plus: _Format, idm: _Format) -> dict[str, Quantity]:
    timed = scm.time_key is not None
    return {
        "scm": Quantity(Kind.REGISTER, None, _register(scm), timed=timed, is_count=True),
        "scm-plus": Quantity(Kind.REGISTER, None, _register(plus), timed=timed, is_count=True),
        "idm": Quantity(Kind.REGISTER, None, _register(idm), timed=timed, is_count=True),
        "intervals": Quantity(
            Kind.INTERVAL_ENERGY, None, _blocks(idm), _INTERVAL_MS, timed=timed, is_count=True
        ),
    }


_COUNTS = "a count is 1 Wh, 10 Wh or more by meter: source.scale says so, such as 10 with unit = 'Wh'"
_TRAPS = (
    _COUNTS,
    "an SCM's register has 24 bits: source.modulus is 16777216 counts, such as 167772160 Wh",
    "neighbours' meters come on the same topic: source.id is needed, others are counted as refused_meter",
    "an IDM repeats 47 intervals in every message; each counts once",
    "an interval holds at most 511 counts, and an outage does not show in it",
    "SCM and IDM tell the same secret: reading both adds up",
)
_SERIAL = "the meter's serial number"
_RESOLUTION_W = Fraction(120)
"""10 Wh in five minutes."""

RTL_433 = Profile(
    name="rtl_433",
    title="an ERT meter heard by rtl_433",
    topics=("rtl_433/{meter}/events",),
    quantities=_quantities(
        _rtl_433("ERT-SCM", "id", "consumption_data"),
        _rtl_433("SCMplus", "id", "Consumption"),
        _rtl_433("IDM", "ERTSerialNumber", "LastConsumptionCount"),
    ),
    every_ms=_TOLD_MS,
    hold_ms=15 * MINUTE_MS,
    quantum_w=_RESOLUTION_W,
    identifies="the name of the receiving computer",
    needs_id=True,
    personal=("id", "ERTSerialNumber", "EndpointID", "TamperCounters", "PowerOutageFlags"),
    traps=(
        *_TRAPS,
        "one packet comes as IDM and as NETIDM, of which one is wrong: compare with the meter's display",
        "its time is local and without a zone: arrival counts",
    ),
)
RTLAMR = Profile(
    name="rtlamr",
    title="an ERT meter heard by rtlamr (its JSON lines on MQTT)",
    topics=("rtlamr/{meter}",),
    quantities=_quantities(
        _rtlamr("SCM", "ID", "Consumption"),
        _rtlamr("SCM+", "EndpointID", "Consumption"),
        _rtlamr("IDM", "ERTSerialNumber", "LastConsumptionCount"),
    ),
    every_ms=_TOLD_MS,
    hold_ms=15 * MINUTE_MS,
    quantum_w=_RESOLUTION_W,
    identifies=_SERIAL,
    needs_id=True,
    personal=("ID", "EndpointID", "ERTSerialNumber", "TamperCounters", "PowerOutageFlags"),
    traps=(*_TRAPS, "an id written with leading zeros, such as 00000000, is no JSON: refused"),
)
RTLAMR2MQTT = Profile(
    name="rtlamr2mqtt",
    title="an ERT meter heard by rtlamr2mqtt",
    topics=("rtlamr/{meter}/state", "rtlamr/{meter}/attributes"),
    quantities={
        "reading": Quantity(Kind.REGISTER, None, _state),
        "intervals": Quantity(
            Kind.INTERVAL_ENERGY, None, _attributes, _INTERVAL_MS, timed=False, is_count=True
        ),
    },
    every_ms=_TOLD_MS,
    hold_ms=15 * MINUTE_MS,
    quantum_w=_RESOLUTION_W,
    identifies=_SERIAL,
    personal=("TamperCounters", "PowerOutageFlags"),
    traps=(
        _COUNTS,
        "a format such as ####.## in its configuration moves the point: source.unit is what it then means",
        "state has the register; intervals are on attributes, of meters that send IDM, without a time",
        "the register of an IDM is up to five minutes older than its time says",
    ),
)

PROFILES = (RTL_433, RTLAMR, RTLAMR2MQTT)
