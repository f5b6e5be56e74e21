"""Rules that every device profile must keep, and helpers for the messages that test them.

A case is a message of a device: its topic, its payload, and the expected readings of each quantity. All
numbers, names and serial numbers are invented.

When a message is altered, a reading may change only if *the value itself* was altered: a leaf of the document
that carries the value (a carrier: a different digit gives a different reading), an element removed from a
list of carriers, or, in a payload that is not JSON, a byte within `value_places`. Every other alteration
leaves the readings unchanged, or is refused with a named reason.
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
"""Counters for a message without a reading."""

Stated = tuple[tuple[int | None, str], ...] | str
"""Readings as (time in ms or None, number in W or Wh), or the counter of a message without any."""
Outcome = tuple[tuple[int | None, int], ...] | str
"""Readings as (time in ms or None, millionths of a W or Wh), or a counter."""
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """A message of a device, and its expected readings.

    `readings` are by the quantity's name. `kind` and `unit` are set where the configuration chooses them.
    `time` is the path of a time without which the arrival counts.
    `identifies` are the strings in topic and payload that name a person, a place, a device or a contract.
    """

    profile: str
    title: str
    topic: str
    payload: bytes
    readings: Mapping[str, Stated]
    identifies: tuple[str, ...] = ()
    value_places: tuple[bytes, ...] = ()
    id: str | None = None
    kind: Kind | None = None
    unit: str | None = None
    time: Path | None = None

    def __str__(self) -> str:
        return f"{self.profile}: {self.title}"

    @property
    def device(self) -> Profile:
        """The profile."""
        return PROFILES[self.profile]

    @property
    def meter(self) -> str | None:
        """The segment of the topic that names the meter; None if there is none."""
        return next((segment for segment in self.topic.split("/") if segment in self.identifies), None)

    def quantity(self, name: str) -> Quantity:
        """Return the quantity of a name."""
        kinds = list(Kind) if self.kind is None else [self.kind]
        quantities = [q for kind in kinds if (q := self.device.find_quantity(kind, name)) is not None]
        assert quantities, f"{self.profile} has no quantity {name}"
        return quantities[0]

    def scale(self, name: str) -> Fraction:
        """Return the number of W or Wh in the quantity's unit."""
        scale = self.quantity(name).scale
        return Fraction(UNIT_FACTOR[self.unit or "W"]) if scale is None else scale

    def decoder(self, name: str) -> Decoder:
        """Return the decoder of a quantity, in W or Wh."""
        quantity = self.quantity(name)
        unit = "W" if quantity.kind is Kind.POWER else "Wh"
        return profile.make_decoder(quantity.read, self.scale(name), unit, self.id)

    def stated(self, name: str) -> Outcome:
        """Return the expected outcome for a quantity."""
        readings = self.readings[name]
        if isinstance(readings, str):
            return readings
        return tuple((time_ms, int(Fraction(number) * MICRO)) for time_ms, number in readings)

    def is_untimed(self, name: str, altered: Any, got: "Outcome") -> bool:
        """Return whether an altered document lacks the time alone, and its readings count from arrival."""
        stated, missing = self.stated(name), object()
        if self.time is None or isinstance(stated, str) or not isinstance(altered, dict):
            return False
        *_, field = self.time
        return altered.get(field, missing) is missing and got == tuple((None, value) for _, value in stated)


def outcome(decode: Decoder, payload: bytes) -> Outcome:
    """Return the readings that a decoder finds in a payload, or the reason for its refusal."""
    try:
        return tuple((reading.time_ms, reading.value_u) for reading in decode(payload))
    except PayloadError as error:
        refusal = error
    assert refusal.reason in NAMES, refusal.reason
    assert refusal.__context__ is None, "the parser's exception holds the payload"
    return refusal.reason


# Documents ----------------------------------------------------------------------------------------


class Raw(str):
    """A number of a document, as written."""

    __slots__ = ()


def parsed(payload: bytes) -> Any:
    """Parse a payload into a document whose numbers stay as written; None if not a JSON object or list."""
    try:
        document = json.loads(payload, parse_float=Raw, parse_int=Raw, parse_constant=Raw)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, (dict, list)) else None


def written(node: Any) -> str:
    """Return a document as JSON, with its numbers as written."""
    if isinstance(node, Raw):
        return str(node)
    if isinstance(node, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{written(child)}" for key, child in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(written, node)) + "]"
    return json.dumps(node)


