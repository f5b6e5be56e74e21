"""The check that a store is the newest of its copies and has not been moved (rule 3 of the store)."""

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path

from meteragent.domain.errors import StoreError, StoreLost, StoreRestored
from meteragent.store import file, generation, wal
from meteragent.store.examine import meta
from meteragent.store.generation import Generation


def count_releases(connection: sqlite3.Connection) -> int:
    """Return the number of a store's commits with records."""
    return int(meta(connection, "releases"))


def accept(connection: sqlite3.Connection, path: Path, *, may_be_moved: bool = False) -> Generation | None:
    """Return the content of the generation file, or None if it has not been written yet.

    Raises StoreRestored if the store must not be used. If `may_be_moved`, the file need not be in the inode
    that it names.
    """
    newest = generation.read(path)
    name = newest.name if newest else ""
    if name not in (meta(connection, "generation"), meta(connection, "previous")):
        raise StoreRestored(f"{path}: it is a copy from before its last start or stop; {file.RESTORE_HINT}")
    if newest is None:
        return None
    if newest.releases > count_releases(connection):
        raise StoreRestored(f"{path}: it is a copy from before the last records left; {file.RESTORE_HINT}")
    if not may_be_moved and not generation.is_in_place(path, newest):
        raise StoreRestored(
            f"{path}: it was restored from a backup, or moved; if it was restored, {file.RESTORE_HINT};"
            f" {file.MOVED_HINT}"
        )
    return newest


def accept_moved(path: Path | str) -> bool:
    """Accept a store in its current place; return False if it has not moved.

    The content of the store does not change, but its WAL is moved into the file and erased, unless another
    program is reading the file. Call this function only for an operator who has moved the store together with
    the files beside it, and who runs no agent at the old location. A folder that was restored from a backup
    would be accepted, too. Raises StoreRestored for a store that is refused for another reason, StoreLost for
    a damaged or missing store, StoreInUse, or StoreError if there has never been a store.
    """
    path = Path(path).resolve()
    with file.device(path), ExitStack() as undo:
        undo.callback(os.close, file.lock(path))
        if path.exists():
            undo.callback(os.close, file.hold(path))
        try:
            connection = file.examine(path)
        except file.Damage as damage:
            raise StoreLost(f"{path}: {damage}; {file.RESTORE_HINT}") from None
        if connection is None:
            raise StoreError(f"{path}: there is no store")
        undo.callback(wal.close, connection, path)
        wal.erase(connection, path)
        newest = accept(connection, path, may_be_moved=True)
        if newest is None or generation.is_in_place(path, newest):
            return False
        generation.write(path, newest)
    return True
