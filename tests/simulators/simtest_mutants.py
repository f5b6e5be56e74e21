"""Agents with a mistake in them, each of which the simulation test must find."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meteragent.agent.clock import CatchUp, SteadyClock
from meteragent.agent.link.refused_topics import Refusals
from meteragent.agent.link.sink import Sink
from meteragent.agent.link.source import Source
from meteragent.agent.runner import Runner
from meteragent.agent.store_thread import StoreThread
from meteragent.core.factory import Factory
from meteragent.core.intake import Intake, MeterReading
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain import grid, identity
from meteragent.domain.commit import Charge, Commit, Outgoing
from meteragent.domain.reading import Message, Token
from meteragent.domain.units import DAY_MS
from meteragent.mqtt import Session
from meteragent.mqtt import Token as MqttToken
from meteragent.mqtt.packets import LAST_ID, encode_puback
from meteragent.mqtt.protocol import Connected, Event, Protocol
from meteragent.mqtt.transport import Transport
from meteragent.service.boot_clock import BootClock
from meteragent.store import Store, examine, file, generation, ledger, outbox, transaction
from meteragent.store.openings import Openings
from meteragent.store.outbox import WaitingRow
from tests.simulators.crowd_mutants import CROWD_MUTANTS
from tests.simulators.phase_mutants import PHASE_MUTANTS
from tests.simulators.price_mutants import PRICE_MUTANTS
from tests.simulators.receiver_mutants import RECEIVER_MUTANTS


class Mutant(NamedTuple):
    """A mistake: what puts it into the agent, some words of what it breaks, and a seed not long before."""

    name: str
    patch: Callable[[pytest.MonkeyPatch], None]
    breaks: str
    first: int


def acknowledges_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A crash between the two loses readings."""

    async def feed(self: Runner, batch: Sequence[Message], now_ms: int, closing_ms: int) -> None:
        effects = self.pipeline.feed(batch, now_ms, closing_ms)
        self.source.acknowledge(effects.acknowledge)
        await self._commit(effects.commit)

    patch.setattr(Runner, "_feed", feed)


def never_acknowledges(patch: pytest.MonkeyPatch) -> None:
    """The broker's queue grows for ever."""
    patch.setattr(Source, "acknowledge", lambda *_: None)


def redraws_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Two noises for one slot: their difference tells the energy."""
    restore = Factory.restore_timeline

    def redrawn(*arguments: Any) -> Timeline:
        timeline = restore(*arguments)
        for window in timeline.windows:
            window.slots = {
                place: a + 3 * window.terms.steps_per_quantum[place] for place, a in window.slots.items()
            }
        return timeline

    patch.setattr(Factory, "restore_timeline", redrawn)


def adds_again_what_is_delivered_again(patch: pytest.MonkeyPatch) -> None:
    """Time that was covered before a crash is covered once more."""
    restore = Factory.restore_timeline

    def forgetful(*arguments: Any) -> Timeline:
        timeline = restore(*arguments)
        timeline.integrated_until_ms -= 300
        timeline.standing_ms = None
        return timeline

    patch.setattr(Factory, "restore_timeline", forgetful)


def forgets_the_marks(patch: pytest.MonkeyPatch) -> None:
    """A stream that comes back opens what it has released."""
    snapshot = Store.snapshot
    patch.setattr(Store, "snapshot", lambda self, stream: replace(snapshot(self, stream), marks={}))
    patch.setattr(Openings, "check_commit", lambda *_: None)


def charges_later(patch: pytest.MonkeyPatch) -> None:
    """Charges are written with the commit after the one that opens their windows."""
    feed = Pipeline.feed
    owed: dict[Charge, Counter[str]] = {}

    def late(self: Pipeline, batch: Sequence[Message], now_ms: int, closing_ms: int, *more: Any) -> Effects:
        nonlocal owed
        effects = feed(self, batch, now_ms, closing_ms, *more)
        effects.commit.charges, owed = owed, effects.commit.charges
        return effects

    patch.setattr(Pipeline, "feed", late)


def drops_what_was_on_its_way(patch: pytest.MonkeyPatch) -> None:
    """What a lost connection had not confirmed is not sent again."""
    serve, look = Sink.serve, Sink._read_outbox
    dropped: set[int] = set()

    async def dropping(self: Sink, session: Any) -> None:
        dropped.update(flight.row for flight in self._in_flight.values())
        await serve(self, session)

    async def looking(self: Sink, now_ms: int) -> None:
        await look(self, now_ms)
        self._queue._rows = [row for row in self._queue._rows if row.id not in dropped]

    patch.setattr(Sink, "serve", dropping)
    patch.setattr(Sink, "_read_outbox", looking)


def sends_other_bytes_again(patch: pytest.MonkeyPatch) -> None:
    """What is sent after a restart is the same value in other bytes."""
    pending = outbox.pending_rows

    def other(*arguments: Any) -> list[WaitingRow]:
        rows = pending(*arguments)
        return [r if r.retain else r._replace(payload=r.payload.replace(b",", b", ")) for r in rows]

    patch.setattr(outbox, "pending_rows", other)


def sends_before_it_is_due(patch: pytest.MonkeyPatch) -> None:
    """A meter's delay is not waited for."""
    pending = outbox.pending_rows

    def early(connection: Any, stream: str, now_ms: int, *more: Any) -> list[WaitingRow]:
        rows = pending(connection, stream, now_ms + 10_000, *more)
        return [row._replace(due_ms=min(row.due_ms, now_ms - 1000)) for row in rows]

    patch.setattr(outbox, "pending_rows", early)