def nodes(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every node of a document except its root."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*path, key), child
        yield from nodes(child, (*path, key))


def look(document: Any, path: Path) -> Any:
    """Return the node at a path; None if there is none."""
    for key in path:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def changed(document: Any, path: Path, change: Callable[[Any, str | int], None]) -> bytes:
    """Return a document after `change(parent, key)` of the node at a path."""
    copy = json.loads(written(document), parse_float=Raw, parse_int=Raw, parse_constant=Raw)
    change(look(copy, path[:-1]), path[-1])
    return written(copy).encode()


def variants(leaf: Any) -> Iterator[Any]:
    """Yield a leaf with a different last digit, with a different first digit, and a minute later."""
    if not isinstance(leaf, str):
        return
    for digit in (r"\d(?=\D*$)", r"(?<!\d)[1-9]"):
        text, count = re.subn(digit, lambda match: str((int(match[0]) + 1) % 10), leaf, count=1)
        if count:
            yield type(leaf)(text)
    if isinstance(leaf, Raw) and leaf.isdecimal():
        yield Raw(int(leaf) + 60)


def put(value: Any) -> Callable[[Any, str | int], None]:
    """Return a change that replaces a node with a value."""

    def change(parent: Any, key: str | int) -> None:
        """Replace the node."""
        parent[key] = value

    return change


def take(parent: Any, key: str | int) -> None:
    """Remove a node."""
    del parent[key]


def carriers(case: Case, name: str, document: Any) -> list[Path]:
    """Return the paths of the leaves that carry a quantity's readings: another digit changes a reading."""
    decode, stated = case.decoder(name), case.stated(name)

    def carries(path: Path, leaf: Any) -> bool:
        """Return whether another digit in a leaf changes a reading."""
        outcomes = (outcome(decode, changed(document, path, put(variant))) for variant in variants(leaf))
        return any(not isinstance(result, str) and result != stated for result in outcomes)

    return [path for path, leaf in nodes(document) if carries(path, leaf)]


class Changed(NamedTuple):
    """An altered document: the path of the alteration, its description, and the payload."""

    path: Path
    change: str
    payload: bytes


def damages(document: Any) -> Iterator[Changed]:
    """Yield a document with one field removed, null, of another type, or inside another."""
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
        for change, value in values.items():
            yield Changed(path, change, changed(document, path, put(value)))


def reordered(node: Any) -> Any:
    """Return a document with the fields of every object in reverse order."""
    if isinstance(node, dict):
        return {key: reordered(child) for key, child in reversed(node.items())}
    return [reordered(child) for child in node] if isinstance(node, list) else node


def extended(node: Any) -> Any:
    """Return a document with an additional field in every object."""
    if isinstance(node, dict):
        return {"canary": Raw("7391155"), **{key: extended(child) for key, child in node.items()}}
    return [extended(child) for child in node] if isinstance(node, list) else node


# Bytes --------------------------------------------------------------------------------------------

SUBSTITUTES = (b"", b"\0", b"7", b'"', b"x", b"\xff")
"""Replacements of a byte; each place gets two of them, in turn."""


def damaged(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield a payload with one byte replaced, and the place of that byte."""
    for place in range(len(payload)):
        for byte in SUBSTITUTES[place % 3 :: 3]:
            if payload[place : place + 1] != byte:
                yield place, payload[:place] + byte + payload[place + 1 :]


def is_in_value(case: Case, place: int) -> bool:
    """Return whether a byte of a payload that is not JSON is within a value."""
    return any(
        match.start(1) <= place < match.end(1)
        for pattern in case.value_places
        for match in re.finditer(pattern, case.payload)
    )


def differs_in_value(document: Any, payload: bytes, paths: Sequence[Path]) -> bool:
    """Return whether an altered document has a different value at one of the paths."""
    altered = parsed(payload)
    return any(look(altered, path) not in (None, look(document, path)) for path in paths)


# Texts that must not leave ------------------------------------------------------------------------


def strings(case: Case) -> set[str]:
    """Return every text of at least four characters in a message, and the identifying parts of its topic."""
    document = parsed(case.payload)
    if document is None:
        texts = re.findall(r"[A-Za-z0-9]{4,}", case.payload.decode(errors="replace"))
    else:
        texts = [str(leaf) for _, leaf in nodes(document) if isinstance(leaf, str)]
    return {text for text in (*texts, *case.identifies) if len(text) >= 4}


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False
