"""The transaction on which the promise rests (law 2): charge, write, queue, all or nothing.

    charge the windows that open -> write marks, terms and states -> append what leaves -> mark what has left

No slot has noise before its window's charge is in the same or an earlier commit, and nothing leaves before
the commit that holds it is fsynced: the outbox is what leaves, and its rows are part of this transaction.
"""

from collections.abc import Collection
from typing import NamedTuple

from meteragent.domain.budget import Budget
from meteragent.domain.commit import Commit
from meteragent.store import Store, ledger, outbox
from meteragent.store.outbox import Waiting

_PRUNED = 100
"""Old delivered messages deleted with a commit at most."""


class Committed(NamedTuple):
    """What a commit has done: the rows that now wait to leave, and how many bytes all rows take."""

    rows: list[Waiting]
    outbox_bytes: int


def commit(
    store: Store, step: Commit, delivered: Collection[int], budget: Budget | None, keep_ms: int
) -> Committed:
    """Write one step of the core, and note which rows the broker has; fsynced on return.

    Rows that were delivered longer than `keep_ms` ago are pruned. `Store.erase` is the next to call.
    Raises StoreError, and then nothing of it is written: a window would open twice, or exceed the budget.
    """
    with store.committing() as tx:
        ledger.charge(tx, step, budget)
        store.write(tx, step)
        rows = outbox.append(tx, step)
        if delivered:
            outbox.delivered(tx, delivered, step.clock_ms)
        outbox.prune(tx, step.clock_ms - keep_ms, _PRUNED)
        return Committed(rows, outbox.total(tx))
