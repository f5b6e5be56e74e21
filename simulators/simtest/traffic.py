"""The traffic of a process, as the network and the brokers report it (`network.Observer`)."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NoReturn

from meteragent.crowd.group import Group
from meteragent.domain.units import DAY_MS
from simulators.invariant import check
from simulators.simtest.configuration import group_of
from simulators.simtest.judge.crowd import key_list
from simulators.simtest.judge.history import History
from simulators.simtest.judge.opened import MessageKey
from simulators.simtest.judge.oracle import Oracle
from simulators.simtest.judge.publications import check_publication
from simulators.simtest.loop import Guard, VirtualLoop
from simulators.simtest.model.other_stores import EVER_MS, OTHER_STORE
from simulators.simtest.model.receivers import BROKERS
from simulators.simtest.model.setting import PACES
from simulators.simtest.model.stream import Model
from simulators.simtest.mqtt.brokers import SinkBroker
from simulators.simtest.mqtt.network import Publication
from simulators.simtest.schedule import Crash, Foreign, Keys, Schedule
from simulators.simtest.store.power import Files
from simulators.simtest.surroundings import FaultInjector
from simulators.simtest.traps import Traps


class Traffic:
    """The part of a world that checks messages and acknowledgements; the process may die at each of them."""

    plan: Schedule
    counts: Counter[str]
    log: list[tuple[float, str, bytes, bool]]
    guard: Guard
    is_alive: bool
    _loop: VirtualLoop
    _oracle: Oracle
    _faults: FaultInjector
    _sinks: list[SinkBroker]
    _traps: Traps

    def _die(self, end: Crash, files: Files | None = None) -> NoReturn:
        raise NotImplementedError

    def _die_if_armed(self, place: str) -> None:
        """End the process if a crash is armed for this place."""
        if (trap := self._traps.spring(place)) is not None:
            self._die(trap)

    # --- crowds --------------------------------------------------------------------------------

    def _groups(self) -> dict[str, Group]:
        """Return the groups of all configurations, by id."""
        settings = [setting for configuration in self.plan.configurations for setting in configuration]
        groups = [group_of(setting, PACES[self.plan.pace]) for setting in settings if setting.crowd]
        return {group.id.hex(): group for group in groups}

    def _publish_keys(self, event: Keys) -> None:
        """Publish a list of keys to the sink's broker, as an operator of each group does."""
        first_day = PACES[self.plan.pace].begin_ms // DAY_MS
        for group in self._groups().values():
            payload = key_list(
                group, event.role, event.serial, first_day, event.days, is_forged=bool(event.forged)
            )
            self._sinks[0].retain(f"crowd/{group.name}/keys/{event.role}", payload)

    def _note_keys(self, group_id: str, role: str, serial: int, payload: bytes) -> None:
        """Note a list of keys that the agent has committed."""
        self.counts["lists of keys"] += 1
        with self.guard:
            self._oracle.commit_keys(self._groups()[group_id], role, serial, payload)

    def _check_pads(self, files: Iterable[bytes]) -> None:
        """Check that no file holds a pad of a crowd, unless the pad is sealed."""
        shares = [window.share for window in self._oracle.checker.windows.values() if window.share]
        for content in files if shares else ():
            for share in shares:
                is_clear = share.pad.to_bytes(8, "big") in content or b"%d" % share.pad in content
                check(not is_clear, "a file contains a pad that is not sealed")

    # --- other stores --------------------------------------------------------------------------

    def _let_appear(self, event: Foreign) -> None:
        """Let another store release on a topic for a while, unless this store does so or is about to."""
        sink = self._sinks[BROKERS.index("outside") if event.topic.startswith("outside/") else 0]
        is_taken = f"{event.topic}/privacy" in sink.retained | sink.foreign
        oracle = self._oracle
        models = oracle.process.models.values() if self.is_alive else ()
        is_own = oracle.in_doubt is not None or any(model.topics.has(event.topic) for model in models)
        if is_taken or is_own or oracle.checker.has_waiting(event.topic):
            return
        self.counts["other stores"] += 1
        oracle.checker.foreign.setdefault(event.topic, []).append((self._faults.wall_ms(), EVER_MS))
        sink.retain(f"{event.topic}/privacy", OTHER_STORE, is_foreign=True)
        self._loop.call_later(event.lasts_ms / 1000, self._let_go, sink, event.topic)

    def _let_go(self, sink: SinkBroker, topic: str) -> None:
        """Clear a topic of the other store, which no longer releases there."""
        self._oracle.checker.end_foreign(topic, self._faults.wall_ms())
        sink.retain(f"{topic}/privacy", b"", is_foreign=True)

    @property
    def history(self) -> History:
        """What was opened, released and spent so far."""
        return self._oracle.checker

    @property
    def listens(self) -> bool:
        """Whether the agent listens for other stores: if the schedule has any."""
        return any(isinstance(event, Foreign) for event in self.plan.events)

    def _listening_clock_s(self) -> Callable[[], float] | None:
        return self._loop.time if self.listens else None

    def _publish_for_others(self, event: Keys | Foreign) -> None:
        """Publish what operators or another store send to the agent's brokers."""
        if isinstance(event, Keys):
            self._publish_keys(event)
        else:
            self._let_appear(event)

    def check_clear(self, model: Model, destinations: Iterable[tuple[str, str]]) -> None:
        """Check that no other store releases to the destinations, as far as the agent could find out.

        If another store does so unnoticed, both stores may release from now on.
        """
        with self.guard:
            for queue, topic in destinations:
                model.topics.clear((queue, topic), self._faults.newest_ms)
                self._oracle.checker.end_foreign(topic, None)

    def on_answer(self, topic: str, *, is_foreign: bool | None) -> None:
        """Note whose descriptor the agent will find on a topic; if `is_foreign` is None, that it listens."""
        for model in self._oracle.process.models.values():
            model.topics.answer(topic.removesuffix("/privacy"), is_foreign=is_foreign)

    # --- messages ------------------------------------------------------------------------------

    def on_subscribe(self, client_id: str) -> None:
        """Note that a stream has subscribed; the client id ends with the stream's name, except for `main`."""
        name = client_id.partition("-source")[2].removeprefix("-") or "main"
        self._oracle.process.subscribed_ms.setdefault(name, self._faults.wall_ms())

    def on_acknowledge(self, packet_ids: list[int]) -> int:
        """Check acknowledgements; return how many are sent: all, or half if the process dies in between."""
        self.counts["acknowledged"] += len(packet_ids)
        with self.guard:
            self._oracle.process.check_acknowledgements(packet_ids)
        self._die_if_armed("acknowledge-before")
        return len(packet_ids) // 2 if self._traps.has_crash("acknowledge-half") else len(packet_ids)

    def after_acknowledge(self) -> None:
        """End the process if a crash is armed for the moment after acknowledgements are sent."""
        self._die_if_armed("acknowledge")

    def on_publish(self, newest_rows: dict[str, int], topic: str, payload: bytes, *, retain: bool) -> None:
        """Check a publication on a connection; see `Connection.newest_rows`."""
        self._die_if_armed("publish-before")
        self.counts["published"] += 1
        self.log.append((self._loop.time(), topic, payload, retain))
        now_ms = self._faults.clock_ms()
        with self.guard:
            message = MessageKey(topic, payload)
            check_publication(self._oracle.checker, message, newest_rows, now_ms, retain=retain)
            if not retain:
                self._oracle.actions.check_publication(message, self._loop.time())

    def after_publish(self) -> None:
        """End the process if a crash is armed for the moment after a publication is sent."""
        self._die_if_armed("publish-after")

    def on_confirm(self, publication: Publication) -> None:
        """Note that the agent is about to receive the confirmation of a publication."""
        self.counts["confirmed"] += 1
        self._oracle.confirm(MessageKey(publication.topic, publication.payload))

    def after_confirm(self) -> None:
        """End the process if a crash is armed for the moment before a confirmed row is marked delivered."""
        self._die_if_armed("confirm")
