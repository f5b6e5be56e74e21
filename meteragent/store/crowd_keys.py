"""The newest list of keys of each operator of a crowd (docs/crowd.md 8), on disk before a key is used."""

import sqlite3

from meteragent.store import Store


def commit_keys(store: Store, group_id: str, role: str, serial: int, payload: bytes) -> None:
    """Commit a list, unless a list with a higher serial was committed before."""
    with store.transaction() as tx:
        tx.execute(
            "INSERT INTO crowd_keys VALUES (?, ?, ?, ?) ON CONFLICT (group_id, role) DO UPDATE"
            " SET serial = excluded.serial, list = excluded.list WHERE excluded.serial >= serial",
            (group_id, role, serial, payload),
        )


def read_keys(connection: sqlite3.Connection, group_id: str) -> dict[str, tuple[int, bytes]]:
    """Return, by role, the serial and the signed list of keys of a group's operators."""
    rows = connection.execute("SELECT role, serial, list FROM crowd_keys WHERE group_id = ?", (group_id,))
    return {role: (serial, bytes(payload)) for role, serial, payload in rows}
