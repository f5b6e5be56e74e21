"""What of a release is SQLite's own: the statements of a run, asked again of a copy of its store.

No program that keeps its promises in this store costs less, however it is written.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.harness import ROUNDS, Result, compared
from benchmarks.line import BATCH, Line, open_store
from meteragent.store.file import connect

BATCHES = 20


@dataclass
class Recorder:
    """A connection that notes what it is asked."""

    connection: sqlite3.Connection
    statements: list[tuple[str, Any]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """What is no statement is the connection's own."""
        return getattr(self.connection, name)

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        """Record and execute one statement."""
        self.statements.append((sql, values))
        return self.connection.execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        """Record and execute a statement for each row."""
        kept = list(rows)
        self.statements += [(sql, values) for values in kept]
        return self.connection.executemany(sql, kept)


def recorded(path: Path, meters: int) -> list[tuple[str, Any]]:
    """Record the statements of releases, commit by commit; leave the store as it was before at `path`."""
    with open_store(path.with_suffix(".run")) as store:
        line = Line(store, meters)
        line.warm()
        shutil.copy(path.with_suffix(".run"), path)  # whole: every commit's log has been emptied
        connection, recorder = store.connection, Recorder(store.connection)
        store.connection = cast(sqlite3.Connection, recorder)
        for _ in range(BATCHES):
            line.feed(line.messages(BATCH))
        store.connection = connection
        return recorder.statements


def replayed_s(path: Path, statements: list[tuple[str, Any]]) -> float:
    """Measure the CPU time of SQLite for a release."""
    connection = connect(Path(shutil.copy(path, path.with_suffix(".copy"))))
    began_s = time.process_time()
    for sql, values in statements:
        connection.execute(sql, values).fetchall()
    took_s = time.process_time() - began_s
    connection.close()
    return took_s / (BATCHES * BATCH)


def floor(folder: Path, fewer: int, more: int) -> Result:
    """Compare what a release costs SQLite alone with more meters and with fewer."""
    statements = {meters: recorded(folder / f"floor{meters}", meters) for meters in (more, fewer)}
    seen = []
    for _ in range(ROUNDS):
        much_s, little_s = (
            replayed_s(folder / f"floor{meters}", statements[meters]) for meters in (more, fewer)
        )
        seen.append((1e6 * much_s, 1e6 * little_s))
    name = f"CPU a release, SQLite alone, {more:,} meters"
    return compared(name, f"{fewer:,} meters", seen, "{:.1f} and {:.1f} us of CPU")
