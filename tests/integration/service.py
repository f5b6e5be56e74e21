"""The agent as a service manager runs it, meters that send, and a utility that notes what comes and when."""

import asyncio
import json
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

from aiomqtt import Client, MqttError

from meteragent.domain.grid import parse_time
from simulators.commands.replay import connect
from tests.integration import forked
from tests.integration.forked import Forked, Process
from tests.support.broker import Broker, Server
from tests.support.not_run import ROOT

LIMIT_S = 120.0
"""No test waits longer than this for anything: an agent that is refused again and again waits for 30 s."""
PAUSE_S = 0.01

DURABLE: dict[str, Any] = {
    "clean_session": False,
    "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
}
TELL_ALL = {"log_type": "all"}
"""Settings of a mosquitto that writes down every packet."""


ALONE = ("tests.integration.alone",)
"""meteragent, but for the ten seconds in which it would listen for another agent."""


def now_ms() -> int:
    """Return the wall-clock time."""
    return time.time_ns() // 1_000_000


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they end: up to Python 3.11, `asyncio.wait_for` can swallow a cancellation."""
    while running_tasks := [task for task in tasks if not task.done()]:
        for task in running_tasks:
            task.cancel()
        await asyncio.wait(running_tasks, timeout=1)


async def until(true: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait for something to become true; raises TimeoutError."""
    async with asyncio.timeout(limit_s):
        while True:
            if true():
                return
            await asyncio.sleep(PAUSE_S)


def has_sigterm_handler(pid: int) -> bool:
    """Return whether a process catches or ignores SIGTERM, which no Python program does when it begins."""
    masks = re.findall(r"Sig(?:Cgt|Ign):\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks)


def interrupted(process: Process, rng: random.Random) -> int:
    """Send a process one to three SIGTERMs, up to 0.2 s apart, once it handles them; return its exit code."""
    deadline_s = time.monotonic() + LIMIT_S
    while process.poll() is None and not has_sigterm_handler(process.pid):
        assert time.monotonic() < deadline_s
        time.sleep(PAUSE_S)
    for _ in range(rng.choice([1, 2, 3])):
        process.terminate()
        time.sleep(rng.uniform(0, 0.2))
    return process.wait(LIMIT_S)


async def until_ms(time_ms: float) -> None:
    """Wait for a time of the wall clock."""
    await asyncio.sleep(max(0, time_ms - now_ms()) / 1000)


def stream(
    source_url: str,
    sink_url: str | None = None,
    *,
    name: str = "main",
    source: str = "",
    window: str = "",
    privacy: str = "level = 1000\nradius = 10",
    sink: str = "",
) -> str:
    """Return a stream of JSON readings, with one-second windows and noise that is 0 but for once in 10^43."""
    window = window if "length" in window else f'length = "1s"\n{window}'
    return f"""
[[stream]]
name = "{name}"
[stream.source]
url = "{source_url}"
topic = "meters/{{meter}}/power"
profile = "json"
time = "t"
kind = "power"
unit = "W"
{source}
[stream.window]
{window}
[stream.privacy]
{privacy}
[stream.sink]
url = "{sink_url or source_url}"
topic = "private/{name}/{{meter}}"
{sink}
"""


class Service:
    """`meteragent run` on a configuration of its own folder; it may be ended and started again.

    `program` is what runs instead: `meteragent` itself, or `tests.integration.altered NAME`. It is forked, as
    `tests.integration.forked` says; or it is executed, if `through` is a command that starts it, or empty.
    """

    def __init__(
        self,
        folder: Path,
        streams: str,
        store: str = "",
        *,
        program: Sequence[str] = ALONE,
        through: Sequence[str] | None = None,
    ) -> None:
        self._command = [*program, "run", str(folder / "meteragent.toml")]
        self._through = through
        self.store = folder / "db"
        self.path = folder / "meteragent.toml"
        self._log = folder / "log"
        self._process: Process | None = None
        self.path.write_text(f'{streams}\n[store]\npath = "{self.store}"\n{store}\n')

    def start(self, *, file_bytes: int | None = None) -> None:
        """Start it; it is not ready when this returns. `file_bytes`: the largest file it may write."""
        with self._log.open("ab") as log:
            if self._through is None:
                self._process = Forked(self._command[0], self._command[1:], log)
            else:
                command = [*self._through, sys.executable, "-m", *self._command]
                self._process = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)
        if file_bytes is not None:
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    async def code(self) -> int:
        """Wait for its end; returns its exit code."""
        process = self._process
        assert process is not None
        await until(lambda: process.poll() is not None)
        self._process = None
        return process.wait()

    async def run(self) -> int:
        """Start it and wait for its end."""
        self.start()
        return await self.code()

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal; it must run."""
        assert self._process is not None
        assert self._process.poll() is None, self.log
        self._process.send_signal(number)

    async def stop(self) -> None:
        """Send SIGTERM; fail unless the process exits with 0."""
        self.signal()
        assert await self.code() == 0, self.log

    async def interrupt(self, rng: random.Random) -> None:
        """Send one to three SIGTERMs; fail unless the process exits with 0."""
        process, self._process = self._process, None
        assert process is not None
        assert await asyncio.to_thread(interrupted, process, rng) == 0, self.log

    async def kill(self) -> None:
        """Send SIGKILL."""
        self.signal(signal.SIGKILL)
        await self.code()

    def end(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)

    @property
    def log(self) -> str:
        """All that it has said."""
        return self._log.read_text()

    @property
    def totals(self) -> Counter[str]:
        """The counters that were logged last."""
        line = self.log.rpartition("totals: ")[2].partition("\n")[0]
        return Counter({name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", line)})

    def command(
        self, name: str, *arguments: str, before: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]":
        """Run another command on its configuration, through what may stand before it (such as nice)."""
        if not before:
            return forked.run("meteragent", name, str(self.path), *arguments)
        command = [*before, sys.executable, "-m", "meteragent", name, str(self.path), *arguments]
        return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


@contextmanager
def service(
    folder: Path,
    streams: str,
    store: str = "",
    *,
    program: Sequence[str] = ALONE,
    through: Sequence[str] | None = None,
) -> Iterator[Service]:
    """Make a service in a new folder, without starting it; end it with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    process = Service(folder, streams, store, program=program, through=through)
    try:
        yield process
    finally:
        process.end()


