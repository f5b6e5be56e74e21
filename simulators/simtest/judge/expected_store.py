"""The expected contents of the store, which follow from all committed transactions."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from sqlite3 import Connection
from typing import NamedTuple, TypeVar

from meteragent.domain.commit import Commit, Outgoing, TimelineState
from meteragent.domain.units import DAY_MS
from simulators.simtest.judge import stored
from simulators.simtest.judge.crowd import CommittedList
from simulators.simtest.model.prices import Row
from simulators.simtest.model.receivers import Action, Grant, Share, resumed_ms

T = TypeVar("T")


class Spending(NamedTuple):
    """The number of charged windows, and the sum of their epsilons in 1/W."""

    windows: int
    epsilon_per_w: Fraction


@dataclass
class Message:
    """A message in the outbox; if it is deleted before delivery, it is treated as delivered."""

    outgoing: Outgoing
    is_delivered: bool = False

    @property
    def queue(self) -> str:
        """The queue of the message's receiver."""
        return self.outgoing.queue


@dataclass
class ExpectedStore:
    """The contents of a store that matter to the checks.

    `marks` and `states` are keyed by stream and meter, `spending` by meter, start of the day and stream,
    `rows` by id, and `prices` by stream. `every_price` also holds the prices that the store no longer needs.
    `grants` holds all grants by id. `announced` holds all descriptors of each grant by queue, each with its
    topic; `descriptors` holds the latest of them by queue and topic. `key_lists` holds the lists of a crowd's
    operators, by group and role. `actions` holds all actions on receivers.
    `last_id` is the id of the newest row. No window opens before `floor_ms`.
    """

    marks: dict[tuple[str, str], int] = field(default_factory=dict)
    states: dict[tuple[str, str], TimelineState] = field(default_factory=dict)
    spending: dict[tuple[str, int, str], Spending] = field(default_factory=dict)
    rows: dict[int, Message] = field(default_factory=dict)
    prices: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    every_price: dict[str, frozenset[Row]] = field(default_factory=dict)
    grants: dict[int, Grant] = field(default_factory=dict)
    announced: dict[str, frozenset[tuple[str, bytes]]] = field(default_factory=dict)
    descriptors: dict[str, dict[str, bytes]] = field(default_factory=dict)
    key_lists: dict[tuple[str, str], CommittedList] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    last_id: int = 0
    floor_ms: int = 0

    def copy(self) -> "ExpectedStore":
        """Return an independent copy."""
        twin = copy.copy(self)
        twin.marks, twin.states, twin.spending = dict(self.marks), dict(self.states), dict(self.spending)
        twin.prices, twin.every_price = dict(self.prices), dict(self.every_price)
        twin.grants, twin.announced = dict(self.grants), dict(self.announced)
        twin.key_lists = dict(self.key_lists)
        twin.descriptors = {queue: dict(topics) for queue, topics in self.descriptors.items()}
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
            self._append(outgoing)
            if outgoing.retain:
                announced = self.announced.get(outgoing.queue, frozenset())
                self.announced[outgoing.queue] = announced | {(outgoing.topic, outgoing.payload)}
        for item in commit.descriptors:
            self.descriptors.setdefault(item.queue, {})[item.topic] = item.payload
        for id_ in delivered:
            self.rows[id_].is_delivered = True

    def _append(self, outgoing: Outgoing) -> None:
        self.last_id += 1
        self.rows[self.last_id] = Message(outgoing._replace(slot=None))

    def difference(self, store: Connection, streams: set[str]) -> str | None:
        """Return the first difference from the contents of a store, or None if there is none.

        Marks, states and prices are compared for `streams` and all expected streams.
        """
        streams = streams | {stream for stream, _ in [*self.marks, *self.states]} | set(self.prices)
        for stream in sorted(streams):
            if stored.marks(store, stream) != _of(stream, self.marks):
                return f"marks of {stream}"
            if stored.states(store, stream) != _of(stream, self.states):
                return f"states of {stream}"
            if stored.prices(store, stream) != self.prices.get(stream, ()):
                return f"prices of {stream}"
        waiting = {id_: row for id_, row in self.rows.items() if not row.is_delivered}
        queues = streams | {row.queue for row in waiting.values()} | {g.queue for g in self.grants.values()}
        for queue in sorted(queues):
            expected = {id_: row.outgoing for id_, row in waiting.items() if row.queue == queue}
            if stored.waiting(store, queue) != expected:
                return f"outbox of {queue}"
        if stored.count_reports(store) != sum(row.outgoing.until_ms is not None for row in waiting.values()):
            return "a report stays after its delivery"
        spent = dict[tuple[str, int, str], Spending]()
        for key, windows, epsilon in stored.charges(store):
            sums = spent.get(key, Spending(0, Fraction(0)))
            spent[key] = Spending(sums.windows + windows, sums.epsilon_per_w + windows * epsilon)
        return "ledger" if spent != self.spending else self._difference_of_grants(store)

    # --- receivers -----------------------------------------------------------------------------

    def active(self, stream: str | None = None) -> Iterator[Grant]:
        """Yield the grants that are not revoked, of one stream or of all, in the order of admission."""
        return (g for g in self.grants.values() if not g.is_revoked and stream in (None, g.stream))

    def settle(self, shares: Iterable[Share], now_ms: int) -> None:
        """Revoke the receivers that must get nothing more, and admit the new receivers, at `now_ms`.

        The end of other receivers becomes the one that is configured now; their first window may be
        postponed. A receiver that was paused meanwhile is admitted anew.
        """
        times_ms = resumed_ms(self.actions)
        admitted = {(s.stream, s.name, s.topic): s for s in shares if s.is_admitted(now_ms)}
        for grant in list(self.active()):
            if times_ms.get(grant.name, -1) >= grant.since_ms:
                self._revoke(grant, now_ms)
        for grant in list(self.active()):
            share = admitted.pop((grant.stream, grant.name, grant.topic), None)
            if share is None:
                self._revoke(grant, now_ms)
                continue
            since_ms = grant.since_ms
            if grant.queue not in self.descriptors:
                since_ms = max(since_ms, share.first_ms(now_ms))
            self.grants[grant.id] = grant._replace(since_ms=since_ms, until_ms=share.end_ms)
        for share in admitted.values():
            self._admit(share, now_ms)

    def _revoke(self, grant: Grant, now_ms: int) -> None:
        """Delete the messages that wait for a receiver; withdraw its own and its inherited descriptors."""
        self._drop(grant.queue)
        self.grants[grant.id] = grant._replace(is_revoked=True)
        self.descriptors.pop(grant.queue, None)
        for topic in sorted(self.announced_topics(grant.queue) | grant.inherited):
            self._append(Outgoing(grant.queue, topic, b"", now_ms, retain=True))

    def _admit(self, share: Share, now_ms: int) -> None:
        """Admit a receiver; withdrawals that wait for its own topics must not clear its new descriptors."""
        inherited = set[str]()
        for former in self.grants.values():
            if former.is_revoked and former.topic == share.topic:
                inherited |= {row.outgoing.topic for row in self._waiting(former.queue)}
                self._drop(former.queue)
        id_, since_ms = max(self.grants, default=0) + 1, share.first_ms(now_ms)
        self.grants[id_] = Grant(
            id_, share.stream, share.name, share.topic, since_ms, share.end_ms, frozenset(inherited)
        )

    def _waiting(self, queue: str) -> list[Message]:
        return [row for row in self.rows.values() if row.queue == queue and not row.is_delivered]

    def _drop(self, queue: str) -> None:
        for row in self._waiting(queue):
            row.is_delivered = True

    def announced_topics(self, queue: str) -> set[str]:
        """Return the topics on which a grant's descriptors may be retained."""
        return {topic for topic, _ in self.announced.get(queue, ())}

    def may_retain(self, topic: str, payload: bytes) -> bool:
        """Return whether a retained message may be sent.

        It must be a descriptor of a grant that is not revoked, or a waiting withdrawal. Older descriptors are
        allowed, because a connection sends those that were the latest when it began.
        """
        if payload:
            return any((topic, payload) in self.announced.get(g.queue, ()) for g in self.active())
        rows = (row.outgoing for row in self.rows.values() if not row.is_delivered)
        return any((row.topic, row.payload) == (topic, payload) for row in rows)

    def _difference_of_grants(self, store: Connection) -> str | None:
        if stored.grants(store) != [grant[:6] for grant in self.active()]:
            return "receivers"
        for grant in self.grants.values():
            if stored.descriptors(store, grant.queue) != self.descriptors.get(grant.queue, {}):
                return f"descriptors of {grant.queue}"
        return None


def _of(stream: str, rows: Mapping[tuple[str, str], T]) -> dict[str, T]:
    """Return the rows of a stream by meter."""
    return {meter: row for (name, meter), row in rows.items() if name == stream}
