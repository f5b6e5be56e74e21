"""Encode values as text: JSON with all fields of dataclasses by name, and shapes with the name of their kind.

Equal values have equal texts, and different values of one type have different texts, so a digest of the text
identifies a value. Fractions become strings such as "1/3", bytes hex digits, and tuples lists. How a text is
read depends only on the types of the fields.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from meteragent.domain.shapes import SHAPES, Shape, Space

T = TypeVar("T")
_Reader = Callable[[Any], Any]
_SPACE = "space"
_FRACTION = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")


def _plain_value(value: Any) -> object:
    """Return the JSON value that represents a fraction, bytes or a dataclass."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    name = {_SPACE: value.space} if isinstance(value, Shape) else {}
    return name | {field.name: getattr(value, field.name) for field in fields(value)}


encode = json.JSONEncoder(separators=(",", ":"), default=_plain_value).encode
"""Return the text of a dataclass, or of any value that a field may contain."""


def digest(value: object) -> str:
    """Return the id of a value: the first 16 hex digits of the SHA-256 of its text."""
    return hashlib.sha256(encode(value).encode()).hexdigest()[:16]


def decode(kind: type[T], text: str | bytes) -> T:
    """Decode a text as a value of type `kind`; named tuples may be written as objects.

    An invalid text raises ValueError, TypeError, KeyError, AttributeError, ArithmeticError or RecursionError.
    """
    return cast(T, _reader(cast(Any, kind))(json.loads(text)))


@cache
def _reader(kind: Any) -> _Reader:
    """Return the function that turns JSON values into values of a type."""
    if kind in _READERS:
        return _READERS[kind]
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return lambda item: arguments[arguments.index(item)]
    if NoneType in arguments:
        [inner] = [_reader(argument) for argument in arguments if argument is not NoneType]
        return lambda item: None if item is None else inner(item)
    if get_origin(kind) is tuple:
        return _list_reader(arguments)
    return cast(_Reader, kind) if issubclass(kind, Enum) else _record_reader(kind)


def _list_reader(kinds: tuple[Any, ...]) -> _Reader:
    """Return the reader of a tuple, of any length if its types end with `...`."""
    if kinds[-1] is Ellipsis:
        read_item = _reader(kinds[0])
        return lambda items: tuple([read_item(item) for item in _rows(items)])
    readers = [_reader(kind) for kind in kinds]
    return lambda items: tuple([read(item) for read, item in zip(readers, _rows(items), strict=True)])


def _record_reader(kind: Any) -> _Reader:
    """Return the reader of a dataclass, or of a named tuple, which may also be written as a list."""
    if kind is Shape:
        return _read_shape
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    readers = {name: _reader(hints[name]) for name in names}

    def read(items: Any) -> Any:
        """Return the value with the fields `items`, which must be complete and contain no others."""
        if isinstance(items, dict):
            if len(items) != len(readers):
                raise ValueError("other fields")
            items = [items[name] for name in names]
        values = zip(readers.values(), _rows(items), strict=True)
        return kind(*[reader(item) for reader, item in values])

    return read


def _read_shape(items: Any) -> Any:
    values = {name: item for name, item in items.items() if name != _SPACE}
    return _record_reader(SHAPES[Space(items[_SPACE])])(values)


def _type_reader(*kinds: type) -> _Reader:
    """Return a reader that raises TypeError unless a value has one of the types `kinds`; a bool is no int."""

    def read(item: Any) -> Any:
        """Return the value."""
        if type(item) not in kinds:
            raise TypeError(f"not of the type {kinds[0].__name__}")
        return item

    return read


def _read_fraction(item: Any) -> Fraction:
    if _FRACTION.fullmatch(item) is None:
        raise ValueError("not a fraction")
    return Fraction(*map(int, item.split("/")))


_rows, _real = _type_reader(list), _type_reader(float, int)
_READERS: dict[Any, _Reader] = {
    int: _type_reader(int),
    float: lambda item: float(_real(item)),
    str: _type_reader(str),
    Fraction: _read_fraction,
    bytes: bytes.fromhex,
}