def does_not_wait_for_what_waited(patch: pytest.MonkeyPatch) -> None:
    """What fell due while the agent was stopped is closed at once."""

    def at_once(self: CatchUp, now_ms: int, *, is_subscribed: bool) -> int:
        self.is_over = True
        return now_ms

    patch.setattr(CatchUp, "advance", at_once)


def believes_every_clock(patch: pytest.MonkeyPatch) -> None:
    """A clock that was set back is followed."""

    def any_time(self: SteadyClock) -> int:
        self.newest_ms = max(self.newest_ms, self._wall_ms())
        return self._wall_ms()

    patch.setattr(SteadyClock, "now_ms", any_time)


def commits_in_two_parts(patch: pytest.MonkeyPatch) -> None:
    """Records are on disk before the charge and the state that they come from."""

    def twice(
        store: Store, commit: Commit, delivered: Sequence[int], budget: Any, _keep_ms: int
    ) -> tuple[list[WaitingRow], int]:
        with store.transaction() as tx:
            rows = outbox.append_commit(tx, commit)
        with store.transaction() as tx:
            ledger.debit_windows(tx, commit, budget)
            store.write(tx, commit)
            outbox.mark_delivered(tx, delivered, commit.clock_ms)
            return rows, outbox.total_bytes(tx)

    patch.setattr(transaction, "commit", twice)


def accepts_a_copy(patch: pytest.MonkeyPatch) -> None:
    """A store that was put back from before the last start is used as if nothing had left since."""
    patch.setattr("meteragent.store.accept_copy", lambda _, path: generation.read_generation(path))


def begins_a_lost_store_anywhere(patch: pytest.MonkeyPatch) -> None:
    """A new store in place of a damaged one has no floor."""
    open_store = Store.open

    def opened(path: Path, *, now_ms: int, recovery_floor_ms: int | None, **more: Any) -> Store:
        floor_ms = None if recovery_floor_ms is None else 0
        return open_store(path, now_ms=now_ms, recovery_floor_ms=floor_ms, **more)

    patch.setattr(Store, "open", opened)


def draws_all_at_once(patch: pytest.MonkeyPatch) -> None:
    """A window's noise is drawn with its first slot: whoever copies the disk has all of it."""
    draw = Window.open_slot

    def eager(self: Window, noise: int, covered_ms: int, dither: int) -> None:
        if not self.draws:
            for _ in range(self.terms.n):
                draw(self, noise, covered_ms, dither)

    patch.setattr(Window, "open_slot", eager)


def waits_for_large_values(patch: pytest.MonkeyPatch) -> None:
    """Messages leave in another order, or later, because of what they hold."""
    due = Sink._due_rows

    async def by_value(self: Sink) -> list[WaitingRow]:
        return sorted(await due(self), key=lambda row: (row.topic.rpartition("/")[0], row.payload))

    patch.setattr(Sink, "_due_rows", by_value)


def leaves_with_the_last_reading(patch: pytest.MonkeyPatch) -> None:
    """A slot's time of leaving depends on when readings came."""
    feed = Pipeline.feed

    def shifted(
        self: Pipeline, batch: Sequence[Message], now_ms: int, closing_ms: int, *more: Any
    ) -> Effects:
        effects = feed(self, batch, now_ms, closing_ms, *more)
        if batch:
            rows: list[Outgoing] = effects.commit.outgoing
            rows[:] = [row if row.retain else row._replace(due_ms=row.due_ms + 7) for row in rows]
        return effects

    patch.setattr(Pipeline, "feed", shifted)


