"""A street whose leader, helper and broker are killed: homes, operators at a fast clock, and a collector.

Each home uses a number of quanta of its own, a power of two, and the noise is far below one of them. So the
value of a total shows which homes it counts.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from meteragent.crowd import group as groups
from meteragent.crowd import home
from meteragent.crowd.codec import Malformed
from meteragent.crowd.message import KeyList
from meteragent.domain.grid import parse_time
from meteragent.mqtt import Endpoint, Link, Session, Token, keep_connected
from meteragent.operators import identity
from meteragent.operators.desk import LedgerLine
from meteragent.operators.store import read_ledger
from meteragent.privacy.sampling import SystemBits
from meteragent.service.health import ask_socket, socket_path
from meteragent.store.file import open_file
from tests.integration.crowd_operator import FastClock
from tests.integration.forked import Forked, Process
from tests.integration.service import LIMIT_S, end_tasks, interrupted, until
from tests.support.broker import Broker

Victim = Literal["leader", "helper", "broker"]
VICTIMS: tuple[Victim, ...] = ("leader", "helper", "broker")
SPEED = 120
"""A minute, in which messages leave, is half a second."""
SLOT_S, DEADLINE_S = 60, 600
ANSWER_S = 604_800
"""So long that no slot expires: connections are tried again after real seconds, up to half a minute."""
HOMES = 6
SMALLEST_CROWD = 4
SPACING_S = 0.3
"""The mean time before a kill, in seconds of the system's clock."""
_QUANTA = 64
"""The energy of the first home, in quanta; each other home uses twice the one before."""
LATTICE = 1000


class Operator:
    """The process of one operator; its store and identity stay when it is killed."""

    def __init__(self, role: str, folder: Path, broker_url: str, begin: float) -> None:
        self.role, self.folder, self._begin = role, folder, begin
        self.store, self.log = folder / f"{role}.db", folder / f"{role}.log"
        self.config = folder / f"{role}.toml"
        self.config.write_text(
            f'group_file = "{folder}/group.toml"\nidentity_file = "{folder}/{role}.key"\n'
            f'broker.url = "{broker_url}"\nstore.path = "{self.store}"\n'
        )
        self._process: Process | None = None
        self._log_start = 0

    def start(self) -> None:
        """Start the process."""
        arguments = [self.role, str(self.config), str(SPEED), str(self._begin)]
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = Forked("tests.integration.crowd_operator", arguments, log)

    def is_connected(self) -> bool:
        """Return whether this life has connected to the broker."""
        return b"connected with MQTT" in self.log.read_bytes()[self._log_start :]

    def kill(self) -> None:
        """Kill the process with SIGKILL; fail with its log if it has ended by itself."""
        assert self._process is not None
        exit_code = self._process.poll()
        assert exit_code is None, f"{self.log.read_text()}\nended by itself with exit code {exit_code}"
        self._process.kill()
        self._process.wait(LIMIT_S)
        self._process = None

    def assert_healthy(self) -> None:
        """Fail unless the process answers with its state, and is connected to the broker."""
        answer = ask_socket(socket_path(self.store))
        assert answer is not None, f"{self.log.read_text()}\nthe health socket does not answer"
        state = json.loads(answer)
        assert (state["service"], state["is_connected"], state["refused_topics"]) == (self.role, True, [])

    def stop(self) -> None:
        """Stop the process with SIGTERM, and check that it ends well."""
        assert self._process is not None
        self._process.terminate()
        exit_code = self._process.wait(LIMIT_S)
        assert exit_code == 0, f"{self.log.read_text()}\nexit code {exit_code} after SIGTERM"
        self._process = None

    def interrupt(self, rng: random.Random) -> None:
        """Send one to three SIGTERMs; fail unless the process ends with 0."""
        process, self._process = self._process, None
        assert process is not None
        code = interrupted(process, rng)
        assert code == 0, (code, self.log.read_text())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)


