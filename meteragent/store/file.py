"""The store as files: lock, generation, examination, setting aside. It knows nothing of commits.

Beside `<path>` stand `<path>.lock` (held by the agent that has it open), `<path>.gen` (which store may be
used: `generation`) and at times the next of it, `<path>.gen.new`, SQLite's `-wal` and `-shm`, and the newest
of `<path>.corrupt-<ms>`; all mode 0600.
"""

import errno
import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from meteragent.domain.errors import StoreError, StoreInUse, StoreLost
from meteragent.store import examine as meaning
from meteragent.store import generation, wal
from meteragent.store.examine import meta
from meteragent.store.generation import Generation
from meteragent.store.mount import NETWORK, mount_of
from meteragent.store.schema import APPLICATION_ID, MIGRATIONS

QUICK_CHECK = "PRAGMA quick_check(1)"

AGAIN_S = 1.0
"""After how long a store that looks damaged is looked at again."""

SHARED_BYTES = 2**16
"""What of `-shm` is allocated: the index of 8,158 pages of log; only a reader that stays makes it longer."""

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
    return _locked(path, Path(f"{path}.lock"))


def hold(path: Path) -> int:
    """Create the file if need be, and lock it, whatever its name; the descriptor holds it until it is closed.

    SQLite's own locks are lost when any descriptor of the file is closed, so this one is opened before its
    first connection and closed after its last.
    """
    where = mount_of(path)
    if where is not None and where.kind in NETWORK:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return _locked(path, path)


def _locked(path: Path, name: Path) -> int:
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreInUse(f"{path}: another agent has it open") from None
    return descriptor


class Found(NamedTuple):
    """The writing connection to a store.

    `exists` is False for a new store. `set_aside` is True if that replaces a damaged one; `blanked` is False
    if open windows are still in that.
    """

    connection: sqlite3.Connection
    exists: bool
    set_aside: bool = False
    blanked: bool = True


def find(path: Path, now_ms: int, floor_ms: int | None, again_s: float, descriptors: ExitStack) -> Found:
    """Connect to the store at `path`, which is examined first; make a new one if there is none.

    The connection that examines is the one that stays: the last connection to close deletes the log, and
    what a killed agent left in it must be erased before (`wal`). A read that fails is not damage, so what
    looks damaged is looked at again after `again_s`. `descriptors` are closed after the connection. Raises
    StoreLost for a damaged store if `floor_ms` is None, StoreError for what is not ours.
    """
    _find_room(path)
    if path.exists():
        descriptors.callback(os.close, hold(path))
    connection, damage = _examined(path)
    if damage:
        time.sleep(again_s)
        connection, damage = _examined(path)
    if damage and floor_ms is None:
        raise StoreLost(f"{path}: {damage}; {WAY_ON}")
    blanked = _set_aside(path, now_ms) if damage else True
    if connection is not None:
        return Found(_shared(_prepare(connection, path), path, descriptors), exists=True)
    if not path.exists():
        descriptors.callback(os.close, hold(path))
    made = _shared(connect(path), path, descriptors)
    return Found(made, exists=False, set_aside=bool(damage), blanked=blanked)


def _examined(path: Path) -> tuple[sqlite3.Connection | None, str]:
    """As `examine`, but damage is returned: an exception would keep statements alive, and so their locks."""
    try:
        return examine(path), ""
    except Damage as damage:
        why = str(damage)
    return None, why


def _find_room(path: Path) -> None:
    """Raise OSError if there is no room for `-shm`: SQLite maps it, and a write to it would be a SIGBUS."""
    try:
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # this file system has no files without a name
        return
    try:
        _allocate(descriptor)
    finally:
        os.close(descriptor)


def _shared(connection: sqlite3.Connection, path: Path, descriptors: ExitStack) -> sqlite3.Connection:
    """Allocate all blocks of `-shm`: SQLite writes one byte a page, and a page may have several blocks."""
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # `-shm` is made by the first read
    descriptor = os.open(f"{path}-shm", os.O_RDWR)
    descriptors.callback(os.close, descriptor)  # closing it earlier would lose SQLite's locks
    _allocate(descriptor)
    return connection


def _allocate(descriptor: int) -> None:
    try:
        os.posix_fallocate(descriptor, 0, SHARED_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise


def connect(path: Path) -> sqlite3.Connection:
    """Create the file if need be, and return the writing connection."""
    if not path.exists():
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
            _check(connection, path, exists=exists)
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


def _check(connection: sqlite3.Connection, path: Path, *, exists: bool) -> None:
    """Structure (SQLite's quick_check) and meaning of all that a start needs; raises Damage."""
    [(text,)] = connection.execute(QUICK_CHECK)
    if "error code=" in text:  # it does not raise what the device says
        raise StoreError(f"{path}: the device cannot read it: {text[text.index('error code=') :][:40]}")
    if text != "ok":
        raise Damage("corrupt")
    if not exists:
        return
    try:
        meaning.examine(connection)
    except StoreError as error:
        raise Damage(str(error)) from None


def _set_aside(path: Path, now_ms: int) -> bool:
    """Rename the damaged file, then what belongs to it; whether what was open in it could be blanked.

    A crash in between is still a loss.
    """
    if not generation.read(path):
        generation.write(path, Generation.begin("lost"))
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{path}.corrupt-{now_ms}{suffix}")
    _forget_old(path)
    generation.sync_folder(path)
    return _blank(Path(f"{path}.corrupt-{now_ms}"))


def _blank(aside: Path) -> bool:
    """Blank the states of a store that was set aside; False if there may be some left.

    Nobody goes on with them. Marks, charges and records stay, for whoever looks at what went wrong.
    """
    if not aside.exists() or not aside.stat().st_size:
        return not Path(f"{aside}-wal").exists()
    try:
        connection = open_file(aside, "rw")
        try:
            _prepare(connection, aside)
            connection.execute("UPDATE state SET state = zeroblob(length(state))")
            return wal.erase(connection, aside)
        finally:
            wal.close(connection, aside)
    except (OSError, sqlite3.Error, StoreError):
        return False


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
