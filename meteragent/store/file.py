"""The store as files: lock, generation, examination, setting aside. It knows nothing of commits.

Beside `<path>` stand `<path>.lock` (held by the agent that has it open), `<path>.gen` (the
generation that may be used), SQLite's `-wal` and `-shm`, and the newest of `<path>.corrupt-<ms>`;
all mode 0600.
"""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from meteragent.errors import StoreError, StoreInUse, StoreLost
from meteragent.store.examine import examine, meta
from meteragent.store.schema import APPLICATION_ID, MIGRATIONS

BUSY_S = 0.5
"""How long a lock of another reader of the file is waited for."""

DAMAGED = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""Primary codes of a damaged file; a logic error is one, since the statements are constant."""

ASIDE = 3
"""How many damaged stores are kept, the newest: each may be as large as the store."""

WAY_ON = "when you know until when it may have released: `meteragent ledger CONFIG --restored-at TIME`"

MOVE_ON = (
    "other stores know what left of the meters that would come here. Stop all agents of the fleet, then give"
    " each `meteragent ledger CONFIG --restored-at TIME`, TIME no earlier than `opened_to` of any"
)


class _Damage(Exception):
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


def generation(path: Path) -> str:
    """What `<path>.gen` says; empty if there is none."""
    try:
        return Path(f"{path}.gen").read_text("ascii")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        return "unreadable"


def write_generation(path: Path, text: str) -> None:
    """Replace `<path>.gen`, on disk when it returns."""
    new = Path(f"{path}.gen.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, text.encode("ascii"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.replace(f"{path}.gen")
    _sync_folder(path)


def find(path: Path, now_ms: int, floor_ms: int | None) -> tuple[bool, bool]:
    """Whether there is a store to use, and whether a damaged one was set aside.

    Raises StoreLost for a damaged one if `floor_ms` is None, StoreError for what is not ours.
    """
    try:
        return _examine(path), False
    except _Damage as damage:
        if floor_ms is None:
            raise StoreLost(f"{path}: {damage}; {WAY_ON}") from None
    _set_aside(path, now_ms)
    return False, True


def connect(path: Path) -> sqlite3.Connection:
    """The writing connection, made private and created if need be: durable, and it forgets."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives -wal and -shm its mode
    path.chmod(0o600)
    _sync_folder(path)
    connection = open_file(path, "rw")
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


def _examine(path: Path) -> bool:
    """Whether there is a sound store of ours; False if there never was one; raises _Damage."""
    exists = path.exists() and path.stat().st_size > 0
    if exists:
        try:
            with closing(open_file(path, "rw")) as connection:
                exists = is_ours(connection, path)
                _check(connection, exists)
        except UnicodeDecodeError:
            raise _Damage("corrupt") from None
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in DAMAGED:
                raise
            raise _Damage("corrupt") from None
    if not exists and generation(path):
        raise _Damage("gone, although its generation file is there")
    return exists


def _check(connection: sqlite3.Connection, exists: bool) -> None:
    """Structure (SQLite's quick_check) and meaning of all that a start needs; raises _Damage."""
    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise _Damage("corrupt")
    if not exists:
        return
    try:
        examine(connection)
    except StoreError as error:
        raise _Damage(str(error)) from None


def _set_aside(path: Path, now_ms: int) -> None:
    """Rename the damaged file, then what belongs to it; a crash in between is still a loss."""
    if not generation(path):
        write_generation(path, "lost")
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{path}.corrupt-{now_ms}{suffix}")
    _forget_old(path)
    _sync_folder(path)


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


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
