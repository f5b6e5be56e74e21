"""Law 1, checked inside the transaction: no interval is opened twice, whatever the core believes."""

import json
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from meteragent.domain.commit import Commit
from meteragent.domain.errors import StoreError
from meteragent.store import schema
from meteragent.store.batch import batch


class Openings:
    """What a store knows of the windows that commits open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lengths_ms: dict[tuple[str, str], int] = {}

    def check(self, tx: sqlite3.Connection, commit: Commit, floor_ms: int) -> None:
        """Refuse a commit unless its windows were open before or start at or after their meter's mark.

        A mark may rise without a charge (a window that passed for want of budget), never the
        reverse; and no window ends after the mark.
        """
        charged = set().union(*commit.charges.values())
        meters = {*commit.marks, *commit.states, *charged}
        if not meters:
            return
        old_ms = dict.fromkeys(meters, floor_ms) | _marks(tx, commit.channel, meters)
        new_ms = old_ms | commit.marks
        if not (
            all(old_ms[meter] <= new_ms[meter] for meter in commit.marks)
            and all(old_ms[meter] < new_ms[meter] for meter in charged)
            and all(
                end_ms <= old_ms[meter] or (old_ms[meter] <= start_ms and end_ms <= new_ms[meter])
                for meter, start_ms, end_ms in self._windows(tx, commit)
            )
        ):
            raise StoreError(f"{self._path}: {commit.channel} would open an interval twice")

    def _windows(self, tx: sqlite3.Connection, commit: Commit) -> Iterator[tuple[str, int, int]]:
        """Meter, start and end of every open window in a commit."""
        for meter, state in commit.states.items():
            for window in state.windows if state else ():
                end_ms = window.start_ms + self._length_ms(tx, commit, window.terms)
                yield meter, window.start_ms, end_ms

    def _length_ms(self, tx: sqlite3.Connection, commit: Commit, id_: str) -> int:
        """The length of a window under some terms, which never change."""
        key = (commit.channel, id_)
        if key not in self._lengths_ms:
            found = tx.execute("SELECT terms FROM terms WHERE channel = ? AND id = ?", key).fetchone()
            terms = schema.decode_terms(found[0]) if found else commit.terms.get(id_)
            if terms is None:
                raise StoreError(f"{self._path}: a window of {commit.channel} has unknown terms")
            self._lengths_ms[key] = terms.length_ms
        return self._lengths_ms[key]


def _marks(tx: sqlite3.Connection, channel: str, meters: Collection[str]) -> dict[str, int]:
    [(found,)] = tx.execute(
        "SELECT json_group_object(meter, end_ms) FROM mark WHERE channel = ?"
        " AND meter IN (SELECT value FROM json_each(?))",
        (channel, batch(list(meters))),
    )
    known: dict[str, int] = json.loads(found)
    return known
