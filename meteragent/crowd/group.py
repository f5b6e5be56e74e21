"""The public file of a group: its operators, its slots, and the noise of its totals (crowd.md 5).

The id of a group is the SHA-256 of its canonical bytes, and is part of everything that a home seals. So an
operator whose file differs in any value cannot open a report.
"""

import hashlib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from meteragent.crowd.share import HOMES_MAX, QUANTA_MAX
from meteragent.domain.errors import ConfigError, ConfigErrors
from meteragent.domain.refusal import value_text
from meteragent.domain.units import MICRO
from meteragent.privacy.exact import to_rational
from meteragent.wire.descriptor import canonical_json

VERSION = 1
DAY_S = 86_400
ROLES = ("leader", "helper")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_PERSON = re.compile(r"[ -~]{1,64}", re.ASCII)
_IDENTITY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_EXACT = re.compile(r"[+-]?[0-9]+([./][0-9]+)?", re.ASCII)
_CHARACTERS_MAX = _EXPONENT_MAX = 64
_P = (1 << 255) - 19
_D = -121665 * pow(121666, -1, _P) % _P
"""The prime p of the field of Ed25519, and the constant d of its curve (RFC 8032, 5.1)."""
_SLOT_MIN_S, _ANSWER_MIN_S, _ANSWER_MAX_S = 60, 600, 604_800
LOSS_MIN, LOSS_MAX = Fraction(1, 1 << 36), 16
"""The limits of a = level * quantum_wh / hide_wh.

With a smaller a, sums might wrap around; with a larger a, there is hardly any noise.
"""


@dataclass(frozen=True, slots=True)
class Operator:
    """One of the two operators: its name for display, and its Ed25519 public key as 64 hex digits."""

    name: str
    identity: str


@dataclass(frozen=True)  # no slots: `cached_property` needs the instance's dictionary
class Group:
    """The parameters of a group; energies are exact, in Wh.

    slot_s          the length of a slot
    quantum_wh      the step of the lattice of energies
    level, hide_wh  each operator's noise hides, at this level, a change of one home's slot by `hide_wh`
    lowest_wh       the lower limit of a home's energy in a slot; `highest_wh` is the upper limit
    smallest_crowd  the smallest number of reports for which a total is published
    deadline_s      the time from a slot's end to the deadline of its reports
    answer_s        the time from the deadline until the slot expires
    """

    name: str
    slot_s: int
    quantum_wh: Fraction
    level: Fraction
    hide_wh: Fraction
    lowest_wh: Fraction
    highest_wh: Fraction
    smallest_crowd: int
    deadline_s: int
    answer_s: int
    leader: Operator
    helper: Operator

    @cached_property
    def canonical_bytes(self) -> bytes:
        """The canonical bytes: JSON with sorted keys and no spaces, and with exact numbers as strings."""
        fields = {
            name: str(value) if isinstance(value, Fraction) else value for name, value in asdict(self).items()
        }
        return canonical_json({"version": VERSION} | fields)

    @cached_property
    def id(self) -> bytes:
        """The id of the group, 32 bytes."""
        return hashlib.sha256(self.canonical_bytes).digest()

    @property
    def loss_per_quantum(self) -> Fraction:
        """The privacy loss per quantum of energy, a = level * quantum_wh / hide_wh."""
        return self.level * self.quantum_wh / self.hide_wh

    @property
    def public_keys(self) -> Mapping[str, bytes]:
        """The public key of each operator, 32 bytes, by role."""
        return {role: bytes.fromhex(getattr(self, role).identity) for role in ROLES}

    def is_slot(self, slot_s: int) -> bool:
        """Return whether a slot starts at `slot_s`, in seconds since 1970."""
        return slot_s % self.slot_s == 0

    def end_s(self, slot_s: int) -> int:
        """Return the end, in seconds since 1970, of the slot that starts at `slot_s`."""
        return slot_s + self.slot_s

    def closing_s(self, slot_s: int) -> int:
        """Return the deadline of a slot's reports, in seconds since 1970."""
        return self.end_s(slot_s) + self.deadline_s

    def expiry_s(self, slot_s: int) -> int:
        """Return the time, in seconds since 1970, from which requests for a slot are no longer answered."""
        return self.closing_s(slot_s) + self.answer_s