class Totals(NamedTuple):
    """What became of the slots: what the collector received, and both ledgers."""

    received: dict[int, set[bytes]]
    leader: list[LedgerLine]
    helper: list[LedgerLine]
    slots: int
    """How many slots the homes reported in."""

    def reasons(self) -> Counter[str]:
        """Return why slots have no total; `no_report` if none arrived by the deadline."""
        results = Counter(line.result for line in self.leader)
        results["no_report"] = self.slots - results.total()
        del results["total"]
        return +results

    def assert_right(self) -> None:
        """Fail unless each slot has one total, of one set of at least the smallest crowd, as its ledger says.

        (A slot whose reports came too late has none. That is the only reason for which it may have none.)
        """
        assert set(self.reasons()) <= {"too_few", "no_report"}
        totals = {line.slot_s: line.homes for line in self.leader if line.result == "total"}
        answered = {line.slot_s: line.homes for line in self.helper if line.result == "answer"}
        assert set(self.received) == set(totals)
        assert set(totals) <= set(answered)
        for slot_s, payloads in self.received.items():
            [payload] = payloads
            record = json.loads(payload)
            homes = subset(record["value"])
            assert len(homes) == record["homes"] == totals[slot_s] == answered[slot_s] >= SMALLEST_CROWD


def subset(value: float) -> set[int]:
    """Return the homes whose energies add up to a value; fails if no homes' do."""
    quanta = round(value)
    sum_ = round(quanta / _QUANTA)
    assert abs(quanta - sum_ * _QUANTA) < _QUANTA // 4, value
    assert 0 < sum_ < 1 << HOMES, value
    return {number for number in range(HOMES) if sum_ >> number & 1}


