"""A local day by the wall clock, in a real process: it leaves at its end, whatever happens in it.

Nobody waits for a day, so the time zone has a short one: LENGTH_S after a local midnight its clock is put
forward to the next. Zones are read from where PYTHONTZPATH says, and this one is made for the test.
"""

import struct
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Came,
    Sent,
    mean_w,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until_ms,
    utility,
)

pytestmark = pytest.mark.integration

LENGTH_S, SOON_S = 10, 8
DAY_S = 86_400
LATENESS_MS = 500
TOLERANCE_MS = 700
"""How late a message may be on a busy machine."""
ZONE = "Made/Short"
HOMES = ("busy", "silent")


def tzif(midnight_s: int) -> bytes:
    """The zone as RFC 8536 wants it: one transition, LENGTH_S after a midnight, to the next midnight."""
    before_s = -(midnight_s % DAY_S)
    types = struct.pack(">lbBlbB", before_s, 0, 0, before_s + DAY_S - LENGTH_S, 0, 0)
    head = b"TZif2" + bytes(15)
    empty = head + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lbB", 0, 0, 0) + b"ABC\0"
    body = head + struct.pack(">6l", 0, 0, 0, 1, 2, 4) + struct.pack(">qB", midnight_s + LENGTH_S, 1)
    return empty + body + types + b"ABC\0\n\n"


async def day(broker: Broker, folder: Path, midnight_ms: int) -> tuple[list[Came], list[Sent]]:
    """Two homes live through the short day, one of them busy, and the agent is killed in it."""
    window = f'length = "1d"\ntimezone = "{ZONE}"\nlateness = "{LATENESS_MS}ms"\ncatch_up = "100ms"'
    text = stream(broker.url, window=window, privacy="preset = 'day'\nlevel = 1000000000")
    async with utility(broker) as came, meters(broker) as line:
        with service(folder, text) as agent:
            agent.start()
            await subscribed(broker)
            for home in HOMES:
                await line.send(home, 100)
            for tick in range(LENGTH_S * 10):
                await until_ms(midnight_ms + 100 * tick + 30)
                await line.send("busy", 500 + tick)
                if tick == 25:
                    await agent.kill()
                    agent.start()
            await until_ms(midnight_ms + LENGTH_S * 1000 + LATENESS_MS + TOLERANCE_MS)
            await agent.stop()
            return came.records(), line.sent


async def test_a_local_day_leaves_at_its_end_whatever_happens_in_it(
    mosquitto: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Busy or silent, over a kill -9: once, at the day's end + lateness, in topic order, and right."""
    midnight_ms = (now_ms() // 1000 + SOON_S) * 1000
    (tmp_path / "zones" / "Made").mkdir(parents=True)
    (tmp_path / "zones" / ZONE).write_bytes(tzif(midnight_ms // 1000))
    monkeypatch.setenv("PYTHONTZPATH", str(tmp_path / "zones"))
    with mosquitto(settings=TELL_ALL) as broker:
        records, sent = await day(broker, tmp_path / "agent", midnight_ms)
    assert [(r.meter, r.start_ms, r.facts["for"]) for r in records] == [
        (home, midnight_ms, f"PT{LENGTH_S}S") for home in HOMES
    ]
    due_ms = midnight_ms + LENGTH_S * 1000 + LATENESS_MS
    assert all(0 <= record.at_ms - due_ms <= TOLERANCE_MS for record in records)
    for record in records:
        assert abs(record.value - mean_w(sent, record.meter, midnight_ms, LENGTH_S * 1000, 900_000)) <= 0.5
