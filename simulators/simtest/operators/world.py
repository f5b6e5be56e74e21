"""A world of two operators: the unchanged services, their stores, a broker, and homes that report.

An operator dies at a place: at once, before or after a commit, before its log is erased, or when it publishes
or acknowledges. Its store is copied at that moment. From then on nothing that it does has an effect, and the
next process starts with the copy.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from meteragent.crowd import message
from meteragent.crowd.machine import RowKey
from meteragent.mqtt import Endpoint
from meteragent.operators import clock as operator_clock
from meteragent.operators import service
from meteragent.operators.clock import Clock
from meteragent.operators.configuration import Operation
from meteragent.operators.service import Service
from meteragent.operators.store import Store, read_ledger
from meteragent.privacy.bits import SeededBits
from meteragent.service.process import Notify
from simulators.invariant import InvariantViolation, check
from simulators.simtest import schedule as s
from simulators.simtest.loop import Guard, Killed, VirtualLoop
from simulators.simtest.mqtt import server as mqtt
from simulators.simtest.mqtt.brokers import RetainingBroker
from simulators.simtest.mqtt.network import Bystander, Connection, Publication
from simulators.simtest.operators.homes import GROUP, IDENTITIES, ROLES, Homes
from simulators.simtest.operators.judge import (
    BEGIN,
    SLOT_S,
    Judge,
)
from simulators.simtest.store import disk

_SETTLE_S = 1_200.0
"""The time without troubles before the end, in which a request is asked again three times."""


class CrowdBroker(RetainingBroker):
    """A broker on which operators publish and subscribe."""

    def _take(self, connection: Connection, packet: mqtt.Packet) -> None:
        if not isinstance(packet, mqtt.Publish):
            super()._take(connection, packet)
            return
        connection.send(mqtt.puback(packet.packet_id))
        self.observer.on_confirm(Publication(packet.packet_id, packet.topic, packet.payload, packet.retain))
        if packet.retain:
            self.publish_retained(packet.topic, packet.payload)
        else:
            self.publish(packet.topic, packet.payload, 1, retain=False)


class Operator(Clock):
    """An operator, its clock and its present process; `end` is how the process ends, once that is known."""

    def __init__(self, loop: VirtualLoop, role: str, folder: Path) -> None:
        self.role, self.folder, self._loop = role, folder, loop
        self.step_ms, self.is_dead = 0, False
        self.end: s.End | None = None
        self.task: asyncio.Task[None]

    def now_s(self) -> int:
        """Return the time of this operator's wall clock."""
        return int(self._wall_s())

    def pause_s(self, instant_s: int) -> float:
        """Return how long to wait for an instant, as the system's clock does."""
        return min(max(instant_s - self._wall_s(), 0.0), 60.0)

    def boot_ms(self) -> int:
        """Return the time since the machine's start."""
        return round(1000 * self._loop.time())

    def _wall_s(self) -> float:
        return BEGIN.timestamp() + self._loop.time() + self.step_ms / 1000