def day_of(slot_s: int) -> int:
    """Return the day of a slot's start, in days since 1970-01-01."""
    return slot_s // DAY_S


def is_label(text: str) -> bool:
    """Return whether a string can be the label of a home or the name of a group: both obey the same rule."""
    return _NAME.fullmatch(text) is not None


def parse_group(text: str) -> Group:
    """Parse the text of a group's file. Raises ConfigErrors, which holds all errors."""
    try:
        fields = tomllib.loads(text, parse_float=_decimal)
    except (ValueError, RecursionError) as error:
        raise ConfigErrors(_not_toml(error)) from None
    reader = _Fields(fields)
    group = reader.group()
    errors = [*reader.errors, *(() if group is None else _contradictions(group))]
    if errors or group is None:
        raise ConfigErrors(*errors)
    return group


def _not_toml(error: Exception) -> ConfigError:
    reason = str(error)
    if isinstance(error, RecursionError):
        reason = "brackets nested too deeply"
    elif not isinstance(error, tomllib.TOMLDecodeError):
        reason = "an integer with thousands of digits"
    return ConfigError("", f"text that is not TOML ({reason})", "a group file")


class _LongDecimal(NamedTuple):
    """A TOML decimal, as written, that is too long or has too large an exponent; no field accepts it."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _decimal(text: str) -> Decimal | _LongDecimal:
    """Return a TOML decimal as a number, unless arithmetic with it could take hours, as with 1e999999999."""
    if len(text) <= _CHARACTERS_MAX:
        with suppress(InvalidOperation):
            value = Decimal(text)
            if abs(value.adjusted()) <= _EXPONENT_MAX:
                return value
    return _LongDecimal(text)


class _Fields:
    """A reader of a file's fields; for a missing or wrong field it adds an error and returns None."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields, self.errors = fields, list[ConfigError]()

    def group(self) -> Group | None:
        """Return the group; None if a field is wrong, missing or unknown."""
        self._read("version", lambda value: value == VERSION and type(value) is int, str(VERSION))
        values = {
            "name": self._read("name", _matches(_NAME), "1 to 64 letters, digits, '.', '_' or '-'"),
            "slot_s": self._read("slot_s", _is_slot_length, f"a divisor of {DAY_S}, at least {_SLOT_MIN_S}"),
            "smallest_crowd": self._whole("smallest_crowd", 2, HOMES_MAX),
            "deadline_s": self._whole("deadline_s", 1, DAY_S),
            "answer_s": self._whole("answer_s", _ANSWER_MIN_S, _ANSWER_MAX_S),
        }
        values |= {name: self._exact(name, is_positive=True) for name in ("quantum_wh", "level", "hide_wh")}
        values |= {name: self._exact(name, is_positive=False) for name in ("lowest_wh", "highest_wh")}
        values |= {role: self._operator(role) for role in ROLES}
        names = {"version", *values}
        self._refuse_unknown(self._fields, names, "")
        return None if self.errors else Group(**values)

    def _read(self, key: str, accepts: Callable[[Any], bool], expected: str) -> Any:
        """Return the value of a key such as `leader.name`; None, with an error, if it is missing or wrong."""
        *tables, name = key.split(".")
        fields = self._fields
        for table in tables:
            fields = fields[table]
        if name in fields and accepts(fields[name]):
            return fields[name]
        actual = _text_of(name, fields[name]) if name in fields else "nothing"
        self.errors.append(ConfigError(key, actual, expected))
        return None

    def _whole(self, key: str, low: int, high: int) -> Any:
        return self._read(key, lambda value: type(value) is int and low <= value <= high, f"{low} to {high}")

    def _exact(self, key: str, *, is_positive: bool) -> Fraction | None:
        """Return the value of a key if it is an exact number; None, with an error, if it is not."""

        def accepts(value: Any) -> bool:
            """Return whether a value is such a number."""
            try:
                return _is_exact(value) and (to_rational(key, value) > 0 or not is_positive)
            except (TypeError, ValueError):
                return False

        value = self._read(key, accepts, "a positive number" if is_positive else "a number")
        return None if value is None else to_rational(key, value)

    def _operator(self, role: str) -> Operator | None:
        """Return the operator with this role; None if its name or its identity is missing or wrong."""
        table = self._read(role, lambda value: isinstance(value, dict), "a table with `name` and `identity`")
        if table is None:
            return None
        self._refuse_unknown(table, {"name", "identity"}, f"{role}.")
        name = self._read(f"{role}.name", _matches(_PERSON), "1 to 64 printable ASCII characters")
        identity = self._read(f"{role}.identity", _matches(_IDENTITY), "64 lower-case hex digits")
        if identity is not None and _has_small_order(bytes.fromhex(identity)):
            expected = "the public key of an operator, not a point of small order"
            self.errors.append(ConfigError(f"{role}.identity", identity, expected))
        return None if name is None or identity is None else Operator(name, identity)

    def _refuse_unknown(self, fields: Mapping[str, Any], names: set[str], prefix: str) -> None:
        for name in sorted(fields.keys() - names):
            self.errors.append(ConfigError(f"{prefix}{name}", "an unknown field", ", ".join(sorted(names))))


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_exact(value: Any) -> bool:
    """Return whether a value is an exact number, in an allowed form and of at most 64 characters."""
    if isinstance(value, Decimal):
        return True  # `_decimal` has checked its length and its exponent
    text = str(value)
    return len(text) <= _CHARACTERS_MAX and _EXACT.fullmatch(text) is not None


