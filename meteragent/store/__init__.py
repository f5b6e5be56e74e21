"""The store: one SQLite file that survives kill -9, power cuts and its operator.

Theory of operation. What one step of the core decides (marks, charges, states, rows of the outbox)
is written in one transaction; it may leave once `Store.committing` has returned, for then it is
fsynced. All calls are synchronous and come from one thread, but for `prepare`, which touches only a file
beside the store.

Rules:
1. A mark is never lowered and no window opens before it (law 1): checked inside the transaction,
   whatever the core believes.
2. The file holds the present value of an accumulator and nothing else of it. Two values of one
   accumulator differ by what was measured in between, so its history is as good as raw readings
   (law 3). Hence a transaction that writes a state is followed, before anything else is written, by
   moving the WAL into the file, overwriting it with zeros and truncating it (`erase`): the blocks that it
   gives back to the file system hold nothing. A copy of the disk that is made between
   the two has the values from before the last commit beside those after it, as has one made during
   any commit, whether what the commit lets leave has left by then or not. And a row of `state` is
   only ever appended, or overwritten in place at the same size. `secure_delete` zeroes what is
   deleted, but not the copies that SQLite leaves behind when it moves a row to another page, so
   these rows never move: a state that outgrows its row is appended anew and the row is blanked.
3. A store is accepted when the file `<path>.gen` names its generation or its previous one, is the file that
   it names, and counts no more commits with records than the store. A new generation is first committed,
   with what the file says at that moment as the previous one, and then put into the file; so is each commit
   with records counted, before anything of it leaves. The file with the next number is written beforehand,
   under another name, which nothing reads (`prepare`). A crash at any point leaves the store accepted. A copy
   from before the last start, clean stop or record is refused, and so is a folder that was put back. Each
   transaction sees that the generation is still its own: of two agents that a lock did not keep apart the
   first can write no more.
4. What is not understood is not touched: an incompatible newer store and another program's
   database are refused. A corrupt or missing store is set aside, and a new one begins with a floor
   below which no window opens.
5. A store knows which meters of a fleet it has had, per stream. With others it is refused until
   `restored_at` has raised its floor: the marks of a meter that moves stay in the store that it leaves.
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
from meteragent.store import file, generation, schema, wal
from meteragent.store.acceptance import accepted, moved, releases_of
from meteragent.store.batch import batch
from meteragent.store.earlier import rewrite_states
from meteragent.store.examine import meta
from meteragent.store.generation import Generation
from meteragent.store.openings import Openings
from meteragent.store.states import States
from meteragent.store.view import read_only, terms

__all__ = ["ALL_METERS", "Store", "batch", "meta", "moved", "read_only", "restored_at", "terms"]

ALL_METERS = "0/1 by name"
"""What a stream has that is of no fleet, and had before stores knew of fleets."""

_MARK = """INSERT INTO mark SELECT ?1, key, value FROM json_each(?2) WHERE true
    ON CONFLICT (channel, meter) DO UPDATE SET end_ms = max(end_ms, excluded.end_ms)"""


class Store:
    """The open store: `Store.open` makes it, `close` (or leaving the `with`) ends it.

    `connection` is what the reading functions of `ledger` and `outbox` take. `set_aside` says that
    this start replaced a corrupt or missing store, `blanked` that no open window is left in that one.
    `erased` is False while another reader of the file keeps old accumulators in the WAL; every later
    transaction tries again.
    """

    def __init__(self, path: Path, found: file.Found) -> None:
        self.path = path
        self.connection = found.connection
        self.set_aside = found.set_aside
        self.blanked = found.blanked
        self.erased = False
        self._held = ExitStack()
        self._failed = False
        self._openings = Openings(path)
        self._states = States()
        self._due = False
        self._generation = generation.read(path)
        self._generations = generation.Writer(path)
        self._owned = False
        self._counted = False

    @classmethod
    def open(
        cls, path: Path | str, *, now_ms: int, recovery_floor_ms: int | None, again_s: float = file.AGAIN_S
    ) -> Self:
        """Lock, examine, own and migrate the store at `path`; create it if there is none.

        A corrupt, truncated or lost store is renamed to `<path>.corrupt-<now_ms>` and a new one
        begins: no window opens in it before `recovery_floor_ms`, and charges before `now_ms` are
        unknown. With `recovery_floor_ms` None (a stream does not follow the wall clock) StoreLost
        is raised instead and nothing is renamed. What looks damaged is looked at again after `again_s`.
        Raises StoreInUse, StoreRestored, StoreError.
        """
        return cls._open(Path(path), now_ms, recovery_floor_ms, again_s, restored_at_ms=None)

    @classmethod
    def _open(
        cls, path: Path, now_ms: int, floor_ms: int | None, again_s: float, restored_at_ms: int | None
    ) -> Self:
        path = path.resolve()  # two names of one file must meet at one lock
        if not path.parent.is_dir():
            raise StoreError(f"{path}: its folder does not exist")
        with file.device(path), ExitStack() as undo:
            undo.callback(os.close, file.lock(path))
            descriptors = undo.enter_context(ExitStack())  # closed after the connection
            found = file.find(path, now_ms, floor_ms, again_s, descriptors)
            undo.callback(wal.close, found.connection, path)
            store = cls(path, found)
            undo.callback(store._generations.close)
            store.erase()  # what a killed agent left in the log
            if found.exists and restored_at_ms is None:
                store._generation = accepted(found.connection, path)
            store._migrate(floor_ms if found.set_aside else 0, now_ms if found.set_aside else None)
            if store._generation is None:
                store._rotate(restored_at_ms)  # twice: a store in use must not accept a missing file
            store._rotate(restored_at_ms)
            store._held = undo.pop_all()
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End cleanly: copies made until now are refused from here on."""
        try:
            if not self._failed:
                self._rotate()
                self.erase()
        finally:
            self._held.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction, fsynced and its WAL erased when it returns; rolled back if its body raises.

        After an error of the device nothing more can be written: what the file holds is unknown
        until it is opened again. Raises StoreError.
        """
        with self.committing() as tx:
            yield tx
        self.erase()

    @contextmanager
    def committing(self) -> Iterator[sqlite3.Connection]:
        """A transaction as above, but what it leaves in the WAL is still there: `erase` is the next to call.

        If the caller skips that, the next transaction does it first.
        """
        if self._due:
            self.erase()
        if self._failed:
            raise StoreError(f"{self.path}: an earlier transaction failed")
        tx = self.connection
        with file.device(self.path):
            try:
                tx.execute("BEGIN IMMEDIATE")
                self._see_generation()
                yield tx
                tx.execute("COMMIT")
                self._count()
            except BaseException as error:
                self._failed = isinstance(error, sqlite3.Error | OSError | StoreInUse)
                self._counted = False
                self._states.forget()
                with suppress(sqlite3.Error):  # the first error is the one to tell
                    tx.execute("ROLLBACK")
                raise

    def erase(self) -> None:
        """Move the WAL into the file and erase it, if it holds old accumulators (rule 2).

        Raises StoreError; then nothing more can be written.
        """
        self._due = False
        if self.erased or self._failed:
            return
        with file.device(self.path):
            try:
                self.erased = wal.erase(self.connection, self.path)
            except (OSError, sqlite3.Error, StoreError):
                self._failed = True
                raise

    def prepare(self) -> None:
        """Write the generation file of the next commit with records, so that it need not wait for that.

        Without it, as where the disk is full, that commit writes it.
        """
        known = self._generation
        if self._failed or known is None or known.releases is None:
            return
        with suppress(OSError):
            self._generations.prepare(known._replace(releases=known.releases + 1))

    def write(self, tx: sqlite3.Connection, commit: Commit) -> None:
        """Marks, terms, states and clock of a commit; raises StoreError if it would break law 1."""
        self._check_openings(tx, commit)
        if commit.marks:
            tx.execute(_MARK, (commit.channel, batch(commit.marks)))
        tx.executemany(
            "INSERT OR IGNORE INTO terms VALUES (?, ?, ?)",
            [(commit.channel, id_, schema.encode_terms(terms)) for id_, terms in commit.terms.items()],
        )
        tx.executemany(
            "INSERT OR REPLACE INTO total VALUES (?, ?, ?)",
            [(commit.channel, label, schema.encode_total(sums)) for label, sums in commit.totals.items()],
        )
        tx.execute("UPDATE meta SET value = ?1 WHERE key = 'clock_ms' AND value < ?1", (commit.clock_ms,))
        if commit.outgoing:
            self._counted = True
            _put(tx, releases=releases_of(tx) + 1)
        if commit.states:
            self.erased, self._due = False, True
            self._states.write(tx, commit)

    def snapshot(self, channel: str) -> Snapshot:
        """What is known of a channel; raises StoreError."""
        with file.device(self.path):
            read = self.connection.execute
            marks = read("SELECT meter, end_ms FROM mark WHERE channel = ?", (channel,))
            states = read("SELECT meter, state FROM state WHERE channel = ?", (channel,))
            terms = read("SELECT id, terms FROM terms WHERE channel = ?", (channel,))
            announced = read("SELECT topic, id FROM descriptor WHERE channel = ?", (channel,))
            totals = read("SELECT label, total FROM total WHERE channel = ?", (channel,))
            return Snapshot(
                marks=dict(marks),
                states={meter: schema.decode_state(state) for meter, state in states if state.strip(b"\0")},
                terms={id_: schema.decode_terms(text) for id_, text in terms},
                floor_ms=self.floor_ms,
                announced=dict(announced),
                totals={label: schema.decode_total(text) for label, text in totals},
            )

    def claim(self, channel: str, meters: str, *, wall: bool) -> None:
        """Take a stream's part of a fleet, such as "2/8 by name"; `wall`: it follows the wall clock.

        Raises StoreMoved if it has had another (rule 5). A new store of a stream that follows its meters'
        clocks may be asked for times that another store has released: StoreLost, until told from when on.
        """
        key = f"shard/{channel}"
        asked = self.connection.execute
        with file.device(self.path):
            found = asked("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            marked = asked("SELECT 1 FROM mark WHERE channel = ? LIMIT 1", (channel,)).fetchone()
            told = meta(self.connection, "unknown_before_ms") is not None
        known = found[0] if found else ALL_METERS if marked else ""
        if known not in ("", meters):
            raise StoreMoved(f"{self.path}: {channel} had shard {known}, not {meters}: {file.MOVE_ON}")
        if not known and meters != ALL_METERS and not wall and not told:
            raise StoreLost(f"{self.path}: new, and {channel} is a part of a fleet: {file.WAY_ON}")
        if not found or not known:
            with self.transaction() as tx:
                _put(tx, **{key: meters})

    def retire(self, channels: Collection[str]) -> int:
        """Delete the open windows of all other channels, whose streams are no more; how many meters."""
        with self.transaction() as tx:
            retired = tx.execute(
                "UPDATE state SET state = zeroblob(length(state))"
                " WHERE channel NOT IN (SELECT value FROM json_each(?))"
                " AND substr(state, 1, 1) <> x'00'",
                (json.dumps(list(channels)),),
            ).rowcount
            self.erased = self.erased and not retired
        return retired

    @property
    def client_id(self) -> str:
        """Drawn once: names this agent to its brokers."""
        return str(meta(self.connection, "client_id"))

    @property
    def secret(self) -> bytes:
        """32 bytes drawn once: the key of the hash behind `spread`."""
        return bytes(meta(self.connection, "secret"))

    @property
    def claim_key(self) -> bytes:
        """32 bytes drawn once, which outlive a store that is set aside."""
        return bytes.fromhex(self._generation.claim_key if self._generation else "")

    @property
    def clock_ms(self) -> int:
        """The newest wall time ever committed; an earlier clock is no clock (law 4)."""
        return int(meta(self.connection, "clock_ms"))

    @property
    def floor_ms(self) -> int:
        """No window of any meter opens before it."""
        return int(meta(self.connection, "floor_ms"))

    def _migrate(self, floor_ms: int | None, unknown_before_ms: int | None) -> None:
        """Bring the schema up to date; a new store also gets the values of its whole life."""
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
        """Begin a new generation (rule 3); what a restored store needs goes into its transaction."""
        known = self._generation or Generation.begin("")
        name, releases = os.urandom(16).hex(), max(known.releases or 0, releases_of(self.connection))
        with self.transaction() as tx:
            if restored_at_ms is not None:
                _restore(tx, restored_at_ms)
                self.erased = False
            _put(tx, previous=known.name, generation=name, releases=releases)
        claim_key = known.claim_key or os.urandom(32).hex()
        self._generation = Generation(name, claim_key, releases)
        self._owned = True
        self._generations.put(self._generation)

    def _see_generation(self) -> None:
        """Refuse to write into a store that another agent has opened since (rule 3)."""
        if self._owned and self._generation and meta(self.connection, "generation") != self._generation.name:
            raise StoreInUse(f"{self.path}: another agent has opened it, although this one holds its lock")

    def _count(self) -> None:
        """Count a commit with records in the generation file, before anything of it can leave (rule 3)."""
        if self._counted and self._generation:
            self._counted = False
            self._generation = self._generation._replace(releases=releases_of(self.connection))
            self._generations.put(self._generation)

    def _check_openings(self, tx: sqlite3.Connection, commit: Commit) -> None:
        self._openings.check(tx, commit, self.floor_ms)


def restored_at(
    path: Path | str, *, at_ms: int, now_ms: int, take_over: bool = True, again_s: float = file.AGAIN_S
) -> None:
    """Make a restored or lost store usable: nothing before `at_ms` is ever released again.

    Marks and floor rise to `at_ms`, open windows are deleted (their noise may have been used by
    what was lost), undelivered rows stay (they leave byte for byte as before), and charges before
    `at_ms` are unknown. With `take_over` meters that another store announced before `at_ms` are this one's.
    Raises StoreError if `at_ms` is earlier than the newest clock in the store.
    """
    with Store._open(Path(path), now_ms, at_ms, again_s, restored_at_ms=at_ms) as store:  # noqa: SLF001 - one module
        if take_over:
            with store.transaction() as tx:
                _put(tx, taken_over_ms=at_ms)


def _put(tx: sqlite3.Connection, **values: Any) -> None:
    tx.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def _restore(tx: sqlite3.Connection, at_ms: int) -> None:
    if at_ms < meta(tx, "clock_ms"):
        raise StoreError("the time given is earlier than the newest clock in the store")
    tx.execute("UPDATE mark SET end_ms = max(end_ms, ?)", (at_ms,))
    tx.execute("UPDATE state SET state = zeroblob(length(state))")
    tx.execute("DELETE FROM total")
    tx.execute("INSERT OR REPLACE INTO meta SELECT DISTINCT 'shard/' || channel, '' FROM mark")
    tx.execute("UPDATE meta SET value = '' WHERE key GLOB 'shard/*'")
    _put(tx, floor_ms=max(at_ms, meta(tx, "floor_ms")), unknown_before_ms=at_ms)
