"""The transaction on which the promise depends (law 2): charge, write and queue, all or nothing.

Theory of operation
-------------------
One step of the core is one transaction, in this order:

1. Charge the windows that open and the peaks that are redrawn (`ledger.debit_windows`). This comes first, so
   that a step over the budget is refused before anything else is written.
2. Check the marks (`openings`), then write marks, terms, states, totals, prices and clock (`Store.write`).
3. Check that each message is for a receiver that may have it (`grants.check_grants`), store the step's
   descriptors, and append its messages to the outbox (`outbox.append_commit`).
4. Take the earlier messages that brokers have confirmed: count the receivers' records among them for the
   receipts (`grants.count_sent`), and mark all of them as delivered. Then delete old delivered messages.
5. Commit and fsync, check that the commit would survive a crash (`wal.confirm_commit`) and, if the commit has
   messages, count it in the generation file (`generation`).
6. Outside the transaction and before the next write, erase the write-ahead log (`Store.erase_log`, `wal`).

SQLite makes all of steps 1 to 4 durable, or none. After a power cut at any instant, the following holds:

- *No noise without its charge.* A slot's accumulator (noise plus energy) reaches the disk in the same commit
  as the window's charge, or in a later one. Noise that was only in memory is gone; a later step may open that
  window with new noise, because no value of the window had been sent.
- *No message without its commit.* Only rows of the outbox are sent, and the caller sends them after step 5.
  So each value that was sent is on disk, and is sent again byte for byte until the broker confirms it.
- *No message that an old copy could release again.* Step 5 counts the commit before its messages are sent.

A crash before step 6 leaves earlier accumulators in the log, which the next start erases first.
"""

from collections.abc import Collection
from typing import NamedTuple

from meteragent.domain.commit import Budget, Commit
from meteragent.store import Store, grants, ledger, outbox
from meteragent.store.outbox import WaitingRow

_PRUNED = 100  # NOTE: a guess; measuring commits on a card with several numbers would settle it
"""The largest number of old delivered messages that one commit deletes."""


class CommitResult(NamedTuple):
    """The outcome of a commit: its new rows of the outbox, and the size of the whole outbox in bytes."""

    rows: list[WaitingRow]
    outbox_bytes: int


def commit(
    store: Store, step: Commit, delivered_ids: Collection[int], budget: Budget | None, keep_ms: int
) -> CommitResult:
    """Write one step of the core, and mark the rows `delivered_ids` as delivered; fsync both.

    At most `_PRUNED` rows delivered more than `keep_ms` ago are pruned. Call `Store.erase_log` next. Raises
    StoreError if a window would open twice or exceed the budget (nothing is written then), or the store
    cannot be written.
    """
    with store.unerased_transaction() as tx:
        ledger.debit_windows(tx, step, budget)
        store.write(tx, step)
        grants.check_grants(tx, step)
        rows = outbox.append_commit(tx, step)
        if delivered_ids:
            grants.count_sent(tx, delivered_ids)
            outbox.mark_delivered(tx, delivered_ids, step.clock_ms)
        outbox.prune_delivered(tx, step.clock_ms - keep_ms, _PRUNED)
        return CommitResult(rows, outbox.total_bytes(tx))
