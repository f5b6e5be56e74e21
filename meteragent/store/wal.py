"""The write-ahead log (WAL), erased before the file system gets its blocks back.

A frame of the log is a copy of a page, so the log holds the accumulators of several commits, and two values
of one accumulator tell what was measured in between. Truncating or deleting the log frees its blocks and
leaves their content on the device. So the log is overwritten with zeros, in its own blocks, beforehand:

1. Move all frames into the database file (`wal_checkpoint(RESTART)`, which syncs the file) and see that
   nobody reads the log.
2. Overwrite the header of 32 bytes and sync. Without its header SQLite ignores every frame.
3. Overwrite the frames and sync.
4. Truncate (`wal_checkpoint(TRUNCATE)`), which also resets SQLite's index of the log.

A power cut leaves the complete log (before 2 is on disk) or none of it, and either is right beside a file
that has every commit. Zeroing frames first could leave a valid prefix of the log: older pages, which override
newer ones in the file.

SQLite puts its locks (POSIX, lost when the process closes any descriptor of the same file) on the database
file and on `-shm`, never on `-wal`. So the log may be opened and closed here.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from meteragent.domain.errors import StoreError

HEADER_BYTES = 32
TRIES = 20
"""How often a log of zeros is truncated while it is busy; each try waits for `file.BUSY_S`."""

_ZEROS = memoryview(bytes(2**16))


def erase(connection: sqlite3.Connection, path: Path) -> bool:
    """Erase the log; False if another connection reads it or has just written, True when nothing is left.

    Raises StoreError if the log is zeros already and cannot be truncated: SQLite would append to it, and
    find nothing after a crash.
    """
    version = _data_version(connection)
    if not _is_moved(connection, "RESTART"):
        if _has_no_header(path):
            raise _held(path)
        return False
    if not Path(f"{path}-wal").stat().st_size:
        return True
    connection.execute("BEGIN IMMEDIATE")  # nobody else may append to what becomes zeros
    try:
        if _data_version(connection) != version:
            return False
        _overwrite(path)
    finally:
        connection.execute("ROLLBACK")
    # A reader that came in between reads the database file only, but keeps the log from being reset.
    if not any(_is_moved(connection, "TRUNCATE") for _ in range(TRIES)):
        raise _held(path)
    return True


def close(connection: sqlite3.Connection, path: Path) -> None:
    """Close a connection, and overwrite the log if that deletes it: SQLite does so with the last one."""
    descriptor = None
    with suppress(OSError):  # there is none, or it is not ours
        descriptor = os.open(f"{path}-wal", os.O_WRONLY)
    try:
        connection.close()
        if descriptor is not None and not os.fstat(descriptor).st_nlink:
            _zero(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when another connection has committed."""
    [(version,)] = connection.execute("PRAGMA data_version")
    return int(version)


def _is_moved(connection: sqlite3.Connection, mode: str) -> bool:
    [(busy, _, _)] = connection.execute(f"PRAGMA wal_checkpoint({mode})")
    return not busy


def _has_no_header(path: Path) -> bool:
    """Whether the log is zeros that are not truncated yet."""
    with suppress(FileNotFoundError), Path(f"{path}-wal").open("rb") as log:
        return log.read(HEADER_BYTES) == bytes(HEADER_BYTES)
    return False


def _held(path: Path) -> StoreError:
    return StoreError(f"{path}: another program has a transaction open on it, which must end first")


def _overwrite(path: Path) -> None:
    descriptor = os.open(f"{path}-wal", os.O_WRONLY)
    try:
        _zero(descriptor)
    finally:
        os.close(descriptor)


def _zero(descriptor: int) -> None:
    """Overwrite a whole log with zeros, header first, each part on disk before the next is begun."""
    size = os.fstat(descriptor).st_size
    for start, end in ((0, min(HEADER_BYTES, size)), (HEADER_BYTES, size)):
        at = start
        while at < end:
            at += os.pwrite(descriptor, _ZEROS[: end - at], at)
        if at > start:
            os.fdatasync(descriptor)
