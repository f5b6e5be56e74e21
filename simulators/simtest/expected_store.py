"""The expected contents of the store: all committed transactions, compared with the store at each start."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain.commit import Commit, Outgoing, TimelineState
from meteragent.domain.units import DAY_MS
from meteragent.store import Store, ledger, outbox
from simulators.simtest.prices import Row

_EVER_MS = 2**62


class Spending(NamedTuple):
    """The number of windows, and the sum of their epsilon in 1/W."""

    windows: int
    epsilon_per_w: Fraction


@dataclass
class Message:
    """A message in the outbox."""

    stream: str
    outgoing: Outgoing
    delivered: bool = False


@dataclass
class ExpectedStore:
    """The contents of a store that matter to the checks.

    `marks` and `states` are by stream and meter, `spending` by meter, start of the day and stream, `rows` by
    id, `prices` by stream. `every_price` also has the prices that the store no longer needs.
    """

    marks: dict[tuple[str, str], int] = field(default_factory=dict)
    states: dict[tuple[str, str], TimelineState] = field(default_factory=dict)
    spending: dict[tuple[str, int, str], Spending] = field(default_factory=dict)
    rows: dict[int, Message] = field(default_factory=dict)
    prices: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    every_price: dict[str, frozenset[Row]] = field(default_factory=dict)
    last_id: int = 0
    floor_ms: int = 0

    def copy(self) -> "ExpectedStore":
        """Return an independent copy."""
        twin = copy.copy(self)
        twin.marks, twin.states, twin.spending = dict(self.marks), dict(self.states), dict(self.spending)
        twin.prices, twin.every_price = dict(self.prices), dict(self.every_price)
        twin.rows = {id_: copy.copy(row) for id_, row in self.rows.items()}
        return twin

    def apply(self, commit: Commit, delivered: Sequence[int]) -> None:
        """Apply a transaction."""
        stream = commit.stream
        self.marks.update({(stream, meter): end_ms for meter, end_ms in commit.marks.items()})
        for meter, state in commit.states.items():
            if state is None:
                self.states.pop((stream, meter), None)
            else:
                self.states[stream, meter] = state
        for charge, meter_windows in commit.charges.items():
            for meter, windows in meter_windows.items():
                key = (meter, charge.day_ms // DAY_MS * DAY_MS, stream)
                former_spending = self.spending.get(key, Spending(0, Fraction(0)))
                epsilon = former_spending.epsilon_per_w + windows * charge.epsilon_per_w
                self.spending[key] = Spending(former_spending.windows + windows, epsilon)
        if commit.prices is not None:
            self.prices[stream] = commit.prices
            self.every_price[stream] = self.every_price.get(stream, frozenset()).union(commit.prices)
        for outgoing in commit.outgoing:
            self.last_id += 1
            self.rows[self.last_id] = Message(stream, outgoing)
        for id_ in delivered:
            self.rows[id_].delivered = True

    def difference(self, store: Store, streams: set[str]) -> str | None:
        """Compare with a store, in these and all expected streams; return the first difference, if any."""
        streams = streams | {stream for stream, _ in [*self.marks, *self.states]}
        streams |= {*self.prices, *(row.stream for row in self.rows.values())}
        for stream in sorted(streams):
            snapshot = store.snapshot(stream)
            if snapshot.marks != {m: end_ms for (c, m), end_ms in self.marks.items() if c == stream}:
                return f"marks of {stream}"
            if snapshot.states != {m: state for (c, m), state in self.states.items() if c == stream}:
                return f"states of {stream}"
            if snapshot.prices != self.prices.get(stream, ()):
                return f"prices of {stream}"
            waiting = outbox.pending(store.connection, stream, _EVER_MS, -1)
            expected = {
                id_: row.outgoing
                for id_, row in self.rows.items()
                if row.stream == stream and not row.delivered
            }
            if {w.id: Outgoing(w.topic, w.payload, w.due_ms, w.retain) for w in waiting} != expected:
                return f"outbox of {stream}"
        spent = {
            (line.meter, line.start_ms, line.stream): Spending(line.windows, line.epsilon_per_w)
            for line in ledger.report(store.connection)
        }
        return "ledger" if spent != self.spending else None
