"""Two receivers at two brokers, of which one is struck in each round, and kills of the agent meanwhile.

A round strikes one side: its broker is killed, stands still, or refuses the topics; another store's
descriptor is retained on the topic of a new meter; or the receiver is paused, and admitted again. Meanwhile
the agent is killed, and the other side must get newer slots before the round goes on. Both sides get the same
bytes for a slot, so a second draw of an interval shows.
"""

import asyncio
import json
import os
import random
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from aiomqtt import Client

from meteragent.domain.grid import iso_time, parse_time
from tests.integration.hurried import FastClock, make_clock
from tests.integration.kills import UNLIMITED
from tests.integration.service import LIMIT_S, Service, end_tasks, service, until
from tests.integration.wire import Receiver
from tests.support.broker import Broker

START_MS = 1_803_859_200_000
SLOT_MS = 1_800_000
HOUR_S = 2
LISTEN_S = 0.5
"""How long the agent listens for another store before a meter's first window, instead of ten seconds."""
PROGRAM = ("tests.integration.hurried",)
NAMES = ("utility", "app")
FAULTS = ("killed", "still", "refusing", "foreign", "paused")
REFUSES = "topic read #\ntopic write private/end\n"
ALLOWS = "topic readwrite #\n"
SOURCE = """
store.path = "{1}"
[source]
url = "{0}"
topic = "meters/{{meter}}/power"
kind = "power"
unit = "W"
"""
RECEIVER = """
[[receiver]]
name = "{}"
url = "{}"
topic = "{}"
paused = {}
"""
FOREIGN = {"id": "0", "store": "0123456789abcdef", "meter": "m", "valid_from": iso_time(START_MS)}
"""What the agent reads of a descriptor of another store."""


class Kept(NamedTuple):
    """What both sides got in rounds, and what was wrong with it."""

    rounds: int
    slots: int
    mistakes: tuple[str, ...]


class Side:
    """A receiver, its broker, and all that arrived there."""

    def __init__(self, name: str, broker: Broker, inbox: Receiver) -> None:
        self.name, self.broker, self.inbox = name, broker, inbox

    def topic(self, meter: str) -> str:
        """Return the topic of a meter's records."""
        return f"private/{self.name}/{meter}"

    def forms(self, meter: str) -> dict[int, set[bytes]]:
        """Return the distinct records of each slot, by its start."""
        forms = defaultdict[int, set[bytes]](set)
        for payload in self.inbox.messages.get(self.topic(meter), ()):
            forms[parse_time(json.loads(payload)["t"])].add(payload)
        return forms

    def newest_ms(self, meter: str) -> int:
        """Return the start of the newest slot, or 0."""
        return max(self.forms(meter), default=0)


class Barrier(NamedTuple):
    """A time in which windows of a meter that open are not a side's; `before` are the slots that it had."""

    side: str
    meter: str
    from_ms: int
    until_ms: int
    before: frozenset[int]


