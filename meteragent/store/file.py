"""The store as files: how they are locked, examined, connected to and set aside.

The files next to `<path>`, all with mode 0600, are
- `<path>.lock`, locked by the agent that has the store open;
- `<path>.gen` and `<path>.gen.new`, which identify the store that may be used (`generation`);
- SQLite's `-wal` and `-shm`;
- the most recent stores that were set aside (`<path>.corrupt-<ms>`).

A start takes these steps in order: lock `<path>.lock`, check that there is room for `-shm`, lock the database
file, examine its content, set it aside if it is damaged, and connect.
"""

import errno
import fcntl
import os
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from meteragent.domain.errors import StoreError, StoreInUse, StoreLost, StoreRestored
from meteragent.store import examine as meaning
from meteragent.store import generation, wal
from meteragent.store.disk import DISK_FULL, NETWORK_FILE_SYSTEMS, has_room, mount_of
from meteragent.store.examine import Damage
from meteragent.store.generation import Generation
from meteragent.store.schema import APPLICATION_ID, VERSION, row_crc

INTEGRITY_CHECK = "PRAGMA integrity_check(1)"
"""The check of pages, and of each index: a message that is missing from an index would never be sent."""

RECHECK_S = 1.0  # NOTE: a guess; how long read errors of worn cards last would settle it
"""The pause, in seconds, before a store that looks damaged is examined a second time."""

SHARED_BYTES = 2**16
"""The size of the allocated part of `-shm`: an index of 8,158 log pages, which only a long read exceeds."""

BUSY_S = 0.5
"""The longest wait, in seconds, for a lock that another reader of the file holds."""

DAMAGE_CODES = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""Primary error codes of a damaged file; a constant statement raises SQLITE_ERROR only if it is damaged."""

KEPT_FILES = 3
"""The number of stores set aside that are kept (the newest); each may be large."""

RESTORE_HINT = (
    "run `meteragent ledger CONFIG --restored-at TIME` with a TIME after the last window that may have"
    " been released"
)

MOVED_HINT = "if you moved it and nothing is running in the old place, run `meteragent ledger CONFIG --moved`"

OLD_COPY = "it is a copy from before the last records left"
"""The problem of a store that counts fewer commits with records than the store's generation file."""

_UNNAMED = {
    "": "the file .gen next to it is missing; if you have it, put it back",
    generation.UNREADABLE: "the file .gen next to it cannot be read",
}
"""What is wrong if the generation file does not name a generation."""

SHARD_HINT = (
    "the marks of the new meters are in other stores. Stop all agents of the fleet, then run for each of them"
    " `meteragent ledger CONFIG --restored-at TIME` with a TIME not before `opened_to` of any of them"
)

DEVICE_ERRORS = (OSError, sqlite3.Error)
"""What a device or a damaged file raises; the texts name files, pages and tables, never values."""


@contextmanager
def raise_device_errors(path: Path) -> Iterator[None]:
    """Raise device errors as StoreError."""
    try:
        yield
    except DEVICE_ERRORS as error:
        raise StoreError(f"{path}: {DISK_FULL if _is_full(error, path) else error}") from error
    except UnicodeDecodeError:  # SQLite's message about a damaged schema may quote bytes that are not text
        raise StoreError(f"{path}: it is corrupt") from None


