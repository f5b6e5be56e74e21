"""The place of each meter's state in the file: rows that never move (rule 2 of the store).

Ids and sizes of the rows are read once and remembered, because no other program writes them. All rows of one
size are one statement, which SQLite runs without the interpreter lock, so the core runs meanwhile.
"""

import sqlite3
from collections import defaultdict

from meteragent.domain.commit import Commit
from meteragent.store.batch import batch
from meteragent.store.schema import encode_state

STATE_BYTES = 512
"""The smallest row of a state; larger ones are powers of two."""

_OVERWRITE = """UPDATE state SET state = substr(?2, place.key * ?3 + 1, ?3)
    FROM json_each(?1) AS place WHERE state.id = place.value"""
_APPEND = "INSERT INTO state (id, channel, meter, state) VALUES (?, ?, ?, ?)"


class States:
    """The rows of all meters' states, by stream and meter: id and size."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, tuple[int, int]]] | None = None
        self._last = 0

    def forget(self) -> None:
        """Forget the rows: a transaction was rolled back, and some of them may not exist."""
        self._rows = None

    def write(self, tx: sqlite3.Connection, commit: Commit) -> None:
        """Overwrite states in place; blank a row that a state has outgrown, and append another (rule 2)."""
        rows = self._known(tx).setdefault(commit.stream, {})
        overwritten: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
        appended = []
        for meter, state in commit.states.items():
            text = encode_state(state) if state else b""
            id_, size = rows.get(meter, (0, 0))
            if len(text) > size:
                self._last += 1
                new_size = max(STATE_BYTES, 1 << (len(text) - 1).bit_length())
                rows[meter] = self._last, new_size
                appended.append((self._last, commit.stream, meter, text.ljust(new_size, b"\0")))
                text = b""
            if size:
                overwritten[size][id_] = text.ljust(size, b"\0")
        for size, texts in overwritten.items():
            tx.execute(_OVERWRITE, (batch(list(texts)), b"".join(texts.values()), size))
        tx.executemany(_APPEND, appended)

    def _known(self, tx: sqlite3.Connection) -> dict[str, dict[str, tuple[int, int]]]:
        if self._rows is None:
            self._rows = {}
            rows = tx.execute("SELECT id, channel, meter, length(state) FROM state ORDER BY id")
            for self._last, stream, meter, size in rows:
                self._rows.setdefault(stream, {})[meter] = self._last, size
        return self._rows
