"""Functions that process record batches on Spark's workers, built from the functions of `archive`.

Rules:

* A worker's exception ends up in logs, which must not contain readings, and the messages of Arrow and numpy
  quote values. So only the type of an exception from outside this package is passed on (`safely`).
* A worker reads the key from the key file, and caches it until the file changes. No closure, plan or event
  log contains the key. A worker whose key is not the driver's (`KeyFingerprint`) releases nothing, because a
  task that is retried on another worker must not use a different key.
* Spark's times are in microseconds. An archive's times are in milliseconds, rounded down.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import RecordBatch
from pyspark import TaskContext

from meteragent.archive import files, kernel, layout, number
from meteragent.archive.admission import Admission, debit_rows
from meteragent.archive.key import Key
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.readings import Windows
from meteragent.domain.errors import KeyMissing, KeyRotated, MeteragentError

T = TypeVar("T")
Work = Callable[[RecordBatch], RecordBatch]
"""A function from a record batch to a record batch."""
Reader = Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]
"""A function from the batches of a data frame to other batches, as `mapInArrow` takes it."""

BATCH_ROWS = 1 << 16
TIME = pa.timestamp("us", tz="UTC")
_FIRST = pa.struct([("meter", pa.string()), ("time_ms", pa.int64())])
COUNTS = pa.struct([*((name, pa.int64()) for name in number.TOTALS), ("first", _FIRST)])
"""The type of the column with the counts of a batch's numbers."""
_KEYS: dict[Path, tuple[tuple[int, int], Key]] = {}
"""The keys that this process has read, each with the version of its file, by path."""


class WorkerError(MeteragentError):
    """A worker's failure; its message does not quote readings."""


def safely(work: Work) -> Reader:
    """Return a function that applies `work` to each batch, as Spark expects; its errors quote no values."""
    return each(lambda batch: map(work, [batch]))


