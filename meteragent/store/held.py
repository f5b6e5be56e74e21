"""Damaged messages, which are held back in a queue that nobody reads."""

from meteragent.store import Store
from meteragent.store.outbox import ROW_BYTES, WAITS_DAMAGED

_COUNT = f"""INSERT INTO outbox_total
    SELECT queue, sum(delivered_ms IS NULL), sum(size * (delivered_ms IS NULL)),
           sum(size * (delivered_ms IS NOT NULL))
    FROM (SELECT *, {ROW_BYTES} + length(topic) + length(payload) AS size FROM outbox) GROUP BY queue"""  # noqa: S608 -- constants


def hold_damaged(store: Store) -> list[str]:
    """Hold back the damaged rows that wait, and count all rows again; return their queues and topics."""
    with store.transaction() as tx:
        names = dict(tx.execute(f"SELECT id, queue || ', ' || topic {WAITS_DAMAGED}").fetchall())
        tx.executemany("UPDATE outbox SET queue = '@damaged' WHERE id = ?", [(id_,) for id_ in names])
        tx.execute("DELETE FROM outbox_total")
        tx.execute(_COUNT)
    return list(names.values())
