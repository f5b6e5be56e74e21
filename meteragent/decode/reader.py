"""Readers of payloads for profiles in files: JSON documents and bare numbers.

Theory of operation
-------------------
A JSON payload becomes a number in this order:

1. The document must be an object. If it does not meet the conditions of the profile and of the quantity, the
   message is counted as `other`.
2. Of a quantity's alternative sums, the first with at least one value in the document is used. If no sum
   has a value, the message is refused, unless it meets the conditions `partial`: then it is counted as
   `other`.
3. All values of this sum are added, or subtracted if their paths have a minus sign. If one is missing, null
   or not a number, the message is refused, because no term may be replaced with 0. A message that states a
   unit other than the profile's is refused, too. Under the conditions `negative`, the sum's sign is reversed.
4. A power of 2^31 mW or more is refused, if its unit is known. Such powers are sent by devices whose firmware
   reads a negative 32-bit number as a positive one: 2^32 steps minus the power, where a step is a milliwatt
   or more. No home's meter measures two megawatts. A wrap at 16 bits cannot be distinguished from a power.
5. The time is read at its path. If the profile has no such path, or the document lacks the object that
   should hold the time, the time of arrival is used.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_of, number_or_text, time_of
from meteragent.decode.number import parse_number, sum_clamped, text_of
from meteragent.decode.path import ABSENT, make_finder, make_name_finder, names_of
from meteragent.domain.errors import PayloadError

Condition = bool | str | Decimal | int
"""A condition on a value: True (it is present), False (it is absent), or the value that it must equal."""
Conditions = tuple[tuple[str, tuple[Condition, ...]], ...]
"""Conditions on a message: for each path, at least one of its conditions must hold."""

WRAP_W = Decimal(2) ** 31 / 1000
"""The smallest absolute power that is refused (step 4)."""
_NO_VALUE = ("unknown", "unavailable", "none")


@dataclass(frozen=True, slots=True)
class Message:
    """The facts that all quantities of a profile share: conditions, and the paths of times and the id.

    A message must meet one of the alternatives in `match`, if there are any. A message that meets one of
    those in `partial` may lack the quantity.
    """

    match: tuple[Conditions, ...] = ()
    partial: tuple[Conditions, ...] | None = None
    time: str | None = None
    id: str | None = None
    last_seen: str | None = None


class Term(NamedTuple):
    """A term of a sum: the path of its value, and whether the value is subtracted."""

    path: str
    is_negative: bool


@dataclass(frozen=True, slots=True)
class Value:
    """The place of a quantity's number: alternative sums, of which the first that has a value is used.

    `channel` is set if a value may be a list: the channel's number, from 0, or `all` for the sum. A
    string that spells a number is accepted only if `accepts_text` is true. In a message that meets one of
    the alternatives in `negative`, the number's sign is reversed. `unit` is the unit that the string at
    `unit_path` must equal.
    """

    sums: tuple[tuple[Term, ...], ...]
    match: tuple[Conditions, ...] = ()
    negative: tuple[Conditions, ...] = ()
    channel: int | Literal["all"] | None = None
    accepts_text: bool = False
    unit_path: str | None = None
    unit: str | None = None


def make_document_reader(message: Message, value: Value, limit: Decimal | None) -> Read:
    """Make a reader of a quantity below `limit` in a JSON document. Raises ValueError for a wrong path."""
    message_matches, quantity_matches = matcher(message.match), matcher(value.match)
    is_partial = None if message.partial is None else matcher(message.partial)
    find_number, find_time = _sum_finder(value), _time_finder(message.time)
    find_id = None if message.id is None else make_finder(message.id)
    seen_ms = _seen_finder(message.last_seen)
    unit_matches = None if value.unit_path is None else matcher((((value.unit_path, (value.unit or "",)),),))
    is_negative = matcher(value.negative) if value.negative else None

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the number with its time and id. Raises PayloadError if the message is refused."""
        document = document_of(payload)
        if type(document) is not dict:
            raise PayloadError("refused_type")
        if not (message_matches(document) and quantity_matches(document)):
            raise PayloadError("other")
        number = find_number(document)
        if number is None:
            may_omit = is_partial is not None and is_partial(document)
            raise PayloadError("other" if may_omit else "refused_missing")
        if unit_matches is not None and not unit_matches(document):
            raise PayloadError("refused_unit")
        if limit is not None and number.copy_abs() >= limit:
            raise PayloadError("refused_wrapped")
        if is_negative is not None and is_negative(document):
            number = number.copy_negate()
        meter_id = None if find_id is None else find_id(document)
        named = meter_id if isinstance(meter_id, str) else None
        return (PayloadNumber(find_time(document), number, named, seen_ms(document)),)

    return read


