"""The store: one SQLite file that survives kill -9, power cuts and operator mistakes.

Theory of operation. Everything that one step of the core decides is written in one transaction
(`transaction`). The step's messages may be sent once the block of `Store.unerased_transaction` has ended,
because by then the transaction is fsynced and counted (rule 3). Only one thread at a time may call a store's
methods, except `prepare_generation`, which writes a file next to the store.

Rules:
1. A mark is never lowered, and no window opens before its meter's mark (law 1). The transaction checks this
   independently of the core (`openings`).
2. The file holds the current value of an accumulator and no earlier one. Two values of one accumulator differ
   by the energy measured between them, so their history is as sensitive as raw readings (law 3). Hence:
   - After a transaction that writes a state, and before the next write, the WAL is moved into the file and
     overwritten with zeros in place (`wal`), unless another program is reading the file. A copy of the disk
     that is made between commit and erasure, or during a commit, may hold the values from before and after
     that commit.
   - A row of `state` is only ever appended, or overwritten in place at the same size (`states`).
     `secure_delete` zeroes deleted rows, but not the copies that SQLite leaves behind when it moves a row.
3. A store is accepted if the file `<path>.gen` names the store's generation or its previous one, is in the
   inode that it names, and counts no more commits with records than the store does (`generation`). So after a
   crash at any point the store is still accepted, while a copy from before the last start, clean stop or
   record is refused, and so is a folder that was restored from a backup. Each transaction checks that the
   generation is still this agent's: if a lock fails to exclude a second agent, the first can no longer write.
4. A store of another schema version and another program's database are refused and not touched. A corrupt
   store is set aside. A new store, with a floor before which no window opens, replaces a corrupt or missing
   store, unless no safe floor is known (StoreLost).
5. A store records the shard of each stream. A changed shard is refused until `restore_at` has raised the
   floor, because the marks of a meter that moves to another store stay in the old store.
"""

import json
import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from meteragent.domain.codec import encode
from meteragent.domain.commit import Commit, Destination, Snapshot
from meteragent.domain.errors import StoreError, StoreLost, StoreMoved, StoreRestored
from meteragent.domain.grid import iso_time
from meteragent.domain.identity import ALL_METERS
from meteragent.domain.terms import Terms
from meteragent.store import file, generation, schema, wal
from meteragent.store.examine import meta_value
from meteragent.store.file import accept_copy
from meteragent.store.life import OpenStore, put_meta
from meteragent.store.openings import Openings
from meteragent.store.schema import json_rows
from meteragent.store.states import StateWriter

__all__ = ["Store", "json_rows", "meta_value", "read_only", "restore_at", "stored_terms"]

_MARK = """INSERT INTO mark
    SELECT ?1, key, json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2) WHERE true
    ON CONFLICT (stream, meter) DO UPDATE SET end_ms = excluded.end_ms, crc = excluded.crc
    WHERE excluded.end_ms > end_ms"""


Connection = sqlite3.Connection
"""A connection to a store, for the functions that read it."""


