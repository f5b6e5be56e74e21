"""What a command reads from a store, also while the agent runs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from meteragent.domain.errors import StoreError
from meteragent.domain.terms import Terms
from meteragent.store import file, schema


@contextmanager
def read_only(path: Path | str) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write, also while the agent runs; raises StoreError."""
    path = Path(path).resolve()
    if not path.exists():
        raise StoreError(f"{path}: there is no store")
    with file.device(path), closing(file.open_file(path, "ro")) as connection:
        if not file.is_ours(connection, path):
            raise StoreError(f"{path}: there is no store")
        yield connection


def terms(connection: sqlite3.Connection) -> dict[str, list[Terms]]:
    """All terms that the streams of a store have ever had, by stream; raises StoreError."""
    found: dict[str, list[Terms]] = {}
    for channel, text in connection.execute("SELECT channel, terms FROM terms").fetchall():
        found.setdefault(channel, []).append(schema.decode_terms(text))
    return found
