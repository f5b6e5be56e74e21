"""Convert columns of an archive to integers: values in millionths of the unit, times in milliseconds.

A number x becomes floor(x * scale * 10^6 + 1/2), where `scale` is `source.scale`, and is then clamped to the
range. The result is exact for integers and decimals. Floats are computed in double precision: if x * scale is
halfway between two millionths, to within a rounding error, either may result. Null, NaN and infinity are
missing. No error message contains a value.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from meteragent.archive.acceptance import DECIMAL_DIGITS, is_number
from meteragent.archive.policy import FIRST_MS, LAST_MS, Integers, Policy
from meteragent.domain.errors import ArchiveError
from meteragent.domain.terms import Terms
from meteragent.privacy.exact import round_half_up

Flags = NDArray[np.bool_]
Whole = NDArray[Any]

_PER_MS = {"us": 1000, "ns": 1_000_000}


class Micro(NamedTuple):
    """Clamped values in millionths of the unit; where `valid` is false, the value is missing and 0."""

    values_u: Integers
    valid: Flags
    is_clamped: Flags


TOTALS = "numbers", "gap", "clamped", "small", "repeated", "conflicting"
"""The names of the counts in `Counts`, which add up."""


@dataclass(slots=True)
class Counts:
    """Counts of an input's numbers, for anyone who may see the readings; never published.

    `gap` numbers are missing, `clamped` ones are outside the range, and `small` ones are, after clamping,
    less than a thousandth of the range's largest absolute value. In the long layout, `repeated` readings have
    the time of another reading of their meter; `conflicting` ones are dropped because another reading of
    that time has a smaller value. `first_conflict` is the first conflict's meter and time in ms.
    """

    numbers: int = 0
    gap: int = 0
    clamped: int = 0
    small: int = 0
    repeated: int = 0
    conflicting: int = 0
    first_conflict: tuple[str, int] | None = None

    @classmethod
    def of(cls, values: Micro, usual: Terms) -> Self:
        """Count the numbers of a column."""
        largest_u = max(abs(usual.readings.low_u), abs(usual.readings.high_u))
        is_small = values.valid & (1000 * np.abs(values.values_u) < largest_u)
        gap = values.valid.size - int(np.count_nonzero(values.valid))
        clamped, small = (int(np.count_nonzero(flags)) for flags in (values.is_clamped, is_small))
        return cls(values.valid.size, gap, clamped, small)

    @property
    def present(self) -> int:
        """The count of numbers that are not missing."""
        return self.numbers - self.gap

    @property
    def are_mostly_clamped(self) -> bool:
        """Whether more than half of the numbers that are not missing are clamped."""
        return 2 * self.clamped > self.present

    def add(self, other: "Counts") -> None:
        """Add the counts of `other` to these counts."""
        for name in TOTALS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        conflicts = (self.first_conflict, other.first_conflict)
        self.first_conflict = min((conflict for conflict in conflicts if conflict), default=None)


def count_own(values: Micro, is_own: Flags, usual: Terms) -> Counts:
    """Count the numbers for which `is_own` is true."""
    values_u, valid, is_clamped = values
    return Counts.of(Micro(values_u[is_own], valid[is_own], is_clamped[is_own]), usual)


def pack_values(values: Micro, usual: Terms) -> pa.Array:
    """Return millionths as a column: a clamped value is 1 outside the range, and a missing value is null."""
    beyond = np.where(values.values_u == usual.readings.high_u, 1, -1)
    return pa.array(values.values_u + values.is_clamped * beyond, mask=~values.valid)


def unpack_values(column: pa.Array, usual: Terms) -> Micro:
    """Return the values of a column made by `pack_values`."""
    packed_u, valid = column.fill_null(0).to_numpy(zero_copy_only=False), _is_valid(column)
    values_u = np.clip(packed_u, usual.readings.low_u, usual.readings.high_u)
    return Micro(_zero_missing(values_u, valid), valid, valid & (values_u != packed_u))


def to_millionths(column: pa.Array, policy: Policy) -> Micro:
    """Return numbers in millionths, clamped to the range. Raises ArchiveError unless `is_number`."""
    kind, valid = column.type, _is_valid(column)
    if pa.types.is_floating(kind):
        return _convert_floats(column.to_numpy(zero_copy_only=False), policy)
    if pa.types.is_integer(kind):
        integers = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
        return _scale_integers(integers, 0, valid, policy)
    if is_number(kind):
        return _scale_integers(_unscale_decimals(column), kind.scale, valid, policy)
    raise ArchiveError(f"column {policy.columns.value!r} holds {kind}; expected integers, decimals or floats")


def whole_quanta(column: pa.Array, policy: Policy) -> Integers | None:
    """Convert integers to quanta as `to_millionths` does, in the simplest case; None in any other case."""
    ratio, usual = policy.scale / policy.usual.quantum_u, policy.usual
    if column.null_count or not pa.types.is_integer(column.type) or ratio.denominator > 1 or not len(column):
        return None
    integers: Whole = column.to_numpy()
    if not _are_in_range(integers, *_integer_range(policy.scale.numerator, usual)):
        return None
    quanta: Integers = integers.astype(np.int64)
    return quanta if ratio == 1 else quanta * ratio.numerator


def to_milliseconds(column: pa.Array, name: str) -> Integers:
    """Return times in ms, rounded down. Raises ArchiveError if one is missing or not in 1990 to 2100."""
    if column.null_count:
        raise ArchiveError(f"column {name!r}: rows without a time: {column.null_count}")
    times_ms: Integers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if column.type.unit == "s":
        times_ms = np.clip(times_ms, -(10**12), 10**12) * 1000
    times_ms = times_ms // _PER_MS.get(column.type.unit, 1)
    outside_count = int(((times_ms < FIRST_MS) | (times_ms >= LAST_MS)).sum())
    if outside_count:
        raise ArchiveError(
            f"column {name!r}: rows with a time outside the years 1990 to 2100: {outside_count};"
            " check the unit"
        )
    return times_ms


def _is_valid(column: pa.Array) -> Flags:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    flags: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return flags


def _convert_floats(numbers: NDArray[Any], policy: Policy) -> Micro:
    """Convert floats x to floor(x * `policy.scale` + 1/2), clamped to the range."""
    low, high = policy.usual.readings.low_u, policy.usual.readings.high_u
    valid = np.isfinite(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded_u = np.floor(numbers.astype(np.float64) * float(policy.scale) + 0.5)
    rounded_u[~valid] = 0
    is_clamped = valid & ((rounded_u < low) | (rounded_u > high))
    values_u = np.clip(rounded_u, low - 1, high + 1).astype(np.int64)
    return Micro(np.where(valid, np.clip(values_u, low, high), 0), valid, is_clamped)


def _scale_integers(integers: Whole, digits: int, valid: Flags, policy: Policy) -> Micro:
    """Compute floor(x * `policy.scale` / 10^digits + 1/2) for integers x, and clamp it to the range."""
    usual, factor = policy.usual, policy.scale / 10**digits
    numerator, denominator = factor.numerator, factor.denominator
    if denominator == 1 and integers.size and _are_in_range(integers, *_integer_range(numerator, usual)):
        values_u = _zero_missing(integers.astype(np.int64) * numerator, valid)
        return Micro(values_u, valid, np.zeros(valid.size, np.bool_))
    # Numbers outside these bounds are also outside the range in millionths.
    lowest = -((1 - usual.readings.low_u) * denominator // numerator + 2)
    highest = (usual.readings.high_u + 1) * denominator // numerator + 2
    if integers.dtype == object or max(-lowest, highest) * 2 * numerator + denominator >= 1 << 62:
        bounded_integers = np.clip(integers.astype(object), lowest, highest)
    elif integers.dtype == np.uint64:
        bounded_integers = np.minimum(integers, np.uint64(max(highest, 0))).astype(np.int64)
    else:
        bounded_integers = np.clip(integers.astype(np.int64, copy=False), lowest, highest)
    products = bounded_integers * numerator
    rounded_u = products if denominator == 1 else round_half_up(products, denominator)
    clamped_u = np.clip(rounded_u, usual.readings.low_u, usual.readings.high_u).astype(np.int64)
    is_clamped = np.asarray(clamped_u != rounded_u, np.bool_) & valid
    return Micro(_zero_missing(clamped_u, valid), valid, is_clamped)


def _integer_range(step_u: int, usual: Terms) -> tuple[int, int]:
    """Return the smallest and the largest integer k with k * `step_u` in the range of the terms."""
    return -(-usual.readings.low_u // step_u), usual.readings.high_u // step_u


def _are_in_range(integers: Whole, lowest: int, highest: int) -> bool:
    return lowest <= int(integers.min()) and int(integers.max()) <= highest


def _zero_missing(values_u: Integers, valid: Flags) -> Integers:
    """Set missing values to zero in place, and return the array."""
    if not valid.all():
        values_u[~valid] = 0
    return values_u


def _unscale_decimals(column: pa.Array) -> Whole:
    """Return decimals as integers in units of their last digit: int64 if all fit, else Python integers."""
    decimals = column.cast(pa.decimal128(DECIMAL_DIGITS, column.type.scale))
    words = np.frombuffer(decimals.buffers()[1], "<i8", count=2 * (decimals.offset + len(decimals)))
    low, high = words.reshape(-1, 2)[decimals.offset :].T
    if decimals.null_count:
        is_null = ~_is_valid(decimals)
        low, high = np.where(is_null, 0, low), np.where(is_null, 0, high)
    if (high == low >> 63).all():
        return np.asarray(low)
    return np.asarray(high.astype(object) * 2**64 + low.astype(np.uint64).astype(object))
