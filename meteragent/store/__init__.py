"""The store: one SQLite file that survives kill -9, power cuts and operator mistakes.

Theory of operation. Everything that one step of the core decides (marks, charges, states, rows of the outbox
and the rest of a `Commit`) is written in one transaction (`transaction`). The rows may leave once the block
of `Store.committing` has ended, because the transaction is fsynced and counted (rule 3) by then. All methods
are synchronous. Only one thread at a time calls them, except `prepare`, which writes a file beside the store.

Rules:
1. A mark is never lowered, and no window opens before its meter's mark (law 1). The transaction checks this
   independently of the core (`openings`).
2. The file holds the current value of an accumulator and no earlier one. Two values of one accumulator differ
   by the energy measured between them, so their history is as sensitive as raw readings (law 3). Hence:
   - After a transaction that writes a state, and before the next write, the WAL is moved into the file and
     overwritten with zeros in place (`erase`), unless another program is reading the file. A copy of the disk
     that is made between commit and erasure, or during a commit, may hold the values from before and after
     that commit, whether or not the commit's records have left by then.
   - A row of `state` is only ever appended, or overwritten in place at the same size. `secure_delete` zeroes
     deleted rows, but not the copies that SQLite leaves behind when it moves a row to another page. So these
     rows never move: a state that outgrows its row is appended as a new row, and the old row is blanked.
3. A store is accepted if the file `<path>.gen` names the store's generation or its previous one, is in the
   inode that it names, and counts no more commits with records than the store does. A new generation is first
   committed (with the name that is then in the file as the previous one) and then written to the file.
   Likewise, a commit with records, once complete, is counted in the file before any of its records leave. The
   file with the next count is written beforehand under another name, which nothing reads (`prepare`). After a
   crash at any point, the store is still accepted. A copy from before the last start, clean stop or record is
   refused, and so is a folder that was restored from a backup. Each transaction checks that the generation is
   still this agent's: if a lock fails to exclude a second agent, the first agent can no longer write.
4. The code does not touch content that it does not understand: an incompatible newer store and another
   program's database are refused. A corrupt store is set aside. A new store, with a floor before which no
   window opens, replaces a corrupt or missing store, unless no safe floor is known (StoreLost).
5. A store records the shard of each stream. A changed shard is refused until `restore_at` has raised the
   floor, because the marks of a meter that moves to another store stay in the old store.
"""

import json
import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meteragent.domain.commit import Commit, Snapshot
from meteragent.domain.errors import StoreError, StoreInUse, StoreLost, StoreMoved
from meteragent.domain.grid import iso_time
from meteragent.store import file, generation, prices, schema, wal
from meteragent.store.acceptance import accept, accept_moved, count_releases
from meteragent.store.batch import batch
from meteragent.store.earlier import rewrite_states
from meteragent.store.examine import meta
from meteragent.store.generation import Generation
from meteragent.store.openings import Openings
from meteragent.store.states import States
from meteragent.store.view import read_only, terms

__all__ = ["ALL_METERS", "Store", "accept_moved", "batch", "meta", "read_only", "restore_at", "terms"]

ALL_METERS = "0/1 by name"
"""The shard of a stream outside a fleet, or of a stream from before shards were recorded."""

_MARK = """INSERT INTO mark SELECT ?1, key, value FROM json_each(?2) WHERE true
    ON CONFLICT (channel, meter) DO UPDATE SET end_ms = max(end_ms, excluded.end_ms)"""


