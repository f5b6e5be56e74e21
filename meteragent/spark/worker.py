"""Functions that process record batches on Spark's workers, built from the functions of `archive`.

Rules:

* A worker's exception ends up in logs, which must not contain readings, and the messages of Arrow and numpy
  quote values. So of an exception from outside this package, only the type is passed on (`safely`).
* A worker reads the key from the key file, and caches it until the file changes. No closure, plan or event
  log contains the key. A worker whose key is not the driver's (`KeyFingerprint`) releases nothing, because a
  task that is retried on another worker must not use a different key.
* Spark's times are in microseconds. An archive's times are in milliseconds, rounded down.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import RecordBatch

from meteragent.archive import kernel, layout, number
from meteragent.archive.admission import Admission, debit_rows, normal_form
from meteragent.archive.key import Key
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.readings import Windows
from meteragent.archive.source import Group, Source
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
READ = "numbers", "gap", "clamped"
"""The columns with those counts of a batch's numbers that decide whether an input is refused."""
_KEYS: dict[Path, tuple[tuple[int, int], Key]] = {}
"""The keys that this process has read, with the versions of their files, by path."""


class WorkerError(MeteragentError):
    """A worker's failure; its message does not quote readings."""


def safely(work: Work) -> Reader:
    """Return a function that applies `work` to each batch, as Spark expects; its errors quote no values."""
    return each(lambda batch: map(work, [batch]))


