"""What a window's bits are bound to: everything that makes it that window, its data too.

The label of a window is, each after its length in 4 bytes (so different parts never make equal labels),

    "meteragent window 2", mechanism, tenant, epsilon ("p/q", in 1/unit), quantum ("p/q", in the unit), unit,
    kind, n, length in ms, its bands (from and to of each stretch, in ms after the start; nothing where slots
    are n equal parts), the local calendar's time zone or nothing, meter, and last its numbers, in 8 bytes
    each: start (ms since 1970) and the n slots' quanta

with numbers in bytes little-endian, others in decimal. Its tag stands for the window's bits
(`privacy.keyed.KeyedRows`): that of the SHA-256 of all that comes before the numbers, which is made once for
a meter, and the numbers themselves, under the epoch's tag key (`privacy.keyed.tags`: AES-256 in PMAC).
SHA-256 of the numbers too, which version 1 had, takes four times as long: it goes through one window after
the other.

Why all of that. With equal bits, y' - y is what differs between two windows' data: a correction would be told
exactly, and two epsilons would give the reading itself. So data, terms and place are bound. The same window
with the same data and terms has the same noise wherever it is made. It does not make a second release of a
window safe: a corrected one has other noise and costs epsilon again, so the ledger refuses it.
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


@dataclass(frozen=True)  # without slots: what follows from the fields is worked out once
class Shape:
    """What windows that are drawn together share: n equal slots, or as many bands.

    A band is its stretches (from, to), in ms after the window's start.
    """

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
        """That of a release's terms; the level's share in epsilon, gap, clamp and hold are not in it."""
        bands = tuple(band.stretches for band in terms.bands)
        kind, length_ms, zone = str(terms.kind), terms.length_ms, terms.timezone
        return cls(terms.epsilon, terms.quantum, terms.unit, kind, terms.n, length_ms, bands, zone)

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        exact = str(self.epsilon), str(self.quantum)
        size = str(self.n), str(self.length_ms)
        bands = ";".join(",".join(f"{start}-{end}" for start, end in band) for band in self.bands)
        return (*exact, self.unit, self.kind, *size, bands, self.timezone or "")

    def prefix(self, tenant: str) -> bytes:
        """A label's beginning, before the meter."""
        return b"".join(_part(text) for text in (DOMAIN, self.mechanism, tenant, *self._parts))


def label(shape: Shape, tenant: str, meter: str, start_ms: int, quanta: Sequence[int]) -> bytes:
    """The label of one window.

    Raises:
        ValueError: not n quanta.
    """
    if len(quanta) != shape.n:
        raise ValueError(f"a window of {shape.n} slots has as many quanta, not {len(quanta)}")
    numbers = b"".join(value.to_bytes(8, "little", signed=True) for value in (start_ms, *quanta))
    return _before(shape, shape.prefix(tenant), meter) + numbers


def tags(
    key: EpochKey,
    shape: Shape,
    meters: Sequence[str],
    starts_ms: Integers,
    quanta: Integers,
) -> bytes:
    """The tags of windows of one shape and epoch, 12 bytes each, end to end; `quanta` has shape (count, n).

    Raises:
        ImportError: the package `cryptography` is missing.
        TypeError: starts or quanta are not int64.
        ValueError: there are not as many meters, starts and windows of n quanta.
    """
    count = len(meters)
    if {starts_ms.dtype, quanta.dtype} != {np.dtype(np.int64)}:
        raise TypeError(f"starts and quanta are int64, not {starts_ms.dtype} and {quanta.dtype}")
    if starts_ms.shape != (count,) or quanta.shape != (count, shape.n):
        raise ValueError(f"{count} windows have {count} starts and quanta of shape {count, shape.n}")
    first = shape.prefix(key.tenant)
    digests = {meter: hashlib.sha256(_before(shape, first, meter)).digest() for meter in set(meters)}
    of = np.frombuffer(b"".join(map(digests.__getitem__, meters)), "<u8").reshape(-1, _DIGEST_WORDS)
    starts = starts_ms.view(np.uint64)[:, np.newaxis]
    return keyed.tags(key.tag, of, starts, quanta.view(np.uint64))


def keyed_rows(
    key: EpochKey,
    shape: Shape,
    meters: Sequence[str],
    starts_ms: Integers,
    quanta: Integers,
) -> keyed.KeyedRows:
    """The bits of windows of one shape and epoch, for `LInfLaplace.release_rows`.

    Raises:
        ImportError: the package `cryptography` is missing.
        TypeError: starts or quanta are not int64.
        ValueError: there are not as many meters, starts and windows of n quanta.
    """
    return keyed.KeyedRows(key.noise, tags(key, shape, meters, starts_ms, quanta))


def _before(shape: Shape, first: bytes, meter: str) -> bytes:
    """What stands before the numbers of a label that begins so."""
    return first + _part(meter) + _size(8 * (shape.n + 1))


def _part(text: str) -> bytes:
    data = text.encode()
    return _size(len(data)) + data


def _size(count: int) -> bytes:
    return count.to_bytes(4, "big")
