"""Whether a store is the newest of its copies, and in its place (rule 3 of the store)."""

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path

from meteragent.domain.errors import StoreError, StoreLost, StoreRestored
from meteragent.store import file, generation, wal
from meteragent.store.examine import meta
from meteragent.store.generation import Generation


def releases_of(connection: sqlite3.Connection) -> int:
    """Return how many commits with records a store has; 0 if its version did not count them."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'releases'").fetchone()
    return int(found[0]) if found else 0


def accepted(connection: sqlite3.Connection, path: Path, *, anywhere: bool = False) -> Generation | None:
    """Return what the generation file says; raises StoreRestored if the store may not be used.

    There is none while the first start has not ended: the store knows no generation then. `anywhere`: the
    file need not be the one that it names. A file of the first format, a name alone, is put into the present
    one, unless the store knows that one already.
    """
    known = generation.read(path)
    name = known.name if known else ""
    if name not in (meta(connection, "generation"), meta(connection, "previous")):
        raise StoreRestored(f"{path}: a copy from before its last start or stop; {file.WAY_ON}")
    if known is None:
        return None
    if known.releases is None:
        if connection.execute("SELECT 1 FROM meta WHERE key = 'releases'").fetchone():
            raise StoreRestored(f"{path}: its generation file is from before an update; {file.WAY_ON}")
        known = Generation.begin(known.name)
        generation.write(path, known)
    elif known.releases > releases_of(connection):
        raise StoreRestored(f"{path}: a copy from before the last records left; {file.WAY_ON}")
    elif not anywhere and not generation.is_in_place(path, known):
        raise StoreRestored(f"{path}: put back or moved; if it was put back, {file.WAY_ON}; {file.MOVED}")
    return known


def moved(path: Path | str) -> bool:
    """Accept a store in the place where it is now, and change nothing else; False if it has not moved.

    For whoever has moved it with the files beside it, and runs nothing where it was. A folder that was put
    back from a backup would be accepted, too. Raises StoreRestored for a store that is refused for another
    reason, StoreLost for a damaged one.
    """
    path = Path(path).resolve()
    with file.device(path), ExitStack() as undo:
        undo.callback(os.close, file.lock(path))
        if path.exists():
            undo.callback(os.close, file.hold(path))
        try:
            connection = file.examine(path)
        except file.Damage as damage:
            raise StoreLost(f"{path}: {damage}; {file.WAY_ON}") from None
        if connection is None:
            raise StoreError(f"{path}: there is no store")
        undo.callback(wal.close, connection, path)
        wal.erase(connection, path)
        known = accepted(connection, path, anywhere=True)
        if known is None or generation.is_in_place(path, known):
            return False
        generation.write(path, known)
    return True