@dataclass
class Street:
    """A group, its homes and a collector; `begin` is when the fast clocks began."""

    folder: Path
    broker: Broker
    deadline_s: int = DEADLINE_S
    begin: float = field(default_factory=time.time)
    received: dict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    lists: dict[str, KeyList] = field(default_factory=dict)
    reported: set[int] = field(default_factory=set)
    latest: set[int] = field(default_factory=set)
    """The slots of which a total was received lately."""

    def __post_init__(self) -> None:
        self._session: Session | None = None
        self._wake = asyncio.Event()
        self._unsent: dict[tuple[str, bytes], int] = {}
        self._in_flight: dict[int, tuple[str, bytes]] = {}
        self.clock = FastClock(SPEED, self.begin)
        keys = {role: identity.create(self.folder / f"{role}.key") for role in groups.ROLES}
        text = f"""version = 1
name = "street"
slot_s = {SLOT_S}
quantum_wh = 1
level = 16
hide_wh = 1
lowest_wh = 0
highest_wh = {_QUANTA << HOMES}
smallest_crowd = {SMALLEST_CROWD}
deadline_s = {self.deadline_s}
answer_s = {ANSWER_S}
"""
        for role, key in keys.items():
            text += f'[{role}]\nname = "{role}"\nidentity = "{key.public.hex()}"\n'
        (self.folder / "group.toml").write_text(text)
        self.group = groups.parse_group(text)
        self.operators = {
            role: Operator(role, self.folder, self.broker.url, self.begin) for role in groups.ROLES
        }

    async def connect(self) -> None:
        """Receive key lists and totals, and send reports, until cancelled, across restarts of the broker."""
        endpoint = Endpoint.parse(self.broker.url)
        link = Link(endpoint, "street", on_message=self._on_message, on_delivered=self._on_delivered)
        await keep_connected(link, self._serve, os.urandom)

    async def _serve(self, session: Session) -> None:
        self._session = session
        self._in_flight.clear()
        await session.subscribe("crowd/street/keys/+")
        await session.subscribe("crowd/street/total")
        while True:
            self._wake.clear()
            for topic, payload in self._unsent.keys() - set(self._in_flight.values()):
                self._in_flight[session.publish(topic, payload)] = topic, payload
            await self._wake.wait()

    def _on_message(self, topic: str, payload: bytes, _qos: int, _retain: bool, token: Token | None) -> None:
        if self._session is not None and token is not None:
            self._session.acknowledge([token])
        self._take(topic.split("/")[2:], payload)

    def _on_delivered(self, packet_id: int, _reason: int) -> None:
        """Send each report twice: mosquitto answers first and saves then, and may be killed in between."""
        message = self._in_flight.pop(packet_id)
        self._unsent[message] -= 1
        if not self._unsent[message]:
            del self._unsent[message]
        self._wake.set()

    def _take(self, topic: list[str], payload: bytes) -> None:
        if topic[0] == "keys":
            before = self.lists.get(topic[1])
            with contextlib.suppress(Malformed):
                serial = 0 if before is None else before.serial
                self.lists[topic[1]] = home.decode_key_list(self.group, topic[1], payload, serial)
        elif topic == ["total"]:
            slot_ms = parse_time(json.loads(payload)["t"])
            self.received[slot_ms // 1000].add(payload)
            self.latest.add(slot_ms // 1000)

    async def report(self) -> None:
        """Let all homes report each slot, until cancelled."""
        slot_s = int(self.clock.time()) // SLOT_S * SLOT_S
        while True:
            await asyncio.sleep(self.clock.pause_s(slot_s + SLOT_S))
            for number in range(HOMES):
                self._unsent[f"crowd/street/report/h{number}", self._report(number, slot_s)] = 2
            self._wake.set()
            self.reported.add(slot_s)
            slot_s += SLOT_S

    def _report(self, number: int, slot_s: int) -> bytes:
        keys = home.slot_keys(self.lists["leader"], self.lists["helper"], slot_s)
        assert keys is not None
        slot = home.open_slot(self.group, f"h{number}", slot_s, LATTICE, keys, SystemBits())
        return home.close_slot(self.group.id, f"h{number}", slot.with_energy((_QUANTA << number) * LATTICE))

    async def finish(self) -> Totals:
        """Wait until no slot is open, let the leader send its totals again, and return what there is."""
        leader, last_s = self.operators["leader"], max(self.reported)
        done_s = self.group.closing_s(last_s) + 60
        await asyncio.sleep(self.clock.pause_s(done_s))
        for operator in self.operators.values():  # one killed last may still be starting
            await until(operator.is_connected)
        await until(lambda: self._open_slots() == 0)
        leader.stop()
        self.latest.clear()
        leader.start()  # what the broker lost when it was killed is sent again
        slots_with_total = {line.slot_s for line in read_ledger(leader.store) if line.result == "total"}
        await until(lambda: slots_with_total <= self.latest)
        await until(leader.is_connected)  # what its former life sent may have arrived only now
        for operator in self.operators.values():
            operator.assert_healthy()
        for operator in self.operators.values():
            operator.stop()
        lines = {role: read_ledger(operator.store) for role, operator in self.operators.items()}
        return Totals(dict(self.received), lines["leader"], lines["helper"], len(self.reported))

    def _open_slots(self) -> int:
        """Return the number of slots that the leader has not finished."""
        connection = open_file(self.operators["leader"].store, "ro")
        try:
            query = "SELECT count(DISTINCT at) FROM row WHERE kind IN ('report', 'request')"
            [(count,)] = connection.execute(query)
            return int(count)
        finally:
            connection.close()


async def kill(
    folder: Path,
    broker: Broker,
    *,
    rounds: int,
    seed: int = 0,
    deadline_s: int = DEADLINE_S,
    is_stopped: bool = False,
) -> Totals:
    """Kill each victim `rounds` times, at random moments of its life; then let the street finish.

    If `is_stopped`, operators are not killed, but stopped by one to three SIGTERMs.
    """
    rng = random.Random(f"crowd{seed}")
    street = Street(folder, broker, deadline_s)
    with street.operators["leader"], street.operators["helper"]:
        connection = asyncio.create_task(street.connect())
        await until(lambda: len(street.lists) == len(street.operators))
        reporting = asyncio.create_task(street.report())
        for _ in range(rounds):
            for victim in rng.sample(VICTIMS, len(VICTIMS)):
                part: Any = broker if victim == "broker" else street.operators[victim]
                if victim != "broker":
                    await until(part.is_connected)
                await asyncio.sleep(rng.uniform(0, 2 * SPACING_S))
                if is_stopped and victim != "broker":
                    await asyncio.to_thread(part.interrupt, rng)
                else:
                    part.kill()
                part.start()
        count = len(street.reported)
        await until(lambda: len(street.reported) > count + 2)
        await end_tasks(reporting)
        totals = await street.finish()
        await end_tasks(connection)
    return totals
