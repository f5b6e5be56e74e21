"""The prices of a stream whose weights come from a topic: one value in the table `meta` for each stream."""

import sqlite3

from meteragent.domain.commit import Commit
from meteragent.domain.prices import Price
from meteragent.store.schema import decode_prices, encode_prices


def write(tx: sqlite3.Connection, commit: Commit) -> None:
    """Write a commit's prices, which are all prices that the stream still needs, if they have changed."""
    if commit.prices is not None:
        row = f"prices/{commit.stream}", encode_prices(commit.prices)
        tx.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)


def read(connection: sqlite3.Connection, stream: str) -> tuple[Price, ...]:
    """Return the prices of a stream, if it has any. Raises StoreError if they cannot be read."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (f"prices/{stream}",)).fetchone()
    return decode_prices(row[0]) if row else ()
