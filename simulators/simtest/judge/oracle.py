"""The oracle of a world: a model for each core, and the state of each model at the last commit.

The world reports all events, and the oracle raises InvariantViolation when an event violates an invariant.
When a crash destroys state of the agent, the oracle discards the same state: each model returns to the last
commit.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from sqlite3 import Connection
from typing import Any, NamedTuple, Protocol

from meteragent.crowd.group import Group
from meteragent.domain.commit import Commit, Outgoing, TimelineState
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.units import DAY_MS
from simulators.invariant import InvariantViolation, check
from simulators.simtest.judge.actions import ActionChecker
from simulators.simtest.judge.crowd import committed_list, has_days
from simulators.simtest.judge.expected_store import ExpectedStore
from simulators.simtest.judge.invariants import InvariantChecker
from simulators.simtest.judge.opened import MessageKey
from simulators.simtest.judge.process_record import ProcessRecord
from simulators.simtest.model.meter import Arrival, Meter
from simulators.simtest.model.other_stores import Topics
from simulators.simtest.model.prices import OUTCOMES, PriceBook, PriceMessage
from simulators.simtest.model.receivers import Share
from simulators.simtest.model.setting import PAYLOAD_MAX, reads
from simulators.simtest.model.stream import Model
from simulators.simtest.model.stream_spec import StreamSpec
from simulators.simtest.mqtt.brokers import TIME_REFUSALS


class ExpectedMeaning(NamedTuple):
    """The true meaning of a message: a reading or, in `refused`, the reason why it is not a reading.

    `prices` holds the prices of a message on the price topic; the other fields are the message's meaning for
    a stream without such a topic. `phase` is empty unless the message is of a phase.
    """

    meter: str
    time_ms: int
    value_u: int
    refused: str | None
    prices: PriceMessage | None = None
    phase: str = ""

    def arrival(self, message: Message, stream: StreamSpec) -> Arrival:
        """Return what a delivery of the message means to a stream."""
        received_ms, token = message.received_ms, message.token
        if stream.has_prices and self.prices is not None:
            return Arrival("", 0, 0, None, received_ms, token, self.prices)
        time_ms, refused = self.time_ms, self.refused
        if stream.is_stamped:
            time_ms, refused = received_ms, None if refused in TIME_REFUSALS else refused
        if refused != "refused_size" and not reads(stream.windows.setting, self.meter, self.phase):
            refused = "refused_topic"
        refused = "retained" if message.retain else refused
        return Arrival(self.meter, time_ms, self.value_u, refused, received_ms, token, phase=self.phase)


class Effects(Protocol):
    """The effects that a core requests after a feed."""

    @property
    def commit(self) -> Commit:
        """The transaction to commit."""

    @property
    def acknowledge(self) -> Sequence[Any]:
        """The tokens of the messages to acknowledge."""


class InDoubtCommit(NamedTuple):
    """A transaction that may or may not be on disk; if `model` is None, it only marks rows as delivered."""

    model: Model | None
    commit: Commit
    delivered: Sequence[int]
    now_ms: int


@dataclass
class Oracle:
    """The reference state of a world.

    `meanings` maps each topic and payload to its meaning. `is_copy` says whether the store was resumed from a
    snapshot; a process must detect this before it does anything. `is_noted` says whether the store holds a
    time of a synchronised clock, from which even a process that starts later detects the snapshot. `prices`
    counts the outcomes of prices in former processes. `listening_clock_s` is the loop's clock if the agent
    listens for other stores, and else None. `_alternatives` holds other contents that the store may have
    after a crash while receivers were admitted and revoked; `_is_settled` says whether the store has been
    compared since then.
    """

    checker: InvariantChecker = field(default_factory=InvariantChecker)
    meanings: dict[tuple[str, bytes], ExpectedMeaning] = field(default_factory=dict)
    process: ProcessRecord = field(default_factory=lambda: ProcessRecord(0, Counts()))
    in_doubt: InDoubtCommit | None = None
    is_copy: bool = False
    is_noted: bool = False
    prices: Counter[str] = field(default_factory=Counter)
    listening_clock_s: Callable[[], float] | None = None
    _alternatives: list[ExpectedStore] = field(default_factory=list)
    _is_settled: bool = True
    _late_before: int = 0
    _unretired: dict[tuple[str, str], TimelineState] = field(default_factory=dict)
    _saved_meters: dict[str, dict[str, Meter]] = field(default_factory=dict)
    _charges: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.actions = ActionChecker(self.checker)

    # --- starts --------------------------------------------------------------------------------

    def begin(self, started_ms: int, counts: Counts, store: Connection, streams: set[str]) -> None:
        """Begin a process with a store that must hold all commits, and nothing else.

        `streams` holds the names of the streams that run; the windows of all other streams are deleted.
        """
        self.settle(store, streams)
        self.check_marked()
        expected = self.checker.expected
        self._unretired = expected.states
        expected.states = {key: state for key, state in expected.states.items() if key[0] in streams}
        self.checker.replace_store(expected)
        for model in self.process.models.values():
            self.prices += Counter({name: model.outcomes[name] for name in OUTCOMES})
        self.process = ProcessRecord(started_ms, counts, counts_at_open=Counter(counts))
        self.is_copy &= self.is_noted
        self._late_before = len(self.checker.late)
        self._charges = Counter()
        for (meter, day_ms, _), spending in expected.spending.items():
            self._charges[meter, day_ms] += spending.epsilon_per_w  # type: ignore[assignment]

    def settle(self, store: Connection, streams: set[str]) -> None:
        """Check that a store holds every commit; a commit in doubt may be missing, but only as a whole."""
        self.actions.settle(store)
        expected = self.checker.expected
        streams = streams | {stream for alternative in self._alternatives for stream, _ in alternative.states}
        difference = expected.difference(store, streams)
        if difference and self.in_doubt is not None:
            self._apply_commit(self.in_doubt)
            difference = expected.difference(store, streams)
        for alternative in self._alternatives if difference else ():
            if not alternative.difference(store, streams):
                self.checker.replace_store(replace(alternative, actions=expected.actions))
                difference = None
        check(not difference, "the store does not hold the commits", difference)
        self.in_doubt = None
        self._alternatives.clear()
        self._is_settled = True

    def hold(self, row_ids: Sequence[int]) -> None:
        """Note that messages damaged by a flipped bit are held back: they are never sent."""
        for row in [self.checker.expected.rows[id_] for id_ in row_ids]:
            row.is_delivered = True
            self.checker.late.add(MessageKey(row.outgoing.topic, row.outgoing.payload))

    def settle_receivers(self, shares: Sequence[Share], now_ms: int, *, may_die: bool) -> None:
        """Revoke and admit receivers; if `may_die`, the process dies at some point meanwhile."""
        expected = self.checker.expected
        if may_die:
            before = replace(expected.copy(), states=self._unretired)
            after = before.copy()
            after.settle(shares, now_ms)
            self._alternatives = [before, after]
        expected.settle(shares, now_ms)
        self._is_settled = not expected.grants

    def check_settled(self, store: Connection, streams: set[str]) -> None:
        """Check that receivers were revoked and admitted as predicted, before anything is sent."""
        if not self._is_settled and not self._alternatives:
            self.settle(store, streams)

    def check_marked(self) -> None:
        """Check that no record is waiting whose delivery the agent had learned of before an orderly stop.

        Descriptors are exempt, because they are sent on every connection, even while their rows are waiting.
        """
        rows = [row.outgoing for row in self.checker.expected.rows.values() if not row.is_delivered]
        waiting_keys = {MessageKey(row.topic, row.payload) for row in rows if not row.retain}
        unmarked = waiting_keys & self.process.confirmed if self.process.is_orderly else ()
        check(not unmarked, "a record confirmed before an orderly stop is not marked", unmarked)

    def safe_ms(self) -> int:
        """Return a time at or after the end of every interval that was opened or released."""
        ends_ms = [end_ms for spans in self.checker.released.values() for _, end_ms in spans]
        return max([0, *ends_ms, *self.checker.expected.marks.values()])

    def drop_retired(self, store: Connection, streams: set[str]) -> None:
        """Treat the rows of retired streams that the store dropped to make room as delivered."""
        self.checker.drop_retired(store, streams)

    def replace_store(self, expected: ExpectedStore) -> None:
        """Begin with a store that replaces the previous one and in which no open window continues."""
        ends_ms = [end_ms for spans in self.checker.released.values() for _, end_ms in spans]
        check(
            max(ends_ms, default=0) <= expected.floor_ms,
            "a new store may open intervals that the lost one released",
        )
        self.checker.replace_store(expected)
        self.in_doubt = None
        self.is_copy = self.is_noted = False
        self._saved_meters.clear()

    def resume_copy(self, floor_ms: int, now_ms: int) -> None:
        """Note that a store that may be a copy was restored; no open window in it continues.

        Everything in the public schedule until now may have been released, so no window may open before now.
        """
        check(floor_ms >= now_ms, "a resumed copy may open windows that another copy released")
        expected = self.checker.expected.copy()
        expected.floor_ms, expected.states = floor_ms, {}
        expected.marks = {key: max(end_ms, floor_ms) for key, end_ms in expected.marks.items()}
        self.replace_store(expected)
        self.process.confirmed.clear()  # this copy does not contain the confirmations of the other

    def restore(self, spec: StreamSpec) -> Model:
        """Return a stream's model in the state of its last commit."""
        expected, name = self.checker.expected, spec.names.stream
        self.checker.begin(name)
        marks = {meter: end_ms for (stream, meter), end_ms in expected.marks.items() if stream == name}
        book = PriceBook(expected.every_price.get(name, ()))
        if spec.grants is not None:
            spec = replace(spec, grants=tuple(expected.active(name)))
        if group_id := spec.ordinary.group_id:
            lists = expected.key_lists
            spec = replace(spec, has_keys=lambda start_ms: has_days(lists, group_id, start_ms))
        listens = spec.ordinary.clock == "wall" and not group_id
        announced = ((queue, topic) for queue, topics in expected.descriptors.items() for topic in topics)
        topics = Topics(announced, self.listening_clock_s if listens else None)
        model = Model(spec, topics, marks, expected.floor_ms, self._exceeds(spec.limit), book)
        for (stream, meter), state in expected.states.items():
            if stream == name:
                saved = self._saved_meters[name][meter]
                slot = self.checker.masked_slot(name, meter, state, saved)
                model.restore(meter, saved.durable(), state.next_ms, slot)
                starts_ms = {window.start_ms for window in model.meters[meter].windows}
                self.checker.discard_windows(name, meter, state, starts_ms)
        self.process.models[name] = model
        return model

    def _exceeds(self, limit: Fraction | None) -> Callable[[str, int, Fraction], bool]:
        def exceeds(meter: str, start_ms: int, epsilon: Fraction) -> bool:
            """Return whether a window would exceed the limit; if not, charge it."""
            key = meter, start_ms // DAY_MS * DAY_MS
            if limit is not None and self._charges[key] + epsilon > limit:
                return True
            self._charges[key] += epsilon  # type: ignore[assignment]
            return False

        return exceeds

    # --- the core ------------------------------------------------------------------------------

    def check_feed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """Check the effects that a core requests after a feed."""
        check(not self.is_copy, "a resumed copy continues as if nothing had left")
        arrivals = [self._meaning_of(message).arrival(message, model.stream) for message in batch]
        freed_tokens = model.feed(arrivals, now_ms, closing_ms)
        model.topics.check_waiting()
        self.checker.check_feed(model, effects.commit, effects.acknowledge, freed_tokens)
        self.process.check_catch_up(model, now_ms)
        packet_ids = [token.token[0] for token in effects.acknowledge if token is not None]
        if effects.commit:
            self.process.uncommitted[model.stream.names.stream] = packet_ids
        else:
            self.process.acknowledgeable.update(packet_ids)
        self.process.check_counters()

    def _meaning_of(self, message: Message) -> ExpectedMeaning:
        return self.meanings[message.topic, message.payload[: PAYLOAD_MAX + 1]]

    # --- the disk ------------------------------------------------------------------------------

    def begin_commit(self, commit: Commit, delivered: Sequence[int], now_ms: int) -> None:
        """Begin a transaction."""
        model = self.process.models[commit.stream] if commit else self.process.models.get(commit.stream)
        self.in_doubt = InDoubtCommit(model, commit, delivered, now_ms)

    def end_commit(self, rows: Sequence[Outgoing]) -> None:
        """End the transaction, which is on disk and has the new `rows`."""
        doubt, self.in_doubt = self.in_doubt, None
        if doubt is None:
            raise InvariantViolation("a transaction ends without a beginning")
        last_id = self.checker.expected.last_id
        self._apply_commit(doubt)
        self.checker.check_rows(doubt.commit.stream, rows, last_id)
        late_count = self.process.counts["report_late"] - self.process.counts_at_open["report_late"]
        check(late_count >= len(self.checker.late) - self._late_before, "a late report is not counted")
        if doubt.commit:
            self.process.acknowledgeable.update(self.process.uncommitted.pop(doubt.commit.stream, []))

    def _apply_commit(self, doubt: InDoubtCommit) -> None:
        model, commit = doubt.model, doubt.commit
        self.checker.check_commit(model, commit, doubt.delivered, doubt.now_ms)
        meters = self._saved_meters.setdefault(commit.stream, {})
        for name, state in commit.states.items():
            if state is None:
                meters.pop(name, None)
            elif model is not None:
                meters[name] = model.meters[name].durable()

    def commit_keys(self, group: Group, role: str, serial: int, payload: bytes) -> None:
        """Note that an operator's list of keys is on disk; it must be newer than the former list."""
        committed, key = committed_list(payload, group, role), (group.id.hex(), role)
        former = self.checker.expected.key_lists.get(key)
        is_newer = former is None or committed.serial > former.serial
        check(
            is_newer and committed.serial == serial,
            "a committed list of keys is not newer, or has a wrong serial",
            key,
        )
        self.checker.expected.key_lists[key] = committed

    # --- acknowledgements ----------------------------------------------------------------------

    def confirm(self, message: MessageKey) -> None:
        """Note that the agent is about to learn that a message was delivered."""
        self.checker.confirmed.add(message)
        self.process.confirmed.add(message)
