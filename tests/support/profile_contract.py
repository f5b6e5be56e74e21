"""What every device's profile must keep, and the messages of our own making that it is held against.

A case is a message of a device: its topic, its payload, and what each quantity must be found to be. All
numbers, names and serial numbers in them are made up.

When a message is changed, a reading may change only if *the value itself* was: a leaf of the document that
carries it (its carriers: those where another digit makes another reading), or an element taken from a
list of them; in a payload that is no JSON, a byte within `value_places`. Every other change leaves the
readings as they were, or is refused under a name.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent.decode import Decoder, profile
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profiles import PROFILES
from meteragent.domain.counters import REFUSALS
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MICRO, UNIT_FACTOR, Kind

NAMES = {"other", *REFUSALS}
"""What a message that holds no reading may be counted as."""

Stated = tuple[tuple[int | None, str], ...] | str
"""Readings as (time in ms or None, number in W or Wh), or the counter of a message without any."""
Outcome = tuple[tuple[int | None, int], ...] | str
"""Readings as (time in ms or None, millionths of a W or Wh), or a counter."""
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """A message of a device, and what it says.

    `readings` by the quantity's name; `kind` and `unit` where the profile leaves them to the configuration.
    `identifies` are the strings in topic and payload that name a person, a place, a device or a contract.
    """

    profile: str
    what: str
    topic: str
    payload: bytes
    readings: Mapping[str, Stated]
    identifies: tuple[str, ...] = ()
    value_places: tuple[bytes, ...] = ()
    id: str | None = None
    kind: Kind | None = None
    unit: str | None = None

    def __str__(self) -> str:
        return f"{self.profile}: {self.what}"

    @property
    def device(self) -> Profile:
        """The profile."""
        return PROFILES[self.profile]

    @property
    def meter(self) -> str | None:
        """The segment of the topic that names the meter; None where none does."""
        return next((one for one in self.topic.split("/") if one in self.identifies), None)

    def quantity(self, name: str) -> Quantity:
        """The quantity of a name."""
        kinds = list(Kind) if self.kind is None else [self.kind]
        found = [one for kind in kinds if (one := self.device.quantity(kind, name)) is not None]
        assert found, f"{self.profile} has no quantity {name}"
        return found[0]

    def scale(self, name: str) -> Fraction:
        """How many W or Wh one of a quantity's own unit is."""
        scale = self.quantity(name).scale
        return Fraction(UNIT_FACTOR[self.unit or "W"]) if scale is None else scale

    def decoder(self, name: str) -> Decoder:
        """The decoder of a quantity, in W or Wh."""
        quantity = self.quantity(name)
        unit = "W" if quantity.kind is Kind.POWER else "Wh"
        return profile.decoder(quantity.read, self.scale(name), unit, self.id)

    def stated(self, name: str) -> Outcome:
        """What a quantity must be found to be."""
        found = self.readings[name]
        if isinstance(found, str):
            return found
        return tuple((time_ms, int(Fraction(number) * MICRO)) for time_ms, number in found)


def outcome(decode: Decoder, payload: bytes) -> Outcome:
    """What a decoder makes of a payload."""
    try:
        return tuple((one.time_ms, one.value_u) for one in decode(payload))
    except PayloadError as error:
        refusal = error
    assert refusal.reason in NAMES, refusal.reason
    assert refusal.__context__ is None, "the parser's exception holds the payload"
    return refusal.reason


# Documents ----------------------------------------------------------------------------------------


class Raw(str):
    """A number of a document, as it is written there."""

    __slots__ = ()


def parsed(payload: bytes) -> Any:
    """A payload as a document whose numbers are as written; None when it is no JSON of several fields."""
    try:
        document = json.loads(payload, parse_float=Raw, parse_int=Raw, parse_constant=Raw)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, (dict, list)) else None


def written(node: Any) -> str:
    """A document as JSON, numbers as they were."""
    if isinstance(node, Raw):
        return str(node)
    if isinstance(node, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{written(one)}" for key, one in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(written, node)) + "]"
    return json.dumps(node)


