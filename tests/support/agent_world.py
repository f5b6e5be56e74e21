"""Brokers and a clock that a test plays around a whole agent, over a real store."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from meteragent import agent, config
from meteragent.agent import Agent
from meteragent.agent.clock import BootClock
from meteragent.agent.environment import Environment
from meteragent.agent.notify import Notify
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.mqtt import Endpoint, Session, Token
from meteragent.privacy.bits import SecretBits
from meteragent.privacy.sampling import SystemBits
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
"""One-second windows whose noise is 0 but for once in 10^43."""


def reading(watts: int, time_ms: int) -> bytes:
    """As meters send it."""
    return b'{"power":%d,"t":%d}' % (watts, time_ms)


class Side:
    """One connection of the agent, and what it gives to it."""

    def __init__(self, client_id: str, options: dict[str, Any]) -> None:
        self.client_id = client_id
        self.session = FakeSession()
        self._options = options

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
        """Give the agent a message."""
        self._options["on_message"](topic, payload, qos, retain, token)

    def send(self, watts: int, meter: str = "m", *, time_ms: int = START_MS) -> None:
        """A reading arrives."""
        self.session.send(self, reading(watts, time_ms), f"meters/{meter}/power")

    def lose(self) -> None:
        """The connection is lost."""
        self._options["count"]("lost")

    def confirm(self, publication: Publication) -> None:
        """The broker confirms a publication."""
        self._options["on_delivered"](self.session.answered(publication), 0)


def quick(folder: Path, monkeypatch: pytest.MonkeyPatch) -> "World":
    """A world whose agent looks at its clock every 2 ms, and does not wait for brokers at a stop."""
    made = World(folder)
    monkeypatch.setattr(agent, "DRAIN_S", 0.01)
    monkeypatch.setattr(agent, "keep_connected", made.keep_connected)
    for place in (agent, agent.runner):
        monkeypatch.setattr(place, "POLL_S", 0.002)
    monkeypatch.setattr("meteragent.agent.sink.POLL_S", 0.002)
    feed = Pipeline.feed

    def counted(core: Pipeline, batch: Sequence[Message], now_ms: int, *more: Any) -> Effects:
        made.feeds[core.name, now_ms] += 1
        return feed(core, batch, now_ms, *more)

    monkeypatch.setattr(Pipeline, "feed", counted)
    return made


class World:
    """A folder, a clock, and brokers to which every connection succeeds at once."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "db"
        self.now_ms = START_MS
        self.ahead_ms = 0
        self.synchronised: bool | None = True
        self.listen_s = 0.0
        self.pipeline: type[Pipeline] = Pipeline
        self.read = asyncio.Event()
        self.feeds = Counter[tuple[str, int]]()
        self.sides: dict[str, Side] = {}
        self.connected = asyncio.Event()
        self._names = ["main"]
        self._suffixes = [""]
        self._sinks: list[str] = []

    def wall_ms(self) -> int:
        """The time, and that somebody has asked."""
        self.read.set()
        return self.now_ms

    def boot(self) -> BootClock:
        """A boot clock that goes as the wall clock does, but for what a test sets that ahead by."""
        return BootClock(lambda: self.now_ms - self.ahead_ms - START_MS, lambda: self.synchronised)

    def environment(self, **parts: Any) -> Environment:
        """What the agent stands on: this world's clocks, and the system's randomness and store."""
        return Environment(
            wall_ms=self.wall_ms, boot=self.boot(), pipeline=self.pipeline, listen_s=self.listen_s, **parts
        )

    def parse(self, text: str) -> config.Config:
        """A configuration over this folder."""
        return config.parse(f'{text}\n[store]\npath = "{self.store}"\n')

    async def keep_connected(
        self,
        _: Endpoint,
        client_id: str,
        serve: Callable[[Session], Awaitable[None]],
        **options: Any,
    ) -> NoReturn:
        """In the place of meteragent.mqtt.keep_connected."""
        name = client_id.partition("-")[2].partition("-")[2]
        if name == "sink":  # its id does not tell the stream's name; streams connect in their order
            if client_id not in self._sinks:
                self._sinks.append(client_id)
            name += self._suffixes[self._sinks.index(client_id)]
        side = self.sides[name] = Side(client_id, options)
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
        """The agent at work, stopped when the block ends."""
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
        """The agent looks at its clock so many times."""
        for _ in range(number):
            self.read.clear()
            async with asyncio.timeout(LIMIT_S):
                await self.read.wait()

    async def settle(self) -> None:
        """Wait until what has come and falls due by now is committed: each core is fed, and again."""
        fed = {name: self.feeds[name, self.now_ms] for name in self._names}
        await self.until(lambda: all(self.feeds[name, self.now_ms] >= fed[name] + 3 for name in fed))

    async def until(self, true: Callable[[], bool]) -> None:
        """Turn until something is true."""
        async with asyncio.timeout(LIMIT_S):
            while not true():
                await self.turn(1)

    async def records(self, number: int, side: str = "sink") -> list[tuple[str, int, int]]:
        """The next records, confirmed: topic, start (s after START_MS), value; no descriptors."""
        found: list[tuple[str, int, int]] = []
        while len(found) < number:
            sent = await self.sides[side].session.next()
            self.sides[side].confirm(sent)
            if not sent.retain:
                record = json.loads(sent.payload)
                seconds = (parse_time(record["t"]) - START_MS) // 1000
                found.append((sent.topic, seconds, record["value"]))
        return found
