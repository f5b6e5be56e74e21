"""An operator's store: the rows of its machine, and the ledger of finished slots, in one SQLite file.

Rules:
1. A step is committed in one transaction and fsynced before any of its messages is sent.
2. A copy is refused. As for the agent's store, `<path>.gen` names the store's newest generation and states
   the number of its commits (`meteragent.store.generation`). A commit that writes any rows other than reports
   is counted in that file before a message is sent. So a copy is detected if it is older than the newest
   fixed batch, answer, total or key list.
3. When a day's secret is deleted, it is erased from the file and the write-ahead log. The secrets have a
   table of their own, which fits into one page, so that SQLite never moves a secret to another page.
4. The ledger never has two lines for one slot: a second line is an error, whatever the machine decides.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from meteragent.crowd.machine import RowKey
from meteragent.domain.errors import StoreError, StoreInUse, StoreLost, StoreRestored
from meteragent.operators.desk import LedgerLine
from meteragent.store import file, generation, wal
from meteragent.store.file import accept_copy
from meteragent.store.life import OpenStore

_APPLICATION_ID, _VERSION = 0x6D616372, 1
_SUMS = {
    "meta": "row_crc(key, value)",
    "secret": "row_crc(day, value)",
    "row": "row_crc(kind, at, name, value)",
    "ledger": "row_crc(slot_s, at_s, result, homes)",
}
"""The checksum of a row of each table, which SQLite computes."""
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value, crc INTEGER AS ({_SUMS["meta"]}) STORED) WITHOUT ROWID;
CREATE TABLE secret (day INTEGER PRIMARY KEY, value BLOB NOT NULL, crc INTEGER AS ({_SUMS["secret"]}) STORED);
CREATE TABLE row (kind TEXT, at INTEGER, name TEXT, value BLOB NOT NULL,
    crc INTEGER AS ({_SUMS["row"]}) STORED, PRIMARY KEY (kind, at, name)) WITHOUT ROWID;
CREATE TABLE ledger (slot_s INTEGER PRIMARY KEY, at_s INTEGER NOT NULL, result TEXT NOT NULL,
    homes INTEGER NOT NULL, crc INTEGER AS ({_SUMS["ledger"]}) STORED);
INSERT INTO meta VALUES ('generation', ''), ('previous', ''), ('releases', 0);
"""  # noqa: S608 -- constants
START_OVER_HINT = (
    "if it is the newest copy and was only moved, or is permanently lost, remove it and the files next to it"
    " (.gen, .lock, -wal, -shm) and start the operator again: it starts over with new keys, and slots whose"
    " reports are sealed to the old keys get no total"
)
"""The advice that follows the reason for refusing a store."""


class Store(OpenStore):
    """The open store of an operator; `is_erased` says whether the log is free of deleted secrets."""

    SERVICE = "operator"

    @classmethod
    def open(cls, path: Path, role: str, group_id: bytes) -> Self:
        """Lock, check and return the store at `path`; create it if there is none.

        Raises StoreInUse, StoreRestored for a copy or a moved store, StoreLost for a store that is corrupt or
        has disappeared, and StoreError for the store of another program, role or group, or if the device
        fails.
        """
        path = path.resolve()
        if not path.parent.is_dir():
            raise StoreError(f"{path}: its folder does not exist")
        with file.raise_device_errors(path), ExitStack() as undo:
            undo.callback(os.close, _lock_file(path, file.lock_store))
            if not path.exists() and generation.read_generation(path) is not None:
                raise StoreLost(f"{path}: missing, although it existed before; {START_OVER_HINT}")
            undo.callback(os.close, _lock_file(path, file.lock_database))
            connection = file.connect(path)
            undo.callback(wal.close_connection, connection, path)
            is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if is_new:
                connection.executescript(
                    f"BEGIN; {_SCHEMA} PRAGMA application_id = {_APPLICATION_ID};"
                    f" PRAGMA user_version = {_VERSION}; COMMIT;"
                )
            _check(connection, path)
            store = cls(path, connection)
            undo.callback(store._generation_file.close)
            store._claim(role, group_id)
            store._start()
            store._resources = undo.pop_all()
        return store

    def read_rows(self) -> dict[RowKey, bytes]:
        """Return all rows of the machine."""
        with file.raise_device_errors(self.path):
            secrets = self.connection.execute("SELECT day, value FROM secret")
            rows = {RowKey("secret", day): bytes(value) for day, value in secrets}
            query = "SELECT kind, at, name, value FROM row"
            for kind, at, name, value in self.connection.execute(query):
                rows[RowKey(kind, at, name)] = bytes(value)
        return rows

    def commit_step(self, rows: Mapping[RowKey, bytes | None], lines: Iterable[LedgerLine] = ()) -> None:
        """Commit the rows and the ledger lines of a step; on return, they are on disk.

        A deleted secret stays in the write-ahead log while another program reads the log; each later commit,
        even one without rows, tries again to erase it. Raises StoreError if this write or an earlier one has
        failed: the machine is then ahead of the store.
        """
        if rows:
            try:
                with self.unerased_transaction() as tx:
                    _write(tx, rows)
                    tx.executemany("INSERT INTO ledger VALUES (?, ?, ?, ?)", list(lines))
                    if any(key.table != "report" for key in rows):
                        self._count_records(tx)
            except BaseException:
                self._failed = True
                raise
            self.is_erased &= all(key.table != "secret" for key in rows)
        self.erase_log()

    def _claim(self, role: str, group_id: bytes) -> None:
        """Bind the store to a role and a group. Raises StoreError if it is bound to another role or group."""
        owner = f"{role} {group_id.hex()}"
        row = self.connection.execute("SELECT value FROM meta WHERE key = 'owner'").fetchone()
        if row is None:
            self.connection.execute("INSERT INTO meta VALUES ('owner', ?)", (owner,))
        elif row[0] != owner:
            raise StoreError(
                f"{self.path}: this is the store of the {row[0].split()[0]} of another group, or of the other"
                " role; set another store.path"
            )


