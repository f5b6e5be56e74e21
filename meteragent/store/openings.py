"""Law 1, checked inside the transaction and independently of the core: no interval is opened twice.

Theory of operation
-------------------
Two noisy values of one interval reveal more than one charge covers, so an interval gets noise only once. The
store keeps one number per meter and stream, the *mark*: the end of the last interval that was ever opened or
skipped. No window before the mark will ever be opened again; no window from the mark on has been opened.

`check_commit` runs before `Store.write` writes marks and states. The check reads the old marks in the same
transaction, so no other writer can intervene. For each meter with old mark m (the store's floor if the meter
has none) and new mark m' (m if the commit has none):

1. m <= m': a mark is never lowered.
2. m < m' if the commit charges the meter: each charge opens an interval. A mark also rises without a
   charge past a window that was skipped, for example because the budget was spent. A peak is an exception to
   the rule: its window draws noise again for the parts after a restart, and none of these parts had noise
   before.
3. Each open window [s, e) either ends at or before m, so it was opened by an earlier commit, or lies in [m,
   m'), so this commit opens it. A window that crosses m would open an interval a second time.

The core checks the same before it opens a window. The check is repeated here, because this transaction is the
last step before the release is durable. After a power cut the marks on disk are the marks of the last commit
that was fsynced, and no record of a later commit was sent. So the core can safely decide again about the
intervals after them.
"""

import json
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from meteragent.domain.commit import Commit
from meteragent.domain.errors import StoreError
from meteragent.store import schema
from meteragent.store.schema import json_rows


class Openings:
    """The check of the windows that commits open, with a cache of window lengths by terms."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lengths_ms: dict[tuple[str, str], int] = {}

    def check_commit(self, tx: sqlite3.Connection, commit: Commit, floor_ms: int) -> None:
        """Raise StoreError if a commit breaks a rule, or a window has unknown terms."""
        charged_meters = set().union(*commit.charges.values())
        meters = {*commit.marks, *commit.states, *charged_meters}
        if not meters:
            return
        old_ms = dict.fromkeys(meters, floor_ms) | _marks(tx, commit.stream, meters)
        new_ms = old_ms | commit.marks
        if not (
            all(old_ms[meter] <= new_ms[meter] for meter in commit.marks)
            and all(old_ms[meter] < new_ms[meter] for meter in charged_meters - commit.redrawn)
            and all(
                end_ms <= old_ms[meter] or (old_ms[meter] <= start_ms and end_ms <= new_ms[meter])
                for meter, start_ms, end_ms in self._windows(tx, commit)
            )
        ):
            raise StoreError(f"{self._path}: {commit.stream} would open an interval twice")

    def _windows(self, tx: sqlite3.Connection, commit: Commit) -> Iterator[tuple[str, int, int]]:
        """Yield the meter, start and end of every open window in a commit."""
        for meter, state in commit.states.items():
            for window in state.windows if state else ():
                end_ms = window.start_ms + self._length_ms(tx, commit, window.terms_id)
                yield meter, window.start_ms, end_ms

    def _length_ms(self, tx: sqlite3.Connection, commit: Commit, id_: str) -> int:
        """Return the length of a window under the terms `id_`; cache it, because terms never change."""
        key = (commit.stream, id_)
        if key not in self._lengths_ms:
            row = tx.execute("SELECT terms FROM terms WHERE stream = ? AND id = ?", key).fetchone()
            terms = schema.decode_terms(row[0]) if row else commit.terms.get(id_)
            if terms is None:
                raise StoreError(f"{self._path}: a window of {commit.stream} has unknown terms")
            self._lengths_ms[key] = terms.length_ms
        return self._lengths_ms[key]


def _marks(tx: sqlite3.Connection, stream: str, meters: Collection[str]) -> dict[str, int]:
    [(text,)] = tx.execute(
        "SELECT json_group_object(meter, end_ms) FROM mark WHERE stream = ?"
        " AND meter IN (SELECT value FROM json_each(?))",
        (stream, json_rows(list(meters))),
    )
    marks: dict[str, int] = json.loads(text)
    return marks
