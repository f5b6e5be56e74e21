"""The store as files: lock, generation, examination, setting aside. It knows nothing of commits.

Beside `<path>` stand `<path>.lock` (held by the agent that has it open), `<path>.gen` (which store may be
used: `generation`), SQLite's `-wal` and `-shm`, and the newest of `<path>.corrupt-<ms>`; all mode 0600.
"""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from meteragent.errors import StoreError, StoreInUse, StoreLost
from meteragent.store import examine as meaning
from meteragent.store import generation, wal
from meteragent.store.examine import meta
from meteragent.store.generation import Generation
from meteragent.store.schema import APPLICATION_ID, MIGRATIONS

BUSY_S = 0.5
"""How long a lock of another reader of the file is waited for."""

DAMAGED = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""Primary codes of a damaged file; a logic error is one, since the statements are constant."""

ASIDE = 3
"""How many damaged stores are kept, the newest: each may be as large as the store."""

WAY_ON = "when you know until when it may have released: `meteragent ledger CONFIG --restored-at TIME`"

MOVED = "if you have moved it yourself, and nothing runs where it was: `meteragent ledger CONFIG --moved`"

MOVE_ON = (
    "other stores know what left of the meters that would come here. Stop all agents of the fleet, then give"
    " each `meteragent ledger CONFIG --restored-at TIME`, TIME no earlier than `opened_to` of any"
)


class Damage(Exception):
    """Why a file cannot be the store any more."""


@contextmanager
def device(path: Path) -> Iterator[None]:
    """Errors of the device as StoreError; their texts name files, pages and tables, never values."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path}: {error}") from error
    except UnicodeDecodeError:  # SQLite's own words about a damaged schema may hold what is no text
        raise StoreError(f"{path}: corrupt") from None


def lock(path: Path) -> int:
    """The descriptor that holds `<path>.lock` until it is closed; raises StoreInUse at once."""
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreInUse(f"{path}: another agent has it open") from None
    return descriptor


class Found(NamedTuple):
    """The writing connection to a store.

    `exists` is False for a new store, `set_aside` is True if that replaces a damaged one.
    """

    connection: sqlite3.Connection
    exists: bool
    set_aside: bool


def find(path: Path, now_ms: int, floor_ms: int | None) -> Found:
    """Connect to the store at `path`, which is examined first; make a new one if there is none.

    The connection that examines is the one that stays: the last connection to close deletes the log, and
    what a killed agent left in it must be erased before (`wal`). Raises StoreLost for a damaged store if
    `floor_ms` is None, StoreError for what is not ours.
    """
    try:
        connection = examine(path)
    except Damage as damage:
        if floor_ms is None:
            raise StoreLost(f"{path}: {damage}; {WAY_ON}") from None
        _set_aside(path, now_ms)
        return Found(connect(path), exists=False, set_aside=True)
    if connection is None:
        return Found(connect(path), exists=False, set_aside=False)
    return Found(_prepare(connection, path), exists=True, set_aside=False)


def connect(path: Path) -> sqlite3.Connection:
    """Create the file if need be, and return the writing connection."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives -wal and -shm its mode
    generation.sync_folder(path)
    return _prepare(open_file(path, "rw"), path)


def _prepare(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Make a connection durable and forgetful, and its file private."""
    for part in ("", "-wal", "-shm"):  # they have the mode that the file had
        with suppress(FileNotFoundError):
            Path(f"{path}{part}").chmod(0o600)
    [(mode,)] = connection.execute("PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise StoreError(f"{path}: this file system cannot hold a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # no accumulators in temporary files
    return connection


def open_file(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to an existing file (mode "rw" or "ro"); transactions are begun by hand."""
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )


def is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """False for a blank file; raises StoreError if it is another program's or too new."""
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return False
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path}: a database of another program")
    [(version,)] = connection.execute("PRAGMA user_version")
    if version > len(MIGRATIONS) and meta(connection, "compatible_from") > len(MIGRATIONS):
        raise StoreError(f"{path}: written by a newer version of meteragent that this one cannot follow")
    return True


def examine(path: Path) -> sqlite3.Connection | None:
    """A connection to the sound store of ours; None if there never was one; raises Damage."""
    connection = _sound(path) if path.exists() and path.stat().st_size else None
    if connection is None and generation.read(path):
        raise Damage("gone, although its generation file is there")
    return connection


def _sound(path: Path) -> sqlite3.Connection | None:
    """A connection to a store that is as it should be; None if the file is blank; raises Damage."""
    connection = open_file(path, "rw")
    with ExitStack() as undo:
        undo.callback(wal.close, connection, path)
        try:
            exists = is_ours(connection, path)
            _check(connection, exists)
        except UnicodeDecodeError:
            raise Damage("corrupt") from None
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in DAMAGED:
                raise
            raise Damage("corrupt") from None
        if exists:
            undo.pop_all()
            return connection
    return None


def _check(connection: sqlite3.Connection, exists: bool) -> None:
    """Structure (SQLite's quick_check) and meaning of all that a start needs; raises Damage."""
    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise Damage("corrupt")
    if not exists:
        return
    try:
        meaning.examine(connection)
    except StoreError as error:
        raise Damage(str(error)) from None


def _set_aside(path: Path, now_ms: int) -> None:
    """Rename the damaged file, then what belongs to it; a crash in between is still a loss."""
    if not generation.read(path):
        generation.write(path, Generation.begin("lost"))
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{path}.corrupt-{now_ms}{suffix}")
    _forget_old(path)
    generation.sync_folder(path)


def _forget_old(path: Path) -> None:
    """Delete all but the newest of what was set aside."""
    aside: dict[int, list[Path]] = {}
    for found in path.parent.iterdir():
        match = re.fullmatch(re.escape(path.name) + r"\.corrupt-(\d+)(-\w+)?", found.name, re.ASCII)
        if match:
            aside.setdefault(int(match[1]), []).append(found)
    for time_ms in sorted(aside)[:-ASIDE]:
        for found in aside[time_ms]:
            found.unlink()