def read_ledger(path: Path) -> list[LedgerLine]:
    """Return the ledger of the store at `path`, oldest slot first. Raises StoreError if it cannot be read."""
    with file.raise_device_errors(path):
        if not path.exists():
            raise StoreError(f"{path}: there is no store yet")
        with closing(file.open_file(path.resolve(), "ro")) as connection:
            _check_rows(connection, path)
            lines = connection.execute("SELECT slot_s, at_s, result, homes FROM ledger ORDER BY slot_s")
            return [LedgerLine(*line) for line in lines]


def _lock_file(path: Path, lock: Callable[[Path], int]) -> int:
    """Lock a file of the store; return its descriptor. Raises StoreInUse if it is locked already."""
    try:
        return lock(path)
    except StoreInUse:
        raise StoreInUse(
            f"{path}: another operator has the store open: stop that operator, or set another path"
        ) from None


def _check(connection: sqlite3.Connection, path: Path) -> None:
    [(application_id,)] = connection.execute("PRAGMA application_id")
    [(version,)] = connection.execute("PRAGMA user_version")
    if (application_id, version) != (_APPLICATION_ID, _VERSION):
        raise StoreError(f"{path}: not the store of a crowd's operator, or the store of another version")
    [(verdict,)] = connection.execute(file.INTEGRITY_CHECK)
    if verdict != "ok":
        raise StoreLost(f"{path}: corrupt; {START_OVER_HINT}")
    _check_rows(connection, path)
    try:
        accept_copy(connection, path)
    except StoreRestored as error:
        reason, _, _ = str(error).partition(";")  # the advice after it is for the agent's store
        raise StoreRestored(f"{reason}; {START_OVER_HINT}") from None


def _check_rows(connection: sqlite3.Connection, path: Path) -> None:
    for table, sum_ in _SUMS.items():
        query = f"SELECT 1 FROM {table} WHERE crc IS NOT {sum_}"  # noqa: S608 -- constants
        if connection.execute(query).fetchone():
            raise StoreLost(f"{path}: a row of the table {table} is corrupt; {START_OVER_HINT}")


def _write(tx: sqlite3.Connection, rows: Mapping[RowKey, bytes | None]) -> None:
    deleted_keys = [key for key, value in rows.items() if value is None]
    tx.executemany(
        "DELETE FROM secret WHERE day = ?", [(key.at,) for key in deleted_keys if key.table == "secret"]
    )
    tx.executemany("DELETE FROM row WHERE kind = ? AND at = ? AND name = ?", deleted_keys)
    secrets = [(key.at, value) for key, value in rows.items() if value is not None and key.table == "secret"]
    tx.executemany("INSERT OR REPLACE INTO secret VALUES (?, ?)", secrets)
    other_rows = [(*key, value) for key, value in rows.items() if value is not None and key.table != "secret"]
    tx.executemany("INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?)", other_rows)
