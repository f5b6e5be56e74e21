"""Read access to a store, even while an agent uses it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from meteragent.domain.commit import Destination
from meteragent.domain.errors import StoreError
from meteragent.domain.terms import Terms
from meteragent.store import file, schema


@contextmanager
def read_only(path: Path | str) -> Iterator[sqlite3.Connection]:
    """Connect to a store read-only, even while an agent uses it. Raises StoreError if it is none of ours."""
    path = Path(path).resolve()
    if not path.exists():
        raise StoreError(f"{path}: there is no store")
    with file.device(path), closing(file.open_file(path, "ro")) as connection:
        if not file.is_ours(connection, path):
            raise StoreError(f"{path}: there is no store")
        yield connection


def terms(connection: sqlite3.Connection) -> dict[str, list[Terms]]:
    """Return, by stream, all terms in a store. Raises StoreError if they cannot be read."""
    terms_by_stream: dict[str, list[Terms]] = {}
    for stream, text in connection.execute("SELECT stream, terms FROM terms").fetchall():
        terms_by_stream.setdefault(stream, []).append(schema.decode_terms(text))
    return terms_by_stream


def announced(connection: sqlite3.Connection, stream: str) -> dict[Destination, str]:
    """Return the id of the latest descriptor at each destination of a stream's receivers."""
    rows = (
        connection.execute(  # a grant's queue begins with the stream's name and "@", which no name contains
            "SELECT queue, topic, id FROM descriptor WHERE queue = ?1 OR instr(queue, ?1 || '@') = 1",
            (stream,),
        )
    )
    return {Destination(queue, topic): id_ for queue, topic, id_ in rows}
