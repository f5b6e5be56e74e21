"""The agent under load, phase by phase, and what it took: memory, disk, time, counters.

Every meter reports the same power all the time, its own, and the noise is negligible: so every slot of
every meter must be exactly that, or a reading was lost. The agent's clock is set by hand, such that an
hour of outage takes no hour.
"""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from meteragent.domain.grid import parse_time
from tests.integration.clocked import set_clock
from tests.integration.flood import flood
from tests.integration.service import Service, now_ms, service, stream, until
from tests.integration.wire import Receiver
from tests.support.broker import Broker
from tests.support.stores import stored_states

LENGTH_MS = 1_800_000
HOUR_MS = 3_600_000
CATCH_UP_MS = 600_000
"""The default of a minute is not enough to take an hour of ten thousand meters in."""
TICK_S = 0.1
LIMIT_S = 1800.0
SETTINGS: dict[str, str | int] = {"log_type": "subscribe", "max_queued_messages": 0, "max_queued_bytes": 0}
PROGRAM = ("tests.integration.clocked",)
SPARE = 1000
"""Readings held beside the one that stands of every meter: with fewer a stop would cost a gap."""
UNKNOWN = 5
"""So many unknown meters come for each known one."""
BIG, HUGE = 2**17, 5 * 2**20
"""Payloads beyond source.max_payload, and beyond the largest packet."""
BIG_ONES, HUGE_ONES = 500, 20


class Phase(NamedTuple):
    """What a stretch of the run took."""

    name: str
    messages: int
    seconds: float
    cpu_s: float
    memory_mb: float
    disk_mb: float

    def __str__(self) -> str:
        """One line of the report."""
        rate = self.messages / self.seconds if self.seconds else 0.0
        return (
            f"{self.name:<34}{self.messages:>9}{self.seconds:>9.1f}{rate:>9.0f}{self.cpu_s:>8.1f}"
            f"{self.memory_mb:>9.1f}{self.disk_mb:>9.1f}"
        )


HEADER = f"{'':<34}{'messages':>9}{'s':>9}{'1/s':>9}{'CPU s':>8}{'RSS MB':>9}{'disk MB':>9}"


class Outcome(NamedTuple):
    """What every phase took, what the agent counted in its lives, and the slots that were not right."""

    phases: list[Phase]
    first: Counter[str]
    second: Counter[str]
    wrong: list[tuple[str, int]]
    slots: int
    log: str


class Load:
    """A number of meters, an agent with a separate clock, and measurements of it."""

    def __init__(self, broker: Broker, folder: Path, agent: Service, meters: int, period_s: float) -> None:
        self.phases: list[Phase] = []
        self.off_ms = 0
        self._broker = broker
        self._folder = folder
        self._agent = agent
        self._meters = meters
        self._period_s = period_s

    def set_clock(self, off_ms: int) -> None:
        """Set the agent's clock, and the meters'."""
        self.off_ms = off_ms
        set_clock(self._folder, off_ms)

    @property
    def now_ms(self) -> int:
        """The time by that clock."""
        return now_ms() + self.off_ms

    def reading(self, meter: int, time_ms: int) -> tuple[str, bytes]:
        """Return a meter's reading."""
        return f"meters/m{meter}/power", b'{"t": %d, "power": %d}' % (time_ms, power(meter))

    def round(self, time_ms: int | None = None) -> Iterator[tuple[str, bytes]]:
        """Yield a reading of every meter."""
        for meter in range(self._meters):
            yield self.reading(meter, self.now_ms if time_ms is None else time_ms)

    async def paced(self, seconds: float, factor: float) -> int:
        """Send every meter's readings `factor` times a period; return how many were sent."""
        begun_s, count = time.monotonic(), 0
        while (gone_s := time.monotonic() - begun_s) < seconds:
            due = round(gone_s / self._period_s * factor * self._meters)
            at_ms = self.now_ms
            count += await flood(
                self._broker, (self.reading(k % self._meters, at_ms) for k in range(count, due))
            )
            await asyncio.sleep(TICK_S)
        return count

    async def taken_in(self) -> None:
        """Wait until the last reading of all is in the store; it is sent by this."""
        last_ms = self.now_ms + 1  # after the meter's reading of a round that ended within this millisecond
        await flood(self._broker, [self.reading(self._meters - 1, last_ms)])
        await until(lambda: newest_ms(self._agent.store, f"m{self._meters - 1}") >= last_ms, LIMIT_S)

    @contextmanager
    def phase(self, name: str) -> Iterator[list[int]]:
        """Measure what comes; it puts into the list how many messages there were."""
        messages: list[int] = []
        pid = self._agent.pid
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the largest memory since then
        begun_s, cpu_s = time.monotonic(), cpu(pid)
        yield messages
        seconds = time.monotonic() - begun_s
        disk = sum(path.stat().st_size for path in self._folder.glob("db*")) / 1e6
        self.phases.append(Phase(name, sum(messages), seconds, cpu(pid) - cpu_s, memory_mb(pid), disk))


def power(meter: int) -> int:
    """Return the power that a meter reports."""
    return 100 + meter % 10_000