def each(work: Callable[[RecordBatch], Iterator[RecordBatch]]) -> Reader:
    """Return a function that yields every result of `work` for each batch; its errors quote no values."""

    def work_on_all(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the results for one batch after the other."""
        for batch in batches:
            results = work(batch)
            while (result := attempt(partial(next, results, None))) is not None:
                yield result

    return work_on_all


def step_taker(work: Callable[[T], Iterator[Any]], items: Sequence[T]) -> Reader:
    """Return a function from indices of `items` to the pickled results of `work` on these items."""

    def take(indices: RecordBatch) -> Iterator[RecordBatch]:
        """Do the work; each attempt has its own names for unfinished files, as attempts may overlap."""
        files.WRITER = f".{task.taskAttemptId() if (task := TaskContext.get()) else 0}"
        for index in indices.column(0).to_pylist():
            for result in work(items[index]):
                yield RecordBatch.from_pydict({"result": [pickle.dumps(result)]})

    return each(take)


def attempt(call: Callable[[], T]) -> T:
    """Return the result of `call`. Raises WorkerError, which quotes no values, if `call` fails."""
    try:
        return call()
    except MeteragentError as error:
        text = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 -- any message may quote a reading
        text = type(error).__name__
    raise WorkerError(text)


class KeyFingerprint(NamedTuple):
    """The driver's first epoch and its id, both public; a worker compares them with its own key."""

    epoch: int
    id: str

    @classmethod
    def of(cls, key: Key) -> "KeyFingerprint":
        """Return the fingerprint of a key."""
        return cls(key.first, key.epoch(key.first).id)


def key_of(path: Path, fingerprint: KeyFingerprint) -> Key:
    """Load this machine's key. Raises KeyMissing; KeyForgotten or KeyRotated if it is not the driver's."""
    try:
        status = path.stat()
    except OSError as error:
        raise KeyMissing(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    version = status.st_mtime_ns, status.st_ino
    if path not in _KEYS or _KEYS[path][0] != version:  # a forgotten epoch must not stay in the cache
        _KEYS[path] = version, Key.load(path)
    key = _KEYS[path][1]
    id_ = key.epoch(fingerprint.epoch).id
    if id_ != fingerprint.id:
        raise KeyRotated(
            f"the key on worker {os.uname().nodename} is {id_}, but the driver's is {fingerprint.id}:"
            " copy the driver's key file to the worker"
        )
    return key


def wide_reader(policy: Policy) -> Work:
    """Return a function that converts rows of the wide layout to the columns of `frame.WINDOWS`."""
    return lambda batch: _with_end(*layout.read_wide(batch, policy), policy)


def reading_assigner(policy: Policy) -> Work:
    """Return a function that assigns rows of the long layout to windows.

    The result has the columns meter, start, end, time and value_u (packed), and a row for
    each window that a reading's span may touch. The span begins in the first of these windows.
    """

    def work(batch: RecordBatch) -> RecordBatch:
        """Repeat each row for each window that its span may touch."""
        meters, times = _meters_and_times(batch, policy)
        values = number.to_millionths(batch.column(policy.columns.value), policy)
        packed_values = number.pack_values(values, policy.usual)
        rows, starts = _reachable_windows(times, policy)
        columns = {
            "meter": meters.take(pa.array(rows)),
            "start": _times(starts),
            "end": _times(policy.ends(starts)),
            "time": _times(times[rows]),
            "value_u": packed_values.take(pa.array(rows)),
        }
        return RecordBatch.from_pydict(columns)

    return work


def _reachable_windows(times_ms: Integers, policy: Policy) -> tuple[Integers, Integers]:
    """Return pairs of a reading (its index) and a window (its start) that its span may touch."""
    span_starts = times_ms - policy.lead_ms
    rows, starts = np.arange(times_ms.size), policy.starts(span_starts)
    pairs = [(rows, starts)]
    while rows.size:
        next_starts = policy.ends(starts)
        is_reached = next_starts < span_starts[rows] + policy.reach_ms
        rows, starts = rows[is_reached], next_starts[is_reached]
        pairs.append((rows, starts))
    row_arrays, start_arrays = zip(*pairs, strict=True)
    return np.concatenate(row_arrays), np.concatenate(start_arrays)


def group_reader(policy: Policy) -> Work:
    """Return a function that converts lists of readings (pairs of time and value) to windows as quanta."""
    return lambda batch: _with_end(*layout.read_grouped(batch, policy), policy)


def _meters_and_times(batch: RecordBatch, policy: Policy) -> tuple[pa.Array, Integers]:
    names = policy.columns
    meters = layout.meters(batch.column(names.meter), policy)
    return meters, number.to_milliseconds(batch.column(names.time), names.time)


def noise_adder(policy: Policy, fingerprint: KeyFingerprint) -> Work:
    """Return a function that releases windows, with noise under the driver's key."""
    return lambda batch: for_spark(add_noise(batch, policy, fingerprint))


def add_noise(batch: RecordBatch, policy: Policy, fingerprint: KeyFingerprint) -> RecordBatch:
    """Add noise to windows, under this worker's key. Raises the errors of `key_of` and `kernel.release`."""
    columns = [batch.column("meter"), batch.column("start").cast(kernel.TIME), batch.column("quanta")]
    typed_columns = [column.cast(field.type) for column, field in zip(columns, kernel.WINDOWS, strict=True)]
    windows = pa.record_batch(typed_columns, schema=kernel.WINDOWS)
    return kernel.release(windows, policy, key_of(policy.key_file, fingerprint))


def row_maker(policy: Policy, fingerprint: KeyFingerprint) -> Work:
    """Return a function that converts windows, in order of meter and start, to rows of the ledger."""

    def work(batch: RecordBatch) -> RecordBatch:
        """Return the ledger's rows for the windows of a batch. Raises KeyForgotten, or as `key_of` does."""
        meters, key = batch.column("meter").dictionary_encode(), key_of(policy.key_file, fingerprint)
        names = {name: number for number, name in enumerate(meters.dictionary.to_pylist())}
        numbers = meters.indices.to_numpy().astype(np.int64)
        windows = Windows(numbers, milliseconds(batch.column("start")))
        rows = debit_rows(windows, names, policy, key, Admission(""))
        columns = [column.combine_chunks() for column in rows.columns]
        return for_spark(RecordBatch.from_arrays(columns, rows.schema.names))

    return work


def exact_sum(column: pa.Array) -> int:
    """Return the sum of a column of 64-bit integers, which may need more than 64 bits."""
    numbers = column.to_numpy()
    return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())


def _with_end(windows: RecordBatch, counts: number.Counts, policy: Policy) -> RecordBatch:
    """Add columns `end` and `counts` to windows, for Spark; the first row has the counts of the batch."""
    ends = policy.ends(milliseconds(windows.column("start")))
    meter, time_ms = counts.first_conflict or (None, None)
    totals = {name: getattr(counts, name) for name in number.TOTALS}
    rows = [totals | {"first": meter and {"meter": meter, "time_ms": time_ms}}]
    column = pa.array((rows + [None] * windows.num_rows)[: windows.num_rows], COUNTS)
    return _for_spark({**_columns(windows), "end": _times(ends), "counts": column})


def _columns(batch: RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _times(times_ms: Integers) -> pa.Array:
    """Convert times in milliseconds to Spark's type, which is in microseconds."""
    return pa.array(times_ms * 1000).cast(TIME)


def milliseconds(column: pa.Array) -> Integers:
    """Convert times from Spark or an archive to milliseconds, rounded down."""
    times_us: Integers = column.cast(TIME).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return times_us // 1000


def for_spark(batch: RecordBatch) -> RecordBatch:
    """Convert a batch to types that Spark accepts."""
    return _for_spark(_columns(batch))


def _for_spark(columns: dict[str, pa.Array]) -> RecordBatch:
    time_names = {name for name, column in columns.items() if pa.types.is_timestamp(column.type)}
    return RecordBatch.from_pydict(
        {name: column.cast(TIME) if name in time_names else column for name, column in columns.items()}
    )