def nodes(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every node of a document but its root."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, one in inside:
        yield (*path, key), one
        yield from nodes(one, (*path, key))


def look(document: Any, path: Path) -> Any:
    """The node at a path; None when there is none."""
    for key in path:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def changed(document: Any, path: Path, change: Callable[[Any, str | int], None]) -> bytes:
    """A document after `change(parent, key)` of the node at a path."""
    copy = json.loads(written(document), parse_float=Raw, parse_int=Raw, parse_constant=Raw)
    change(look(copy, path[:-1]), path[-1])
    return written(copy).encode()


def others(leaf: Any) -> Iterator[Any]:
    """A leaf with another last digit, another first digit, and a minute later."""
    if not isinstance(leaf, str):
        return
    for digit in (r"\d(?=\D*$)", r"(?<!\d)[1-9]"):
        text, count = re.subn(digit, lambda found: str((int(found[0]) + 1) % 10), leaf, count=1)
        if count:
            yield type(leaf)(text)
    if isinstance(leaf, Raw) and leaf.isdecimal():
        yield Raw(int(leaf) + 60)


def put(value: Any) -> Callable[[Any, str | int], None]:
    """A change that puts a value in a node's place."""

    def change(parent: Any, key: str | int) -> None:
        parent[key] = value

    return change


def take(parent: Any, key: str | int) -> None:
    """A change that takes the node out."""
    del parent[key]


def carriers(case: Case, name: str, document: Any) -> list[Path]:
    """The leaves that carry a quantity's readings: another digit there makes another reading."""
    decode, stated = case.decoder(name), case.stated(name)

    def carries(path: Path, leaf: Any) -> bool:
        found = (outcome(decode, changed(document, path, put(one))) for one in others(leaf))
        return any(not isinstance(one, str) and one != stated for one in found)

    return [path for path, leaf in nodes(document) if carries(path, leaf)]


class Changed(NamedTuple):
    """A changed document: where, how, and the payload."""

    path: Path
    how: str
    payload: bytes


def damages(document: Any) -> Iterator[Changed]:
    """A document with one field missing, null, of another type, or inside another."""
    for path, node in nodes(document):
        yield Changed(path, "taken out", changed(document, path, take))
        values: dict[str, Any] = {
            "null": None,
            "true": True,
            "text": "canary",
            "empty list": [],
            "empty object": {},
        }
        values |= {"in a list": [node, "canary"], "in an object": {"canary": node}}
        values |= {"NaN": Raw("NaN"), "text of it": str(node)} if isinstance(node, Raw) else {}
        for how, value in values.items():
            yield Changed(path, how, changed(document, path, put(value)))


def reordered(node: Any) -> Any:
    """A document with the fields of every object in the other order."""
    if isinstance(node, dict):
        return {key: reordered(one) for key, one in reversed(node.items())}
    return [reordered(one) for one in node] if isinstance(node, list) else node


def extended(node: Any) -> Any:
    """A document with one more field in every object."""
    if isinstance(node, dict):
        return {"canary": Raw("7391155"), **{key: extended(one) for key, one in node.items()}}
    return [extended(one) for one in node] if isinstance(node, list) else node


# Bytes --------------------------------------------------------------------------------------------

INSTEAD = (b"", b"\0", b"7", b'"', b"x", b"\xff")
"""What a byte is replaced by: two of them at each place, in turn."""


def damaged(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """A payload with one byte replaced, and where."""
    for place in range(len(payload)):
        for byte in INSTEAD[place % 3 :: 3]:
            if payload[place : place + 1] != byte:
                yield place, payload[:place] + byte + payload[place + 1 :]


def in_value(case: Case, place: int) -> bool:
    """Whether a byte of a payload that is no JSON stands within a value."""
    return any(
        found.start(1) <= place < found.end(1)
        for pattern in case.value_places
        for found in re.finditer(pattern, case.payload)
    )


def value_differs(document: Any, payload: bytes, paths: Sequence[Path]) -> bool:
    """Whether a changed document states something else where the value is."""
    other = parsed(payload)
    return any(look(other, path) not in (None, look(document, path)) for path in paths)


# What must not leave ------------------------------------------------------------------------------


def strings(case: Case) -> set[str]:
    """Every text of at least four characters that a message holds, and what of its topic identifies."""
    document = parsed(case.payload)
    if document is None:
        texts = re.findall(r"[A-Za-z0-9]{4,}", case.payload.decode(errors="replace"))
    else:
        texts = [str(leaf) for _, leaf in nodes(document) if isinstance(leaf, str)]
    return {text for text in (*texts, *case.identifies) if len(text) >= 4}


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False