def each(work: Callable[[RecordBatch], Iterator[RecordBatch]]) -> Reader:
    """Return a function that yields all results of `work` for each batch; its errors quote no values."""

    def work_on_all(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the results for one batch after the other."""
        for batch in batches:
            results = work(batch)
            while (result := attempt(partial(next, results, None))) is not None:
                yield result

    return work_on_all


def read_groups(source: Source, tasks: list[list[Group]], work: Work) -> Reader:
    """Return a function from tasks' indices to the results of `work` for the batches of their row groups."""

    def read(indices: RecordBatch) -> Iterator[RecordBatch]:
        """Read the row groups of each task."""
        for index in indices.column(0).to_pylist():
            yield from map(work, source.read(tasks[index], list(source.policy.columns), BATCH_ROWS))

    return each(read)


def attempt(call: Callable[[], T]) -> T:
    """Return the result of `call`. Raises WorkerError if this fails."""
    try:
        return call()
    except MeteragentError as error:
        text = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 -- any message may quote a reading
        text = type(error).__name__
    raise WorkerError(text)


class KeyFingerprint(NamedTuple):
    """The driver's first epoch and its id, both public, by which workers refuse another key."""

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
    if path not in _KEYS or _KEYS[path][0] != version:  # forgotten epochs must leave the cache
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
    """Return a function from meter, start, readings (pairs of time and value) to windows as quanta."""
    return lambda batch: _with_end(*layout.read_grouped(batch, policy), policy)


def window_opener(policy: Policy) -> Work:
    """Return a function from readings to the windows that they open, each once per batch, with `READ`."""

    def work(batch: RecordBatch) -> RecordBatch:
        """Group the readings of a batch by meter and window."""
        meters, times = _meters_and_times(batch, policy)
        table = pa.table({"meter": meters, "start": policy.starts(times - policy.lead_ms)})
        windows = table.group_by(["meter", "start"]).aggregate([]).combine_chunks()
        starts = windows.column("start").to_numpy()
        intervals = _intervals(windows.column("meter").chunk(0), starts, policy)
        return _with_counts(intervals, batch.column(policy.columns.value), policy)

    return work


def row_checker(policy: Policy) -> Work:
    """Return a function from rows of the wide layout to their intervals, `READ`, and the column `fits`."""

    def work(batch: RecordBatch) -> RecordBatch:
        """Compute each row's interval, and check whether its list fits the window."""
        meters, starts = _meters_and_times(batch, policy)
        lists = batch.column(policy.columns.value)
        fits, _ = layout.row_fits_and_lengths(starts, lists, policy)
        intervals = _with_counts(_intervals(meters, starts, policy), lists.flatten(), policy)
        return RecordBatch.from_pydict({**_columns(intervals), "fits": pa.array(fits)})

    return work


def _with_counts(intervals: RecordBatch, numbers: pa.Array, policy: Policy) -> RecordBatch:
    """Add the columns of `READ`, whose first row has the counts of these numbers, and all others 0."""
    counts = number.Counts.of(number.to_millionths(numbers, policy), policy.usual)
    first_row = np.arange(intervals.num_rows) == 0
    columns = {name: pa.array(first_row * getattr(counts, name), pa.int64()) for name in READ}
    return RecordBatch.from_pydict({**_columns(intervals), **columns})


def _meters_and_times(batch: RecordBatch, policy: Policy) -> tuple[pa.Array, Integers]:
    names = policy.columns
    meters = layout.meters(batch.column(names.meter), policy)
    return meters, number.to_milliseconds(batch.column(names.time), names.time)


def _intervals(meters: pa.Array, starts: Integers, policy: Policy) -> RecordBatch:
    ends = policy.ends(policy.starts(starts))
    return RecordBatch.from_pydict({"meter": meters, "start": _times(starts), "end": _times(ends)})


def noise_adder(policy: Policy, fingerprint: KeyFingerprint) -> Work:
    """Return a function that releases windows, with noise under the driver's key."""
    return lambda batch: for_spark(add_noise(batch, policy, fingerprint))


def releaser(read: Work, policy: Policy, fingerprint: KeyFingerprint) -> Work:
    """Return a function that makes windows with `read` and releases them, and keeps the column `counts`."""
    add_noise = noise_adder(policy, fingerprint)

    def work(batch: RecordBatch) -> RecordBatch:
        """Read and release; windows and releases have the same order."""
        windows = read(batch)
        return add_noise(windows).append_column("counts", windows.column("counts"))

    return work


def untaken_releaser(policy: Policy, fingerprint: KeyFingerprint) -> Work:
    """Return a function that releases windows; a taken one keeps its own name, start and end alone."""

    def work(batch: RecordBatch) -> RecordBatch:
        """Release the windows that are not taken; fill the rows of taken windows with nulls."""
        is_taken = batch.column("taken")
        new_windows, refused_windows = batch.filter(pc.invert(is_taken)), batch.filter(is_taken)
        releases = add_noise(new_windows, policy, fingerprint)
        released_columns = {**_columns(releases), "name": new_windows.column("meter")}
        names = {"name": "meter", "start": "start", "end": "end"}
        refused_columns = {name: refused_windows.column(source) for name, source in names.items()}
        columns = {}
        for name, column in released_columns.items():
            refused_column = refused_columns.get(name, pa.nulls(refused_windows.num_rows, column.type))
            columns[name] = pa.concat_arrays([column, refused_column.cast(column.type)])
        return _for_spark(columns)

    return work


def slot_splitter(policy: Policy) -> Work:
    """Return a function that splits releases into a row for each slot."""
    schema = kernel.release_schema(policy)

    def work(batch: RecordBatch) -> RecordBatch:
        """Split the releases of a batch."""
        columns = [batch.column(field.name).cast(field.type) for field in schema]
        releases = pa.record_batch(columns, schema=schema)
        return for_spark(layout.by_slots(releases, policy))

    return work


def add_noise(batch: RecordBatch, policy: Policy, fingerprint: KeyFingerprint) -> RecordBatch:
    """Add noise to windows, under this worker's key. Raises the errors of `key_of` and `kernel.release`."""
    columns = [batch.column("meter"), batch.column("start").cast(kernel.TIME), batch.column("quanta")]
    typed_columns = [column.cast(field.type) for column, field in zip(columns, kernel.WINDOWS, strict=True)]
    windows = pa.record_batch(typed_columns, schema=kernel.WINDOWS)
    return kernel.release(windows, policy, key_of(policy.key_file, fingerprint))


def row_maker(policy: Policy, fingerprint: KeyFingerprint) -> Work:
    """Return a function from windows, in order of meter and start, to rows of the ledger."""

    def work(batch: RecordBatch) -> RecordBatch:
        """Debit the windows of a batch. Raises KeyForgotten, or as `key_of` does."""
        meters, key = batch.column("meter").dictionary_encode(), key_of(policy.key_file, fingerprint)
        names = {name: number for number, name in enumerate(meters.dictionary.to_pylist())}
        numbers = meters.indices.to_numpy().astype(np.int64)
        windows = Windows(numbers, milliseconds(batch.column("start")))
        rows = debit_rows(windows, names, policy, key, Admission(""))
        columns = [column.combine_chunks() for column in rows.columns]
        return for_spark(RecordBatch.from_arrays(columns, rows.schema.names))

    return work


def exact_sum(column: pa.Array) -> int:
    """Return the sum of a column of 64-bit integers, of any size."""
    numbers = column.to_numpy()
    return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())


def _with_end(windows: RecordBatch, counts: number.Counts, policy: Policy) -> RecordBatch:
    """Add the columns `end` and `counts` to windows, for Spark; the first row has the batch's counts."""
    ends = policy.ends(milliseconds(windows.column("start")))
    meter, time_ms = counts.first_conflict or (None, None)
    totals = {name: getattr(counts, name) for name in number.TOTALS}
    rows = [totals | {"first": meter and {"meter": meter, "time_ms": time_ms}}]
    column = pa.array((rows + [None] * windows.num_rows)[: windows.num_rows], COUNTS)
    return _for_spark({**_columns(windows), "end": _times(ends), "counts": column})


def name_normaliser() -> Work:
    """Return a function from meters to their names in normal form, by which spellings of one are found."""
    return lambda batch: RecordBatch.from_pydict(
        {"form": pa.array([normal_form(name) for name in batch.column("meter").to_pylist()], pa.string())}
    )


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
