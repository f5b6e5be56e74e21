"""A whole agent with a real store, simulated brokers and a simulated clock."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from meteragent import config
from meteragent.agent import runner, service, unit
from meteragent.agent.environment import Environment
from meteragent.agent.service import Agent
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.mqtt import Entropy, Link, Session, Token
from meteragent.privacy.bits import SecretBits
from meteragent.privacy.sampling import SystemBits
from meteragent.service.boot_clock import BootClock
from meteragent.service.process import Notify
from tests.support.fake_session import LIMIT_S, FakeSession, Publication

START_MS = 1_800_000_000_000
STEP_MS = 1000

STREAM = """
[{0}source]
topic = "meters/{{meter}}/power"
profile = "json"
time = "t"
kind = "power"
unit = "W"
[{0}window]
length = "1s"
catch_up = "5s"
[{0}privacy]
level = 1000
radius = 10
[{0}sink]
topic = "private{1}/{{meter}}"
"""
"""One-second windows whose noise is 0, except with a probability of 1e-43."""


def reading(watts: int, time_ms: int) -> bytes:
    """Return the JSON payload that a meter sends."""
    return b'{"power":%d,"t":%d}' % (watts, time_ms)


class Side:
    """A connection of the agent, and the callbacks that the agent registered for it."""

    def __init__(self, link: Link) -> None:
        self.client_id = link.client_id
        self.session = FakeSession()
        self.link = link

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
        """Pass a message to the agent."""
        self.link.on_message(topic, payload, qos, retain, token)

    def send(self, watts: int, meter: str = "m", *, time_ms: int = START_MS) -> None:
        """Send a reading of a meter to the agent."""
        self.session.send(self, reading(watts, time_ms), f"meters/{meter}/power")

    def lose(self) -> None:
        """Report to the agent that the connection was lost."""
        self.link.count("lost")

    def confirm(self, publication: Publication) -> None:
        """Confirm a publication, as the broker does."""
        self.link.on_delivered(self.session.answered(publication), 0)


def quick(folder: Path, monkeypatch: pytest.MonkeyPatch) -> "World":
    """Return a world whose agent polls its clock every 2 ms and does not wait for brokers when it stops."""
    world = World(folder)
    monkeypatch.setattr(service, "DRAIN_S", 0.01)
    monkeypatch.setattr(unit, "keep_connected", world.keep_connected)
    for place in (service, runner):
        monkeypatch.setattr(place, "POLL_S", 0.002)
    monkeypatch.setattr("meteragent.agent.link.sink.POLL_S", 0.002)
    feed = Pipeline.feed

    def counted(core: Pipeline, batch: Sequence[Message], now_ms: int, *options: Any) -> Effects:
        """Count the call, then feed the core."""
        world.feeds[core.name, now_ms] += 1
        return feed(core, batch, now_ms, *options)

    monkeypatch.setattr(Pipeline, "feed", counted)
    return world


class World:
    """A folder, a clock, and brokers that accept every connection at once."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "db"
        self.now_ms = START_MS
        self.ahead_ms = 0
        self.boot_id = "boot"
        self.synchronised: bool | None = True
        self.listen_s = 0.0
        self.pipeline: type[Pipeline] = Pipeline
        self.clock_read = asyncio.Event()
        self.feeds = Counter[tuple[str, int]]()
        self.sides: dict[str, Side] = {}
        self.connected = asyncio.Event()
        self._names = ["main"]
        self._suffixes = [""]
        self._sinks: list[str] = []

    def wall_ms(self) -> int:
        """Return the time, and record that the agent read the clock."""
        self.clock_read.set()
        return self.now_ms

    def boot(self) -> BootClock:
        """Return a boot clock that runs with the wall clock and lags behind it by `ahead_ms`."""
        return BootClock(
            lambda: self.now_ms - self.ahead_ms - START_MS, lambda: self.synchronised, self.boot_id
        )

    def environment(self, **parts: Any) -> Environment:
        """Return the agent's environment: this world's clocks, and the system's randomness and store."""
        return Environment(
            wall_ms=self.wall_ms, boot=self.boot(), pipeline=self.pipeline, listen_s=self.listen_s, **parts
        )

    def parse(self, text: str) -> config.Config:
        """Parse a configuration whose store is in this folder."""
        return config.parse(f'{text}\n[store]\npath = "{self.store}"\n')

    async def keep_connected(
        self, link: Link, serve: Callable[[Session], Awaitable[None]], _: Entropy
    ) -> NoReturn:
        """Replace `meteragent.mqtt.keep_connected`."""
        client_id = link.client_id
        name = client_id.partition("-")[2].partition("-")[2]
        if name == "sink":  # a sink's client id does not name its stream; streams connect in order
            if client_id not in self._sinks:
                self._sinks.append(client_id)
            name += self._suffixes[self._sinks.index(client_id)]
        side = self.sides[name] = Side(link)
        if {"source", "sink"} <= {name.partition("-")[0] for name in self.sides}:
            self.connected.set()
        try:
            await serve(side.session)
            await asyncio.Event().wait()
        finally:
            side.session.over = True
        raise AssertionError

    @asynccontextmanager
    async def running(
        self, text: str = STREAM.format("", ""), bits: SecretBits | None = None, notify: Notify | None = None
    ) -> AsyncIterator["asyncio.Task[None]"]:
        """Run the agent until the block ends."""
        self.sides.clear()
        self.connected.clear()
        self._names = [stream.name for stream in self.parse(text).stream]
        self._suffixes = ["" if name == "main" else f"-{name}" for name in self._names]
        self._sinks = []
        environment = self.environment(bits=bits or SystemBits(), notify=notify or Notify())
        self.agent = Agent(self.parse(text), environment)
        task = asyncio.create_task(self.agent.run())
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.connected.wait()
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def turn(self, number: int = 6) -> None:
        """Wait until the agent has read its clock `number` times."""
        for _ in range(number):
            self.clock_read.clear()
            async with asyncio.timeout(LIMIT_S):
                await self.clock_read.wait()

    async def settle(self) -> None:
        """Wait until all readings that arrived and all slots that are due have been committed.

        Three more feeds of each core are enough.
        """
        fed = {name: self.feeds[name, self.now_ms] for name in self._names}
        await self.until(lambda: all(self.feeds[name, self.now_ms] >= fed[name] + 3 for name in fed))

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until a condition is true."""
        async with asyncio.timeout(LIMIT_S):
            while not true():
                await self.turn(1)

    async def records(self, number: int, side: str = "sink") -> list[tuple[str, int, int]]:
        """Confirm and return the next records: topic, start (s after START_MS) and value.

        Descriptors are confirmed and left out.
        """
        records: list[tuple[str, int, int]] = []
        while len(records) < number:
            publication = await self.sides[side].session.next()
            self.sides[side].confirm(publication)
            if not publication.retain:
                record = json.loads(publication.payload)
                seconds = (parse_time(record["t"]) - START_MS) // 1000
                records.append((publication.topic, seconds, record["value"]))
        return records
