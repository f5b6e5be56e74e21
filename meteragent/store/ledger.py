"""The ledger: privacy spent, debited in the transaction that opens a window (law 2).

What is added is eps, in 1/W and exact: levels of different radii have no sum (law 6). Charges are
kept by meter, UTC day (of the window's start) and channel, for ever.
"""

import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain.budget import Budget
from meteragent.domain.commit import Commit
from meteragent.domain.errors import StoreError
from meteragent.domain.grid import floor
from meteragent.domain.units import DAY_MS
from meteragent.store import batch, meta

_CHARGE = """INSERT INTO charge SELECT key, ?2, ?1, ?3, value FROM json_each(?4) WHERE true
    ON CONFLICT (meter, day_ms, channel, epsilon) DO UPDATE SET windows = windows + excluded.windows"""


class Spent(NamedTuple):
    """What one channel of a meter has spent in the period that starts at `start_ms`."""

    meter: str
    start_ms: int
    channel: str
    windows: int
    epsilon_per_w: Fraction


def charge(tx: sqlite3.Connection, commit: Commit, budget: Budget | None = None) -> None:
    """Debit what a commit opens; raises StoreError if that exceeds the budget of a period."""
    for kind, windows in commit.charges.items():
        tx.execute(_CHARGE, (commit.channel, kind.day_ms, str(kind.epsilon_per_w), batch(windows)))
    if budget:
        starts = {
            (meter, floor(kind.day_ms, budget.period_ms))
            for kind, windows in commit.charges.items()
            for meter in windows
        }
        for meter, start_ms in starts:
            if spent(tx, meter, start_ms, budget.period_ms) > budget.epsilon_per_w:
                raise StoreError(f"{commit.channel} would spend more than its budget")


def spent(connection: sqlite3.Connection, meter: str, start_ms: int, period_ms: int) -> Fraction:
    """Sum of eps (1/W) over all channels of a meter on the days in [start, start + period)."""
    rows = connection.execute(
        "SELECT epsilon, sum(windows) FROM charge WHERE meter = ? AND day_ms >= ? AND day_ms < ?"
        " GROUP BY epsilon",
        (meter, start_ms, start_ms + period_ms),
    )
    return sum((Fraction(epsilon) * windows for epsilon, windows in rows), Fraction(0))


def report(
    connection: sqlite3.Connection, period_ms: int = DAY_MS, *, meter: str | None = None, since_ms: int = 0
) -> Iterator[Spent]:
    """What was spent since a day's start, by meter, period and channel, in that order.

    Reads one meter at a time: a long read would keep the agent from erasing (rule 2 of the store).
    """
    known = connection.execute("SELECT DISTINCT meter FROM mark ORDER BY meter").fetchall()
    for (name,) in known if meter is None else [(meter,)]:
        yield from _report_meter(connection, period_ms, name, since_ms)


def recent(
    connection: sqlite3.Connection, period_ms: int, from_ms: int
) -> Iterator[tuple[str, int, Fraction]]:
    """Meter, UTC day and sum of eps (1/W) of every charge that can still share a period with a new one.

    A window opens at or after its meter's mark, and one of a new channel at or after `from_ms`: what
    lies in periods before both cannot matter.
    """
    marks = connection.execute("SELECT meter, min(end_ms) FROM mark GROUP BY meter").fetchall()
    for meter, end_ms in marks:
        rows = connection.execute(
            "SELECT day_ms, epsilon, windows FROM charge WHERE meter = ? AND day_ms >= ?",
            (meter, min(end_ms, from_ms) // period_ms * period_ms),
        )
        for day_ms, epsilon, windows in rows.fetchall():
            yield meter, day_ms, Fraction(epsilon) * windows


def channels(connection: sqlite3.Connection) -> set[str]:
    """The streams that have ever opened a window."""
    return {channel for (channel,) in connection.execute("SELECT DISTINCT channel FROM mark")}


def opened_to_ms(connection: sqlite3.Connection) -> int | None:
    """Where the last window ends that was ever opened, or may have been; None before the first."""
    found: int | None = connection.execute("SELECT max(end_ms) FROM mark").fetchone()[0]
    return found


def unknown_before_ms(connection: sqlite3.Connection) -> int | None:
    """Charges before this time are lost; None if all are known."""
    value = meta(connection, "unknown_before_ms")
    return None if value is None else int(value)


def taken_over_ms(connection: sqlite3.Connection) -> int:
    """Return until when a store has taken over from others: an earlier descriptor of another is its own."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'taken_over_ms'").fetchone()
    return int(found[0]) if found else 0


def _report_meter(
    connection: sqlite3.Connection, period_ms: int, meter: str, since_ms: int
) -> Iterator[Spent]:
    rows = connection.execute(
        "SELECT day_ms, channel, epsilon, windows FROM charge WHERE meter = ? AND day_ms >= ?",
        (meter, since_ms),
    ).fetchall()
    sums: dict[tuple[int, str], tuple[int, Fraction]] = {}
    for day_ms, channel, epsilon, windows in rows:
        key = (floor(day_ms, period_ms), channel)
        count, total = sums.get(key, (0, Fraction(0)))
        sums[key] = (count + windows, total + Fraction(epsilon) * windows)
    for (start_ms, channel), (count, total) in sorted(sums.items()):
        yield Spent(meter, start_ms, channel, count, total)
