"""Read a store for the commands `ledger` and `export`, and accept a moved one; the agent needs neither."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from meteragent.domain.errors import StoreError, StoreLost
from meteragent.store import file, generation, wal
from meteragent.store.examine import Damage
from meteragent.store.file import accept_copy
from meteragent.store.outbox import IS_DAMAGED, PAGE_ROWS, DeliveredRow, damaged_rows


class DayCharge(NamedTuple):
    """The privacy that one stream of a meter spent on the UTC day that starts at `start_ms`."""

    meter: str
    start_ms: int
    stream: str
    windows: int
    epsilon_per_w: Fraction


def accept_moved(path: Path | str) -> bool:
    """Accept a store in its current place; return False if it has not moved.

    Call it only for an operator who has moved the store with the files next to it after a clean stop,
    and who runs no agent at the old location: a restored backup of a stopped store would be accepted, too.
    The WAL is moved into the file and erased. Raises StoreRestored if the store is refused for another
    reason, StoreLost if it is damaged or missing, StoreInUse, or StoreError if there has never been one.
    """
    path = Path(path).resolve()
    with file.raise_device_errors(path), ExitStack() as undo:
        undo.callback(os.close, file.lock_store(path))
        if path.exists():
            undo.callback(os.close, file.lock_database(path))
        try:
            connection = file.examine_file(path)
        except Damage as damage:
            raise StoreLost(f"{path}: {damage}; {file.RESTORE_HINT}") from None
        if connection is None:
            raise StoreError(f"{path}: there is no store")
        undo.callback(wal.close_connection, connection, path)
        wal.erase_log(connection, path)
        newest = accept_copy(connection, path, may_move=True)
        if newest is None or generation.is_in_place(path, newest):
            return False
        generation.write_generation(path, newest)
    return True


def day_charges(connection: sqlite3.Connection, meter: str | None = None) -> Iterator[DayCharge]:
    """Yield the privacy spent, in order of meter, day and stream; of all meters if `meter` is None.

    One meter is read at a time, because a long read would keep the agent from erasing the WAL (rule 2 of the
    store).
    """
    meters = connection.execute("SELECT DISTINCT meter FROM mark ORDER BY meter").fetchall()
    for (name,) in meters if meter is None else [(meter,)]:
        rows = connection.execute(
            "SELECT day_ms, stream, epsilon, windows FROM charge WHERE meter = ? ORDER BY day_ms, stream",
            (name,),
        ).fetchall()
        for (day_ms, stream), group in groupby(rows, lambda row: row[:2]):
            counts = [(Fraction(epsilon), windows) for *_, epsilon, windows in group]
            epsilon_per_w = sum((epsilon * windows for epsilon, windows in counts), Fraction(0))
            yield DayCharge(name, day_ms, stream, sum(windows for _, windows in counts), epsilon_per_w)


def opened_to_ms(connection: sqlite3.Connection) -> int | None:
    """Return the latest mark of any meter: no window reaches beyond it. None if there is no mark."""
    end_ms: int | None = connection.execute("SELECT max(end_ms) FROM mark").fetchone()[0]
    return end_ms


def delivered_rows(connection: sqlite3.Connection) -> Iterator[DeliveredRow]:
    """Yield all delivered rows that are still kept, in the order of their commits, except damaged ones.

    Rows are read in pages, because a long read would keep the agent from erasing the WAL (rule 2 of the
    store). Raises StoreError at the end if rows are damaged.
    """
    last_id = 0
    while rows := connection.execute(
        f"SELECT id, queue, topic, payload, due_ms, delivered_ms FROM outbox WHERE id > ?"  # noqa: S608 -- constants
        f" AND delivered_ms IS NOT NULL AND NOT ({IS_DAMAGED}) ORDER BY id LIMIT ?",
        (last_id, PAGE_ROWS),
    ).fetchall():
        last_id = rows[-1][0]
        yield from (DeliveredRow(*values) for _, *values in rows)
    if names := damaged_rows(connection, is_delivered=True):
        raise StoreError(f"{len(names)} damaged messages are left out: {'; '.join(names.values())}")
