"""The pure kernel: a record batch of windows in, a record batch of releases out, exact noise between.

It knows no file, no engine and no ledger: what it is given it releases. The noise of a row is a function of
the key and of that row alone (`label`), so any engine may cut and order its batches as it likes, and make a
batch again: the bytes of a row are the same.

    WINDOWS         meter, start, quanta (the slots' whole quanta, after fill, clamp and rounding)
    releases(..)    meter (its pseudonym, if the policy says so), start, end, values (exact, in the unit),
                    d (the descriptor's id), key (the key's)
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from meteragent.archive.key import EpochKey, Key
from meteragent.archive.label import Shape, keyed_rows
from meteragent.archive.policy import Integers, Policy
from meteragent.domain.errors import ArchiveError

TIME = pa.timestamp("ms", tz="UTC")
WINDOWS = pa.schema([("meter", pa.string()), ("start", TIME), ("quanta", pa.list_(pa.int64()))])
_LARGEST = 10**18


def number(policy: Policy) -> pa.DataType:
    """The type of a released value: whole where the quantum is, else a decimal with its digits."""
    _, digits = policy.lattice
    return pa.decimal128(18, digits) if digits else pa.int64()


def releases(policy: Policy) -> pa.Schema:
    """The schema of releases under a policy: a row is a window."""
    text = pa.string()
    columns = [("meter", text), ("start", TIME), ("end", TIME), ("values", pa.list_(number(policy)))]
    return pa.schema([*columns, ("d", text), ("key", text)])


def release(batch: pa.RecordBatch, policy: Policy, key: Key) -> pa.RecordBatch:
    """Windows with their noise, row by row in the same order.

    Raises:
        ArchiveError: a row that is not a window of the policy's grid, or has another number of slots.
        KeyForgotten: a window's epoch has no key.
    """
    starts = milliseconds(batch.column("start"))
    meters = _texts(batch.column("meter"))
    quanta, lengths = lists(batch.column("quanta"))
    places, terms = policy.terms(starts)
    _check(starts, lengths, np.array([one.n for one in terms], np.int64)[places], policy)
    noisy, begins = np.empty_like(quanta), np.cumsum(lengths) - lengths
    which, tags = np.empty(len(meters), np.int64), list[tuple[str, str]]()
    for rows, place, own in _groups(places, key.epochs(starts), key):
        shape, id_ = terms[place], policy.descriptor(terms[place]).id
        windows = _Block(begins, rows, shape.n, whole=len(terms) == 1)
        values = windows.of(quanta)
        bits = keyed_rows(own, Shape.of(shape), meters[rows].tolist(), starts[rows], values)
        windows.put(noisy, shape.mechanism.release_rows(values, bits))
        which[rows] = len(tags)
        tags.append((id_, own.id))
    ids, keys = (pa.array([tag[at] for tag in tags], pa.string()).take(pa.array(which)) for at in (0, 1))
    columns = [
        _labels(batch.column("meter"), policy),
        batch.column("start"),
        pa.array(policy.ends(starts)).cast(TIME),
        pa.ListArray.from_arrays(np.append(begins, quanta.size).astype(np.int32), exact(noisy, policy)),
        ids,
        keys,
    ]
    return pa.record_batch(columns, schema=releases(policy))


def _texts(column: pa.Array) -> NDArray[np.object_]:
    """A column of texts, each of which is made once."""
    coded = column.dictionary_encode()
    found = np.array(coded.dictionary.to_pylist(), object)
    return np.asarray(found.take(coded.indices.to_numpy()))


def _labels(column: pa.Array, policy: Policy) -> pa.Array:
    """The names under which meters leave."""
    if policy.stream.sink.pseudonym_key_file is None:
        return column
    coded = column.dictionary_encode()
    labels = pa.array([policy.label(meter) for meter in coded.dictionary.to_pylist()], pa.string())
    return labels.take(coded.indices)


class _Block:
    """The slots of some windows of one shape, as (rows, n): all rows alike are gathered a row at a time."""

    def __init__(self, begins: Integers, rows: Integers, n: int, *, whole: bool) -> None:
        self.shape = (-1, n) if whole else (-1,)
        self.at = rows if whole else begins[rows][:, np.newaxis] + np.arange(n)

    def of(self, numbers: Integers) -> Integers:
        """Their numbers."""
        return np.asarray(numbers.reshape(self.shape).take(self.at, axis=0))

    def put(self, numbers: Integers, found: Integers) -> None:
        """Put numbers in their places."""
        numbers.reshape(self.shape)[self.at] = found


def _groups(places: Integers, epochs: Integers, key: Key) -> Iterator[tuple[Integers, int, EpochKey]]:
    """The rows that are drawn together: of one shape and one epoch."""
    for place in np.unique(places).tolist():
        for epoch in np.unique(epochs[places == place]).tolist():
            yield np.flatnonzero((places == place) & (epochs == epoch)), place, key.epoch(epoch)


def _check(starts: Integers, lengths: Integers, expected: Integers, policy: Policy) -> None:
    """Refuse what is no window of the policy."""
    off, wrong = int((policy.starts(starts) != starts).sum()), int((lengths != expected).sum())
    if off or wrong:
        raise ArchiveError(
            f"of {starts.size} windows {off} are not on the grid, {wrong} have another number of slots"
        )


def exact(quanta: Integers, policy: Policy) -> pa.Array:
    """Whole quanta as values in the unit.

    Raises ArchiveError for one that has more than 18 digits.
    """
    each, digits = policy.lattice
    limit = _LARGEST // each
    if quanta.size and not (-limit < quanta.min() and quanta.max() < limit):
        raise ArchiveError("a released value has more than 18 digits: choose a coarser privacy.quantum")
    scaled = quanta if each == 1 else quanta * each
    if not digits:
        return pa.array(scaled)
    words = np.empty((scaled.size, 2), "<i8")
    words[:, 0], words[:, 1] = scaled, scaled >> 63
    return pa.Array.from_buffers(number(policy), scaled.size, [None, pa.py_buffer(words)])


def milliseconds(column: pa.Array) -> Integers:
    """A column of TIME as int64."""
    found: Integers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def lists(column: pa.ListArray) -> tuple[Integers, Integers]:
    """All numbers of a column of lists, end to end, and how many each row has."""
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return column.flatten().to_numpy(zero_copy_only=False), lengths
