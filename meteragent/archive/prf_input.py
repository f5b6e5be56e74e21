"""The PRF input of a window: everything that identifies the window, including its data.

The input consists of these parts, each preceded by its length in 4 big-endian bytes (so that different parts
never give equal inputs):

    "meteragent window 2", mechanism, tenant, epsilon ("p/q", or "p" if q = 1, in 1/unit), quantum (likewise,
    in the unit), unit, kind, n, length in ms, bands (the start and end of each stretch, in ms after the
    window's start; empty if slots are n equal parts), the local calendar's time zone or an empty string,
    meter, and finally the window's numbers, in 8 bytes each: start (ms since 1970) and the n slots' quanta

The window's numbers are little-endian; numbers in the other parts are decimal text. Bits are generated from a
tag of the input (`privacy.keyed.KeyedRows`). The tag, of 12 bytes, is a PMAC under the epoch's tag key
(`privacy.keyed.compute_tags`, AES-256). The PMAC covers the numbers and, computed once per meter, the SHA-256
of all other parts; to hash the numbers, too, would take four times as long.

All these parts determine the bits, because if two releases y and y' used equal bits, y' - y would be the
difference between their data: a correction would be revealed exactly, and releases under two epsilons would
reveal the reading itself. The same window with the same data and terms has the same noise, wherever it is
released. A second release of a window is still not safe: a corrected window has different noise and costs
epsilon again, so the ledger refuses it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meteragent.archive.key import EpochKey
from meteragent.domain.terms import Terms
from meteragent.privacy import keyed

Integers = NDArray[np.int64]

DOMAIN = "meteragent window 2"
MECHANISM = "linf-laplace"

_DIGEST_WORDS = 4


@dataclass(frozen=True)  # `cached_property` needs the instance's dictionary, so there is no `slots=True`
class Shape:
    """The terms that enter PRF inputs: of n slots, or of n bands as stretches (start, end) in ms."""

    epsilon: Fraction
    quantum: Fraction
    unit: str
    kind: str
    n: int
    length_ms: int
    bands: tuple[tuple[tuple[int, int], ...], ...] = ()
    timezone: str | None = None
    mechanism: str = MECHANISM

    @classmethod
    def of(cls, terms: Terms) -> "Shape":
        """Return the shape of terms; it includes epsilon but not the level, gap, range or hold."""
        bands = tuple(band.stretches for band in terms.places)
        kind, length_ms, zone = str(terms.readings.kind), terms.length_ms, terms.timezone
        return cls(terms.epsilon, terms.quantum, terms.readings.unit, kind, terms.n, length_ms, bands, zone)

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        exact = str(self.epsilon), str(self.quantum)
        size = str(self.n), str(self.length_ms)
        bands = ";".join(",".join(f"{start}-{end}" for start, end in band) for band in self.bands)
        return (*exact, self.unit, self.kind, *size, bands, self.timezone or "")

    def prefix(self, tenant: str) -> bytes:
        """Return the beginning of a PRF input: all parts before the meter."""
        return b"".join(_with_length(text) for text in (DOMAIN, self.mechanism, tenant, *self._parts))


def prf_input(shape: Shape, tenant: str, meter: str, start_ms: int, quanta: Sequence[int]) -> bytes:
    """Return the PRF input of a window. Raises ValueError if the number of quanta is not n."""
    if len(quanta) != shape.n:
        raise ValueError(f"a window of {shape.n} slots needs {shape.n} quanta, not {len(quanta)}")
    numbers = b"".join(value.to_bytes(8, "little", signed=True) for value in (start_ms, *quanta))
    return _meter_prefix(shape, shape.prefix(tenant), meter) + numbers


def tags(key: EpochKey, shape: Shape, meters: Sequence[str], starts_ms: Integers, quanta: Integers) -> bytes:
    """Return the tags of windows of one shape and epoch, 12 bytes each, end to end.

    `quanta` has shape (number of windows, n). Raises TypeError if starts or quanta are not int64; ValueError
    if the numbers of meters, starts and windows differ; ImportError without the package `cryptography`.
    """
    count = len(meters)
    if {starts_ms.dtype, quanta.dtype} != {np.dtype(np.int64)}:
        raise TypeError(f"starts and quanta must be int64, not {starts_ms.dtype} and {quanta.dtype}")
    if starts_ms.shape != (count,) or quanta.shape != (count, shape.n):
        raise ValueError(f"{count} windows need {count} starts and quanta of shape {count, shape.n}")
    prefix = shape.prefix(key.tenant)
    digests = {meter: hashlib.sha256(_meter_prefix(shape, prefix, meter)).digest() for meter in set(meters)}
    digest_words = np.frombuffer(b"".join(map(digests.__getitem__, meters)), "<u8").reshape(-1, _DIGEST_WORDS)
    starts = starts_ms.view(np.uint64)[:, np.newaxis]
    return keyed.compute_tags(key.tag, digest_words, starts, quanta.view(np.uint64))


def keyed_rows(
    key: EpochKey, shape: Shape, meters: Sequence[str], starts_ms: Integers, quanta: Integers
) -> keyed.KeyedRows:
    """Return the random bits of windows of a shape and epoch. Raises as `compute_tags` does."""
    return keyed.KeyedRows(key.noise, tags(key, shape, meters, starts_ms, quanta))


def _meter_prefix(shape: Shape, prefix: bytes, meter: str) -> bytes:
    """Return `prefix`, the meter, and the length of the numbers: all of a PRF input before its numbers."""
    return prefix + _with_length(meter) + _encode_size(8 * (shape.n + 1))


def _with_length(text: str) -> bytes:
    """Return a string preceded by its length."""
    data = text.encode()
    return _encode_size(len(data)) + data


def _encode_size(count: int) -> bytes:
    """Return a length in 4 big-endian bytes."""
    return count.to_bytes(4, "big")