def memory_mb(pid: int) -> float:
    """Return the largest resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024 / 1e6


def cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def newest_ms(store: Path, meter: str) -> int:
    """Return the newest time accepted from a meter, according to the store."""
    times_ms = [state.newest_ms for _, of, state in stored_states(store) if of == meter]
    return max((newest for newest in times_ms if newest), default=0)


async def run(
    broker: Broker, folder: Path, meters: int, *, seconds: float, period_s: float = 60.0
) -> Outcome:
    """Start and meters, the normal rate, a burst, two floods, an hour of outage of the agent; then judge."""
    streams = stream(
        broker.url,
        window=f'length = "{LENGTH_MS}ms"\ncatch_up = "{CATCH_UP_MS}ms"',
        source=f'max_meters = {meters}\nhold = "1h"\ninflight = {meters + SPARE}',
    )
    with service(folder, streams, program=PROGRAM) as agent:
        load = Load(broker, folder, agent, meters, period_s)
        load.set_clock(-now_ms() % LENGTH_MS - 5 * LENGTH_MS - 20_000 - 4 * meters)
        async with Receiver(broker) as receiver:
            agent.start()
            await subscribed_to(broker, 1)
            await _live(load, broker, meters, seconds)
            await agent.stop()
            first = agent.totals
            await _outage(load, broker, agent, receiver)
            await agent.stop()
            await receiver.flush(broker.url)
        wrong, slots = judge(receiver, meters)
        return Outcome(load.phases, first, agent.totals, wrong, slots, agent.log)


async def subscribed_to(broker: Broker, times: int) -> None:
    """Wait until the agent has subscribed this number of times."""
    log = broker.folder / "log"
    await until(lambda: log.read_text().count("meters/+/power") >= times)


async def _live(load: Load, broker: Broker, meters: int, seconds: float) -> None:
    """What happens while the agent runs: all of it in one window, opened by the clock for all meters."""
    with load.phase("every meter's first reading") as messages:
        messages.append(await flood(broker, load.round()))
        await load.taken_in()
    load.set_clock(load.off_ms + -load.now_ms % LENGTH_MS + 10)
    with load.phase("every meter's window opens") as messages:
        messages.append(await flood(broker, load.round()))
        await load.taken_in()
    for name, factor in (("the normal rate", 1), ("ten times the normal rate", 10)):
        with load.phase(name) as messages:
            messages.append(await load.paced(seconds, factor))
            await load.taken_in()
    with load.phase("unknown meters, QoS 1 and 0") as messages:
        for qos in (1, 0):
            unknown = (
                (f"meters/x{k}-{qos}/power", b'{"t": %d, "power": 1}' % load.now_ms)
                for k in range(UNKNOWN * meters)
            )
            messages.append(await flood(broker, unknown, qos=qos))
        await load.taken_in()
    with load.phase("oversized payloads") as messages:
        padded = ("meters/m0/power", b'{"t": %d, "power": 1, "x": "%s"}')
        for size, count in ((BIG, BIG_ONES), (HUGE, HUGE_ONES)):
            big = (padded[0], padded[1] % (load.now_ms, b"x" * size))
            messages.append(await flood(broker, [big] * count))
        await load.taken_in()


async def _outage(load: Load, broker: Broker, agent: Service, receiver: Receiver) -> None:
    """Let an hour of readings wait in the broker while the agent is down."""
    begin_ms, period_ms = load.now_ms, round(load._period_s * 1000)
    load.set_clock(load.off_ms + HOUR_MS)
    count = 0
    for time_ms in range(begin_ms, load.now_ms, period_ms):
        count += await flood(broker, load.round(time_ms))
    agent.start()
    await subscribed_to(broker, 2)
    with load.phase("an hour of backlog") as messages:
        messages.append(count)
        await load.taken_in()
    load.set_clock(load.off_ms + CATCH_UP_MS)
    load.set_clock(load.off_ms + -load.now_ms % LENGTH_MS + 2000)
    due_ms = load.now_ms // LENGTH_MS * LENGTH_MS - LENGTH_MS
    with load.phase("every meter's slot leaves") as messages:
        messages.append(load._meters)
        await until(lambda: newest_of_all(receiver, load._meters) >= due_ms, LIMIT_S)


def newest_of_all(receiver: Receiver, meters: int) -> int:
    """Return the newest slot whose record has arrived for every meter; 0 while a meter has none."""
    if len(receiver.newest) < meters:
        return 0
    return parse_time(min(receiver.newest.values()))


def judge(receiver: Receiver, meters: int) -> tuple[list[tuple[str, int]], int]:
    """Return the slots (meter, start) that are missing, doubled or wrong, and the number received."""
    wrong: list[tuple[str, int]] = []
    slots = 0
    for meter in range(meters):
        records = [json.loads(payload) for payload in receiver.messages.get(f"private/main/m{meter}", ())]
        values = {parse_time(record["t"]): record["value"] for record in records}
        slots += len(values)
        starts_ms = list(values)
        wrong += [(f"m{meter}", start) for start, value in values.items() if value != power(meter)]
        is_complete = starts_ms and starts_ms == list(range(starts_ms[0], starts_ms[-1] + 1, LENGTH_MS))
        wrong += [] if is_complete else [(f"m{meter}", -1)]
        wrong += [
            (f"m{meter}", start) for start in values if sum(parse_time(r["t"]) == start for r in records) > 1
        ]
    return wrong, slots
