"""Agents with a mistake in their receivers, each of which the simulation test must find."""

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from meteragent import config
from meteragent.agent import service
from meteragent.agent.link import receivers
from meteragent.agent.link.other_agent import Listener
from meteragent.agent.link.outlets import Outlets
from meteragent.agent.service import Agent
from meteragent.agent.unit import Unit
from meteragent.core.opening import Openings
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects, Stream
from meteragent.core.timeline import Timeline
from meteragent.domain.commit import Destination, Outgoing, Receiver, TimelineState
from meteragent.domain.reading import Message
from meteragent.store import grants, outbox
from meteragent.store.grants import Action, Grant, WantedGrant
from meteragent.store.outbox import WaitingRow


def keeps_what_waits_for_a_revoked_receiver(patch: pytest.MonkeyPatch) -> None:
    """Records of a receiver's queue leave after its revocation."""
    patch.setattr(outbox, "drop_undelivered", lambda *_: 0)


def withdraws_no_descriptor(patch: pytest.MonkeyPatch) -> None:
    """A revoked receiver's descriptors stay at its broker."""
    revoke = grants._revoke

    def careless(tx: sqlite3.Connection, grant: Grant, reason: str, now_ms: int) -> None:
        tx.execute("DELETE FROM announced WHERE queue = ?", (grant.queue,))
        revoke(tx, grant, reason, now_ms)

    patch.setattr(grants, "_revoke", careless)


def forgets_what_a_former_grant_left(patch: pytest.MonkeyPatch) -> None:
    """Descriptors that wait for their withdrawal when a receiver comes back are never withdrawn."""
    admit = grants._admit

    def careless(tx: sqlite3.Connection, item: WantedGrant, now_ms: int) -> None:
        admit(tx, item, now_ms)
        tx.execute("DELETE FROM announced WHERE queue GLOB '*.' || (SELECT max(id) FROM receiver)")

    patch.setattr(grants, "_admit", careless)


def ignores_the_start(patch: pytest.MonkeyPatch) -> None:
    """A receiver gets windows from before its start and its admission."""

    def has_slot(self: Receiver, _: int, end_ms: int) -> bool:
        return self.until_ms is None or end_ms <= self.until_ms

    patch.setattr(Receiver, "has_slot", has_slot)


def ignores_the_end(patch: pytest.MonkeyPatch) -> None:
    """A receiver gets slots after its end, until it is revoked."""
    patch.setattr(Receiver, "has_slot", lambda self, window_ms, _: window_ms >= self.since_ms)


def sends_to_whoever_is_paused(patch: pytest.MonkeyPatch) -> None:
    """A paused receiver gets the next window."""
    reason = receivers._absence_reason

    def blind(*arguments: Any) -> str | None:
        found = reason(*arguments)
        return None if found == "paused" else found

    patch.setattr(receivers, "_absence_reason", blind)


def charges_each_receiver(patch: pytest.MonkeyPatch) -> None:
    """A window that two receivers share is charged twice."""
    feed = Pipeline.feed

    def charging(self: Pipeline, batch: Sequence[Message], *times: Any) -> Effects:
        effects = feed(self, batch, *times)
        for meters in effects.commit.charges.values():
            for meter in meters:
                meters[meter] *= max(1, len(self._stream.receivers))
        return effects

    patch.setattr(Pipeline, "feed", charging)


def opens_windows_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """Windows are charged of which no receiver gets a slot."""
    destinations = Openings._pass_and_charge

    def generous(self: Openings, *arguments: Any) -> tuple[Destination, ...]:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Stream, "destinations_of_slot", lambda _stream, destinations, *_: destinations)
            return destinations(self, *arguments)

    patch.setattr(Openings, "_pass_and_charge", generous)


def gives_a_receiver_other_bytes(patch: pytest.MonkeyPatch) -> None:
    """Receivers of one stream can tell its records apart."""
    put = outbox.enqueue

    def marked(tx: sqlite3.Connection, rows: Sequence[Outgoing]) -> list[WaitingRow]:
        changed = [
            row._replace(payload=b" " + row.payload) if "@utility." in row.queue else row for row in rows
        ]
        return put(tx, changed)

    patch.setattr(outbox, "enqueue", marked)


def takes_every_store_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """A receiver gets windows of intervals that another store releases to it."""
    patch.setattr(Listener, "_is_foreign", lambda *_: False)


