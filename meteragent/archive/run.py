"""A run on one machine: account, then release, in parts that are there whole or not at all.

Theory of operation
-------------------
1. The ledger is locked, the input's content hashed; both name the run.
2. Account (`account`): what the run may release is put into the ledger, and is on disk, before any of it
   leaves. If the ledger has the run already, that is what it may release.
3. Release: the output is a folder of parts. A part is a stretch of windows in the order of `order` (wide) or
   a job (long), written under another name, synced and renamed; a part that is there is not made again.
   Noise is keyed, so a part that a killed run had not finished comes out the same, byte for byte.

What is in memory at once is bounded: a batch of rows (wide), a job (long), and, where a wide input is
released in part or gone on with, a byte for each window. No raw value is written anywhere: what of the wide
form waits beside the output until it is in order has its noise.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive import manifest
from meteragent.archive.account import Account, Told, check_rows
from meteragent.archive.files import write
from meteragent.archive.form import Counts, Form, as_windows, by_slots, long_releases, wide
from meteragent.archive.job import Job, jobs, read
from meteragent.archive.kernel import release, releases
from meteragent.archive.key import EpochKey, Key
from meteragent.archive.ledger import SCHEMA, Ledger
from meteragent.archive.manifest import PART_BATCHES, ROWS, VALUES, WINDOWS
from meteragent.archive.number import Flags, micro, milliseconds
from meteragent.archive.order import Order, row_groups, store
from meteragent.archive.policy import Policy
from meteragent.archive.readings import Readings, Windows, opened, slots
from meteragent.archive.source import Source
from meteragent.domain.errors import ArchiveError

COMPRESSION = "zstd"
OPTIONS: dict[str, Any] = {"store_decimal_as_integer": True}
"""How the output is written, beside `encodings`."""


class Show(Protocol):
    """Shows how far something is: what is done, in how many units of which kind."""

    def __call__(self, what: str, total: int, unit: str) -> AbstractContextManager[Told]:
        """The same, while it lasts; what it gives is told how many more units are done."""
        ...


class Engine(Protocol):
    """What makes the two passes of a run."""

    @property
    def cut(self) -> list[Any]:
        """What decides where its parts end."""
        ...

    def debits(
        self, source: Source, ledger: Ledger, key: Key, found: Account, show: Show
    ) -> Iterable[pa.Table]:
        """The ledger's rows of the run `found.run`; when they have been made, `found` is filled in."""
        ...

    def release(
        self, source: Source, ledger: Ledger, key: Key, found: Account, out: Path, show: Show
    ) -> "Parts":
        """Make the parts of the output that are not there."""
        ...


class Parts(NamedTuple):
    """How many parts of the output were made, and were there; what was counted in the former, if anything."""

    made: int
    kept: int
    counts: Counts | None


@dataclass(frozen=True)
class Done:
    """What a run has done; `counts` are of the parts that were made now, `kept` those that were there."""

    policy: Policy
    form: Form
    out: Path
    beside: Path
    ledger: Path
    account: Account
    counts: Counts | None
    made: int
    kept: int


def sanitise_archive(policy: Policy, path: Path, out: Path, show: Show, engine: Engine | None = None) -> Done:
    """Release an archive; again with the same input and policy it goes on where it was.

    `engine` makes the passes: by itself one process, this one.

    Raises:
        ArchiveError: the input, the output or the ledger cannot be used, or is another run's.
        KeyRefused: there is no key, or none for some windows; nothing is written then.
    """
    engine, key, ledger = engine or Local(), Key.load(policy.key_file), Ledger(policy.ledger)
    check_places(path, out, ledger.folder)
    source = Source.open(path, policy)
    first = key.at(first_ms(source))  # later epochs have a key if this one has
    with ledger.held():
        digests, run = identified(source, first, show)
        before = manifest.find(out, run, engine.cut)
        if not ledger.has(run):
            found = Account(run)
            tables = engine.debits(source, ledger, key, found, show)
            ledger.add(run, tables, lambda: manifest.about(source, digests, found))
        found = manifest.account_of(ledger.about(run), ledger.path(run))
        if before is None:
            shutil.rmtree(_waiting(out, run), ignore_errors=True)  # of an output that was removed
            _make(out)
        if before is None or not before["complete"]:
            manifest.save(out, manifest.made(source, found, engine.cut, complete=False))
        made, kept, counts = engine.release(source, ledger, key, found, out, show)
        own = beside(out)
        write(own, lambda file: _save_ledger(file, ledger, run))
        manifest.save(out, manifest.made(source, found, engine.cut, complete=True))
    return Done(policy, source.form, out, own, ledger.folder, found, counts, made, kept)


