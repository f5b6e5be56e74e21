"""The steps of an operator, without I/O or a clock: they turn messages or a time into effects to commit."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from meteragent.crowd import helper, leader
from meteragent.crowd.machine import Effects, Machine, Outgoing, RowKey, response_due_s
from meteragent.crowd.total import TotalFormat

RESEND_S = 300
"""The time, in seconds, after which the leader sends its unanswered requests again."""
PATIENCE_S = 20
"""How long, in seconds, a request or an answer may wait for other work before it is dropped.

The response is sent at least 60 s after the arrival (crowd.md 4).
"""
REPORT = "report"


class Arrival(NamedTuple):
    """A message as it arrived, on a topic below `crowd/NAME/`; the link acknowledges it by its token."""

    topic: str
    payload: bytes
    at_s: int
    token: Any = None

    @property
    def kind(self) -> str:
        """The first level of the topic: report, request or answer."""
        return self.topic.partition("/")[0]


class LedgerLine(NamedTuple):
    """The result of a slot: `answer` or `total` with the number of homes, or the reason for a refusal.

    If the leader closes a slot without a total, `homes` is the number of homes that had reported. If the
    helper refuses, `homes` is 0.
    """

    slot_s: int
    at_s: int
    result: str
    homes: int


@dataclass(slots=True)
class Step:
    """The effects of a step: commit `rows` and `lines` first, then send `messages`.

    lines     new lines of the ledger
    counts    messages taken (by kind), messages dropped, and finished slots (by result)
    refusals  refused messages and slots, by reason
    quiet_s   the instant until which reports must stay unacknowledged, because a draw may have delayed this
              step; 0 if no noise was drawn
    """

    rows: dict[RowKey, bytes | None] = field(default_factory=dict)
    lines: list[LedgerLine] = field(default_factory=list)
    messages: list[Outgoing] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    quiet_s: int = 0


class Desk:
    """The steps of one operator."""

    def __init__(self, machine: Machine, entropy: Callable[[int], bytes]) -> None:
        self.machine = machine
        self._entropy = entropy
        self._resend_s = 0

    def first_step(self, now_s: int) -> Step:
        """Return the first step after a start: keys, the leader's descriptor, and messages to send again."""
        step = Step()
        self._apply(step, self.machine.renew_keys(now_s, self._entropy), now_s)
        if self.machine.role == "leader":
            descriptor = TotalFormat(self.machine.group).encode_descriptor()
            step.messages.append(
                Outgoing("total/privacy", descriptor, retain=True, due_s=response_due_s(now_s, 0))
            )
        step.messages += self.machine.messages_to_resend(now_s)
        self._resend_s = now_s + RESEND_S
        return step

    def take_messages(self, arrivals: Sequence[Arrival], now_s: int) -> Step:
        """Take messages in the order of their arrival; drop requests and answers older than PATIENCE_S."""
        step = Step()
        for arrival in arrivals:
            is_report = arrival.kind == REPORT
            if not is_report and now_s - arrival.at_s > PATIENCE_S:
                step.counts["dropped"] += 1
                continue
            step.counts[f"{arrival.kind}s"] += 1
            effects = self.machine.take_message(arrival.topic, arrival.payload, arrival.at_s)
            self._apply(step, effects, arrival.at_s)
            if not is_report:
                step.quiet_s = max(step.quiet_s, _quiet_s(effects, arrival.at_s))
        return step

    def tick(self, now_s: int, *, is_confirmed: bool = True) -> Step:
        """Return the effects of a tick; unless the time is confirmed, no key is created or destroyed."""
        step = Step()
        if not now_s < self._resend_s <= now_s + RESEND_S:  # repetition is due, or the clock was set back
            self._resend_s = now_s + RESEND_S
            step.messages += self.machine.unanswered_requests(now_s)
        self._apply(step, self.machine.tick(now_s), now_s)
        if is_confirmed and self.machine.are_keys_due(now_s):
            self._apply(step, self.machine.renew_keys(now_s, self._entropy), now_s)
        return step

    def unanswered_s(self, now_s: int) -> int:
        """Return how long the oldest open request has been unanswered, counted from its slot's deadline."""
        slot_s = self.machine.oldest_request()
        return 0 if slot_s is None else max(0, now_s - self.machine.group.closing_s(slot_s))

    def _apply(self, step: Step, effects: Effects, at_s: int) -> None:
        step.rows |= effects.rows
        step.messages += effects.messages
        step.refusals.update(effects.refusals)
        for key, value in effects.rows.items():
            if value is not None and key.table in ("closed", "answer"):
                line = self._line(key, value, effects, at_s)
                step.lines.append(line)
                step.counts[f"slots_{line.result}"] += 1

    def _line(self, key: RowKey, value: bytes, effects: Effects, at_s: int) -> LedgerLine:
        """Return the line of the ledger for a slot that has been closed or answered."""
        if key.table == "closed":  # the effects also delete the slot's reports
            result, homes = leader.read_outcome(value)
            reports = sum((row.table, row.at) == (REPORT, key.at) for row in effects.rows)
            return LedgerLine(key.at, at_s, result, homes or reports)
        return LedgerLine(key.at, at_s, *helper.read_outcome(self.machine.group.id, value))


def order_by_time(
    arrivals: Sequence[Arrival], instants_s: Sequence[int]
) -> Iterator[tuple[list[Arrival], int | None]]:
    """Yield, for each tick, the messages before it and its instant, then the later messages and None."""
    later_arrivals = list(arrivals)
    for instant_s in instants_s:
        yield [arrival for arrival in later_arrivals if arrival.at_s < instant_s], instant_s
        later_arrivals = [arrival for arrival in later_arrivals if arrival.at_s >= instant_s]
    yield later_arrivals, None


def split_arrivals(arrivals: Sequence[Arrival]) -> Iterator[list[Arrival]]:
    """Divide messages into pieces that are processed and committed together.

    A request or an answer is a piece of its own, because its work may take long, and the next piece waits for
    it. Consecutive reports are one piece.
    """
    for is_report, group in groupby(arrivals, lambda arrival: arrival.kind == REPORT):
        if is_report:
            yield list(group)
        else:
            yield from ([arrival] for arrival in group)


def _quiet_s(effects: Effects, at_s: int) -> int:
    """Return the instant before which nothing may reveal how long a draw took; 0 if no slot was closed."""
    if not any(key.table == "closed" for key in effects.rows):
        return 0
    homes = sum(key.table == REPORT for key in effects.rows)
    return max([response_due_s(at_s, homes), *(outgoing.due_s for outgoing in effects.messages)])