class Store(OpenStore):
    """The agent's open store: `Store.open` opens it.

    `connection` is passed to the reading functions of the other modules, such as `ledger` and `outbox`.
    `damage` says why this start replaced a corrupt or missing store, or is empty; `is_blanked` is False if
    the replaced store may still contain open windows.
    """

    SERVICE = "agent"

    def __init__(self, path: Path, store_file: file.StoreFile) -> None:
        super().__init__(path, store_file.connection)
        self.damage = store_file.damage
        self.is_blanked = store_file.is_blanked
        self._openings = Openings(path)
        self._states = StateWriter()

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        now_ms: int,
        recovery_floor_ms: int | None,
        again_s: float = file.RECHECK_S,
        restored_at_ms: int | None = None,
    ) -> Self:
        """Lock, examine, accept and return the store at `path`; create it if there is none.

        A damaged or lost store is replaced by a new one, and its remaining files are renamed to
        `<path>.corrupt-<now_ms>`. No window opens before `recovery_floor_ms`, and charges before `now_ms` are
        unknown. If `recovery_floor_ms` is None (because a stream does not follow the wall clock), StoreLost
        is raised instead and nothing is renamed. Also raises StoreInUse, StoreRestored for an old or moved
        copy, or StoreError. Only `restore_at` sets `restored_at_ms`, which makes a copy usable.
        """
        path = Path(path).resolve()  # two names of one file must share one lock
        if not path.parent.is_dir():
            raise StoreError(f"{path}: its folder does not exist")
        with file.raise_device_errors(path), ExitStack() as undo:
            undo.callback(os.close, file.lock_store(path))
            descriptors = undo.enter_context(ExitStack())  # closed after the connection
            store_file = file.open_or_create(path, now_ms, recovery_floor_ms, again_s, descriptors)
            undo.callback(wal.close_connection, store_file.connection, path)
            store = cls(path, store_file)
            undo.callback(store._generation_file.close)
            store.erase_log()  # a killed agent may have left accumulators in the log
            if store_file.exists and restored_at_ms is None:
                accept_copy(store_file.connection, path)
            if not store_file.exists:
                store._create(*((recovery_floor_ms, now_ms) if store_file.damage else (0, None)))
            store._start(None if restored_at_ms is None else partial(_restore, at_ms=restored_at_ms))
            store._resources = undo.pop_all()
        return store

    def write(self, tx: sqlite3.Connection, commit: Commit) -> None:
        """Write a commit without charges, descriptors and messages. Raises StoreError if it breaks law 1."""
        self._openings.check_commit(tx, commit, self.floor_ms)
        if commit.marks:
            sums = {
                name: (end, schema.row_crc(commit.stream, name) + end) for name, end in commit.marks.items()
            }
            tx.execute(_MARK, (commit.stream, json_rows(sums)))
        terms = [(commit.stream, id_, encode(terms)) for id_, terms in commit.terms.items()]
        tx.executemany("INSERT OR IGNORE INTO terms VALUES (?, ?, ?)", terms)
        totals = [(commit.stream, public_id, encode(total)) for public_id, total in commit.totals.items()]
        tx.executemany("INSERT OR REPLACE INTO total VALUES (?, ?, ?)", totals)
        if commit.prices is not None:
            put_meta(tx, **{f"prices/{commit.stream}": schema.encode_prices(commit.prices)})
        tx.execute("UPDATE meta SET value = ?1 WHERE key = 'clock_ms' AND value < ?1", (commit.clock_ms,))
        if commit.outgoing:
            self._count_records(tx)
        if commit.states:
            self.is_erased, self._erase_due = False, True
            self._states.write(tx, commit)

    def snapshot(self, stream: str) -> Snapshot:
        """Return what a stream needs at startup. Raises StoreError if the store cannot be read."""
        with file.raise_device_errors(self.path):
            execute = self.connection.execute
            marks = execute("SELECT meter, end_ms FROM mark WHERE stream = ?", (stream,))
            states = execute("SELECT meter, state FROM state WHERE stream = ?", (stream,))
            terms = execute("SELECT id, terms FROM terms WHERE stream = ?", (stream,))
            totals = execute("SELECT public_id, total FROM total WHERE stream = ?", (stream,))
            prices = meta_value(self.connection, f"prices/{stream}", None)
            return Snapshot(
                marks=dict(marks),
                states={meter: schema.decode_state(state) for meter, state in states if state.strip(b"\0")},
                terms={id_: schema.decode_terms(text) for id_, text in terms},
                floor_ms=self.floor_ms,
                announced=announced_ids(self.connection, stream),
                totals={public_id: schema.decode_total(text) for public_id, text in totals},
                prices=schema.decode_prices(prices) if prices else (),
            )

    def claim_shard(self, stream: str, meters: str, *, follows_wall_clock: bool) -> None:
        """Claim the shard `meters` of a fleet, such as "2/8 by name", for a stream.

        Raises StoreMoved if the stream had another shard (rule 5). Raises StoreLost if the stream is new and
        follows its meters' clocks, unless `restore_at` has set a floor: another store may have released it.
        """
        key = f"shard/{stream}"
        with file.raise_device_errors(self.path):
            previous = meta_value(self.connection, key, "")
            has_floor = meta_value(self.connection, "unknown_before_ms") is not None
        if previous == meters:
            return
        if previous:
            raise StoreMoved(f"{self.path}: {stream} had shard {previous}, not {meters}: {file.SHARD_HINT}")
        if meters != ALL_METERS and not follows_wall_clock and not has_floor:
            raise StoreLost(f"{self.path}: {stream} is new here and part of a fleet: {file.RESTORE_HINT}")
        with self.transaction() as tx:
            put_meta(tx, **{key: meters})

    def blank_other_states(self, streams: Collection[str]) -> int:
        """Blank the states of all streams except these; return the number of states that were blanked."""
        with self.transaction() as tx:
            meter_count = tx.execute(
                "UPDATE state SET state = zeroblob(length(state))"
                " WHERE stream NOT IN (SELECT value FROM json_each(?))"
                " AND substr(state, 1, 1) <> x'00'",
                (json.dumps(list(streams)),),
            ).rowcount
            self.is_erased = self.is_erased and not meter_count
        return meter_count

    @property
    def client_id(self) -> str:
        """The random part of most client ids at brokers: 16 hex digits, drawn once."""
        return str(meta_value(self.connection, "client_id"))

    @property
    def secret(self) -> bytes:
        """The key of the hashes from which delays and some client ids are derived: 32 bytes, drawn once."""
        return bytes(meta_value(self.connection, "secret"))

    @property
    def claim_key(self) -> bytes:
        """The key of the store's marks in descriptors: 32 bytes, which outlive a store that is set aside."""
        return bytes.fromhex(self._generation.claim_key)

    @property
    def clock_ms(self) -> int:
        """The newest wall time ever committed; a clock that shows an earlier time is not used (law 4)."""
        return int(meta_value(self.connection, "clock_ms"))

    @property
    def floor_ms(self) -> int:
        """The time before which no window of any meter opens."""
        return int(meta_value(self.connection, "floor_ms"))

    def _create(self, floor_ms: int | None, unknown_before_ms: int | None) -> None:
        """Create the tables of a new store, with the first values in the table `meta`."""
        with self.transaction() as tx:
            for statement in schema.TABLES:
                tx.execute(statement)
            name = self._generation.name
            put_meta(tx, generation=name, previous=name, releases=0, clock_ms=0)
            put_meta(tx, floor_ms=floor_ms, unknown_before_ms=unknown_before_ms)
            put_meta(tx, client_id=os.urandom(8).hex(), secret=os.urandom(32))

    def _forget_cache(self) -> None:
        """Forget where the rows of states are, after a transaction is rolled back."""
        self._states.forget()


