"""The rows that hold the meters' states. A row never moves (rule 2 of the store).

The ids and sizes of the rows are read at the first write, and again only after a rollback, because no other
program writes rows. All existing rows of one size are overwritten by one statement (`schema.json_rows`).
"""

import sqlite3
from collections import defaultdict

from meteragent.domain.commit import Commit
from meteragent.store.schema import encode_state, json_rows

STATE_BYTES = 512
"""The size of the smallest row of a state; larger sizes are powers of two."""

_OVERWRITE = """UPDATE state SET state = substr(?2, place.key * ?3 + 1, ?3)
    FROM json_each(?1) AS place WHERE state.id = place.value"""
_APPEND = """INSERT INTO state (id, stream, meter, state, crc)
    VALUES (?1, ?2, ?3, ?4, row_crc(?1, ?2, ?3, 'blob'))"""


class StateWriter:
    """A writer of states, which caches the id and size of each meter's row by stream and meter."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, tuple[int, int]]] | None = None
        self._last_id = 0

    def forget(self) -> None:
        """Forget the rows after a rollback, because some of them may not exist."""
        self._rows = None

    def write(self, tx: sqlite3.Connection, commit: Commit) -> None:
        """Overwrite states in place; blank a row that is too small or not needed, and append a larger one."""
        rows = self._rows_by_stream(tx).setdefault(commit.stream, {})
        updates: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
        new_rows = []
        for meter, state in commit.states.items():
            text = encode_state(state) if state else b""
            id_, size = rows.get(meter, (0, 0))
            if len(text) > size:
                self._last_id += 1
                new_size = max(STATE_BYTES, 1 << (len(text) - 1).bit_length())
                rows[meter] = self._last_id, new_size
                new_rows.append((self._last_id, commit.stream, meter, text.ljust(new_size, b"\0")))
                text = b""
            if size:
                updates[size][id_] = text.ljust(size, b"\0")
        for size, texts in updates.items():
            tx.execute(_OVERWRITE, (json_rows(list(texts)), b"".join(texts.values()), size))
        tx.executemany(_APPEND, new_rows)

    def _rows_by_stream(self, tx: sqlite3.Connection) -> dict[str, dict[str, tuple[int, int]]]:
        if self._rows is None:
            self._rows = {}
            rows = tx.execute("SELECT id, stream, meter, length(state) FROM state ORDER BY id")
            for self._last_id, stream, meter, size in rows:
                self._rows.setdefault(stream, {})[meter] = self._last_id, size
        return self._rows
