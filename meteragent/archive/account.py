"""The first pass of a run: which windows there are, which of them may be released, and the debit for these.

It looks at meters and times alone. A window that shares time with what any other run has released is refused
and counted. In the wide form a window that is there twice is an error, before anything is released, and so is
a row that is not on the grid or has numbers that do not fit. That every window has a key is checked here too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from meteragent.archive.form import fit
from meteragent.archive.job import Job, read
from meteragent.archive.kernel import TIME
from meteragent.archive.key import Key
from meteragent.archive.ledger import SCHEMA, Ledger
from meteragent.archive.number import Flags, milliseconds
from meteragent.archive.policy import Integers, Policy
from meteragent.archive.readings import Windows, opened
from meteragent.archive.source import Source
from meteragent.domain.errors import ArchiveError
from meteragent.domain.grid import format_duration, iso_time

Told = Callable[[int], object]

_AT_ONCE = 1 << 20  # numbers, about


@dataclass(slots=True)
class Account:
    """What the first pass of a run found: how many windows are released and refused; all of it is public.

    `descriptors`: by id, the start of the first window; `keys`: their ids.
    """

    run: str
    released: int = 0
    refused: int = 0
    descriptors: dict[str, int] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def tables(
        self, source: Source, found: list[Job], ledger: Ledger, key: Key, told: Told
    ) -> Iterator[pa.Table]:
        """The ledger's rows of the run, a table for each job; they are counted here.

        Raises:
            ArchiveError: rows that cannot be released (see the module).
            KeyForgotten: a window's epoch has no key.
        """
        for job in found:
            names: dict[str, int] = {}
            windows = of_job(source, job, names, told)
            used = ledger.others(self.run, names).overlap(windows, source.policy.ends(windows.start_ms))
            self.refused += int(used.sum())
            self.released += int((~used).sum())
            yield _rows(windows.rows(~used), names, source.policy, key, self)
        if source.form == "wide" and self.released + self.refused != source.rows:
            raise ArchiveError(
                "the statistics of some row groups are not those of their rows: write them anew"
            )


def of_job(source: Source, job: Job, names: dict[str, int], told: Told) -> Windows:
    """The windows of a job, by meter and start.

    Raises ArchiveError for a window that is there twice, in the wide form.
    """
    meters, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in read(source, job, names):
        meters.append(rows.meter)
        times.append(rows.time_ms)
        told(rows.row.size)
    meter, time_ms = np.concatenate(meters), np.concatenate(times)
    if source.form == "long":
        found = opened(meter, time_ms, source.policy)
        first, end = job.starts_ms
        return found.rows((first <= found.start_ms) & (found.start_ms < end))
    order = np.lexsort((time_ms, meter))
    windows = Windows(meter[order], time_ms[order])
    again = (windows.meter[1:] == windows.meter[:-1]) & (windows.start_ms[1:] == windows.start_ms[:-1])
    if again.any():
        at = int(np.argmax(again))
        name = next(name for name, number in names.items() if number == windows.meter[at])
        raise twice(int(again.sum()), name, int(windows.start_ms[at]))
    return windows


def check_rows(source: Source, told: Told) -> None:
    """Check that all numbers can be read, and of the wide form that rows are on the grid and numbers fit.

    What fails later would be debited and never leave.

    Raises ArchiveError that says how many rows do not fit, or which file cannot be read.
    """
    columns, policy, wrong = source.policy.columns, source.policy, 0
    at_once = max(1, _AT_ONCE // source.numbers)
    for batch in source.read(source.groups, [columns.time, columns.value], at_once):
        if source.form == "wide":
            fits, _ = fit(
                milliseconds(batch.column(columns.time), columns.time), batch.column(columns.value), policy
            )
            wrong += int((~fits).sum())
        told(batch.num_rows)
    if wrong:
        raise misfits(wrong, source)


def misfits(wrong: int, source: Source) -> ArchiveError:
    """So many rows of the wide form are no windows."""
    usual = source.policy.usual
    length, zone = format_duration(usual.length_ms), usual.timezone or "UTC; local days need window.timezone"
    return ArchiveError(
        f"{wrong} of {source.rows} rows are not on the grid of window.length, or have numbers that do not fit"
        f" (an ordinary window is {length} long, in {zone}, and has {usual.n} slots);"
        " nothing was released"
    )


def twice(count: int, meter: str, start_ms: int) -> ArchiveError:
    """So many windows are there again, one of them this one."""
    return ArchiveError(
        f"{count} windows are there twice, such as that of {meter!r} at {iso_time(start_ms)}: remove the"
        " copies; nothing was released"
    )


def _rows(windows: Windows, names: dict[str, int], policy: Policy, key: Key, account: Account) -> pa.Table:
    """Rows of the ledger: windows in a row under the same terms and key."""
    if not windows.meter.size:
        return SCHEMA.empty_table()
    ends_ms, epochs = policy.ends(windows.start_ms), key.epochs(windows.start_ms)
    places, terms = policy.terms(windows.start_ms)
    descriptors = [policy.descriptor(one) for one in terms]
    ids = {epoch: key.epoch(epoch).id for epoch in np.unique(epochs).tolist()}
    account.keys.update(ids.values())
    for place, descriptor in enumerate(descriptors):
        from_ms = int(windows.start_ms[places == place].min())
        account.descriptors[descriptor.id] = min(account.descriptors.get(descriptor.id, from_ms), from_ms)
    begins = np.flatnonzero(np.append(True, _breaks(windows, ends_ms, epochs, places)))
    counts = np.diff(np.append(begins, windows.meter.size))
    ordered = sorted(names, key=names.__getitem__)
    of = [descriptors[place] for place in places[begins].tolist()]
    columns = [
        pa.array([ordered[number] for number in windows.meter[begins].tolist()], pa.string()),
        pa.array(windows.start_ms[begins]).cast(TIME),
        pa.array(ends_ms[begins + counts - 1]).cast(TIME),
        pa.array(counts),
        pa.array([str(one.terms.epsilon) for one in of], pa.string()),
        pa.array([f"1/{one.terms.unit}" for one in of], pa.string()),
        pa.array([one.id for one in of], pa.string()),
        pa.array([ids[epoch] for epoch in epochs[begins].tolist()], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)


def _breaks(windows: Windows, ends_ms: Integers, epochs: Integers, places: Integers) -> Flags:
    """Between which windows a row of the ledger ends."""
    apart = (windows.meter[1:] != windows.meter[:-1]) | (windows.start_ms[1:] != ends_ms[:-1])
    return np.asarray(apart | (epochs[1:] != epochs[:-1]) | (places[1:] != places[:-1]))