def _text_of(name: str, value: Any) -> str:
    try:
        return value_text(name, value)
    except ValueError:  # Python does not convert integers with thousands of digits to strings
        return "an integer with thousands of digits"


def _has_small_order(identity: bytes) -> bool:
    """Return whether a public key is a point of small order, for which anyone can forge signatures.

    On the curve -x^2 + y^2 = 1 + d x^2 y^2, these are the points with y = 0, y^2 = 1 or d y^4 + 2 y^2 = 1.
    """
    y = int.from_bytes(identity, "little") % (1 << 255) % _P
    return y * (y * y - 1) * (_D * y**4 + 2 * y * y - 1) % _P == 0


def _is_slot_length(value: Any) -> bool:
    return type(value) is int and _SLOT_MIN_S <= value <= DAY_S and DAY_S % value == 0


def _contradictions(group: Group) -> Iterator[ConfigError]:
    """Yield an error for each condition that a group violates although each field is valid by itself."""
    quantum = group.quantum_wh
    if (quantum * MICRO).denominator != 1:
        yield ConfigError("quantum_wh", str(quantum), "whole millionths of a Wh")
    for name in ("hide_wh", "lowest_wh", "highest_wh"):
        value = getattr(group, name)
        if (value / quantum).denominator != 1:
            lower_multiple = math.floor(value / quantum) * quantum
            expected = f"a multiple of quantum_wh, such as {lower_multiple} or {lower_multiple + quantum}"
            yield ConfigError(name, str(value), expected)
        if abs(value / quantum) > QUANTA_MAX:
            yield ConfigError(name, str(value), "at most 2^40 quanta")
    if group.lowest_wh >= group.highest_wh:
        yield ConfigError("lowest_wh", str(group.lowest_wh), f"less than highest_wh, {group.highest_wh}")
    if not LOSS_MIN <= group.loss_per_quantum <= LOSS_MAX:
        expected = f"level * quantum_wh / hide_wh between 2^-36 and {LOSS_MAX}"
        yield ConfigError("level", str(group.level), expected)
    for name in ("name", "identity"):
        if getattr(group.leader, name) == getattr(group.helper, name):
            yield ConfigError(f"helper.{name}", f"the leader's {name}", "one that differs from the leader's")
