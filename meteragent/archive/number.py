"""Columns of an archive as whole numbers: values in millionths of the unit, times in milliseconds.

Integers and decimals are read exactly. A float is floor(x * 10^6 + 1/2) in double precision: of one that lies
within its own precision of the middle between two millionths, either may come. What is null or not finite is
no value. All is then clamped to the range, so no number is too large. No error repeats a value.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from meteragent.archive.policy import FIRST_MS, LAST_MS, Integers, Policy
from meteragent.domain.errors import ArchiveError
from meteragent.domain.terms import Terms
from meteragent.privacy.exact import round_half_up

Flags = NDArray[np.bool_]
Whole = NDArray[Any]

_PER_MS = {"us": 1000, "ns": 1_000_000}
_DECIMAL_DIGITS = 38


class Micro(NamedTuple):
    """Values in millionths of the unit, clamped; where `valid` is not, there is none (and 0 stands there).

    `clamped` says how many were outside the range.
    """

    values_u: Integers
    valid: Flags
    clamped: int


def micro(column: pa.Array, policy: Policy) -> Micro:
    """A column of numbers.

    Raises ArchiveError for a column of another type.
    """
    kind, valid = column.type, _valid(column)
    if pa.types.is_floating(kind):
        return _of_floats(column.to_numpy(zero_copy_only=False), policy)
    if pa.types.is_integer(kind):
        whole = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
        return _scaled(whole, 0, valid, policy)
    if pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS:
        return _scaled(_unscaled(column), kind.scale, valid, policy)
    raise ArchiveError(f"column {policy.columns.value!r} holds {kind}; expected integers, decimals or floats")


def whole_quanta(column: pa.Array, policy: Policy) -> Integers | None:
    """A column of numbers in quanta, if that is what `micro` and rounding make of it in the simplest case.

    That is: integers, all there, in the range, and of a whole number of quanta each. Else None.
    """
    each, usual = policy.scale / policy.usual.quantum_u, policy.usual
    if column.null_count or not pa.types.is_integer(column.type) or each.denominator > 1 or not len(column):
        return None
    whole: Whole = column.to_numpy()
    if not _inside(whole, *_range(policy.scale.numerator, usual)):
        return None
    found: Integers = whole.astype(np.int64)
    return found if each == 1 else found * each.numerator


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    decimal = pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or decimal)


def milliseconds(column: pa.Array, name: str) -> Integers:
    """A column of timestamps in whole milliseconds, rounded down.

    Raises ArchiveError when one is missing or lies outside the years that an archive may be of.
    """
    if column.null_count:
        raise ArchiveError(f"column {name!r}: {column.null_count} rows have no time")
    found: Integers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if column.type.unit == "s":
        found = np.clip(found, -(10**12), 10**12) * 1000
    found = found // _PER_MS.get(column.type.unit, 1)
    wrong = int(((found < FIRST_MS) | (found >= LAST_MS)).sum())
    if wrong:
        raise ArchiveError(f"column {name!r}: {wrong} rows are not between 1970 and 2200")
    return found


def _valid(column: pa.Array) -> Flags:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    flags: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return flags


def _of_floats(numbers: NDArray[Any], policy: Policy) -> Micro:
    low, high = policy.usual.low_u, policy.usual.high_u
    valid = np.isfinite(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.floor(numbers.astype(np.float64) * float(policy.scale) + 0.5)
    found[~valid] = 0
    clamped = int((valid & ((found < low) | (found > high))).sum())
    values_u = np.clip(found, low - 1, high + 1).astype(np.int64)
    return Micro(np.where(valid, np.clip(values_u, low, high), 0), valid, clamped)


def _scaled(whole: Whole, digits: int, valid: Flags, policy: Policy) -> Micro:
    """floor(x * scale / 10^digits + 1/2) of whole numbers, which are first cut off beyond the range."""
    usual, each = policy.usual, policy.scale / 10**digits
    top, bottom = each.numerator, each.denominator
    if bottom == 1 and whole.size and _inside(whole, *_range(top, usual)):
        return Micro(_without(whole.astype(np.int64) * top, valid), valid, 0)
    # Whatever lies beyond these lies beyond the range in millionths too.
    least, most = -((1 - usual.low_u) * bottom // top + 2), (usual.high_u + 1) * bottom // top + 2
    if whole.dtype == object or max(-least, most) * 2 * top + bottom >= 1 << 62:
        cut = np.clip(whole.astype(object), least, most)
    elif whole.dtype == np.uint64:
        cut = np.minimum(whole, np.uint64(max(most, 0))).astype(np.int64)
    else:
        cut = np.clip(whole.astype(np.int64, copy=False), least, most)
    found = cut * top if bottom == 1 else round_half_up(top * cut, bottom)
    inside = np.clip(found, usual.low_u, usual.high_u).astype(np.int64)
    return Micro(_without(inside, valid), valid, int(((inside != found) & valid).sum()))


def _range(each_u: int, usual: Terms) -> tuple[int, int]:
    """The least and the greatest number of so many millionths that lie in the range."""
    return -(-usual.low_u // each_u), usual.high_u // each_u


def _inside(whole: Whole, least: int, most: int) -> bool:
    """Whether no number has to be clamped."""
    return least <= int(whole.min()) and int(whole.max()) <= most


def _without(values_u: Integers, valid: Flags) -> Integers:
    """Zero where there is no value."""
    if not valid.all():
        values_u[~valid] = 0
    return values_u


def _unscaled(column: pa.Array) -> Whole:
    """The whole numbers that decimals are of their last digit; int64 if all fit, else Python's."""
    wide = column.cast(pa.decimal128(_DECIMAL_DIGITS, column.type.scale))
    words = np.frombuffer(wide.buffers()[1], "<i8", count=2 * (wide.offset + len(wide)))
    low, high = words.reshape(-1, 2)[wide.offset :].T
    if wide.null_count:
        missing = ~_valid(wide)
        low, high = np.where(missing, 0, low), np.where(missing, 0, high)
    if (high == low >> 63).all():
        return np.asarray(low)
    return np.asarray(high.astype(object) * 2**64 + low.astype(np.uint64).astype(object))
