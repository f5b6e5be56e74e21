"""The ledger: the privacy spent, debited in the transaction that opens a window or redraws a peak (law 2).

Charges are exact epsilons in 1/W, because levels at different radii cannot be added (law 6). They are kept
for ever, by meter, UTC day, stream and epsilon. The day is that of the window's start or, for a redrawn peak,
that of the window's last integrated part.
"""

import sqlite3
from collections.abc import Iterator
from fractions import Fraction

from meteragent.domain.commit import Budget, Commit
from meteragent.domain.errors import StoreError
from meteragent.domain.grid import round_down
from meteragent.store import json_rows, meta_value
from meteragent.store.schema import row_crc

_CHARGE = """INSERT INTO charge
    SELECT key, ?1, ?2, ?3, json_extract(value, '$[0]'), json_extract(value, '$[1]')
    FROM json_each(?4) WHERE true
    ON CONFLICT (meter, day_ms, stream, epsilon)
    DO UPDATE SET windows = windows + excluded.windows, crc = crc + excluded.windows"""


def debit_windows(tx: sqlite3.Connection, commit: Commit, budget: Budget | None = None) -> None:
    """Debit the windows that a commit opens or redraws. Raises StoreError if a budget would be exceeded."""
    starts = set()
    for kind, windows in commit.charges.items():
        key = kind.day_ms, commit.stream, str(kind.epsilon_per_w)
        rows = {meter: (number, row_crc(meter, *key) + number) for meter, number in windows.items()}
        tx.execute(_CHARGE, (*key, json_rows(rows)))
        if budget:
            starts |= {(meter, round_down(kind.day_ms, budget.period_ms)) for meter in windows}
    for meter, start_ms in starts:
        if budget and sum_charges(tx, meter, start_ms, budget.period_ms) > budget.epsilon_per_w:
            raise StoreError(f"{commit.stream} would exceed the budget of a meter")


def sum_charges(connection: sqlite3.Connection, meter: str, start_ms: int, period_ms: int) -> Fraction:
    """Return the sum of a meter's epsilons (1/W) over all streams and the days in [start, start + period)."""
    rows = connection.execute(
        "SELECT epsilon, sum(windows) FROM charge WHERE meter = ? AND day_ms >= ? AND day_ms < ?"
        " GROUP BY epsilon",
        (meter, start_ms, start_ms + period_ms),
    )
    return sum((Fraction(epsilon) * windows for epsilon, windows in rows), Fraction(0))


def recent_charges(
    connection: sqlite3.Connection, period_ms: int, from_ms: int
) -> Iterator[tuple[str, int, Fraction]]:
    """Yield meter, UTC day and total epsilon (1/W) of ledger rows that may share a period with a new charge.

    A window opens at or after its meter's mark or, if its stream has none, at or after `from_ms`. So charges
    in periods before both times are irrelevant.
    """
    marks = connection.execute("SELECT meter, min(end_ms) FROM mark GROUP BY meter").fetchall()
    for meter, end_ms in marks:
        rows = connection.execute(
            "SELECT day_ms, epsilon, windows FROM charge WHERE meter = ? AND day_ms >= ?",
            (meter, round_down(min(end_ms, from_ms), period_ms)),
        )
        for day_ms, epsilon, windows in rows.fetchall():
            yield meter, day_ms, Fraction(epsilon) * windows


def marked_streams(connection: sqlite3.Connection) -> set[str]:
    """Return the streams that have a mark, because they have opened or skipped a window."""
    return {stream for (stream,) in connection.execute("SELECT DISTINCT stream FROM mark")}


def unknown_before_ms(connection: sqlite3.Connection) -> int | None:
    """Return the time before which charges may be lost; None if all charges are recorded."""
    value: int | None = meta_value(connection, "unknown_before_ms")
    return value


def taken_over_ms(connection: sqlite3.Connection) -> int:
    """Return the time until which this store has taken over other stores' descriptors; 0 if it has not."""
    return int(meta_value(connection, "taken_over_ms", 0))
