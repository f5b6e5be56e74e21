"""The demo's stage: meters, broker, agent and receiver, connected as in the field.

    street -> aiomqtt -> amqtt -> meteragent run -> amqtt -> aiomqtt -> messages
    (here)               (each a separate process)           (here)

The receiver uses nothing but the messages. amqtt keeps no messages for clients that connect later, so meters
start to send only when both subscriptions are confirmed. When a sender disconnects, amqtt also discards
messages that it has acknowledged but not forwarded, so meters stay connected until everything has arrived.
"""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from aiomqtt import Client, MqttError

from simulators.street import READING_MS, Street
from simulators.wire import connect, publish

SILENCE_S = 60.0
"""The time without progress after which the demo gives up."""
AHEAD = 4
"""The largest number of slots that may be under way: amqtt queues without limit."""

CONFIGURATION = """\
[source]
url = "{url}"
protocol = "3.1.1"     # all that the embedded broker speaks
topic = "meters/{{meter}}/power"
profile = "json"
value = "power"
time = "t"
kind = "power"
unit = "W"

[window]
clock = "event"        # the readings' own time: a day passes in seconds

[privacy]
preset = "appliance"

[sink]
protocol = "3.1.1"
topic = "private/{{meter}}/power"

[store]
path = "{store}"
"""


class DemoError(Exception):
    """A failure of the demo, with its reason."""


def configuration(folder: Path, url: str = "mqtt://127.0.0.1") -> Path:
    """Write the agent's configuration, with the store beside it; return its path."""
    path = folder / "meteragent.toml"
    store = (folder / "meteragent.db").as_posix()
    path.write_text(CONFIGURATION.format(url=url, store=store), encoding="utf-8")
    return path


async def play(street: Street, slot_ms: int, folder: Path, progress: Callable[[], object]) -> list[bytes]:
    """Send all readings of a street through the agent; return the messages received, without repetitions.

    Every slot of every home must yield a record; `progress` is called for each one. The agent's files and the
    standard error of all processes stay in `folder`. Raises DemoError.
    """
    try:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(SILENCE_S) as silence:
            alive = _postpone(silence)
            async with _run_module(tasks, folder, "broker", "simulators.broker") as broker:
                url = f"mqtt://127.0.0.1:{await broker.wait_for('listening')}"
                config = str(configuration(folder, url))
                async with (
                    _run_module(tasks, folder, "agent", "meteragent", "run", config),
                    connect(url, keepalive_s=0) as receiver,  # a keepalive makes amqtt a third slower
                    connect(url, keepalive_s=0) as meters,
                ):
                    await receiver.subscribe("private/#", qos=1)
                    while await broker.wait_for("subscribed") != "meters/+/power":
                        pass
                    return await _exchange(street, slot_ms, meters, receiver, alive, progress)
    except ExceptionGroup as group:
        raise _first_failure(group) from None


async def _exchange(
    street: Street,
    slot_ms: int,
    meters: Client,
    receiver: Client,
    alive: Callable[[], object],
    progress: Callable[[], object],
) -> list[bytes]:
    """Publish and receive at the same time, until everything has been received."""
    room = asyncio.Semaphore(AHEAD)
    received: dict[bytes, None] = {}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publish(meters, _messages(street, slot_ms, room), alive))
        async for count in _count_records(receiver, received, street.homes * street.slots(slot_ms)):
            alive()
            progress()
            if count % street.homes == 0:
                room.release()
    return list(received)


def _postpone(limit: asyncio.Timeout) -> Callable[[], None]:
    """Return a function that restarts the time limit; it is meant to be called on every event."""
    now_s = asyncio.get_running_loop().time
    return lambda: limit.reschedule(now_s() + SILENCE_S)


def _first_failure(group: ExceptionGroup[Exception]) -> Exception:
    """Return an error that describes the first failure, which caused the others."""
    error = next((error for error in group.exceptions if isinstance(error, DemoError)), group.exceptions[0])
    if isinstance(error, ExceptionGroup):
        return _first_failure(error)
    if isinstance(error, TimeoutError):
        return DemoError(f"nothing has happened for {SILENCE_S:g} s")
    return DemoError(f"a connection failed: {error}") if isinstance(error, MqttError) else error


async def _messages(
    street: Street, slot_ms: int, room: asyncio.Semaphore
) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the street's messages; each slot waits until there is room for it."""
    topics = [f"meters/{meter}/power" for meter in street.meters]
    readings_per_slot = street.homes * slot_ms // READING_MS
    for count, (home, payload) in enumerate(street.messages()):
        if count % readings_per_slot == 0:
            await room.acquire()
        yield topics[home], payload


async def _count_records(receiver: Client, received: dict[bytes, None], total: int) -> AsyncIterator[int]:
    """Receive messages; yield the number of records after each new one, until there are `total`."""
    count = 0
    async for message in receiver.messages:
        payload = bytes(message.payload)
        if payload in received:
            continue
        received[payload] = None
        if message.topic.matches("private/+/power"):
            count += 1
            yield count
        if count == total:
            return


@dataclass(frozen=True, slots=True)
class _Program:
    """A process that must run until it is stopped."""

    name: str
    process: Process
    lines: asyncio.StreamReader
    log: Path

    async def wait_for(self, word: str) -> str:
        """Wait for a line on standard output that begins with a word; return the rest of it."""
        async for line in self.lines:
            line_word, _, text = line.decode().strip().partition(" ")
            if line_word == word:
                return text
        raise await self.end()

    async def end(self) -> DemoError:
        """Wait for an unexpected end of the program; return an error with the reason."""
        code = await self.process.wait()
        output = self.log.read_text(errors="replace").strip()
        return DemoError(f"the {self.name} ended with {code}\n{output}".strip())

    async def watch(self) -> NoReturn:
        """Raise DemoError if the program ends."""
        raise await self.end()

    async def stop(self) -> None:
        """Send SIGTERM, after which the program must end in an orderly way."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        if await self.process.wait() not in {0, -signal.SIGTERM}:
            raise await self.end()


@contextlib.asynccontextmanager
async def _run_module(
    tasks: asyncio.TaskGroup, folder: Path, name: str, *command: str
) -> AsyncIterator[_Program]:
    """Run a Python module as a process."""
    log = folder / f"{name}.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *command, stdin=PIPE, stdout=PIPE, stderr=errors
        )
    program = _Program(name, process, process.stdout or asyncio.StreamReader(), log)
    watch = tasks.create_task(program.watch())
    try:
        yield program
    finally:
        watch.cancel()
        await program.stop()
