"""kill -9 of the agent within windows of amounts, at prices of a topic, by a wall clock that runs fast."""

import asyncio
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from meteragent.domain.grid import iso_time, parse_time
from tests.conftest import MakeBroker
from tests.integration.hurried import FastClock, make_clock
from tests.integration.plan import HOLD_MS, MICRO, Curve, Reading
from tests.integration.service import TELL_ALL, Arrival, service, stream, subscribed, until, utility
from tests.integration.wire import Publication, feed, publication
from tests.support.broker import Broker

KILLS = 5
HOUR_MS, QUARTER_MS = 3_600_000, 900_000
AHEAD = 3
"""So many hours before its time a price is sent: longer than an agent takes to start again."""
HOURS = AHEAD + 2 + KILLS
"""The hours of the run; in each of the last but one there is a kill."""
BEGIN_MS = parse_time("2033-05-16T20:10:00Z")
FIRST_MS = parse_time("2033-05-16T21:00:00Z")
BOUND, DEFAULT = Fraction("0.5"), Fraction("0.07")
HOMES = ("m0", "m1")
WINDOW = f"""length = "1h"
lateness = "1h"
catch_up = "1h"
weights = {{ bound = {float(BOUND)}, default = {float(DEFAULT)}, topic = "prices/market" }}"""
PRIVACY = "hide = '110Wh'\nlevel = 1000000000\nquantum = 0.000001"


def quoted(quarter: int) -> Fraction:
    """The price of a quarter hour as it is published, some beyond the bound."""
    return Fraction(random.Random(f"price {quarter}").randrange(-200_000, 700_000), MICRO)


def is_silent(hour: int) -> bool:
    """Whether no price of an hour comes before its time."""
    return hour % 5 == 3


def price(quarter: int) -> Fraction:
    """The price that counts."""
    return DEFAULT if is_silent(quarter // 4) else min(max(quoted(quarter), -BOUND), BOUND)


def prices(hour: int, more: Fraction = Fraction(0)) -> Publication:
    """A message with the prices of an hour after the first, or with others."""
    rows = [
        {
            "start": iso_time(FIRST_MS + quarter * QUARTER_MS),
            "end": iso_time(FIRST_MS + (quarter + 1) * QUARTER_MS),
            "price": float(quoted(quarter) + more),
        }
        for quarter in range(4 * hour, 4 * hour + 4)
    ]
    return Publication("prices/market", json.dumps(rows).encode())


def messages() -> Iterator[tuple[int, Publication]]:
    """What is published, with its time: readings; prices in time, again, contradictory and late."""
    for hour in range(HOURS + 1):
        start_ms = FIRST_MS + hour * HOUR_MS
        if is_silent(hour):
            yield start_ms + HOUR_MS - QUARTER_MS // 2, prices(hour)
        else:
            sent_ms = max(start_ms - AHEAD * HOUR_MS, BEGIN_MS)
            yield sent_ms, prices(hour)
            yield sent_ms + HOUR_MS, prices(hour)
            yield sent_ms + 2 * HOUR_MS, prices(hour, Fraction(1, 100))
    for home, reading in readings():
        yield reading.time_ms, publication(home, reading)


def readings() -> Iterator[tuple[str, Reading]]:
    """The readings of all homes, from before the first window until the end."""
    rng = random.Random(7)
    for home in HOMES:
        time_ms = BEGIN_MS + HOUR_MS // 3
        while time_ms < FIRST_MS + (HOURS + 2) * HOUR_MS:
            yield home, Reading(time_ms, f"{rng.randrange(6_000_000) / 1000}")
            time_ms += rng.randrange(60_000, 400_000)


async def publish(url: str, clock: FastClock) -> None:
    """Publish everything at its time."""
    waiting = sorted(messages(), key=lambda item: item[0])
    while waiting:
        due = [message for at_ms, message in waiting if at_ms <= clock()]
        waiting = waiting[len(due) :]
        await feed(url, due)
        await asyncio.sleep(0.05)


def amounts(home: str) -> dict[int, Fraction]:
    """What every hour of a home cost, by its start."""
    curve = Curve(reading for name, reading in readings() if name == home)

    def cost(quarter: int) -> Fraction:
        """What a quarter hour cost: 1 kWh is 3.6e15 uW ms."""
        start_ms = FIRST_MS + quarter * QUARTER_MS
        energy = curve.energy(start_ms + QUARTER_MS) - curve.energy(start_ms)
        return price(quarter) * Fraction(energy, 3_600_000 * 1000 * MICRO)

    return {
        FIRST_MS + hour * HOUR_MS: sum(map(cost, range(4 * hour, 4 * hour + 4)), Fraction(0))
        for hour in range(HOURS)
    }


async def live(broker: Broker, folder: Path) -> list[Arrival]:
    """Two homes, a market and an agent that is killed again and again; return the records."""
    text = stream(broker.url, source=f'hold = "{HOLD_MS}ms"', window=WINDOW, privacy=PRIVACY)
    rng = random.Random(KILLS)
    async with utility(broker) as inbox:
        with service(folder, text, program=("tests.integration.hurried",)) as agent:
            clock = make_clock(folder, BEGIN_MS, stands=True)
            agent.start()
            await subscribed(broker, 2)
            clock.start()
            publishing = asyncio.create_task(publish(broker.url, clock))
            for life in range(KILLS):
                hour = AHEAD + 1 + life + rng.random()
                await until(lambda hour=hour: clock() >= FIRST_MS + hour * HOUR_MS)  # type: ignore[misc]
                await agent.kill()
                agent.start()
            await publishing
            last_ms = FIRST_MS + (HOURS - 1) * HOUR_MS
            await until(lambda: {c.meter for c in inbox.records() if c.start_ms == last_ms} == {*HOMES})
            await agent.stop()
            return inbox.records()


async def test_each_amount_survives_every_kill(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Each hour's amount leaves once, and is exact: at the prices that came before their time.

    Silent hours, whose prices come late, cost the default; a price that comes again counts once, and another
    one of its time not at all.
    """
    with mosquitto(settings=TELL_ALL) as broker:
        records = await live(broker, tmp_path)
    for home in HOMES:
        truth = amounts(home)
        released = {
            start_ms: {c.payload for c in records if (c.meter, c.start_ms) == (home, start_ms)}
            for start_ms in truth
        }
        assert {start_ms: len(payloads) for start_ms, payloads in released.items()} == dict.fromkeys(truth, 1)
        for start_ms, [payload] in released.items():
            value = Fraction(json.loads(payload, parse_float=Fraction)["value"])
            assert abs(value - truth[start_ms]) < Fraction(1, MICRO)
