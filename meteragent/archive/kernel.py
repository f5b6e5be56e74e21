"""The pure kernel, which adds exact noise to a record batch of windows to make a batch of releases.

The kernel depends on no engine or ledger, reads no file except the pseudonym key, and releases every window
that it is given. A row's noise is a function of the key, the policy's terms and that row alone (`prf_input`),
so an engine may split, reorder and repeat its batches.

    WINDOWS             meter, start, quanta (the slots' values, clamped, with gaps filled, in whole quanta)
    release_schema(..)  meter (a pseudonym if the policy has a pseudonym key), start, end, values (exact, in
                        the unit), d (the descriptor's id), key (the key's id)
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from meteragent.archive.key import EpochKey, Key
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.prf_input import Shape, keyed_rows
from meteragent.domain.errors import ArchiveError

TIME = pa.timestamp("ms", tz="UTC")
WINDOWS = pa.schema([("meter", pa.string()), ("start", TIME), ("quanta", pa.list_(pa.int64()))])
_VALUE_LIMIT = 10**18


def value_type(policy: Policy) -> pa.DataType:
    """Return the type of a released value: int64 if the quantum is whole, else a decimal."""
    _, digits = policy.lattice
    return pa.decimal128(18, digits) if digits else pa.int64()


def release_schema(policy: Policy) -> pa.Schema:
    """Return the schema of releases under a policy, with a row for each window."""
    text = pa.string()
    columns = [("meter", text), ("start", TIME), ("end", TIME), ("values", pa.list_(value_type(policy)))]
    return pa.schema([*columns, ("d", text), ("key", text)])


def release(batch: pa.RecordBatch, policy: Policy, key: Key) -> pa.RecordBatch:
    """Return the releases of windows, in the same order.

    Raises ArchiveError if a row is not a window of the policy's grid or has the wrong number of slots, or if
    a released value has more than 18 digits. Raises KeyRefused if a window's epoch has no key. Raises
    ConfigError if the pseudonym key cannot be read.
    """
    starts = to_milliseconds(batch.column("start"))
    meters = _decode_strings(batch.column("meter"))
    quanta, lengths = flatten_lists(batch.column("quanta"))
    terms_index, terms = policy.terms(starts)
    _check_windows(
        starts, lengths, np.array([window_terms.n for window_terms in terms], np.int64)[terms_index], policy
    )
    noisy_quanta, first_slots = np.empty_like(quanta), np.cumsum(lengths) - lengths
    pair_index, id_pairs = np.empty(len(meters), np.int64), list[tuple[str, str]]()
    for rows, index, epoch_key in _by_epoch(terms_index, key.epochs(starts), key):
        window_terms, id_ = terms[index], policy.descriptor(terms[index]).id
        windows = _Block(first_slots, rows, window_terms.n, is_rectangular=len(terms) == 1)
        values = windows.take(quanta)
        bits = keyed_rows(epoch_key, Shape.of(window_terms), meters[rows].tolist(), starts[rows], values)
        windows.put(noisy_quanta, window_terms.mechanism.release_rows(values, bits))
        pair_index[rows] = len(id_pairs)
        id_pairs.append((id_, epoch_key.id))
    ids, keys = (
        pa.array([pair[column] for pair in id_pairs], pa.string()).take(pa.array(pair_index))
        for column in (0, 1)
    )
    columns = [
        _public_ids(batch.column("meter"), policy),
        batch.column("start"),
        pa.array(policy.ends(starts)).cast(TIME),
        pa.ListArray.from_arrays(
            np.append(first_slots, quanta.size).astype(np.int32), values_of(noisy_quanta, policy)
        ),
        ids,
        keys,
    ]
    return pa.record_batch(columns, schema=release_schema(policy))


def _decode_strings(column: pa.Array) -> NDArray[np.object_]:
    """Decode a column of strings, each distinct string only once."""
    dictionary = column.dictionary_encode()
    strings = np.array(dictionary.dictionary.to_pylist(), object)
    return np.asarray(strings.take(dictionary.indices.to_numpy()))


def _public_ids(column: pa.Array, policy: Policy) -> pa.Array:
    if policy.stream.sink.pseudonym_key_file is None:
        return column
    dictionary = column.dictionary_encode()
    public_ids = pa.array(
        [policy.public_id(meter) for meter in dictionary.dictionary.to_pylist()], pa.string()
    )
    return public_ids.take(dictionary.indices)


class _Block:
    """The slots of the windows in `rows`; if all windows have n slots, whole rows are taken (faster)."""

    def __init__(self, first_slots: Integers, rows: Integers, n: int, *, is_rectangular: bool) -> None:
        self.shape = (-1, n) if is_rectangular else (-1,)
        self.index = rows if is_rectangular else first_slots[rows][:, np.newaxis] + np.arange(n)

    def take(self, numbers: Integers) -> Integers:
        """Return the numbers of these windows' slots, shape (rows, n)."""
        return np.asarray(numbers.reshape(self.shape).take(self.index, axis=0))

    def put(self, numbers: Integers, values: Integers) -> None:
        """Write `values`, shape (rows, n), into `numbers` at these windows' slots."""
        numbers.reshape(self.shape)[self.index] = values


def _by_epoch(terms_index: Integers, epochs: Integers, key: Key) -> Iterator[tuple[Integers, int, EpochKey]]:
    """Yield (row indices, index of terms, epoch's key) for each set of rows whose noise is drawn together."""
    for index in np.unique(terms_index).tolist():
        for epoch in np.unique(epochs[terms_index == index]).tolist():
            yield np.flatnonzero((terms_index == index) & (epochs == epoch)), index, key.epoch(epoch)


def _check_windows(starts: Integers, lengths: Integers, expected: Integers, policy: Policy) -> None:
    """Raise ArchiveError if a row is not a window of the policy."""
    off_grid_count, misfit_count = (
        int((policy.starts(starts) != starts).sum()),
        int((lengths != expected).sum()),
    )
    if off_grid_count or misfit_count:
        raise ArchiveError(
            f"of {starts.size} windows, {off_grid_count} are off the grid and {misfit_count} have the"
            " wrong number of slots"
        )


def values_of(quanta: Integers, policy: Policy) -> pa.Array:
    """Convert quanta to exact values in the unit. Raises ArchiveError if a value has more than 18 digits."""
    factor, digits = policy.lattice
    limit = _VALUE_LIMIT // factor
    if quanta.size and not (-limit < quanta.min() and quanta.max() < limit):
        raise ArchiveError("a released value has more than 18 digits: choose a coarser privacy.quantum")
    integers = quanta if factor == 1 else quanta * factor
    if not digits:
        return pa.array(integers)
    words = np.empty((integers.size, 2), "<i8")
    # A decimal128 is a little-endian integer of 128 bits: the low word, then the sign word.
    words[:, 0], words[:, 1] = integers, integers >> 63
    return pa.Array.from_buffers(value_type(policy), integers.size, [None, pa.py_buffer(words)])


def to_milliseconds(column: pa.Array) -> Integers:
    """Convert a column of type TIME to int64."""
    times_ms: Integers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return times_ms


def flatten_lists(column: pa.ListArray) -> tuple[Integers, Integers]:
    """Return all numbers of a column of lists, concatenated, and the length of each list."""
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return column.flatten().to_numpy(zero_copy_only=False), lengths