class Rounds:
    """The agent between a broker of meters and two sides, and what each side must not get."""

    def __init__(self, agent: Service, home: Broker, sides: Mapping[str, Side], clock: FastClock) -> None:
        self.agent, self.home, self.sides, self.clock = agent, home, sides, clock
        self.meters, self.known, self.barriers = ["m"], ["m"], list[Barrier]()

    def write(self, paused_name: str | None = None) -> None:
        """Write the configuration; one of the receivers may be paused."""
        text = SOURCE.format(self.home.url, self.agent.store)
        for side in self.sides.values():
            is_paused = str(side.name == paused_name).lower()
            text += RECEIVER.format(side.name, side.broker.url, side.topic("{meter}"), is_paused)
        self.agent.path.write_text(text)

    async def send(self) -> None:
        """Send each meter's power 20 times a second."""
        async with Client("127.0.0.1", self.home.port) as client:
            while True:
                for meter in self.meters:
                    await client.publish(f"meters/{meter}/power", "250", qos=1)
                await asyncio.sleep(0.05)

    async def restart(self) -> None:
        """Kill the agent, and start it."""
        await self.agent.kill()
        self.agent.start()

    async def goes_on(self, side: Side, meter: str, slots: int = 2) -> None:
        """Wait until a side has got newer slots of a meter."""
        newest_ms = side.newest_ms(meter) or self.clock()
        await until(lambda: side.newest_ms(meter) >= newest_ms + slots * SLOT_MS)

    async def strike(self, fault: str, side: Side, number: int, rng: random.Random) -> None:
        """Strike a side, and kill the agent; the other side goes on meanwhile, and this one afterwards."""
        other = next(item for item in self.sides.values() if item is not side)
        meter = f"m{number}" if fault == "foreign" else "m"
        if fault == "foreign":
            await retain(side, meter, json.dumps(FOREIGN).encode())
            self.meters.append(meter)
            self.known.append(meter)
        from_ms = self.clock()
        await self.begin(fault, side)
        await asyncio.sleep(rng.uniform(0.1, 1.5))
        await self.restart()
        await self.goes_on(other, meter)
        if fault in {"foreign", "paused"}:
            until_ms, meters = self.clock(), [meter] if fault == "foreign" else self.known
            self.barriers += [
                Barrier(side.name, name, from_ms, until_ms, frozenset(side.forms(name))) for name in meters
            ]
        await self.end(fault, side, meter)
        await self.goes_on(side, meter)
        self.meters = ["m"]

    async def begin(self, fault: str, side: Side) -> None:
        """Let a fault of a side's broker or configuration begin."""
        match fault:
            case "killed":
                side.broker.kill()
            case "still":
                os.kill(side.broker.pid, signal.SIGSTOP)
            case "refusing":
                (side.broker.folder / "acl").write_text(REFUSES)
                side.broker.reload()
            case "paused":
                self.write(paused_name=side.name)
                await self.restart()

    async def end(self, fault: str, side: Side, meter: str) -> None:
        """End a fault. The agent is restarted where it would look again only after a while."""
        match fault:
            case "killed":
                side.broker.start()
            case "still":
                os.kill(side.broker.pid, signal.SIGCONT)
            case "refusing":
                (side.broker.folder / "acl").write_text(ALLOWS)
                side.broker.reload()
                await self.restart()
            case "foreign":
                await retain(side, meter, b"")
                await self.restart()
            case "paused":
                self.write()
                await self.restart()

    def mistakes(self) -> list[str]:
        """Return what is wrong with all that both sides got."""
        texts = []
        for meter in self.known:
            tables = {side.name: side.forms(meter) for side in self.sides.values()}
            every = defaultdict[int, set[bytes]](set)
            for table in tables.values():
                for start_ms, forms in table.items():
                    every[start_ms] |= forms
            texts += [f"{meter}: two draws of {iso_time(t)}" for t, forms in every.items() if len(forms) > 1]
            last_ms = min(max(table, default=0) for table in tables.values())
            due = set(range(min(every), last_ms, SLOT_MS))
            texts += [f"{meter}: nobody got {iso_time(t)}" for t in sorted(due - every.keys())]
            for name, table in tables.items():
                texts += [
                    f"{name}: {text}" for text in self._of_side(name, meter, set(table), due & every.keys())
                ]
        return texts

    def _of_side(self, name: str, meter: str, got: set[int], due: set[int]) -> list[str]:
        """Return the slots that a side must not have, and those that it lacks.

        It may lack those before it was admitted: before its first slot, and from a barrier's begin until its
        first slot after the barrier.
        """
        texts, excused = [], {t for t in due if t < min(got)}
        for barrier in self.barriers:
            if (barrier.side, barrier.meter) == (name, meter):
                strays = {t for t in got - barrier.before if t < barrier.until_ms}
                texts += [f"{meter}: {iso_time(t)} is of a time that is not its own" for t in sorted(strays)]
                # Without a slot since then, nothing later is due: `mistakes` ends at the older last slot.
                first_ms = min((t for t in got if t >= barrier.until_ms), default=barrier.until_ms)
                excused |= set(range(barrier.from_ms // SLOT_MS * SLOT_MS - SLOT_MS, first_ms, SLOT_MS))
        return texts + [f"{meter}: lacks {iso_time(t)}" for t in sorted(due - got - excused)]


async def retain(side: Side, meter: str, payload: bytes) -> None:
    """Retain a message on the topic of a meter's descriptors, or clear it."""
    async with Client("127.0.0.1", side.broker.port) as client:
        await client.publish(f"{side.topic(meter)}/privacy", payload, qos=1, retain=True)


@asynccontextmanager
async def prepared(program: Path, folder: Path) -> AsyncIterator[Rounds]:
    """Start three brokers, both sides' inboxes, the agent and its meter; end them with the block."""
    with ExitStack() as stack:
        home, *outside = [
            stack.enter_context(
                Broker(
                    program,
                    make_folder(folder / name),
                    is_persistent=name != "home",
                    settings=UNLIMITED,
                    acl=ALLOWS,
                )
            )
            for name in ("home", *NAMES)
        ]
        clock = make_clock(make_folder(folder / "agent"), START_MS, HOUR_S, listen_s=LISTEN_S)
        agent = stack.enter_context(service(folder / "agent", "", program=PROGRAM))
        async with Receiver(outside[0]) as first, Receiver(outside[1]) as second:
            sides = {
                name: Side(name, broker, inbox)
                for name, broker, inbox in zip(NAMES, outside, (first, second), strict=True)
            }
            rounds = Rounds(agent, home, sides, clock)
            rounds.write()
            agent.start()
            feed_task = asyncio.create_task(rounds.send())
            try:
                yield rounds
            finally:
                await end_tasks(feed_task)


async def kill_beside_receivers(program: Path, folder: Path, count: int, seed: int) -> Kept:
    """Run rounds, each fault in turn, at a random side; return what both sides got."""
    rng = random.Random(seed)
    async with prepared(program, folder) as rounds:
        sides = list(rounds.sides.values())
        for side in sides:
            await rounds.goes_on(side, "m")
        for number in range(count):
            fault, side = FAULTS[number % len(FAULTS)], rng.choice(sides)
            await side.inbox.connected.wait()
            async with asyncio.timeout(LIMIT_S):
                await rounds.strike(fault, side, number, rng)
        await rounds.agent.stop()
        for side in sides:
            await side.inbox.flush(side.broker.url)
        slots = sum(len(side.forms(meter)) for side in sides for meter in rounds.known)
        return Kept(count, slots, tuple(rounds.mistakes()))


def make_folder(folder: Path) -> Path:
    """Make a folder."""
    folder.mkdir(parents=True)
    return folder