class World(Bystander):
    """Everything around the operators."""

    def __init__(self, plan: s.Schedule, folder: Path) -> None:
        self.plan, self.counts = plan, Counter[str]()
        self.violation: InvariantViolation | None = None
        self.guard, self._folder = Guard(self), folder
        self._loop = VirtualLoop()
        self._random = Random(f"operators {plan.seed}")
        self._broker = CrowdBroker(self._loop, self, Random(f"broker {plan.seed}"), plan.network)
        self._broker.reachable.set()
        self._loop.connect = lambda _, protocol: self._broker.connect(protocol)
        self._judge = Judge(is_timely=not any(isinstance(event, s.Step) for event in plan.events))
        self._operators = [Operator(self._loop, role, folder / f"{role}0") for role in ROLES]
        self._homes = Homes(self._broker, SeededBits(plan.seed))
        self._traps: list[s.Crash] = []
        self._is_over = False

    def run(self) -> None:
        """Run the schedule. Raises InvariantViolation at the first violation."""
        settle_s = self.plan.end_ms / 1000
        self._loop.until_s = settle_s + 2 * _SETTLE_S
        for event in self.plan.events:
            if isinstance(event, s.Report):
                self._loop.call_at(event.slot * SLOT_S + 1, self._homes.open_slot, event.home, event.slot)
            self._loop.call_at(event.at_ms / 1000, self._apply, event)
        self._loop.call_at(settle_s, self._settle)
        self._loop.call_at(settle_s + _SETTLE_S, self._finish)
        try:
            with self._patched():
                self._loop.run_until_complete(self._run_all())
            if self.violation is None:
                self._check_end()
        except Killed:
            pass
        finally:
            self._loop.end_tasks()
            self._loop.close()
        self.counts.update(self._broker.counts + self._judge.counts)
        if self.violation is not None:
            raise self.violation

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Watch the commits of both stores; the clocks are synchronised."""
        world = self

        class WatchedStore(Store):
            """The store of an operator, whose commits the world sees."""

            def commit_step(self, rows: Mapping[RowKey, bytes | None], *lines: Any) -> None:
                """Commit a step; the process may die before or after this."""
                if rows:
                    world.spring("commit-before", self.path.parent)
                super().commit_step(rows, *lines)
                if rows:
                    world.spring("commit-done", self.path.parent)

            def erase_log(self) -> None:
                """Erase the log; the process may die before this."""
                world.spring("commit-written", self.path.parent)
                super().erase_log()

        with (
            patch.object(service, "Store", WatchedStore),
            patch.object(operator_clock, "was_synchronised", lambda: True),
        ):
            yield

    async def _run_all(self) -> None:
        await asyncio.gather(*map(self._run_operator, self._operators))

    async def _run_operator(self, operator: Operator) -> None:
        """Run one process of an operator after another."""
        operator.folder.mkdir()
        while not self._is_over:
            self.counts["processes"] += 1
            operator.is_dead, operator.end = False, None
            endpoint = Endpoint("broker", 1883, tls=False, client_id=operator.role)
            identity, path = IDENTITIES[operator.role], operator.folder / "db"
            operation = Operation(operator.role, GROUP, identity, endpoint, path)
            process = Service(operation, self._entropy, operator, Notify())
            operator.task = asyncio.create_task(process.run())
            await asyncio.wait([operator.task])
            error = None if operator.task.cancelled() else operator.task.exception()
            with self.guard:
                check(operator.is_dead or error is None, "an operator ends by itself", repr(error))
            self._leave(operator, is_silent=False)
            if operator.end is not None and not self._is_over:
                await asyncio.sleep(operator.end.down_ms / 1000)

    def _entropy(self, size: int) -> bytes:
        """Return bytes of which the first six bits are 0: pauses are at most 1/64 of their maximum."""
        return self._random.getrandbits(8 * size - 6).to_bytes(size)

    # --- events --------------------------------------------------------------------------------

    def _apply(self, event: s.Event) -> None:
        self.counts[type(event).__name__.lower()] += 1
        match event:
            case s.Report(home=home, slot=slot):
                self._judge.report(home, slot)
                self._homes.send_report(home, slot)
            case s.Step(operator=number, jump_ms=jump_ms):
                self._operators[number].step_ms += jump_ms
            case s.Drop():
                self._drop(event)
            case s.Crash(where="now"):
                self._kill(self._operators[event.then], event)
            case s.Crash():
                self._traps.append(event)
            case s.Stop():
                operator = self._operators[event.then]
                if operator.end is None:
                    operator.end = event
                    operator.task.cancel()

    def _drop(self, event: s.Drop) -> None:
        self._broker.drop(event.down_ms / 1000)
        if event.forgets == 1:
            self._broker.forget()
        elif event.forgets:
            self._broker.lose_answers()
        elif event.shuffles:
            self._broker.shuffle()

    def _settle(self) -> None:
        """End all troubles; clocks that were stepped are set right."""
        self._traps.clear()
        self._broker.settle()
        for operator in self._operators:
            operator.step_ms = 0

    def _finish(self) -> None:
        self._is_over = True
        with self.guard:
            check(not self._broker.owed, "a message is never acknowledged")
        for operator in self._operators:
            operator.task.cancel()

    def _kill(self, operator: Operator, crash: s.Crash) -> None:
        """Let nothing that the process does from now on have an effect; the next one starts with a copy."""
        if operator.is_dead or operator.task.done():
            return
        self.counts[f"crash {crash.where}"] += 1
        operator.is_dead, operator.end = True, crash
        self.counts["copies"] += 1
        copy = self._folder / f"{operator.role}{self.counts['copies']}"
        operator.folder = disk.write_files(disk.read_files(operator.folder), copy)
        self._leave(operator, is_silent=self._random.random() < 0.5)
        operator.task.cancel()

    def _leave(self, operator: Operator, *, is_silent: bool) -> None:
        """End the connections of a process."""
        for connection in list(self._broker.connections):
            if connection.connect is None or connection.connect.client_id.find(operator.role) >= 0:
                connection.die(is_silent=is_silent)

    def spring(self, place: str, folder: Path) -> None:
        """End the process whose store is in a folder, if a crash is armed for this place."""
        for number, operator in enumerate(self._operators):
            crashes = [trap for trap in self._traps if (trap.where, trap.then) == (place, number)]
            if crashes and operator.folder.resolve() == folder.resolve() and not operator.is_dead:
                self._traps.remove(crashes[0])
                self._kill(operator, crashes[0])

    # --- what is observed ----------------------------------------------------------------------

    def on_acknowledge(self, packet_ids: list[int]) -> int:
        """Note the acknowledgements of reports; return how many leave before the process dies."""
        for name, box in self._broker.mailboxes.items():
            mails = [box.unacknowledged[number] for number in packet_ids if number in box.unacknowledged]
            if mails and name == "leader":
                self.spring("acknowledge", self._operators[0].folder)
                if self._operators[0].is_dead:
                    return 0
                self._acknowledge([bytes(mail.payload) for mail in mails if "/report/" in mail.topic])
        return len(packet_ids)

    def _acknowledge(self, payloads: list[bytes]) -> None:
        for (home, slot), payload in self._homes.reports.items():
            if payload in payloads:
                self._judge.acknowledge(home, slot, self._loop.time())

    def on_publish(self, _: dict[str, int], topic: str, payload: bytes, *, retain: bool) -> None:
        """Check what an operator sends."""
        self.counts["retained"] += retain
        with self.guard:
            self._check_sent(topic.removeprefix("crowd/street/"), payload)
        operator = self._operators[topic.endswith(("answer", "helper"))]
        self.spring("publish", operator.folder)

    def _check_sent(self, topic: str, payload: bytes) -> None:
        if topic == "total":
            self._judge.total(payload, is_received=False)
        elif topic == "answer" and message.message_type(payload) != message.REFUSAL:
            slot_s = message.Answer.decode(GROUP.id, payload).message.slot_s
            self._judge.answer(slot_s, payload)

    def on_confirm(self, publication: Publication) -> None:
        """Note a total that the broker has received."""
        if publication.topic == "crowd/street/total":
            with self.guard:
                self._judge.total(publication.payload, is_received=True)

    def _check_end(self) -> None:
        """Check both ledgers: every published total is a line of each."""
        begin_s, ledgers = round(BEGIN.timestamp()), []
        for operator in self._operators:
            lines = read_ledger(operator.folder / "db")
            slots_s = [line.slot_s for line in lines if line.result in ("total", "answer")]
            ledgers.append(Counter((slot_s - begin_s) // SLOT_S for slot_s in slots_s))
        self._judge.check_end(ledgers)