def make_bare_reader(limit: Decimal | None) -> Read:
    """Make a reader of a payload that is one number, whose absolute value is below `limit`."""

    def read(payload: bytes) -> Sequence[PayloadNumber]:
        """Read the number. Raises PayloadError if the payload is not a number, or is too large a power."""
        text = text_of(payload)
        if text.strip().lower() in _NO_VALUE:
            raise PayloadError("refused_unavailable")
        numbers = (PayloadNumber(None, parse_number(text)),)
        if limit is not None and numbers[0].number.copy_abs() >= limit:
            raise PayloadError("refused_wrapped")
        return numbers

    return read


def matcher(alternatives: tuple[Conditions, ...]) -> Callable[[Any], bool]:
    """Make a function that returns whether a document meets at least one alternative, or there is none."""
    checks = [[(make_finder(path), _make_check(values)) for path, values in group] for group in alternatives]
    if not checks or not all(checks):
        return lambda _: True

    def matches(document: Any) -> bool:
        """Return whether all conditions of at least one alternative hold."""
        for conditions in checks:
            for find, is_met in conditions:
                if not is_met(find(document)):
                    break
            else:
                return True
        return False

    return matches


def _make_check(conditions: tuple[Condition, ...]) -> Callable[[Any], bool]:
    """Make a function that returns whether a value, or its absence, meets at least one condition."""
    is_absent = any(condition is False for condition in conditions)
    is_present = any(condition is True for condition in conditions)
    expected = tuple(condition for condition in conditions if type(condition) is not bool)
    if is_present:
        return lambda value: is_absent or value is not ABSENT
    if not is_absent:
        return lambda value: value in expected and type(value) is not bool
    return lambda value: value is ABSENT or (value in expected and type(value) is not bool)


def _sum_finder(place: Value) -> Callable[[Any], Decimal | None]:
    """Make a function that returns the sum of the first alternative with a value; None if there is none."""
    number: Callable[[Any], Decimal] = number_or_text if place.accepts_text else number_of
    if place.channel is not None:
        number = _channel(number, place.channel)
    alternatives = [[(make_finder(path), is_negative) for path, is_negative in terms] for terms in place.sums]

    def find_sum(document: Any) -> Decimal | None:
        """Return the sum of the first alternative with a value. Raises PayloadError if a term is wrong."""
        for terms in alternatives:
            values = [(find(document), is_negative) for find, is_negative in terms]
            if any(value is not ABSENT for value, _ in values):
                signed = [_signed_number(number, value, is_negative=minus) for value, minus in values]
                return sum_clamped(signed) if len(signed) > 1 else signed[0]
        return None

    return find_sum


def _signed_number(number: Callable[[Any], Decimal], value: Any, *, is_negative: bool) -> Decimal:
    """Return a sum's term with its sign. Raises PayloadError if it is missing or not a number."""
    if value is ABSENT:
        raise PayloadError("refused_missing")
    return number(value).copy_negate() if is_negative else number(value)


def _channel(number: Callable[[Any], Decimal], channel: int | Literal["all"]) -> Callable[[Any], Decimal]:
    """Make a function that returns a channel's number, or the sum, from a list or a single number."""

    def read_channel(value: Any) -> Decimal:
        """Return the number. Raises PayloadError if there is no such channel, or if an element is wrong."""
        numbers = [number(element) for element in (value if type(value) is list else [value])]
        if channel != "all":
            numbers = numbers[channel : channel + 1]
        if not numbers:
            raise PayloadError("refused_missing")
        return sum_clamped(numbers)

    return read_channel


def _seen_finder(path: str | None) -> Callable[[Any], int | None]:
    """Make a function that returns when the gateway last heard from the meter; None if this is not stated."""
    find_time = _time_finder(path)

    def find_seen(document: Any) -> int | None:
        """Return the time in ms; None for a value that is not a time."""
        with suppress(PayloadError):
            return find_time(document)
        return None

    return find_seen


def _time_finder(path: str | None) -> Callable[[Any], int | None]:
    """Make a function that returns the time at a path; None if the time's parent object is absent."""
    if path is None:
        return lambda _: None
    *parents, name = names_of(path) or ()
    find_parent = make_name_finder(parents) if parents else None

    def find_time(document: Any) -> int | None:
        """Return the time in ms. Raises PayloadError if it is missing or not a time."""
        parent = document if find_parent is None else find_parent(document)
        return time_of(parent.get(name)) if type(parent) is dict else None

    return find_time