def count_in_log(broker: Broker, pattern: str) -> int:
    """Return how often a pattern is in the log of a broker."""
    return len(re.findall(pattern, (broker.folder / "log").read_text()))


SUBSCRIBED = r"Sending SUBACK to meteragent-\w+-source"
ACKNOWLEDGED = r"Received PUBACK from meteragent-\w+-source"
SINK_CONNECTED = r"Sending CONNACK to meteragent-\w+-sink"


async def subscribed(broker: Broker, times: int = 1) -> None:
    """Wait until a service has subscribed this number of times since the broker was made."""
    await until(lambda: count_in_log(broker, SUBSCRIBED) >= times)


class Sent(NamedTuple):
    """A reading as it was sent."""

    meter: str
    time_ms: int
    watts: int


def mean_w(readings: Iterable[Sent], meter: str, start_ms: int, step_ms: int, hold_ms: int) -> Fraction:
    """Return a slot's exact mean: each reading held until the next, for at most `hold`."""
    ordered = sorted(reading for reading in readings if reading.meter == meter)
    energy = 0
    for reading, after in pairwise([*ordered, Sent(meter, start_ms + step_ms, 0)]):
        begin_ms = max(reading.time_ms, start_ms)
        end_ms = min(after.time_ms, reading.time_ms + hold_ms, start_ms + step_ms)
        energy += reading.watts * max(0, end_ms - begin_ms)
    return Fraction(energy, step_ms)


def is_released(value: float, mean: Fraction) -> bool:
    """Return whether a value without noise can be of a mean: its whole watts, or one more by the dither."""
    return abs(Fraction(value) - mean) < 1


class Meters:
    """A connection of meters to their broker."""

    def __init__(self, client: Client) -> None:
        self.sent: list[Sent] = []
        self._client = client
        self._newest_ms: dict[str, int] = {}

    async def send(
        self, meter: str, watts: int, time_ms: int | None = None, *, qos: int = 1, retain: bool = False
    ) -> None:
        """Send a reading, by default of the present time, but at least 1 ms later than the meter's last one.

        Of two readings with the same time, the agent would refuse the second as a duplicate.
        """
        if time_ms is None:
            time_ms = self._newest_ms[meter] = max(now_ms(), self._newest_ms.get(meter, 0) + 1)
        self.sent.append(Sent(meter, time_ms, watts))
        payload = {"power": watts, "t": time_ms}
        await self.raw(f"meters/{meter}/power", json.dumps(payload), qos=qos, retain=retain)

    async def raw(self, topic: str, payload: bytes | str, *, qos: int = 1, retain: bool = False) -> None:
        """Send any message."""
        await self._client.publish(topic, payload, qos=qos, retain=retain)