def identified(source: Source, first: EpochKey, show: Show) -> tuple[list[str], str]:
    """The digests of an input's files, and the id of its run under the key of its first epoch."""
    with show("read", sum(stamp[1] for _, stamp in source.seen), "B") as told:
        digests = source.digests(told)
    return digests, manifest.run_id(source.policy, digests, first)


class Local:
    """This process."""

    def __init__(self) -> None:
        self._all = False  # whether every row was debited just now

    @property
    def cut(self) -> list[Any]:
        """As this version cuts them."""
        return manifest.CUT

    def debits(
        self, source: Source, ledger: Ledger, key: Key, found: Account, show: Show
    ) -> Iterable[pa.Table]:
        """Job by job."""
        with show("account", 2 * source.rows, "row") as told:
            check_rows(source, told)
            yield from found.tables(source, _cut(source), ledger, key, told)
        self._all = not found.refused

    def release(
        self, source: Source, ledger: Ledger, key: Key, found: Account, out: Path, show: Show
    ) -> Parts:
        """Part by part."""
        one = _Release(source, key, ledger, found, out)
        return one.parts(show, every=self._all)


def _cut(source: Source) -> list[Job]:
    return jobs(source, ROWS if source.form == "long" else WINDOWS)


class _Release:
    """The second pass."""

    def __init__(self, source: Source, key: Key, ledger: Ledger, found: Account, out: Path) -> None:
        self.source, self.policy, self.key, self.ledger = source, source.policy, key, ledger
        self.account, self.out, self.counts = found, out, Counts()
        self._waiting = _waiting(out, found.run)
        self._cut = _cut(source)

    def parts(self, show: Show, *, every: bool) -> Parts:
        """Make the parts that are not there, of `every` row or of those that the ledger has."""
        work = self._wide_parts() if self.source.form == "wide" else self._long_parts()
        paths = [self.out / f"part-{place:05}.parquet" for place in range(len(work))]
        made = sum(not path.exists() for path in paths)
        is_wide = self.source.form == "wide"
        if is_wide and made:
            self._read_wide(show, every=every)
        with show("write" if is_wide else "release", sum(rows for rows, _ in work), "row") as told:
            for path, (rows, make) in zip(paths, work, strict=True):
                if path.exists():
                    told(rows)
                else:
                    self._write(path, make(told))
        shutil.rmtree(self._waiting, ignore_errors=True)
        return Parts(made, len(work) - made, self.counts)

    def _write(self, path: Path, batches: Iterable[pa.RecordBatch]) -> None:
        """A part, if the input is still the same when it is done."""

        def fill(file: Any) -> None:
            schema = releases(self.policy)
            if self.source.form == "long":
                schema = long_releases(schema, self.policy)
            with pq.ParquetWriter(file, schema, **OPTIONS, **encodings(schema)) as writer:
                for batch in batches:
                    writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            self.source.check()

        write(path, fill)

    @cached_property
    def _order(self) -> Order:
        """The order in which windows of the wide form leave."""
        rows = self.ledger.rows(self.account.run)
        return Order.of(rows, self.policy, max(1, VALUES // self.policy.usual.n))

    def _read_wide(self, show: Show, *, every: bool) -> None:
        """Release the rows of the wide form in the input's order, so many numbers at once, to `_waiting`."""
        source, allowed = self.source, None if every else self._allowed()
        at_once = max(1, VALUES // max(source.numbers, self.policy.usual.n))
        _make(self._waiting)
        done = len(list(self._waiting.glob("*.arrow")))  # they are made in order
        with show("release", source.rows, "row") as told:
            first = min(done * at_once, source.rows)
            told(first)
            for place, batches in enumerate(source.stretches(first, at_once), start=done):
                may = None if allowed is None else allowed[place * at_once :]
                found = release(self._windows(batches, may), self.policy, self.key)
                write(self._waiting / f"{place:06}.arrow", partial(self._store, found))
                told(sum(batch.num_rows for batch in batches))

    def _store(self, found: pa.RecordBatch, file: Any) -> None:
        """Releases that wait, if the input is still the same."""
        store(file, found, self._order)
        self.source.check()

    def _windows(self, batches: list[pa.RecordBatch], may: Flags | None) -> pa.RecordBatch:
        """The windows of rows of the wide form, all or those that may leave."""
        found, row = [], 0
        for batch in batches:  # each by itself: types may differ from file to file
            mine = batch if may is None else batch.filter(pa.array(may[row : row + batch.num_rows]))
            windows, counts = wide(mine, self.policy)
            self.counts.add(counts)
            found.append(windows)
            row += batch.num_rows
        return found[0] if len(found) == 1 else pa.concat_batches(found)

    def _wide_parts(self) -> list[tuple[int, Callable[[Told], Iterator[pa.RecordBatch]]]]:
        """So many row groups each."""
        groups = self._order.groups

        def part(first: int) -> Callable[[Told], Iterator[pa.RecordBatch]]:
            return lambda told: self._ordered(range(first, min(first + PART_BATCHES, groups)), told)

        count = -(-groups // PART_BATCHES)
        rows = np.diff(np.arange(count + 1) * self.account.released // count).tolist()
        return [(rows[place], part(place * PART_BATCHES)) for place in range(count)]

    def _ordered(self, groups: range, told: Told) -> Iterator[pa.RecordBatch]:
        """Row groups of the wide form."""
        waiting = sorted(self._waiting.glob("*.arrow"))
        for batch in row_groups(waiting, groups, releases(self.policy)):
            yield batch
            told(batch.num_rows)

    def _allowed(self) -> Flags:
        """Which rows of the wide form the ledger has under this run."""
        allowed = np.zeros(self.source.rows, np.bool_)
        for job in self._cut:
            names: dict[str, int] = {}
            for rows in read(self.source, job, names):
                own = self.ledger.own(self.account.run, names)
                windows = Windows(rows.meter, rows.time_ms)
                allowed[rows.row] = own.holds(windows, self.policy.ends(rows.time_ms))
        return allowed

    def _long_parts(self) -> list[tuple[int, Callable[[Told], Iterator[pa.RecordBatch]]]]:
        """A part for each job."""

        def part(job: Job) -> Callable[[Told], Iterator[pa.RecordBatch]]:
            return lambda told: self._long(job, told)

        groups = self.source.groups
        rows = [sum(groups[at].rows for at in job.groups) // job.parts for job in self._cut]
        return [(count, part(job)) for count, job in zip(rows, self._cut, strict=True)]

    def _long(self, job: Job, told: Told) -> Iterator[pa.RecordBatch]:
        """The releases of a job of the long form, by the name under which a meter leaves, and time."""
        names: dict[str, int] = {}
        found = self._readings(job, names, told)
        windows, (first, end) = opened(found.meter, found.time_ms, self.policy), job.starts_ms
        windows = windows.rows((first <= windows.start_ms) & (windows.start_ms < end))
        own = self.ledger.own(self.account.run, names)
        windows = windows.rows(own.holds(windows, self.policy.ends(windows.start_ms)))
        ordered = pa.array(sorted(names, key=names.__getitem__), pa.string())
        # A quarter of the wide form's: readings are in memory too, and rows are slots.
        at_once = max(1, VALUES // (4 * self.policy.usual.n))
        for some, ragged in slots(found, windows, self.policy, at_once):
            batch = as_windows(ordered.take(pa.array(some.meter)), some.start_ms, ragged)
            yield by_slots(release(batch, self.policy, self.key), self.policy)

    def _readings(self, job: Job, names: dict[str, int], told: Told) -> Readings:
        """The readings of a job; meters are numbered in the order in which they leave."""
        none = np.empty(0, np.int64)
        parts = [Readings(none, none, none, np.empty(0, np.bool_))]
        for rows in read(self.source, job, names, values=True):
            found = micro(rows.value, self.policy)
            parts.append(Readings(rows.meter, rows.time_ms, found.values_u, found.valid))
            self.counts.add(Counts(rows.row.size, int((~found.valid).sum()), found.clamped))
            told(rows.row.size)
        place = np.empty(len(names), np.int64)
        order = sorted(names, key=self.policy.label)  # names' own order would tell pseudonyms
        place[[names[name] for name in order]] = np.arange(len(order))
        names.update({name: at for at, name in enumerate(order)})
        meter, time_ms, value_u, valid = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Readings(place.take(meter), time_ms, value_u, valid)


def encodings(schema: pa.Schema) -> dict[str, Any]:
    """How columns are written: numbers by their differences, the rest compressed, texts by a dictionary.

    Numbers are mostly noise: packed in as few bits as they need they are within 2 or 3 in 100 of what
    compression makes of them, for a quarter less time; their least and greatest tell nothing.
    """
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    number = "values.list.element" if "values" in schema.names else "value"
    told = [name for name in schema.names if name not in {"values", "value"}]
    numbers = {"column_encoding": {number: "DELTA_BINARY_PACKED"}}
    packed = {"compression": dict.fromkeys(told, COMPRESSION) | {number: "none"}}
    return {"use_dictionary": texts, "write_statistics": told, **numbers, **packed}


def _save_ledger(file: Any, ledger: Ledger, run: str) -> None:
    with pq.ParquetWriter(file, SCHEMA) as writer:
        for batch in ledger.rows(run):
            writer.write_batch(batch)


def first_ms(source: Source) -> int:
    """The start of the first window that a reading may begin in; raises ArchiveError when there is none."""
    policy, column = source.policy, source.policy.columns.time
    lead_ms = policy.lead_ms if source.form == "long" else 0
    known = [group.times_ms[0] for group in source.groups if group.rows and group.times_ms]
    unknown = [group for group in source.groups if group.rows and not group.times_ms]
    batches = source.read(unknown, [column], 1 << 18)
    known += [int(milliseconds(batch.column(0), column).min()) for batch in batches]
    if not known:
        raise ArchiveError("the input has no rows: nothing to release")
    return int(policy.starts(np.array([min(known) - lead_ms], np.int64))[0])


def check_places(path: Path, out: Path, ledger: Path) -> None:
    """Output and ledger must not be a part of the input, nor hold it."""
    one = path.resolve()
    for made in (out, beside(out), ledger):
        other = made.resolve()
        if one == other or one in other.parents or other in one.parents:
            raise ArchiveError(f"{made}: would be written in the input or around it: keep them apart")


def _make(out: Path) -> None:
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise ArchiveError(f"{out}: {(error.strerror or 'cannot be made').lower()}") from None


def beside(out: Path, kind: str = "ledger.parquet") -> Path:
    """Where something that must not leave is put for whoever made an output: its own ledger, what waits."""
    return out.with_name(f"{out.name.removesuffix('.parquet')}.{kind}")


def _waiting(out: Path, run: str) -> Path:
    """Where releases of the wide form wait until they are in order."""
    return beside(out, f"{run}.waiting")
