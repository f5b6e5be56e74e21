"""The first pass of a run: find the windows, admit or refuse each, and prepare the ledger's rows.

A window that overlaps an interval that another run has released is refused and counted; all others are
admitted. Before anything is released, the run fails if a row cannot be read or a window has no key. In the
wide layout, it also fails if a window appears twice, is off the grid or has the wrong number of values.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from meteragent.archive.job import Job, rows_of
from meteragent.archive.kernel import TIME
from meteragent.archive.key import Key
from meteragent.archive.ledger import SCHEMA, Ledger
from meteragent.archive.number import Counts
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.readings import Windows, opened_windows
from meteragent.archive.source import Source
from meteragent.domain.errors import ArchiveError
from meteragent.domain.grid import format_duration, iso_time

ProgressCallback = Callable[[int], object]
"""A callback that takes the number of units done since its last call."""
ProgressReporter = Callable[[str, int, str], AbstractContextManager[ProgressCallback]]
"""A function that shows a task's progress: it takes its name, size and unit, and yields a callback."""


@dataclass(slots=True)
class Admission:
    """What a run's first pass decided: how many windows are released, and how many are refused.

    `descriptors` maps each descriptor's id to the start, in ms, of the first window released under it.
    `keys` holds the ids of the keys of the released windows. `similar_meters` counts names that differ
    from another only by case, white space or Unicode form; this count and that of `ambiguous_readings`
    are private, and so are the `counts` of all numbers, if they were read. With `accepts_checks`, it does
    not matter what `checks` find.
    """

    run: str
    released_windows: int = 0
    refused_windows: int = 0
    descriptors: dict[str, int] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    similar_meters: int = 0
    ambiguous_readings: int = 0
    accepts_checks: bool = field(default=False, compare=False)
    counts: Counts | None = field(default=None, compare=False)

    @property
    def windows(self) -> int:
        """The number of all windows, released and refused."""
        return self.released_windows + self.refused_windows

    def admit(
        self, parts: Iterable["Admitted"], source: Source, progress: ProgressCallback
    ) -> Iterator["Admitted"]:
        """Add up the windows that each job admitted or refused, and yield the jobs' results.

        Raises ArchiveError if, in the wide layout, a row group's statistics are wrong.
        """
        forms = [np.empty((0, 2), np.int64)]
        for part in parts:
            self.refused_windows += part.admission.refused_windows
            self.released_windows += part.admission.released_windows
            self.keys |= part.admission.keys
            for id_, start_ms in part.admission.descriptors.items():
                self.descriptors[id_] = min(self.descriptors.get(id_, start_ms), start_ms)
            forms.append(part.forms)
            progress(part.rows)
            yield part
        meters = np.unique(np.concatenate(forms), axis=0)  # several jobs may contain the same meter
        counts = np.unique(meters[:, 0], return_counts=True)[1]
        self.similar_meters = int(counts[counts > 1].sum())
        if source.layout == "wide" and self.windows != source.rows:
            raise ArchiveError(
                "the statistics of some row groups do not match their rows: write the input's files again"
            )


class Admitted(NamedTuple):
    """What a job admitted, its number of rows, and hashes of its meters' names and of their normal forms."""

    rows: int
    admission: Admission
    forms: Integers


def admit_job(
    source: Source,
    ledger: Ledger,
    run: str,
    load_key: Callable[[], Key],
    item: tuple[int, Job],
    *,
    is_dry: bool,
) -> Iterator[Admitted]:
    """Write the admitted windows of a job as a part of the ledger, unless `is_dry`, and yield the result.

    Raises ArchiveError if a row or a file cannot be read or, in the wide layout, a window appears twice.
    Raises KeyForgotten if a window's epoch has no key.
    """
    names: dict[str, int] = {}
    admission, rows = Admission(run), list[int]()
    windows = find_windows(source, item[1], names, rows.append)
    is_taken = ledger.intervals_of_others(run, names).overlap(windows, source.policy.ends(windows.start_ms))
    admission.refused_windows, admission.released_windows = int(is_taken.sum()), int((~is_taken).sum())
    forms = [(_hash(normal_form(name)), _hash(name)) for name in names]
    debits = debit_rows(windows.rows(~is_taken), names, source.policy, load_key(), admission)
    if not is_dry:
        ledger.write(run, item[0], debits)
    yield Admitted(sum(rows), admission, np.array(forms, np.int64).reshape(-1, 2))