class Store:
    """An open store: `Store.open` opens it, and `close` (or the end of a `with` block) closes it.

    `connection` is passed to the reading functions of the other modules, such as `ledger` and `outbox`.
    `set_aside` is True if this start replaced a corrupt or missing store; `blanked` is False if the replaced
    store may still hold open windows. `erased` is False while the WAL may hold old accumulators, for example
    because another program reads the file; every later transaction tries again to erase them.
    """

    def __init__(self, path: Path, store_file: file.StoreFile) -> None:
        self.path = path
        self.connection = store_file.connection
        self.set_aside = store_file.set_aside
        self.blanked = store_file.blanked
        self.erased = False
        self._resources = ExitStack()
        self._failed = False
        self._openings = Openings(path)
        self._states = States()
        self._erase_due = False
        self._generation = generation.read(path)
        self._generation_file = generation.Writer(path)
        self._has_rotated = False
        self._has_records = False

    @classmethod
    def open(
        cls, path: Path | str, *, now_ms: int, recovery_floor_ms: int | None, again_s: float = file.AGAIN_S
    ) -> Self:
        """Lock, examine, accept, migrate and return the store at `path`; create it if there is none.

        A corrupt, truncated or lost store is replaced by a new one, and its remaining files are renamed to
        `<path>.corrupt-<now_ms>`. No window opens before `recovery_floor_ms`, and charges before `now_ms` are
        unknown. If `recovery_floor_ms` is None (because a stream does not follow the wall clock), StoreLost
        is raised instead and nothing is renamed. A file that looks damaged is examined again after `again_s`.
        Also raises StoreInUse, StoreRestored for an old or moved copy, or StoreError.
        """
        return cls._open(Path(path), now_ms, recovery_floor_ms, again_s, restored_at_ms=None)

    @classmethod
    def _open(
        cls, path: Path, now_ms: int, floor_ms: int | None, again_s: float, restored_at_ms: int | None
    ) -> Self:
        path = path.resolve()  # two names of one file must share one lock
        if not path.parent.is_dir():
            raise StoreError(f"{path}: its folder does not exist")
        with file.device(path), ExitStack() as undo:
            undo.callback(os.close, file.lock(path))
            descriptors = undo.enter_context(ExitStack())  # closed after the connection
            store_file = file.open_or_create(path, now_ms, floor_ms, again_s, descriptors)
            undo.callback(wal.close, store_file.connection, path)
            store = cls(path, store_file)
            undo.callback(store._generation_file.close)
            store.erase()  # a killed agent may have left accumulators in the log
            if store_file.exists and restored_at_ms is None:
                store._generation = accept(store_file.connection, path)
            store._migrate(floor_ms if store_file.set_aside else 0, now_ms if store_file.set_aside else None)
            if store._generation is None:
                # Both generations of a new store are "", which a missing file would match. After the second
                # rotation both are names, so from here on a missing file is refused.
                store._rotate(restored_at_ms)
            store._rotate(restored_at_ms)
            store._resources = undo.pop_all()
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; unless a write has failed, earlier copies are refused from now on."""
        try:
            if not self._failed:
                self._rotate()
                self.erase()
        finally:
            self._resources.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction: fsync it and erase the WAL on return; roll it back if the body raises.

        After a device error the store refuses all writes, because the content of the file is unknown until
        the store is opened again. Raises StoreError if this or an earlier transaction cannot be written.
        """
        with self.committing() as tx:
            yield tx
        self.erase()

    @contextmanager
    def committing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction like `transaction`, but do not erase the WAL.

        The caller should call `erase` next; otherwise, the next transaction erases the WAL first.
        """
        if self._erase_due:
            self.erase()
        if self._failed:
            raise StoreError(f"{self.path}: an earlier transaction failed")
        tx = self.connection
        committed = False
        with file.device(self.path):
            try:
                tx.execute("BEGIN IMMEDIATE")
                self._check_generation()
                yield tx
                tx.execute("COMMIT")
                committed = True
                wal.confirm(tx, self.path)
                self._count_release()
            except BaseException as error:
                self._failed = committed or isinstance(error, sqlite3.Error | OSError | StoreInUse)
                self._has_records = False
                self._states.forget()
                with suppress(sqlite3.Error):  # the first error is the one to report
                    tx.execute("ROLLBACK")
                raise

    def erase(self) -> None:
        """Move the WAL into the file and erase the WAL, if it may hold old accumulators (rule 2).

        If another program reads the file, `erased` stays False. After a StoreError, all writes are refused.
        """
        self._erase_due = False
        if self.erased or self._failed:
            return
        with file.device(self.path):
            try:
                self.erased = wal.erase(self.connection, self.path)
            except (OSError, sqlite3.Error, StoreError):
                self._failed = True
                raise

    def prepare(self) -> None:
        """Write the generation file for the next commit with records in advance, so that the commit is fast.

        If writing fails, for example because the disk is full, the commit writes the file.
        """
        current = self._generation
        if self._failed or current is None or current.releases is None:
            return
        with suppress(OSError):
            self._generation_file.prepare(current._replace(releases=current.releases + 1))

    def write(self, tx: sqlite3.Connection, commit: Commit) -> None:
        """Write a commit without charges, descriptors and messages. Raises StoreError if it breaks law 1."""
        self._check_openings(tx, commit)
        if commit.marks:
            tx.execute(_MARK, (commit.stream, batch(commit.marks)))
        tx.executemany(
            "INSERT OR IGNORE INTO terms VALUES (?, ?, ?)",
            [(commit.stream, id_, schema.encode_terms(terms)) for id_, terms in commit.terms.items()],
        )
        tx.executemany(
            "INSERT OR REPLACE INTO total VALUES (?, ?, ?)",
            [
                (commit.stream, public_id, schema.encode_total(sums))
                for public_id, sums in commit.totals.items()
            ],
        )
        prices.write(tx, commit)
        tx.execute("UPDATE meta SET value = ?1 WHERE key = 'clock_ms' AND value < ?1", (commit.clock_ms,))
        if commit.outgoing:
            self._has_records = True
            _put(tx, releases=count_releases(tx) + 1)
        if commit.states:
            self.erased, self._erase_due = False, True
            self._states.write(tx, commit)

    def snapshot(self, stream: str) -> Snapshot:
        """Return what a stream needs at startup. Raises StoreError if the store cannot be read."""
        with file.device(self.path):
            execute = self.connection.execute
            marks = execute("SELECT meter, end_ms FROM mark WHERE channel = ?", (stream,))
            states = execute("SELECT meter, state FROM state WHERE channel = ?", (stream,))
            terms = execute("SELECT id, terms FROM terms WHERE channel = ?", (stream,))
            announced = execute("SELECT topic, id FROM descriptor WHERE channel = ?", (stream,))
            totals = execute("SELECT label, total FROM total WHERE channel = ?", (stream,))
            return Snapshot(
                marks=dict(marks),
                states={meter: schema.decode_state(state) for meter, state in states if state.strip(b"\0")},
                terms={id_: schema.decode_terms(text) for id_, text in terms},
                floor_ms=self.floor_ms,
                announced=dict(announced),
                totals={public_id: schema.decode_total(text) for public_id, text in totals},
                prices=prices.read(self.connection, stream),
            )

    def claim(self, stream: str, meters: str, *, follows_wall_clock: bool) -> None:
        """Claim the shard `meters` of a fleet, such as "2/8 by name", for a stream.

        Raises StoreMoved if the stream had another shard before (rule 5). Raises StoreLost if a stream of a
        fleet is new here and follows the meters' clocks, because meters may send readings of times that
        another store has released; the operator must first state a time with `restore_at`.
        """
        key = f"shard/{stream}"
        execute = self.connection.execute
        with file.device(self.path):
            row = execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            mark = execute("SELECT 1 FROM mark WHERE channel = ? LIMIT 1", (stream,)).fetchone()
            has_floor = meta(self.connection, "unknown_before_ms") is not None
        previous = row[0] if row else ALL_METERS if mark else ""
        if previous not in ("", meters):
            raise StoreMoved(f"{self.path}: {stream} had shard {previous}, not {meters}: {file.SHARD_HINT}")
        if not previous and meters != ALL_METERS and not follows_wall_clock and not has_floor:
            raise StoreLost(f"{self.path}: {stream} is new here and part of a fleet: {file.RESTORE_HINT}")
        if not row or not previous:
            with self.transaction() as tx:
                _put(tx, **{key: meters})

    def retire(self, streams: Collection[str]) -> int:
        """Blank the states of all streams except these; return the number of states that were blanked."""
        with self.transaction() as tx:
            meter_count = tx.execute(
                "UPDATE state SET state = zeroblob(length(state))"
                " WHERE channel NOT IN (SELECT value FROM json_each(?))"
                " AND substr(state, 1, 1) <> x'00'",
                (json.dumps(list(streams)),),
            ).rowcount
            self.erased = self.erased and not meter_count
        return meter_count

    @property
    def client_id(self) -> str:
        """The random part of most client ids at brokers: 16 hex digits, drawn once."""
        return str(meta(self.connection, "client_id"))

    @property
    def secret(self) -> bytes:
        """The key of the hashes from which delays and some client ids are derived: 32 bytes, drawn once."""
        return bytes(meta(self.connection, "secret"))

    @property
    def claim_key(self) -> bytes:
        """The key of the store's marks in descriptors: 32 bytes, which outlive a store that is set aside."""
        return bytes.fromhex(self._generation.claim_key if self._generation else "")

    @property
    def clock_ms(self) -> int:
        """The newest wall time ever committed; a clock that shows an earlier time is not used (law 4)."""
        return int(meta(self.connection, "clock_ms"))

    @property
    def floor_ms(self) -> int:
        """The time before which no window of any meter opens."""
        return int(meta(self.connection, "floor_ms"))

    def _migrate(self, floor_ms: int | None, unknown_before_ms: int | None) -> None:
        """Bring the schema up to date; a new store also gets its first values in the table `meta`."""
        [(version,)] = self.connection.execute("PRAGMA user_version")
        if version >= len(schema.MIGRATIONS):
            return
        with self.transaction() as tx:
            for statement in chain(*schema.MIGRATIONS[version:]):
                tx.execute(statement)
            if 0 < version < 4:
                rewrite_states(tx, version, self._states)
                self.erased = False
            tx.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")
            _put(tx, compatible_from=schema.COMPATIBLE_FROM)
            if version == 0:
                name = self._generation.name if self._generation else ""
                _put(tx, generation=name, previous=name, clock_ms=0)
                _put(tx, floor_ms=floor_ms, unknown_before_ms=unknown_before_ms)
                _put(tx, client_id=os.urandom(8).hex(), secret=os.urandom(32))

    def _rotate(self, restored_at_ms: int | None = None) -> None:
        """Start a new generation (rule 3), and adjust a restored store in the same transaction."""
        previous = self._generation or Generation.begin("")
        name, releases = os.urandom(16).hex(), max(previous.releases or 0, count_releases(self.connection))
        with self.transaction() as tx:
            if restored_at_ms is not None:
                _restore(tx, restored_at_ms)
                self.erased = False
            _put(tx, previous=previous.name, generation=name, releases=releases)
        claim_key = previous.claim_key or os.urandom(32).hex()
        self._generation = Generation(name, claim_key, releases)
        self._has_rotated = True
        self._generation_file.put(self._generation)

    def _check_generation(self) -> None:
        """Refuse to write if another agent has opened the store in the meantime (rule 3)."""
        if (
            self._has_rotated
            and self._generation
            and meta(self.connection, "generation") != self._generation.name
        ):
            raise StoreInUse(f"{self.path}: another agent has opened it, although this one holds its lock")

    def _count_release(self) -> None:
        """Count a commit with records in the generation file, before a record can leave (rule 3)."""
        if self._has_records and self._generation:
            self._has_records = False
            self._generation = self._generation._replace(releases=count_releases(self.connection))
            self._generation_file.put(self._generation)

    def _check_openings(self, tx: sqlite3.Connection, commit: Commit) -> None:
        self._openings.check(tx, commit, self.floor_ms)