def restore_at(
    path: Path | str, *, at_ms: int, now_ms: int, take_over: bool = True, again_s: float = file.RECHECK_S
) -> None:
    """Make a restored or lost store usable: no window that starts before `at_ms` opens any more.

    Earlier marks and the floor rise to `at_ms`. Open windows are deleted, because lost records may have used
    their noise; undelivered rows are sent. Running totals begin again, each stream may claim any shard, and
    charges before `at_ms` are unknown. If `take_over`, the store takes over meters that another store
    announced before. Raises StoreError if the store is unusable, or its clock is after `at_ms`.
    """
    opened = Store.open(path, now_ms=now_ms, recovery_floor_ms=at_ms, again_s=again_s, restored_at_ms=at_ms)
    with opened as store:
        if take_over:
            with store.transaction() as tx:
                put_meta(tx, taken_over_ms=at_ms)


def _restore(tx: sqlite3.Connection, at_ms: int) -> None:
    if at_ms < (clock_ms := meta_value(tx, "clock_ms")):
        raise StoreError(f"TIME is before the newest time in the store; use {iso_time(clock_ms)} or later")
    tx.execute("UPDATE mark SET end_ms = ?1, crc = crc + ?1 - end_ms WHERE end_ms < ?1", (at_ms,))
    tx.execute("UPDATE state SET state = zeroblob(length(state))")
    tx.execute("DELETE FROM total")
    tx.execute("INSERT OR REPLACE INTO meta SELECT DISTINCT 'shard/' || stream, '' FROM mark")
    tx.execute("UPDATE meta SET value = '' WHERE key GLOB 'shard/*'")
    floor_ms = max(at_ms, meta_value(tx, "floor_ms"))
    put_meta(tx, floor_ms=floor_ms, unknown_before_ms=at_ms, boot="")


@contextmanager
def read_only(path: Path | str) -> Iterator[sqlite3.Connection]:
    """Examine a store and connect to it read-only, even while an agent uses it.

    Raises StoreError if it is damaged or not a store, StoreRestored if it is a copy that is out of date.
    """
    path = Path(path).resolve()
    if not path.exists():
        raise StoreError(f"{path}: there is no store")
    newest = generation.read_generation(path)  # first, because an agent may write at any time
    with file.raise_device_errors(path), closing(file.open_file(path, "ro")) as connection:
        if not file.is_store(connection, path):
            raise StoreError(f"{path}: there is no store")
        connection.execute("BEGIN")
        file.check(connection, path, exists=True)
        if newest and newest.releases > meta_value(connection, "releases"):
            raise StoreRestored(f"{path}: {file.OLD_COPY}; {file.RESTORE_HINT}")
        connection.execute("COMMIT")
        yield connection


def stored_terms(connection: sqlite3.Connection) -> dict[str, list[Terms]]:
    """Return, by stream, all terms in a store. Raises StoreError if they cannot be read."""
    terms_by_stream: dict[str, list[Terms]] = {}
    for stream, text in connection.execute("SELECT stream, terms FROM terms").fetchall():
        terms_by_stream.setdefault(stream, []).append(schema.decode_terms(text))
    return terms_by_stream


def announced_ids(connection: sqlite3.Connection, stream: str) -> dict[Destination, str]:
    """Return the id of the latest descriptor at each destination of a stream's receivers."""
    # A grant's queue begins with the stream's name and "@", which no name contains.
    query = "SELECT queue, topic, id FROM descriptor WHERE queue = ?1 OR instr(queue, ?1 || '@') = 1"
    rows = connection.execute(query, (stream,))
    return {Destination(queue, topic): id_ for queue, topic, id_ in rows}
