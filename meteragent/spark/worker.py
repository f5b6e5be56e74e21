"""What runs on Spark's workers: functions of record batches, made of an archive's.

Rules.

* A worker's exception goes to logs that readings must not be in, with the text that Arrow or numpy gave it
  (which quotes values). So of an exception that is not ours only its type is told (`safely`).
* The key is read from its file by the worker, once for as long as the file stays the same: it is in no
  closure, no plan, no event log. A worker whose key is not the driver's (`Whose`) releases nothing: a task
  that is tried again elsewhere must not find another one.
* Spark's times are microseconds; an archive's are milliseconds, rounded down.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import RecordBatch

from meteragent.archive import form, kernel, number
from meteragent.archive.key import Key
from meteragent.archive.policy import Integers, Policy
from meteragent.domain.errors import KeyMissing, KeyRotated, MeteragentError

Work = Callable[[RecordBatch], RecordBatch]

_TIME = pa.timestamp("us", tz="UTC")
_KEYS: dict[Path, tuple[tuple[int, int], Key]] = {}
"""The keys that this process has read, and when their files had changed."""


class WorkerError(MeteragentError):
    """A worker failed; the text says how without saying of which readings."""


def safely(work: Work) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """A function of one batch as Spark wants it; what it raises names no value."""

    def run(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            yield _attempt(work, batch)

    return run


def _attempt(work: Work, batch: RecordBatch) -> RecordBatch:
    try:
        return work(batch)
    except MeteragentError as error:
        found = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 -- whatever it is, its text may quote a reading
        found = type(error).__name__
    raise WorkerError(found)


class Whose(NamedTuple):
    """Which key it must be: its id in an epoch. Both are public."""

    epoch: int
    id: str

    @classmethod
    def of(cls, key: Key) -> "Whose":
        """That of a key."""
        return cls(key.first, key.epoch(key.first).id)


def key_of(path: Path, whose: Whose) -> Key:
    """The key in a file of this machine.

    Raises:
        KeyMissing: there is none.  KeyForgotten, KeyRotated: it is not the one it must be.
    """
    try:
        seen = path.stat()
    except OSError as error:
        raise KeyMissing(f"{path}: {(error.strerror or 'an error').lower()}") from None
    mark = seen.st_mtime_ns, seen.st_ino
    if path not in _KEYS or _KEYS[path][0] != mark:  # epochs that were forgotten are
        _KEYS[path] = mark, Key.load(path)
    key = _KEYS[path][1]
    own = key.epoch(whose.epoch).id
    if own != whose.id:
        raise KeyRotated(f"the key on worker {os.uname().nodename} is {own}, that of the driver {whose.id}")
    return key


def wide(policy: Policy) -> Work:
    """Rows of the wide form -> meter, start, quanta, end."""
    return lambda batch: _with_end(form.wide(batch, policy)[0], policy)


def touched(policy: Policy) -> Work:
    """Rows of the long form -> meter, start, end, time, value.

    A row for each window that the span of a reading may touch; in the first of them it begins.
    """

    def work(batch: RecordBatch) -> RecordBatch:
        meters, times = _meters_and_times(batch, policy)
        rows, starts = _touched(times, policy)
        columns = {
            "meter": meters.take(pa.array(rows)),
            "start": _times(starts),
            "end": _times(policy.ends(starts)),
            "time": _times(times[rows]),
            "value": batch.column(policy.columns.value).take(pa.array(rows)),
        }
        return RecordBatch.from_pydict(columns)

    return work


def _touched(times_ms: Integers, policy: Policy) -> tuple[Integers, Integers]:
    """Of each reading the windows that its span may touch: the reading's place and the window's start."""
    begins = times_ms - policy.lead_ms
    rows, starts = np.arange(times_ms.size), policy.starts(begins)
    found = [(rows, starts)]
    while rows.size:
        following = policy.ends(starts)
        reached = following < begins[rows] + policy.reach_ms
        rows, starts = rows[reached], following[reached]
        found.append((rows, starts))
    every_row, every_start = zip(*found, strict=True)
    return np.concatenate(every_row), np.concatenate(every_start)


def gathered(policy: Policy) -> Work:
    """Meter, start and readings (a list of time and value) -> meter, start, quanta, end."""
    return lambda batch: _with_end(form.gathered(batch, policy), policy)


def opened(policy: Policy) -> Work:
    """Meters and times of readings -> meter, start, end of the windows that they open, once in a batch."""

    def work(batch: RecordBatch) -> RecordBatch:
        meters, times = _meters_and_times(batch, policy)
        table = pa.table({"meter": meters, "start": policy.starts(times - policy.lead_ms)})
        each = table.group_by(["meter", "start"]).aggregate([]).combine_chunks()
        return _stretches(each.column("meter").chunk(0), each.column("start").to_numpy(), policy)

    return work


def rows(policy: Policy) -> Work:
    """Meter, time and how many numbers (null: no list) of the wide form -> meter, start, end, fits."""

    def work(batch: RecordBatch) -> RecordBatch:
        meters, starts = _meters_and_times(batch, policy)
        numbers = batch.column("numbers")
        offsets = np.append(0, np.cumsum(numbers.fill_null(0).to_numpy(zero_copy_only=False)))
        lists = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.nulls(int(offsets[-1])), mask=numbers.is_null()
        )
        fits, _ = form.fit(starts, lists, policy)
        found = _stretches(meters, starts, policy)
        return RecordBatch.from_pydict({**_columns(found), "fits": pa.array(fits)})

    return work


def _meters_and_times(batch: RecordBatch, policy: Policy) -> tuple[pa.Array, Integers]:
    names = policy.columns
    meters = form.meters(batch.column(names.meter), policy)
    return meters, number.milliseconds(batch.column(names.time), names.time)


def _stretches(meters: pa.Array, starts: Integers, policy: Policy) -> RecordBatch:
    ends = policy.ends(policy.starts(starts))
    return RecordBatch.from_pydict({"meter": meters, "start": _times(starts), "end": _times(ends)})


def released(policy: Policy, whose: Whose) -> Work:
    """Windows -> releases."""
    return lambda batch: _for_spark(_columns(_released(batch, policy, whose)))


def settled(policy: Policy, whose: Whose) -> Work:
    """Windows and whether they are taken -> releases and `name`; nulls in those that are taken."""

    def work(batch: RecordBatch) -> RecordBatch:
        taken = batch.column("taken")
        free, refused = batch.filter(pc.invert(taken)), _columns(batch.filter(taken))
        found = {**_columns(_released(free, policy, whose)), "name": free.column("meter")}
        left = {"name": refused["meter"], "start": refused["start"], "end": refused["end"]}
        missing = len(refused["meter"])
        both = {
            name: pa.concat_arrays(
                [column, left[name].cast(column.type) if name in left else pa.nulls(missing, column.type)]
            )
            for name, column in found.items()
        }
        return _for_spark(both)

    return work


def by_slots(policy: Policy) -> Work:
    """Releases of which a row is a window -> releases of which a row is a slot."""
    schema = kernel.releases(policy)

    def work(batch: RecordBatch) -> RecordBatch:
        columns = [batch.column(field.name).cast(field.type) for field in schema]
        releases = pa.record_batch(columns, schema=schema)
        return _for_spark(_columns(form.by_slots(releases, policy)))

    return work


def _released(batch: RecordBatch, policy: Policy, whose: Whose) -> RecordBatch:
    columns = [batch.column("meter"), batch.column("start").cast(kernel.TIME), batch.column("quanta")]
    typed = [column.cast(field.type) for column, field in zip(columns, kernel.WINDOWS, strict=True)]
    windows = pa.record_batch(typed, schema=kernel.WINDOWS)
    return kernel.release(windows, policy, key_of(policy.key_file, whose))


def named(policy: Policy, whose: Whose) -> Work:
    """Meter, start, end -> the same, with the ids of their descriptor and of their key.

    Raises KeyForgotten for a window whose epoch has no key.
    """

    def work(batch: RecordBatch) -> RecordBatch:
        starts, key = _milliseconds(batch.column("start")), key_of(policy.key_file, whose)
        places, terms = policy.terms(starts)
        ids = [policy.descriptor(one).id for one in terms]
        keys = [key.epoch(index).id for index in key.epochs(starts).tolist()]
        columns = {"d": [ids[place] for place in places.tolist()], "key": keys}
        return _for_spark(
            {**_columns(batch), **{name: pa.array(each, pa.string()) for name, each in columns.items()}}
        )

    return work


def _with_end(found: RecordBatch, policy: Policy) -> RecordBatch:
    """WINDOWS, with where they end."""
    ends = policy.ends(_milliseconds(found.column("start")))
    return _for_spark({**_columns(found), "end": _times(ends)})


def _columns(batch: RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _times(times_ms: Integers) -> pa.Array:
    """Times as Spark has them."""
    return pa.array(times_ms * 1000).cast(_TIME)


def _milliseconds(column: pa.Array) -> Integers:
    """Times that Spark or an archive has, rounded down."""
    found: Integers = column.cast(_TIME).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found // 1000


def _for_spark(columns: dict[str, pa.Array]) -> RecordBatch:
    """Columns in the types that Spark takes."""
    times = {name for name, column in columns.items() if pa.types.is_timestamp(column.type)}
    return RecordBatch.from_pydict(
        {name: column.cast(_TIME) if name in times else column for name, column in columns.items()}
    )