def gives_windows_to_whoever_is_held(patch: pytest.MonkeyPatch) -> None:
    """A window that opens while another store releases to a receiver is this receiver's, too."""
    destinations = Openings._pass_and_charge

    def generous(self: Openings, timeline: Timeline, *arguments: Any) -> tuple[Destination, ...]:
        return destinations(self, timeline, *arguments) and self._names[timeline.meter].destinations

    patch.setattr(Openings, "_pass_and_charge", generous)


def gives_open_windows_to_whoever_is_clear(patch: pytest.MonkeyPatch) -> None:
    """A window that opened while a receiver was held back is this receiver's after a restart."""
    without_unwanted = Stream.drop_unwanted

    def generous(self: Stream, state: TimelineState, terms: Any) -> TimelineState:
        kept = without_unwanted(self, state, terms)
        windows = [
            window._replace(destinations=tuple(item.destination(window.public_id) for item in self.receivers))
            for window in kept.windows
        ]
        return kept._replace(windows=tuple(windows))

    patch.setattr(Stream, "drop_unwanted", generous)


def holds_every_receiver_back(patch: pytest.MonkeyPatch) -> None:
    """One receiver to which another store releases holds back all."""
    clear = Outlets.take_free_destinations

    def careful(self: Outlets) -> list[Destination]:
        is_held = any(outlet.listener._silent_names for outlet in self)
        return [] if is_held else clear(self)

    patch.setattr(Outlets, "take_free_destinations", careful)


def leaves_a_pause_out(patch: pytest.MonkeyPatch) -> None:
    """A receiver that a person pauses is paused in no configuration."""
    after = config.Receiver.after_action
    patch.setattr(config.Receiver, "after_action", lambda self, verb: after(self, verb.replace("pause", "")))


def forgets_actions_with_its_process(patch: pytest.MonkeyPatch) -> None:
    """Whoever was paused or has ended is admitted by itself after a crash."""
    last, begin = grants.last_actions, Agent.__init__
    known_id = 0

    def started(self: Agent, *arguments: Any) -> None:
        nonlocal known_id
        known_id = 2**62
        begin(self, *arguments)

    def remembered(connection: sqlite3.Connection) -> dict[str, Action]:
        nonlocal known_id
        actions = last(connection)
        known_id = min(known_id, grants.last_id(actions))
        return {name: action for name, action in actions.items() if action.id > known_id}

    patch.setattr(Agent, "__init__", started)
    patch.setattr(grants, "last_actions", remembered)


def sends_what_is_due_before_a_pause(patch: pytest.MonkeyPatch) -> None:
    """An action waits for the brokers, as a stop does, before whoever is paused gets nothing more."""
    drain, flush, draining = service._drain, service._flush_marks, set[int]()

    async def wait(*_: Any) -> None:
        await asyncio.Event().wait()

    async def slowly(units: list[Unit]) -> None:
        if id(units) in draining:
            await flush(units)
            return
        draining.add(id(units))
        await drain(units)

    patch.setattr(service, "_cancel_after", wait)
    patch.setattr(service, "_flush_marks", slowly)


def goes_on_through_a_pause(patch: pytest.MonkeyPatch) -> None:
    """Whoever was paused and resumed while the agent was stopped gets the windows of that time, too."""
    patch.setattr(grants, "_PAUSED_SINCE", "false")


RECEIVER_MUTANTS = (
    (keeps_what_waits_for_a_revoked_receiver, "does not hold the commits", 27),
    (withdraws_no_descriptor, "does not hold the commits", 17),
    (forgets_what_a_former_grant_left, "does not hold the commits", 506),
    (ignores_the_start, "charges are not those of the opened windows", 2),
    (ignores_the_end, "not for the receivers that got it", 100),
    (sends_to_whoever_is_paused, "does not hold the commits", 38),
    (charges_each_receiver, "charges are not those of the opened windows", 2),
    (opens_windows_for_nobody, "charges are not those of the opened windows", 26),
    (gives_a_receiver_other_bytes, "not its messages", 2),
    (takes_every_store_for_its_own, "a topic of another store is taken for clear", 5),
    (gives_windows_to_whoever_is_held, "not for the receivers that got it", 101),
    (gives_open_windows_to_whoever_is_clear, "not for the receivers that got it", 144),
    (holds_every_receiver_back, "a receiver is held back though its topic is clear", 155),
    (leaves_a_pause_out, "does not hold the commits", 117),
    (forgets_actions_with_its_process, "does not hold the commits", 2),
)
