"""The write-ahead log (WAL), which is erased after each commit that writes a state.

Theory of operation
-------------------
A frame of the log is a copy of a page, so the log holds the accumulators of several commits, and the
difference between two values of one accumulator is the energy measured between the commits. Truncating or
deleting the log frees its blocks but leaves their content on the device. So after each commit that writes a
state, the log is overwritten with zeros in place:

1. Move all frames into the database file (`wal_checkpoint(RESTART)`, which syncs the file) and check that no
   other connection reads the log.
2. Overwrite the header of 32 bytes and sync. Without the header, SQLite ignores every frame.
3. Overwrite the frames and sync.
4. Keep the file, and truncate it only if it is large.

After a power cut, either the whole log is valid (the zeros of step 2 are not on disk yet), or no part of it
is. Both states are correct, because the file has held every commit since step 1. Overwriting the frames first
could leave a valid prefix of the log: older pages, which would replace newer pages in the file.

SQLite does not notice the erasure. SQLite's index still states that every frame is in the database file, so
no connection reads the log, and the next commit restarts the log with a header (but see `confirm_commit`).

SQLite puts its locks (POSIX locks, which a process loses when it closes any descriptor of the same file) on
the database file and on `-shm`, never on `-wal`. So it is safe to open and close the log here.
"""

import os
import sqlite3
from contextlib import ExitStack, suppress
from pathlib import Path

from meteragent.domain.errors import StoreError

HEADER_BYTES = 32
LARGEST_KEPT_BYTES = 2**18
"""The size up to which a log of zeros is kept: about sixty pages, more than most commits write."""
TRIES = 20
"""The number of attempts to truncate a large, busy log of zeros; each waits up to `file.BUSY_S`."""

_ZEROS = memoryview(bytes(2**16))


def erase_log(connection: sqlite3.Connection, path: Path) -> bool:
    """Erase the log; return False if another connection uses it. Raises StoreError if a large log stays."""
    version = _data_version(connection)
    if not _is_moved(connection, "RESTART"):
        return False
    log = Path(f"{path}-wal")
    connection.execute("BEGIN IMMEDIATE")  # no other connection may append to the log while it is zeroed
    try:
        if _data_version(connection) != version:
            return False  # another connection has written a frame that is not in the file yet
        _overwrite(log)
    finally:
        connection.execute("ROLLBACK")
    # Growing and truncating a file change metadata, which makes each sync several times slower. A reader that
    # has started since then reads only the database file, but blocks truncating the log.
    is_large = log.stat().st_size > LARGEST_KEPT_BYTES
    if is_large and not any(_is_moved(connection, "TRUNCATE") for _ in range(TRIES)):
        raise _busy_error(path)
    return True


def confirm_commit(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the last commit survives a crash: it is in a log with a header, or in the database file.

    If a reader holds a lock on an erased log, SQLite does not restart the log but appends to it, behind a
    header of zeros, and a crash would lose the commit. Raises StoreError if the commit is in neither.
    """
    if _has_no_header(path):
        [(_, frames, checkpointed_frames)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if checkpointed_frames != frames:
            raise _busy_error(path)


def close_connection(connection: sqlite3.Connection, path: Path) -> None:
    """Close a connection, and overwrite the log if SQLite deletes it because no connection remains.

    A descriptor that is opened beforehand still gives access to the blocks of the deleted log.
    """
    with ExitStack() as undo:
        descriptor = None
        with suppress(OSError):  # there is no log, or another user owns it
            descriptor = os.open(f"{path}-wal", os.O_RDWR)
            undo.callback(os.close, descriptor)
        connection.close()
        if descriptor is not None and not os.fstat(descriptor).st_nlink:
            _zero_log(descriptor)


def _data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes whenever another connection commits."""
    [(version,)] = connection.execute("PRAGMA data_version")
    return int(version)


def _is_moved(connection: sqlite3.Connection, mode: str) -> bool:
    [(busy, _, _)] = connection.execute(f"PRAGMA wal_checkpoint({mode})")
    return not busy


def _has_no_header(path: Path) -> bool:
    """Return whether the log was erased and no commit has written a header since."""
    with suppress(FileNotFoundError), Path(f"{path}-wal").open("rb") as log:
        return log.read(HEADER_BYTES) == bytes(HEADER_BYTES)
    return False


def _busy_error(path: Path) -> StoreError:
    return StoreError(f"{path}: another program has a transaction open on it; end that program and try again")


def _overwrite(log: Path) -> None:
    descriptor = os.open(log, os.O_RDWR)
    try:
        _zero_log(descriptor)
    finally:
        os.close(descriptor)


def _zero_log(descriptor: int) -> None:
    """Zero a log up to its last non-zero byte: first the header, then the frames; sync each part."""
    size = _used_bytes(descriptor)
    for start, end in ((0, min(HEADER_BYTES, size)), (HEADER_BYTES, size)):
        offset = start
        while offset < end:
            offset += os.pwrite(descriptor, _ZEROS[: end - offset], offset)
        if offset > start:
            os.fdatasync(descriptor)


def _used_bytes(descriptor: int) -> int:
    """Return the length of a file, in bytes, without its trailing zeros."""
    size = os.fstat(descriptor).st_size
    while size > 0:
        start = max(0, size - len(_ZEROS))
        if block_size := len(os.pread(descriptor, size - start, start).rstrip(b"\0")):
            return start + block_size
        size = start
    return 0
