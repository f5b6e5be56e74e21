"""The cost of a release in SQLite alone: the statements of a run, replayed on a copy of its store.

This is an estimate of the lowest cost of a release in any program that keeps the same promises with this
store. The estimate includes the loop that executes the statements one by one.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.harness import ROUNDS, Result, compare
from benchmarks.line import BATCH, Line, open_store
from meteragent.store.file import connect

BATCHES = 20


@dataclass
class Recorder:
    """A connection that records its statements."""

    connection: sqlite3.Connection
    statements: list[tuple[str, Any]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the connection."""
        return getattr(self.connection, name)

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        """Record and execute one statement."""
        self.statements.append((sql, values))
        return self.connection.execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        """Record and execute a statement for each row."""
        row_list = list(rows)
        self.statements += [(sql, values) for values in row_list]
        return self.connection.executemany(sql, row_list)


def record_statements(path: Path, meters: int) -> list[tuple[str, Any]]:
    """Fill a store, copy it to `path`, and return the statements of its next `BATCHES` commits."""
    with open_store(path.with_suffix(".run")) as store:
        line = Line(store, meters)
        line.warm()
        shutil.copy(path.with_suffix(".run"), path)  # complete: `feed` has moved the log into this file
        connection, recorder = store.connection, Recorder(store.connection)
        store.connection = cast(sqlite3.Connection, recorder)
        for _ in range(BATCHES):
            line.feed(line.messages(BATCH))
        store.connection = connection
        return recorder.statements


def replay_s(path: Path, statements: list[tuple[str, Any]]) -> float:
    """Return the CPU time per release, in s, for statements replayed on a copy of the store at `path`."""
    connection = connect(Path(shutil.copy(path, path.with_suffix(".copy"))))
    start_s = time.process_time()
    for sql, values in statements:
        connection.execute(sql, values).fetchall()
    duration_s = time.process_time() - start_s
    connection.close()
    return duration_s / (BATCHES * BATCH)


def floor(folder: Path, small: int, large: int) -> Result:
    """Compare the cost of a release in SQLite alone between stores of `large` and of `small` meters."""
    statements = {meters: record_statements(folder / f"floor{meters}", meters) for meters in (large, small)}
    costs_us = []
    for _ in range(ROUNDS):
        large_s, small_s = (
            replay_s(folder / f"floor{meters}", statements[meters]) for meters in (large, small)
        )
        costs_us.append((1e6 * large_s, 1e6 * small_s))
    name = f"CPU time per release, SQLite alone, {large:,} meters"
    return compare(name, f"{small:,} meters", costs_us, "{:.1f} and {:.1f} us of CPU")
