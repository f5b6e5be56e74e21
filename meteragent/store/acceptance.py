"""The check that a store is the newest of its copies and has not been moved (rule 3 of the store)."""

import sqlite3
from pathlib import Path

from meteragent.domain.errors import StoreRestored
from meteragent.store import file, generation
from meteragent.store.examine import meta
from meteragent.store.generation import Generation


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
    if newest.releases > meta(connection, "releases"):
        raise StoreRestored(f"{path}: it is a copy from before the last records left; {file.RESTORE_HINT}")
    if not may_be_moved and not generation.is_in_place(path, newest):
        raise StoreRestored(
            f"{path}: it was restored from a backup, or moved; if it was restored, {file.RESTORE_HINT};"
            f" {file.MOVED_HINT}"
        )
    return newest