def forgets_what_it_was_to_mark(patch: pytest.MonkeyPatch) -> None:
    """A stop that cancels a commit which waits for the store loses what that was to mark: it comes twice."""
    mark_and_commit = Runner._commit
    taken: defaultdict[object, set[int]] = defaultdict(set)

    async def taking(self: Runner, step: Commit) -> None:
        taken[self.outlets] |= self.outlets.unmarked_ids
        await mark_and_commit(self, step)

    async def flush(self: Runner) -> None:
        delivered = sorted(self.outlets.unmarked_ids - taken[self.outlets])
        if delivered:
            commit = Commit(self.pipeline.name, self.context.clock.newest_ms)
            await self.context.thread.persist(commit, delivered, None)
            self.outlets.note_marked(delivered)

    patch.setattr(Runner, "_commit", taking)
    patch.setattr(Runner, "flush_marks", flush)


def stands_at_the_oldest(patch: pytest.MonkeyPatch) -> None:
    """Of readings without times that waited in the broker, the one from before the outage counts."""
    take = Intake.take_messages

    def first_of_all(self: Intake, messages: Iterable[Message], free: list[Token]) -> list[MeterReading]:
        found, seen = list[MeterReading](), set[tuple[str, str | None, int]]()
        for message in messages:
            for origin, reading in take(self, [message], free):
                if reading is None:
                    found.append((origin, reading))
                    continue
                key = *origin[:2], reading.time_ms
                if reading.is_stamped and key in seen:
                    self._arrivals.counts.add("replaced")
                    free.append(reading.token)
                else:
                    found.append((origin, reading))
                seen.add(key)
        return found

    patch.setattr(Intake, "take_messages", first_of_all)


def keeps_what_it_has(patch: pytest.MonkeyPatch) -> None:
    """Of two readings of one millisecond, in two batches, the older one stands."""
    patch.setattr(Timeline, "_gives_way", lambda *_: False)


def takes_every_jump_for_time(patch: pytest.MonkeyPatch) -> None:
    """A machine resumed from a snapshot opens what another life of it has released."""
    patch.setattr(BootClock, "step_ms", lambda *_: 0)


def forgets_the_clocks_of_the_former_process(patch: pytest.MonkeyPatch) -> None:
    """A process that starts after a machine was resumed from a snapshot continues its open windows."""
    patch.setattr(BootClock, "recall_note", lambda *_: None)


def sends_more_than_the_broker_takes(patch: pytest.MonkeyPatch) -> None:
    """The broker's Receive Maximum is not read."""
    connack = Protocol._read_connack

    def unlimited(self: Protocol, cursor: Any) -> Any:
        event = connack(self, cursor)
        self._receive_maximum = LAST_ID
        return event._replace(receive_maximum=LAST_ID) if isinstance(event, Connected) else event

    patch.setattr(Protocol, "_read_connack", unlimited)


def never_pings(patch: pytest.MonkeyPatch) -> None:
    """A connection with little traffic is given up by the broker."""
    patch.setattr(Transport, "_tick", lambda *_: None)


def reads_whole_packets_only(patch: pytest.MonkeyPatch) -> None:
    """What has come of a packet when a piece ends is dropped."""
    receive = Protocol.receive

    def careless(self: Protocol, data: bytes) -> Iterator[Event]:
        yield from receive(self, data)
        self._pieces.clear()
        self._buffered_bytes, self._needed_bytes = 0, 2

    patch.setattr(Protocol, "receive", careless)


def acknowledges_on_any_connection(patch: pytest.MonkeyPatch) -> None:
    """A late acknowledgement leaves on the next connection, where its packet id is unknown."""

    def acknowledge(self: Session, tokens: Iterable[MqttToken]) -> None:
        packet_ids = [token[0] for token in tokens]
        if packet_ids:
            self._transport.write(b"".join(map(encode_puback, packet_ids)))

    def of_all(self: Source, tokens: Iterable[Any]) -> None:
        if self._session is not None:
            self._session.acknowledge(one.token for one in tokens if one is not None)

    patch.setattr(Session, "acknowledge", acknowledge)
    patch.setattr(Source, "acknowledge", of_all)


def asks_no_broker_to_retain(patch: pytest.MonkeyPatch) -> None:
    """Whoever subscribes later waits for the descriptors."""
    connect = Refusals.on_connected

    def unflagged(self: Refusals, now_s: float, **facts: Any) -> bool:
        connect(self, now_s, **facts)
        return False

    patch.setattr(Refusals, "on_connected", unflagged)