def restore_at(
    path: Path | str, *, at_ms: int, now_ms: int, take_over: bool = True, again_s: float = file.AGAIN_S
) -> None:
    """Make a restored or lost store usable: no window that starts before `at_ms` opens any more.

    Earlier marks and the floor rise to `at_ms`. Open windows are deleted, because lost records may have used
    their noise. Undelivered rows are kept and sent. Running totals begin again, and each stream may claim any
    shard. Charges before `at_ms` count as unknown. If `take_over`, the store takes over meters that another
    store announced before `at_ms`. Raises StoreError if the store is unusable, or its clock is after `at_ms`.
    """
    with Store._open(Path(path), now_ms, at_ms, again_s, restored_at_ms=at_ms) as store:  # noqa: SLF001 - one module
        if take_over:
            with store.transaction() as tx:
                _put(tx, taken_over_ms=at_ms)


def _put(tx: sqlite3.Connection, **values: Any) -> None:
    tx.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def _restore(tx: sqlite3.Connection, at_ms: int) -> None:
    if at_ms < (clock_ms := meta(tx, "clock_ms")):
        raise StoreError(f"TIME is before the newest time in the store; use {iso_time(clock_ms)} or later")
    tx.execute("UPDATE mark SET end_ms = max(end_ms, ?)", (at_ms,))
    tx.execute("UPDATE state SET state = zeroblob(length(state))")
    tx.execute("DELETE FROM total")
    tx.execute("INSERT OR REPLACE INTO meta SELECT DISTINCT 'shard/' || channel, '' FROM mark")
    tx.execute("UPDATE meta SET value = '' WHERE key GLOB 'shard/*'")
    _put(tx, floor_ms=max(at_ms, meta(tx, "floor_ms")), unknown_before_ms=at_ms)