def _hash(text: str) -> int:
    """Return a hash that is the same in all processes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def normal_form(name: str) -> str:
    """Return a form that is the same for names that differ only by case, space or Unicode form."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def find_windows(source: Source, job: Job, names: dict[str, int], progress: ProgressCallback) -> Windows:
    """Return a job's windows in order; fill `names`. Raises ArchiveError for wrong rows or duplicates."""
    meters, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in rows_of(source, job, names):
        meters.append(rows.meter)
        times.append(rows.time_ms)
        progress(rows.row.size)
    meter, time_ms = np.concatenate(meters), np.concatenate(times)
    if source.layout == "long":
        windows = opened_windows(meter, time_ms, source.policy)
        first, end = job.starts_ms
        return windows.rows((first <= windows.start_ms) & (windows.start_ms < end))
    order = np.lexsort((time_ms, meter))
    windows = Windows(meter[order], time_ms[order])
    is_repeated = (windows.meter[1:] == windows.meter[:-1]) & (windows.start_ms[1:] == windows.start_ms[:-1])
    if is_repeated.any():
        copies, name_of = windows.rows(np.append(False, is_repeated)), list(names)
        pairs = zip(copies.meter.tolist(), copies.start_ms.tolist(), strict=True)
        raise duplicate_error(copies.meter.size, *min((name_of[meter], start) for meter, start in pairs))
    return windows


def misfit_error(count: int, source: Source) -> ArchiveError:
    """Return the error for rows of the wide layout that are not windows."""
    usual = source.policy.usual
    length, zone = format_duration(usual.length_ms), usual.timezone or "UTC; local days need window.timezone"
    return ArchiveError(
        f"rows that are not on the grid of window.length, or have the wrong number of values: {count} of"
        f" {source.rows} (an ordinary window is {length} long and has {usual.n} slots; starts are in {zone}):"
        " correct the rows or window.length (nothing was released)"
    )


def duplicate_error(count: int, meter: str, start_ms: int) -> ArchiveError:
    """Return the error for windows that appear more than once; it names one of them."""
    return ArchiveError(
        f"windows that appear twice: {count}, such as the window of {meter!r} at {iso_time(start_ms)}: remove"
        " the copies (nothing was released)"
    )


def debit_rows(
    windows: Windows, names: dict[str, int], policy: Policy, key: Key, admission: Admission
) -> pa.Table:
    """Return a ledger row for consecutive windows of a meter with equal terms and key; fill `admission`."""
    if not windows.meter.size:
        return SCHEMA.empty_table()
    ends_ms, epochs = policy.ends(windows.start_ms), key.epochs(windows.start_ms)
    terms_index, terms = policy.terms(windows.start_ms)
    descriptors = [policy.descriptor(window_terms) for window_terms in terms]
    ids = {epoch: key.epoch(epoch).id for epoch in np.unique(epochs).tolist()}
    admission.keys.update(ids.values())
    for index, descriptor in enumerate(descriptors):
        from_ms = int(windows.start_ms[terms_index == index].min())
        admission.descriptors[descriptor.id] = min(admission.descriptors.get(descriptor.id, from_ms), from_ms)
    is_apart = (windows.meter[1:] != windows.meter[:-1]) | (windows.start_ms[1:] != ends_ms[:-1])
    is_apart |= (epochs[1:] != epochs[:-1]) | (terms_index[1:] != terms_index[:-1])
    first_rows = np.flatnonzero(np.append(True, is_apart))
    counts = np.diff(np.append(first_rows, windows.meter.size))
    meters = sorted(names, key=names.__getitem__)
    row_descriptors = [descriptors[index] for index in terms_index[first_rows].tolist()]
    columns = [
        pa.array([meters[number] for number in windows.meter[first_rows].tolist()], pa.string()),
        pa.array(windows.start_ms[first_rows]).cast(TIME),
        pa.array(ends_ms[first_rows + counts - 1]).cast(TIME),
        pa.array(counts),
        pa.array([str(descriptor.terms.epsilon) for descriptor in row_descriptors], pa.string()),
        pa.array([f"1/{descriptor.terms.readings.unit}" for descriptor in row_descriptors], pa.string()),
        pa.array([descriptor.id for descriptor in row_descriptors], pa.string()),
        pa.array([ids[epoch] for epoch in epochs[first_rows].tolist()], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)
