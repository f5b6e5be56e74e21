r"""The stage of the crowd's demo: homes that report to two operators and also release their own numbers.

    street -> meters -> the agent -> each home's private numbers -------> receiver
    (here)                       \-> reports -> leader -> totals -------> (here)
                                     leader <-> helper

All messages pass through one broker. The agent and the operators are separate processes, with a clock that
the stage advances from reading to reading. At the last reading of a slot and at the first reading of the next
slot, the clock stands still until all messages sent so far have been handled, so the result does not depend
on the machine's speed. If the clock overtakes a request or an answer, that message is sent again. After the
last day, the clock runs until the last total has been published.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from aiomqtt import Client

from meteragent.crowd import group as groups
from meteragent.service.health import ask_socket, socket_path
from meteragent.store import crowd_keys, read_only
from simulators.crowd import files as crowd_files
from simulators.crowd.files import NAME, PER_SLOT, SLOT_MS, STREAMS
from simulators.crowd.staged import AGENT, POLL_S, StagedClock
from simulators.demo.program import Program, Programs, programs
from simulators.homes.street import READING_MS, START_MS, Street
from simulators.wire import connect, publish

_KEYS = tuple(f"crowd/{NAME}/keys/{role}" for role in groups.ROLES)
_TOTAL = f"crowd/{NAME}/total"


class Received(NamedTuple):
    """A receiver's messages: the homes' private numbers and the totals, without repetitions.

    Both lists also hold the descriptors.
    """

    numbers: list[bytes]
    totals: list[bytes]


async def play(street: Street, folder: Path, progress: Callable[[], object]) -> Received:
    """Send all readings of a street through the agent and the operators; return a receiver's messages.

    `progress` is called for each total. All files, and the standard error of all processes, are in `folder`.
    Raises DemoError if a program or a connection fails, or if there is no progress for a minute.
    """
    async with programs(folder) as stage, stage.run("broker", "simulators.demo.broker") as broker:
        url = f"mqtt://127.0.0.1:{await broker.wait_for('listening')}"
        crowd_files.write(folder, url, street.homes)
        async with (
            connect(url, keepalive_s=0) as receiver,  # a keepalive makes amqtt a third slower
            connect(url, keepalive_s=0) as meters,
        ):
            day = _Day(street, folder, stage, progress)
            receiver_task = stage.tasks.create_task(day.receive(receiver))
            try:
                async with day.run("leader"), day.run("helper"):
                    await day.publish_keys()
                    async with day.run(AGENT):
                        await day.introduce(broker)
                        await day.send(meters)
                    await day.finish()
            finally:
                receiver_task.cancel()
            return day.received()


class _Day:
    """The simulated days of a street: their clock, their programs and the messages received so far."""

    def __init__(self, street: Street, folder: Path, stage: Programs, progress: Callable[[], object]) -> None:
        self._street, self._folder, self._stage, self._progress = street, folder, stage, progress
        self._clock = StagedClock(folder / "clock")
        self._inbox: dict[str, dict[bytes, None]] = defaultdict(dict)
        self._set(-PER_SLOT)

    def run(self, role: str) -> AbstractAsyncContextManager[Program]:
        """Run the agent or an operator, with the demo's clock."""
        files = str(self._folder / f"{role}.toml"), str(self._folder / "clock")
        return self._stage.run(role, "simulators.crowd.staged", role, *files)

    async def receive(self, receiver: Client) -> None:
        """Store each message that the receiver gets, without repetitions, until the task is cancelled."""
        for topic in ("private/#", *_KEYS, _TOTAL, f"{_TOTAL}/privacy"):
            await receiver.subscribe(topic, qos=1)
        async for message in receiver.messages:
            topic, payload = str(message.topic), bytes(message.payload)
            if payload not in self._inbox[topic]:
                self._inbox[topic][payload] = None
                self._stage.alive()
                if topic == _TOTAL:
                    self._progress()

    def received(self) -> Received:
        """Return the messages received so far."""
        numbers = [
            payload
            for topic, payloads in self._inbox.items()
            if topic.startswith("private/")
            for payload in payloads
        ]
        return Received(numbers, [*self._inbox[f"{_TOTAL}/privacy"], *self._inbox[_TOTAL]])

    async def publish_keys(self) -> None:
        """Wait until both operators are connected; advance the clock, so that they publish their keys."""
        for role in groups.ROLES:
            await _until(partial(self._is_connected, role))
        self._set(2 - PER_SLOT)
        await _until(lambda: all(self._inbox[topic] for topic in (*_KEYS, f"{_TOTAL}/privacy")))

    async def introduce(self, broker: Program) -> None:
        """Wait until the agent has subscribed and has both operators' keys."""
        for _ in STREAMS:
            while await broker.wait_for("subscribed") != "meters/+/power":
                pass
        await _until(self._has_keys)

    async def send(self, meters: Client) -> None:
        """Send each reading at its time. The first reading, before day 0, makes a home known to the agent."""
        topics = [f"meters/{meter}/power" for meter in self._street.meters]
        for index in range(-1, self._street.slots(SLOT_MS) * PER_SLOT + 1):
            self._set(index)
            await publish(meters, _each(zip(topics, self._street.payloads(index), strict=True)), _ignore)
            if index % PER_SLOT in (0, PER_SLOT - 1):
                await _until(partial(self._is_handled, index))

    async def finish(self) -> None:
        """Advance the clock until the last total has been received."""
        slots = self._street.slots(SLOT_MS)
        index = slots * PER_SLOT
        while len(self._inbox[_TOTAL]) < slots:
            index += 1
            self._set(index)
            await asyncio.sleep(10 * POLL_S)

    def _is_connected(self, role: str) -> bool:
        """Return whether an operator is connected to the broker."""
        return bool(self._ask(role).get("is_connected"))

    def _is_handled(self, index: int) -> bool:
        """Return whether all readings up to `index`, and all resulting messages, have been handled."""
        messages = self._street.homes * max(index // PER_SLOT, 0)
        numbers = sum(len(self._inbox[f"private/{meter}/power"]) for meter in self._street.meters)
        return (
            numbers >= messages
            and self._count("leader", "reports") >= messages
            and self._count(AGENT, "accepted") >= len(STREAMS) * self._street.homes * (index + 2)
        )

    def _count(self, role: str, name: str) -> int:
        """Return the named counter of a program."""
        return int(self._ask(role).get("counts", {}).get(name, 0))

    def _ask(self, role: str) -> dict[str, Any]:
        """Return a program's state, or an empty dictionary if the program does not answer yet."""
        answer = ask_socket(socket_path(self._folder / f"{role}.db"))
        return {} if answer is None else dict(json.loads(answer))

    def _has_keys(self) -> bool:
        """Return whether the agent's store has the keys of both operators."""
        group = groups.parse_group((self._folder / "group.toml").read_text(encoding="utf-8"))
        with read_only(self._folder / f"{AGENT}.db") as connection:
            return len(crowd_keys.read_keys(connection, group.id.hex())) == len(groups.ROLES)

    def _set(self, index: int) -> None:
        """Set the clock to the time of the reading with the given index."""
        self._clock.set(START_MS + index * READING_MS)


async def _until(condition: Callable[[], object]) -> None:
    """Wait until `condition` returns a true value; check it every `POLL_S` seconds."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110  other processes set no event
        await asyncio.sleep(POLL_S)


async def _each(messages: Iterable[tuple[str, bytes]]) -> AsyncIterator[tuple[str, bytes]]:
    for message in messages:
        yield message


def _ignore() -> None:
    """Ignore the broker's acknowledgement of a message."""