def begins_local_days_an_hour_late(patch: pytest.MonkeyPatch) -> None:
    """Days and bands of the local calendar are those of winter time, also in summer."""
    instant_ms = grid.Calendar._instant_ms

    def late(self: grid.Calendar, day: date, minute: int = 0) -> int:
        return instant_ms(self, day, minute) + (3_600_000 if 3 < day.month < 11 else 0)

    patch.setattr(grid.Calendar, "_instant_ms", late)


def charges_the_day_before(patch: pytest.MonkeyPatch) -> None:
    """The ledger's day is the one before that of the window's start."""
    day = grid.day_ms
    patch.setattr(grid, "day_ms", lambda time_ms: day(time_ms) - DAY_MS)


def sends_the_name_of_the_meter(patch: pytest.MonkeyPatch) -> None:
    """Who knows the meters' names knows whose records these are."""
    patch.setattr(identity, "pseudonym", lambda _, meter: meter)


def lets_a_second_agent_in(patch: pytest.MonkeyPatch) -> None:
    """Nothing locks the store: two agents release the same intervals."""
    patch.setattr(file, "_lock_file", lambda _, name: os.open(name, os.O_RDWR | os.O_CREAT, 0o600))


def believes_every_row(patch: pytest.MonkeyPatch) -> None:
    """A number with a flipped bit is used, and a message with one is sent."""
    patch.setattr(examine, "_ROWS", {})
    patch.setattr(outbox, "damaged_rows", lambda *_, **__: {})


def crashes_on_a_failing_read(patch: pytest.MonkeyPatch) -> None:
    """A device that cannot read ends the agent with an error of SQLite, which names no store."""

    async def call(self: StoreThread, function: Callable[..., Any], *arguments: Any) -> Any:
        return await self._submit(function, *arguments)

    patch.setattr(StoreThread, "call", call)


def sends_each_descriptor_once(patch: pytest.MonkeyPatch) -> None:
    """A broker that has lost what it retained never gets it again."""
    patch.setattr(outbox, "latest_descriptors", lambda *_: [])


MUTANTS = [
    Mutant(patch.__name__, patch, breaks, first)
    for patch, breaks, first in (
        (acknowledges_before_the_commit, "acknowledged before its effects are committed", 0),
        (never_acknowledges, "never acknowledged", 0),
        (redraws_at_a_restart, "noise has changed", 0),
        (adds_again_what_is_delivered_again, "decided", 0),
        (charges_later, "charges are not those of the opened windows", 0),
        (drops_what_was_on_its_way, "has not been received", 46),
        (sends_other_bytes_again, "not on disk byte for byte", 0),
        (sends_before_it_is_due, "before it is due", 14),
        (does_not_wait_for_what_waited, "during a stop", 0),
        (believes_every_clock, "without time passing", 22),
        (commits_in_two_parts, "does not hold the commits", 28),
        (accepts_a_copy, "does not hold the commits", 52),
        (begins_a_lost_store_anywhere, "the lost one released", 3),
        (draws_all_at_once, "before or after the slot begins", 0),
        (waits_for_large_values, "out of order", 9),
        (leaves_with_the_last_reading, "not due at the time of the public schedule", 3),
        (stands_at_the_oldest, "energy that was not measured", 64),
        (takes_every_jump_for_time, "a resumed copy continues", 26),
        (forgets_the_clocks_of_the_former_process, "a resumed copy continues", 55),
        (keeps_what_it_has, "before all its time is decided", 222),
        (sends_more_than_the_broker_takes, "more messages at once than it accepts", 0),
        (never_pings, "does not keep its connection alive", 0),
        (reads_whole_packets_only, "never acknowledged", 27),
        (acknowledges_on_any_connection, "not sent on this connection", 0),
        (forgets_what_it_was_to_mark, "before an orderly stop is not marked", 498),
        (asks_no_broker_to_retain, "without the flag to retain", 0),
        (begins_local_days_an_hour_late, "the integrated time is not the decided time", 0),
        (charges_the_day_before, "charges are not those of the opened windows", 0),
        (sends_the_name_of_the_meter, "is not for the receivers that got it", 0),
        (lets_a_second_agent_in, "a second agent opens the store of the first", 20),
        (crashes_on_a_failing_read, "the agent ends by itself", 0),
        (sends_each_descriptor_once, "does not retain the latest descriptor", 33),
        *PRICE_MUTANTS,
        *PHASE_MUTANTS,
        *RECEIVER_MUTANTS,
        *CROWD_MUTANTS,
    )
]
