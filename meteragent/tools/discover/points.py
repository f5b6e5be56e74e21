"""Points: single numbers whose kind and unit are stated by a description on the broker or by a name."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent.decode import PayloadNumber, number
from meteragent.decode.dialects import to_jmespath
from meteragent.decode.foreign import form_of, form_of_text
from meteragent.decode.json import compile_expression, document_of, number_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import ENERGIES_WH, POWERS_W, UNIT_FACTOR, UNITS, Kind
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.words import Meaning

_DEPTH_MAX = 8

Path = tuple[str | int, ...]


class Unit(NamedTuple):
    """A device's unit: `kind` is register for every energy, and `name` is the configuration's unit for it.

    `factor` is the size of the device's unit in the configuration's unit; None if the two are the same.
    """

    kind: Kind
    name: str
    factor: Fraction | None


def _unit(kind: Kind, size: Fraction) -> Unit:
    """Return the unit of `size` W or Wh, in terms of the largest configurable unit that is not larger."""
    name = next((name for name in reversed(UNITS[kind]) if UNIT_FACTOR[name] <= size), UNITS[kind][0])
    return Unit(kind, name, None if size == UNIT_FACTOR[name] else size / UNIT_FACTOR[name])


UNIT_NAMES = {
    **{name: _unit(Kind.POWER, size) for name, size in POWERS_W.items()},
    **{name: _unit(Kind.REGISTER, size) for name, size in ENERGIES_WH.items()},
}
"""Units of power and energy, as devices write them."""


@dataclass(slots=True)
class Point:
    """A number on a topic; `value` is its JMESPath expression, or None if the payload is a bare number.

    `device` groups the points of one device. `factor` is the configuration's `source.scale`, and `unit_topic`
    its `source.unit_topic`. `source` describes where kind and unit are stated.
    """

    log: TopicLog
    value: str | None
    kind: Kind
    unit: str
    meaning: Meaning
    device: str
    source: str
    rank: int
    profile: str
    factor: Fraction | None = None
    time: str | None = None
    numbers: list[PayloadNumber] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    device_name: str = ""
    unit_topic: str | None = None

    @property
    def title(self) -> str:
        """The device's name or, without one, the form of the payload."""
        return self.device_name or ("a bare number" if self.value is None else "a number in JSON")

    @property
    def scale(self) -> Fraction:
        """What 1 in a payload means, in W or Wh."""
        return UNIT_FACTOR[self.unit] * (self.factor or Fraction(1))


class Leaf(NamedTuple):
    """A number in a document, or a string that spells one, with its path and the values next to it."""

    path: Path
    number: Decimal
    is_text: bool
    siblings: dict[str, Any]

    @property
    def expression(self) -> str:
        """The JMESPath expression that selects the number."""
        path = to_jmespath(self.path)
        return f"to_number({path})" if self.is_text else path


def leaves_in(payload: bytes) -> list[Leaf]:
    """List the leaves in a document's objects, but not in lists; return [] if there is no document."""
    return [
        Leaf(path, number, isinstance(value, str), siblings)
        for path, value, siblings in _values(payload)
        if (number := _decimal(value)) is not None
    ]


def foreign_fields(payload: bytes) -> Iterator[tuple[Path, str]]:
    """Yield the path and the form of each string in a document that spells a number as other programs do."""
    for path, value, _ in _values(payload):
        form = form_of_text(value) if isinstance(value, str) else None
        if form in ("refused_comma", "refused_suffix"):
            yield path, form


def _values(payload: bytes) -> Iterator[tuple[Path, str | Decimal, dict[str, Any]]]:
    """Yield each string and number in a document's objects, with its path and its object's other values."""
    with suppress(PayloadError):
        yield from _values_in(document_of(payload), ())


def _values_in(node: Any, path: Path) -> Iterator[tuple[Path, str | Decimal, dict[str, Any]]]:
    if not isinstance(node, dict) or len(path) >= _DEPTH_MAX:
        return
    siblings = {name: leaf for name, leaf in node.items() if isinstance(leaf, str | Decimal)}
    for key, child in node.items():
        if key in siblings:
            yield (*path, key), child, siblings
        yield from _values_in(child, (*path, key))


def _decimal(value: str | Decimal) -> Decimal | None:
    if isinstance(value, str):
        with suppress(PayloadError):
            return number.parse_number(value)
        return None
    return value


def numbers_at(log: TopicLog, value: str | None) -> list[PayloadNumber]:
    """Read the numbers that `value` selects in a topic's payloads, or bare numbers if `value` is None."""
    find = None if value is None else compile_expression(value)
    numbers = []
    for payload in log.payloads:
        with suppress(PayloadError):
            if find is None:
                numbers.append(PayloadNumber(None, number.read_number(payload)))
                continue
            document = document_of(payload)
            with suppress(Exception):  # the library does not document its exceptions
                numbers.append(PayloadNumber(None, number_of(find(document))))
    return numbers


def foreign_form(log: TopicLog) -> str | None:
    """Return the foreign form (`decode.foreign`) of a topic's newest payload; None if it has none."""
    with suppress(PayloadError):
        document_of(log.newest)
        return None
    return form_of(log.newest)


def sum_expression(values: Sequence[str]) -> str:
    """Return the expression for the sum of several expressions."""
    return f"sum([{', '.join(values)}])"
