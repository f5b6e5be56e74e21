"""A local day by the wall clock, in a real process: it leaves at its end, whatever happens in it.

Nobody waits for a day, so the time zone has a short one: seconds after a local midnight its clock is put
forward to the next. Zones are read from where PYTHONTZPATH says, and this one is made for the test. How
many seconds depends on how long an agent takes to start on this machine.
"""

import struct
from math import ceil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Arrival,
    Sent,
    is_released,
    mean_w,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until_ms,
    utility,
)
from tests.support.broker import Broker

DAY_S = 86_400
LATENESS_MS = 500
KILLED_TICK = 15
"""So many tenths of a second after midnight."""
TOLERANCE_MS = 700
"""How late a message may be on a busy machine."""
ZONE = "Made/Short"
HOMES = ("busy", "silent")


class Day(NamedTuple):
    """The short day: its midnight, its length, and the zone as RFC 8536 wants it."""

    midnight_s: int
    length_s: int

    @property
    def tzif(self) -> bytes:
        """One transition, from the end of the day to the next midnight."""
        before_s = -(self.midnight_s % DAY_S)
        types = struct.pack(">lbBlbB", before_s, 0, 0, before_s + DAY_S - self.length_s, 0, 0)
        head = b"TZif2" + bytes(15)
        empty = head + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lbB", 0, 0, 0) + b"ABC\0"
        at = struct.pack(">qB", self.midnight_s + self.length_s, 1)
        return empty + head + struct.pack(">6l", 0, 0, 0, 1, 2, 4) + at + types + b"ABC\0\n\n"


def toml(url: str, zone: str) -> str:
    """The stream of the preset `day` without noise."""
    window = f'length = "1d"\ntimezone = "{zone}"\nlateness = "{LATENESS_MS}ms"\ncatch_up = "100ms"'
    return stream(url, window=window, privacy="preset = 'day'\nlevel = 1000000000")


async def soon(broker: Broker, folder: Path) -> Day:
    """A day that an agent is ready for, and in which another can start."""
    begun_ms = now_ms()
    with service(folder, toml(broker.url, "UTC"), through=()) as agent:
        agent.start()
        await subscribed(broker)
        await agent.stop()
    startup_s = (now_ms() - begun_ms) / 1000
    return Day(now_ms() // 1000 + ceil(2 + 2 * startup_s), ceil(3 + 3 * startup_s))


async def live(broker: Broker, folder: Path, day: Day) -> tuple[list[Arrival], list[Sent]]:
    """Two homes live through the day, one of them busy, and the agent is killed in it."""
    midnight_ms = day.midnight_s * 1000
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, toml(broker.url, ZONE), through=()) as agent:
            agent.start()
            await subscribed(broker, 2)
            for home in HOMES:
                await line.send(home, 100)
            for tick in range(day.length_s * 10):
                await until_ms(midnight_ms + 100 * tick + 30)
                await line.send("busy", 500 + tick)
                if tick == KILLED_TICK:
                    await agent.kill()
                    agent.start()
            await until_ms(midnight_ms + day.length_s * 1000 + LATENESS_MS + TOLERANCE_MS)
            await agent.stop()
            return inbox.records(), line.sent


async def test_a_local_day_leaves_at_its_end_whatever_happens_in_it(
    mosquitto: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Busy or silent, over a kill -9: once, at the day's end + lateness, in topic order, and right."""
    with mosquitto(settings=TELL_ALL) as broker:
        day = await soon(broker, tmp_path / "first")
        (tmp_path / "zones" / "Made").mkdir(parents=True)
        (tmp_path / "zones" / ZONE).write_bytes(day.tzif)
        monkeypatch.setenv("PYTHONTZPATH", str(tmp_path / "zones"))
        records, sent = await live(broker, tmp_path / "agent", day)
    start_ms, length_ms = day.midnight_s * 1000, day.length_s * 1000
    told = [(record.meter, record.start_ms, record.facts["for"]) for record in records]
    assert told == [(home, start_ms, f"PT{day.length_s}S") for home in HOMES]
    due_ms = start_ms + length_ms + LATENESS_MS
    assert all(0 <= record.at_ms - due_ms <= TOLERANCE_MS for record in records)
    for record in records:
        assert is_released(record.value, mean_w(sent, record.meter, start_ms, length_ms, 900_000))
