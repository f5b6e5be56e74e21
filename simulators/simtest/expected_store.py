"""What must be on disk: all committed transactions together, to hold a store against after each start."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain.commit import Commit, Outgoing, TimelineState
from meteragent.domain.units import DAY_MS
from meteragent.store import Store, ledger, outbox

_EVER_MS = 2**62


class Spent(NamedTuple):
    """Windows and their epsilon in 1/W."""

    windows: int
    epsilon_per_w: Fraction


@dataclass
class Row:
    """A message in the outbox."""

    channel: str
    sent: Outgoing
    delivered: bool = False


@dataclass
class ExpectedStore:
    """The contents of a store, as far as they matter; `marks` and `states` by channel and meter."""

    marks: dict[tuple[str, str], int] = field(default_factory=dict)
    states: dict[tuple[str, str], TimelineState] = field(default_factory=dict)
    spent: dict[tuple[str, int, str], Spent] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    last_id: int = 0
    floor_ms: int = 0

    def copy(self) -> "ExpectedStore":
        """Another one that says the same."""
        mine = copy.copy(self)
        mine.marks, mine.states, mine.spent = dict(self.marks), dict(self.states), dict(self.spent)
        mine.rows = {id_: copy.copy(row) for id_, row in self.rows.items()}
        return mine

    def apply(self, commit: Commit, delivered: Sequence[int]) -> None:
        """One transaction."""
        channel = commit.channel
        self.marks.update({(channel, meter): end_ms for meter, end_ms in commit.marks.items()})
        for meter, state in commit.states.items():
            if state is None:
                self.states.pop((channel, meter), None)
            else:
                self.states[channel, meter] = state
        for charge, opened in commit.charges.items():
            for meter, windows in opened.items():
                key = (meter, charge.day_ms // DAY_MS * DAY_MS, channel)
                known = self.spent.get(key, Spent(0, Fraction(0)))
                epsilon = known.epsilon_per_w + windows * charge.epsilon_per_w
                self.spent[key] = Spent(known.windows + windows, epsilon)
        for one in commit.outgoing:
            self.last_id += 1
            self.rows[self.last_id] = Row(channel, one)
        for id_ in delivered:
            self.rows[id_].delivered = True

    def differs(self, store: Store, channels: set[str]) -> str | None:
        """What a store does not hold as it should of these channels and all that are known; None: nothing."""
        channels = channels | {channel for channel, _ in [*self.marks, *self.states]}
        channels |= {row.channel for row in self.rows.values()}
        for channel in sorted(channels):
            known = store.snapshot(channel)
            if known.marks != {m: end_ms for (c, m), end_ms in self.marks.items() if c == channel}:
                return f"marks of {channel}"
            if known.states != {m: state for (c, m), state in self.states.items() if c == channel}:
                return f"states of {channel}"
            waiting = outbox.pending(store.connection, channel, _EVER_MS, -1)
            mine = {
                id_: row.sent
                for id_, row in self.rows.items()
                if row.channel == channel and not row.delivered
            }
            if {w.id: Outgoing(w.topic, w.payload, w.due_ms, w.retain) for w in waiting} != mine:
                return f"outbox of {channel}"
        spent = {
            (one.meter, one.start_ms, one.channel): Spent(one.windows, one.epsilon_per_w)
            for one in ledger.report(store.connection)
        }
        return "ledger" if spent != self.spent else None