@asynccontextmanager
async def meters(broker: Server) -> AsyncIterator[Meters]:
    """Connect meters."""
    async with connect(broker.url) as client:
        yield Meters(client)


class Arrival(NamedTuple):
    """A message as it came: when, where, and what; whose it is, and of a record its slot and value."""

    at_ms: int
    topic: str
    payload: bytes
    retain: bool
    facts: dict[str, Any]
    meter: str
    start_ms: int
    value: float

    @property
    def is_record(self) -> bool:
        """Whether it is a record: it is of a slot."""
        return "t" in self.facts

    @classmethod
    def now(cls, topic: str, payload: bytes, retain: bool) -> Self:
        """Read a message that has just arrived."""
        facts = json.loads(payload)
        start_ms = parse_time(facts["t"]) if "t" in facts else 0
        return cls(now_ms(), topic, payload, retain, facts, facts["meter"], start_ms, facts.get("value", 0))


class Utility:
    """All messages that arrived, in order; the broker keeps what is sent while it is disconnected."""

    def __init__(self) -> None:
        self.messages: list[Arrival] = []
        self.subscribed = asyncio.Event()

    def records(self, stream_name: str = "main", meter: str | None = None) -> list[Arrival]:
        """Return the records of a stream, or of one of its meters."""
        prefix = f"private/{stream_name}/"
        return [
            c
            for c in self.messages
            if c.topic.startswith(prefix) and c.is_record and meter in (None, c.meter)
        ]

    async def listen(self, broker: Broker) -> None:
        """Keep all messages, over any number of connections."""
        while True:
            try:
                async with Client("127.0.0.1", broker.port, identifier="utility", **DURABLE) as client:
                    await client.subscribe("private/#", qos=1)
                    self.subscribed.set()
                    async for message in client.messages:
                        arrival = Arrival.now(
                            str(message.topic), bytes(message.payload), bool(message.retain)
                        )
                        self.messages.append(arrival)
            except MqttError:
                await listening(broker)


async def listening(broker: Broker) -> None:
    """Wait until a broker is there: an aiomqtt that fails to connect may leave a dead socket in the loop."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        except OSError:
            await asyncio.sleep(PAUSE_S)
        else:
            writer.close()
            return


@asynccontextmanager
async def utility(broker: Broker) -> AsyncIterator[Utility]:
    """Subscribe a utility; it reconnects whenever the broker allows it."""
    receiver = Utility()
    listening = asyncio.create_task(receiver.listen(broker))
    try:
        async with asyncio.timeout(LIMIT_S):
            await receiver.subscribed.wait()
        yield receiver
    finally:
        await end_tasks(listening)


def once(records: Iterable[Arrival]) -> list[Arrival]:
    """Return one meter's records without repetitions, which must be the same byte for byte."""
    first: dict[int, Arrival] = {}
    for record in records:
        assert first.setdefault(record.start_ms, record).payload == record.payload
    return list(first.values())


def between(
    make: Callable[..., Broker], scenario: Callable[..., Awaitable[Any]], *brokers: Mapping[str, Any]
) -> Callable[[Path], Awaitable[Any]]:
    """Turn a scenario of a folder and brokers into one of a folder; each set of options makes a broker."""

    async def run(folder: Path) -> Any:
        """Run the scenario with its brokers."""
        with ExitStack() as stack:
            running = [stack.enter_context(make(**options)) for options in brokers]
            return await scenario(folder, *running)

    run.__name__ = scenario.__name__.removeprefix("_")
    return run


class Scenarios:
    """Scenarios that run side by side, once, each in a folder of its own; each is told by its name."""

    def __init__(self, folder: Path, *scenarios: Callable[[Path], Awaitable[Any]]) -> None:
        self._folder = folder
        self._scenarios = scenarios
        self._results: dict[str, Any] = {}

    async def run(self) -> None:
        """Run them all."""
        results = await asyncio.gather(*map(self._run_one, self._scenarios), return_exceptions=True)
        names = [scenario.__name__ for scenario in self._scenarios]
        self._results = dict(zip(names, results, strict=True))

    async def _run_one(self, scenario: Callable[[Path], Awaitable[Any]]) -> Any:
        folder = self._folder / scenario.__name__
        folder.mkdir()
        return await scenario(folder)

    def __getitem__(self, name: str) -> Any:
        """What a scenario has returned; raises what it raised."""
        result = self._results[name]
        if isinstance(result, BaseException):
            raise result
        return result
