"""The oracle of a world: a model beside each core, and what is saved of it with each transaction.

The world reports what happened, and the oracle raises InvariantViolation where that must not be. What a crash
takes from the agent it takes from here as well: after it, each model is what the last commit left.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from meteragent.core.stream import Effects
from meteragent.domain.commit import Commit
from meteragent.domain.counters import REFUSALS, Counts
from meteragent.domain.grid import floor
from meteragent.domain.reading import Message
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS
from meteragent.store import Store
from simulators.invariant import InvariantViolation, check
from simulators.simtest.brokers import OF_TIMES
from simulators.simtest.expected_store import ExpectedStore
from simulators.simtest.invariants import InvariantChecker, Sent
from simulators.simtest.model import Arrival, Meter, Model, StreamSpec

KNOWN_S = 1.5
"""So long after a start the agent has asked whether its clock is synchronised."""
_REASONS = [*REFUSALS, "retained", "accepted", "replaced", "over_budget", "forgotten"]
"""The counters that the model predicts one by one."""


class ExpectedMeaning(NamedTuple):
    """What a message says to who knows all: a reading, or why it is none."""

    meter: str
    time_ms: int
    value_u: int
    refused: str | None


class InDoubtCommit(NamedTuple):
    """A transaction of which nobody knows yet whether it is on disk."""

    model: Model
    commit: Commit
    delivered: Sequence[int]
    now_ms: int


@dataclass
class ProcessRecord:
    """What is known of one process of the agent: from when on, its models, and what it may acknowledge.

    `confirmed` is what it was told to have arrived, and `orderly` whether it ended as it should. `before` are
    its counts when it opened the store: after a jump of the clock a process opens it again. From `known_s` on
    it knows that its clock is synchronised.
    """

    started_ms: int
    counts: Counts
    models: dict[str, Model] = field(default_factory=dict)
    allowed: set[int] = field(default_factory=set)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    subscribed_ms: dict[str, int] = field(default_factory=dict)
    confirmed: set[Sent] = field(default_factory=set)
    orderly: bool = False
    before: Counter[str] = field(default_factory=Counter)
    early: int = 0
    known_s: float = 0.0


@dataclass
class Oracle:
    """What a world knows; `meanings` says what each topic and payload means.

    `copied`: what runs is a copy from a snapshot, and must find that out before it does anything.
    """

    checker: InvariantChecker = field(default_factory=InvariantChecker)
    meanings: dict[tuple[str, bytes], ExpectedMeaning] = field(default_factory=dict)
    process: ProcessRecord = field(default_factory=lambda: ProcessRecord(0, Counts()))
    in_doubt: InDoubtCommit | None = None
    copied: bool = False
    _saved: dict[str, dict[str, Meter]] = field(default_factory=dict)
    _spent: Counter[tuple[str, int]] = field(default_factory=Counter)

    # --- starts --------------------------------------------------------------------------------

    def begin(self, started_ms: int, counts: Counts, store: Store, channels: set[str]) -> None:
        """A new process, over a store that must hold all that was committed, and nothing else."""
        self.settle(store, channels)
        self.marked()
        expected = self.checker.expected
        expected.states = {key: state for key, state in expected.states.items() if key[0] in channels}
        self.checker.lose(expected)
        self.process = ProcessRecord(started_ms, counts, before=Counter(counts))
        self.copied = False
        self._spent = Counter()
        for (meter, day_ms, _), spent in expected.spent.items():
            self._spent[meter, day_ms] += spent.epsilon_per_w  # type: ignore[assignment]

    def settle(self, store: Store, channels: set[str]) -> None:
        """A store must hold all that was committed; what is in doubt it holds as a whole, or not at all."""
        expected = self.checker.expected
        difference = expected.differs(store, channels)
        if difference and self.in_doubt is not None:
            self._on_disk(self.in_doubt)
            difference = expected.differs(store, channels)
        check(not difference, "the store does not hold what was committed", difference)
        self.in_doubt = None

    def marked(self) -> None:
        """After an orderly stop no record waits that the agent was told to have arrived.

        Descriptors are said again on every connection, also while their rows wait.
        """
        rows = [row.sent for row in self.checker.expected.rows.values() if not row.delivered]
        waiting = {Sent(row.topic, row.payload) for row in rows if not row.retain}
        again = waiting & self.process.confirmed if self.process.orderly else ()
        check(not again, "what was confirmed before an orderly stop is not marked", again)

    def safe_ms(self) -> int:
        """Nothing that was ever opened or has left ends after it: what an operator has to know."""
        ends_ms = [end_ms for spans in self.checker.left.values() for _, end_ms in spans]
        return max([0, *ends_ms, *self.checker.expected.marks.values()])

    def dropped(self, store: Store, channels: set[str]) -> None:
        """What streams that are no more had left unsent was dropped to make room; nothing else was."""
        self.checker.drop(store, channels)

    def replaced(self, expected: ExpectedStore) -> None:
        """The store is another one now: nothing that the old one had open goes on."""
        ends_ms = [end_ms for spans in self.checker.left.values() for _, end_ms in spans]
        check(max(ends_ms, default=0) <= expected.floor_ms, "a new store may open what the lost one released")
        self.checker.lose(expected)
        self.in_doubt = None
        self._saved.clear()

    def resumed(self, path: Path, restore: Callable[[], None], now_ms: int, channels: set[str]) -> None:
        """The agent restores a store that may be a copy: nothing that has left, or is open, goes on.

        All of the public schedule until now may have left, so nothing may open before.
        """
        with Store.open(path, now_ms=now_ms, recovery_floor_ms=None) as store:
            self.settle(store, channels)
        restore()
        with Store.open(path, now_ms=now_ms, recovery_floor_ms=None) as store:
            floor_ms = store.floor_ms
        check(floor_ms >= now_ms, "a resumed copy may open what may have left")
        expected = self.checker.expected.copy()
        expected.floor_ms, expected.states = floor_ms, {}
        expected.marks = {key: max(end_ms, floor_ms) for key, end_ms in expected.marks.items()}
        self.replaced(expected)

    def restore(self, spec: StreamSpec, limit: Fraction | None) -> Model:
        """A stream's model, as its last commit left it."""
        expected, name = self.checker.expected, spec.name
        self.checker.begin(name)
        marks = {meter: end_ms for (channel, meter), end_ms in expected.marks.items() if channel == name}
        model = Model(spec, {}, marks, expected.floor_ms, self._exceeds(limit))
        for (channel, meter), state in expected.states.items():
            if channel == name:
                model.restore(meter, self._saved[name][meter].saved(), state)
        self.process.models[name] = model
        return model

    def _exceeds(self, limit: Fraction | None) -> Callable[[str, int, Fraction], bool]:
        def exceeds(meter: str, start_ms: int, epsilon: Fraction) -> bool:
            key = meter, floor(start_ms, DAY_MS)
            if limit is not None and self._spent[key] + epsilon > limit:
                return True
            self._spent[key] += epsilon  # type: ignore[assignment]
            return False

        return exceeds

    # --- the core ------------------------------------------------------------------------------

    def fed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """The core was fed, and asks for this."""
        check(not self.copied, "a resumed copy goes on as if nothing had left")
        stamped = model.stream.stamped
        free = model.feed([self._arrival(message, stamped=stamped) for message in batch], now_ms, closing_ms)
        self.checker.step(model, effects.commit, effects.acknowledge, free)
        self._catch_up(model, now_ms)
        packet_ids = [token.token[0] for token in effects.acknowledge if token is not None]
        if effects.commit:
            self.process.waiting[model.stream.name] = packet_ids
        else:
            self.process.allowed.update(packet_ids)
        self._counters()

    def _arrival(self, message: Message, *, stamped: bool) -> Arrival:
        said = self.meanings[message.topic, message.payload[:201]]
        refused = None if stamped and said.refused in OF_TIMES else said.refused
        refused = "retained" if message.retain else refused
        time_ms = message.received_ms if stamped else said.time_ms
        return Arrival(said.meter, time_ms, said.value_u, refused, message.received_ms, message.token)

    def _catch_up(self, model: Model, now_ms: int) -> None:
        """Law 4: what fell due while the agent was stopped waits for the readings that waited, too."""
        spec, process = model.stream, self.process
        waited = any(slot.due_ms < process.started_ms for slot in model.closed)
        if spec.terms.clock is Clock.EVENT or not waited:
            return
        since_ms = process.subscribed_ms.get(spec.name, 2**62)
        check(now_ms >= since_ms + spec.catch_up_ms, "what fell due during a stop does not wait for catch_up")

    def _counters(self) -> None:
        """Law 7: every message has a fate that is counted."""
        counts, right = Counter(self.process.counts), Counter[str]()
        counts.subtract(self.process.before)
        for model in self.process.models.values():
            right += model.outcomes
        for reason in _REASONS:
            check(counts[reason] == right[reason], "a counter is wrong", reason)
        told = counts["late"] + counts["duplicate"] + counts["early"]
        check(told == right["late"] + right["not"], "a counter is wrong", "late, duplicate and early")
        fates = sum(n for name, n in right.items() if name not in ("over_budget", "forgotten"))
        check(counts["received"] == fates, "a message has no fate")

    # --- the disk ------------------------------------------------------------------------------

    def begins(self, commit: Commit, delivered: Sequence[int], now_ms: int) -> None:
        """A transaction begins."""
        self.in_doubt = InDoubtCommit(self.process.models[commit.channel], commit, delivered, now_ms)

    def committed(self) -> None:
        """It is on disk."""
        doubt, self.in_doubt = self.in_doubt, None
        if doubt is None:
            raise InvariantViolation("a transaction ends that did not begin")
        self._on_disk(doubt)
        if doubt.commit:
            self.process.allowed.update(self.process.waiting.pop(doubt.commit.channel, []))

    def _on_disk(self, doubt: InDoubtCommit) -> None:
        model, commit = doubt.model, doubt.commit
        self.checker.committed(model, commit, doubt.delivered, doubt.now_ms)
        saved = self._saved.setdefault(commit.channel, {})
        for name, state in commit.states.items():
            if state is None:
                saved.pop(name, None)
            else:
                saved[name] = model.meters[name].saved()

    # --- acknowledgements ----------------------------------------------------------------------

    def confirms(self, sent: Sent) -> None:
        """The agent is about to be told that a message has arrived."""
        self.checker.confirmed.add(sent)
        self.process.confirmed.add(sent)

    def acknowledges(self, packet_ids: list[int]) -> None:
        """Law 7: only what is in a committed accumulator, refused and counted, or counted as early."""
        self.process.early += sum(packet_id not in self.process.allowed for packet_id in packet_ids)
        check(
            self.process.early <= self.process.counts["acked_open"] - self.process.before["acked_open"],
            "a reading is acknowledged before what it says is committed",
        )

    def held(self) -> set[int]:
        """The packet ids of readings that may still speak for time that is not decided."""
        readings = (
            one
            for model in self.process.models.values()
            for meter in model.meters.values()
            for one in meter.held.values()
        )
        return {one.token.token[0] for one in readings if one.token is not None}