def _is_full(error: OSError | sqlite3.Error, path: Path) -> bool:
    """Return whether a full disk caused an error, which SQLite may report as an error of the device."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and not has_room(path))


def lock_store(path: Path) -> int:
    """Lock `<path>.lock` until the descriptor is closed. Raises StoreInUse if another agent has it."""
    return _lock_file(path, Path(f"{path}.lock"))


def lock_database(path: Path) -> int:
    """Lock the database file, and create it if it does not exist; return the descriptor that holds the lock.

    This lock excludes agents that use another name of the file (a hard link). Raises StoreInUse if another
    agent has the lock. Close the descriptor after the last connection: a process loses its POSIX locks on a
    file, including SQLite's, as soon as it closes *any* descriptor of that file.
    """
    mount = mount_of(path)
    if mount is not None and mount.kind in NETWORK_FILE_SYSTEMS:  # where flock and SQLite's locks conflict
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return _lock_file(path, path)


def _lock_file(path: Path, name: Path) -> int:
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreInUse(
            f"{path.absolute()}: another agent has it open: stop that agent, or set another store.path if"
            " this one reads other meters"
        ) from None
    return descriptor


class StoreFile(NamedTuple):
    """The writing connection to a store; `exists` is False if it is new.

    `damage` says why a new store replaces a damaged or missing one, or is empty; `is_blanked` is False if the
    damaged store may still hold open windows.
    """

    connection: sqlite3.Connection
    exists: bool
    damage: str = ""
    is_blanked: bool = True


def open_or_create(
    path: Path, now_ms: int, floor_ms: int | None, again_s: float, descriptors: ExitStack
) -> StoreFile:
    """Examine and connect to the store at `path`; create a store if there is none or it is damaged.

    The caller closes the connection first, then `descriptors`. Raises StoreLost for a damaged or missing
    store if `floor_ms` is None, StoreInUse, or StoreError for another program's file or a store of another
    version.
    """
    _check_space(path)
    if path.exists():
        descriptors.callback(os.close, lock_database(path))
    connection, damage = _try_examine(path)
    if damage:  # or only a failed read
        time.sleep(again_s)
        connection, damage = _try_examine(path)
    if damage and floor_ms is None:
        raise StoreLost(f"{path}: {damage}; {RESTORE_HINT}")
    blanked = _set_aside(path, now_ms) if damage else True
    exists = connection is not None
    if not path.exists():
        descriptors.callback(os.close, lock_database(path))
    # The connection of the examination is kept: the last one to close deletes the log, and a killed agent may
    # have left accumulators in the log, which must be erased first (`wal`).
    connection = connect(path) if connection is None else _prepare_connection(connection, path)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read creates `-shm`
    shm = os.open(f"{path}-shm", os.O_RDWR)
    descriptors.callback(os.close, shm)  # closing it earlier would lose SQLite's locks
    _allocate(shm)  # SQLite writes only one byte to each page, and a page may have several blocks
    return StoreFile(connection, exists, damage, is_blanked=blanked)


def _try_examine(path: Path) -> tuple[sqlite3.Connection | None, str]:
    """Return the connection from `examine_file` and an empty string, or None and a description of the damage.

    The damage is not raised, because an exception keeps statements and locks alive while it is handled.
    """
    try:
        return examine_file(path), ""
    except Damage as damage:
        reason = str(damage)
    return None, reason


def _check_space(path: Path) -> None:
    """Raise OSError if there is no room for `-shm`: SQLite maps it, and a write to it would raise SIGBUS."""
    try:
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # this file system has no unnamed files
        return
    try:
        _allocate(descriptor)
    finally:
        os.close(descriptor)


def _allocate(descriptor: int) -> None:
    """Allocate the blocks for the index of the log, if the file system supports this."""
    try:
        os.posix_fallocate(descriptor, 0, SHARED_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise


def connect(path: Path) -> sqlite3.Connection:
    """Return the writing connection to a file, which is created if it does not exist."""
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives -wal and -shm the same mode
    generation.sync_folder(path.parent)
    return _prepare_connection(open_file(path, "rw"), path)


def _prepare_connection(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return the connection, set to fsync and to zero deleted rows. Raises StoreError if there is no WAL."""
    for part in ("", "-wal", "-shm"):  # SQLite gave -wal and -shm the mode of the database file
        with suppress(FileNotFoundError):
            Path(f"{path}{part}").chmod(0o600)
    [(mode,)] = connection.execute("PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise StoreError(f"{path}: this file system cannot hold a write-ahead log; move the store to another")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # no accumulators in temporary files
    return connection


def open_file(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to an existing file in mode "rw" or "ro"; transactions must be begun explicitly."""
    uri = f"{path.as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, BUSY_S, isolation_level=None, check_same_thread=False, uri=True)
    connection.create_function("row_crc", -1, row_crc, deterministic=True)
    connection.execute("PRAGMA trusted_schema = ON")  # so that the schema may use the function
    return connection


def is_store(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file is a store. Raises StoreError if another program or version wrote the file."""
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return False
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path}: it is a database of another program; choose another store.path")
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        raise StoreError(f"{path}: another version of meteragent has written it; install that version")
    return True


def examine_file(path: Path) -> sqlite3.Connection | None:
    """Return a connection to a store; None if there never was one. Raises Damage if it is lost or damaged."""
    connection = _connect_undamaged(path) if path.exists() and path.stat().st_size else None
    if connection is None and generation.read_generation(path):
        raise Damage("it is missing, although its generation file exists")
    return connection


def _connect_undamaged(path: Path) -> sqlite3.Connection | None:
    """Return a connection to a store; None if the file is blank. Raises Damage if the store is damaged."""
    connection = open_file(path, "rw")
    with ExitStack() as undo:
        undo.callback(wal.close_connection, connection, path)
        try:
            exists = is_store(connection, path)
            check(connection, path, exists=exists)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in DAMAGE_CODES:
                raise
            raise Damage("it is corrupt") from None
        if exists:
            undo.pop_all()
            return connection
    return None


def check(connection: sqlite3.Connection, path: Path, *, exists: bool) -> None:
    """Check the structure and, if `exists`, the content. Raises Damage, or StoreError if a read fails."""
    [(text,)] = connection.execute(INTEGRITY_CHECK)
    if "error code=" in text:  # integrity_check reports an error of the device instead of raising it
        raise StoreError(f"{path}: the device cannot read it: {text[text.index('error code=') :][:40]}")
    if text != "ok":
        raise Damage("it is corrupt")
    if exists:
        meaning.examine_content(connection)


def _set_aside(path: Path, now_ms: int) -> bool:
    """Rename the damaged file and then SQLite's files next to it; return whether its states are blanked."""
    if not generation.read_generation(path):
        # After a crash between two renames, the next start finds the store missing and treats it as lost.
        generation.write_generation(path, Generation.begin("lost"))
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{path}.corrupt-{now_ms}{suffix}")
    _delete_old_stores(path)
    generation.sync_folder(path.parent)
    return _blank_states(Path(f"{path}.corrupt-{now_ms}"))


def _blank_states(aside_path: Path) -> bool:
    """Blank the states, and nothing else, of a store that was set aside; return whether all are blank."""
    if not aside_path.exists() or not aside_path.stat().st_size:
        return not Path(f"{aside_path}-wal").exists()
    with suppress(*DEVICE_ERRORS, UnicodeDecodeError, StoreError), ExitStack() as undo:
        connection = open_file(aside_path, "rw")
        undo.callback(wal.close_connection, connection, aside_path)
        _prepare_connection(connection, aside_path)
        connection.execute("UPDATE state SET state = zeroblob(length(state))")
        return wal.erase_log(connection, aside_path)
    return False


def _delete_old_stores(path: Path) -> None:
    """Delete all but the newest `KEPT_FILES` stores that were set aside."""
    paths_by_time = defaultdict[int, list[Path]](list)
    for file in path.parent.iterdir():
        match = re.fullmatch(re.escape(path.name) + r"\.corrupt-(\d+)(-\w+)?", file.name, re.ASCII)
        if match:
            paths_by_time[int(match[1])].append(file)
    for time_ms in sorted(paths_by_time)[:-KEPT_FILES]:
        for file in paths_by_time[time_ms]:
            file.unlink()


def accept_copy(connection: sqlite3.Connection, path: Path, *, may_move: bool = False) -> Generation | None:
    """Return the content of the generation file, or None if it has not been written yet.

    Raises StoreRestored if the store must not be used. If `may_move`, the file need not be in the inode that
    it names, provided that the store was stopped cleanly and not opened since.
    """
    newest, present = generation.read_generation(path), meaning.meta_value(connection, "generation")
    name, reason, cure = newest.name if newest else "", "", RESTORE_HINT
    if name not in (present, meaning.meta_value(connection, "previous")):
        reason = _UNNAMED.get(name, "it is a copy from before its last start or stop")
    elif newest is None:
        return None
    elif newest.releases > meaning.meta_value(connection, "releases"):
        reason = OLD_COPY
    elif not generation.is_in_place(path, newest):
        if not newest.is_stopped or name != present:
            reason = "it was copied while an agent ran, or moved before its agent had stopped"
        elif not may_move:
            reason, cure = "it was restored from a backup, or moved", f"{RESTORE_HINT}; but {MOVED_HINT}"
    if reason:
        raise StoreRestored(f"{path}: {reason}; {cure}")
    return newest
