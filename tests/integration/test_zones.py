"""Restarts in the hour of a change of the clock, and with another time zone, of the agent itself.

By the event clock two meters live through the changes of 2024. Each time the agent has come to a moment
of JOURNEY it is killed, and started with the zone of the next line. What it released is judged by what it
said itself: the zone of a record's descriptor decides what its window and its bands must be.
"""

import asyncio
import json
import random
from collections import Counter, defaultdict
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.judge import Fed, value
from tests.integration.plan import Curve, Reading, time_ms
from tests.integration.service import TELL_ALL, Service, service, subscribed, until
from tests.integration.shapes import DAY_MS, HOLD_MS, HOUR_MS, LATENESS_MS, Key, Shape, Window
from tests.integration.wire import LIMIT_S, Receiver, feed, publication
from tests.support.broker import Broker
from tests.support.stores import stored_states

JOURNEY = (
    ("spring", "Europe/Amsterdam", "2024-03-31T00:40:00Z"),  # 01:40, before 02:00 -> 03:00
    ("spring", "Europe/Amsterdam", "2024-03-31T01:20:00Z"),  # 03:20
    (
        "spring",
        "Australia/Lord_Howe",
        "2024-04-06T15:10:00Z",
    ),  # 01:40 again, after 02:00 -> 01:30
    ("spring", "Asia/Kathmandu", "2024-04-10T00:00:00Z"),
    ("autumn", "Australia/Lord_Howe", "2024-10-05T15:40:00Z"),  # 02:40, after 02:00 -> 02:30
    ("autumn", "Europe/Amsterdam", "2024-10-27T00:30:00Z"),  # 02:30, before 03:00 -> 02:00
    ("autumn", "America/Havana", "2024-11-03T04:50:00Z"),  # 00:50, before 01:00 -> 00:00
    ("autumn", "America/Havana", "2024-11-03T05:10:00Z"),  # 00:10 again, of the same day
    ("autumn", "Europe/London", "2024-11-07T06:00:00Z"),
)
"""A meter, and with which zone the agent runs until when."""
BEGIN_MS = {"spring": time_ms("2024-03-28T10:00:00Z"), "autumn": time_ms("2024-10-03T01:00:00Z")}
EVERY_MS = HOUR_MS // 2
BANDS = ((0, 2), (2, 3), (3, 24))
"""The hour from two to three comes once, never, or twice a day."""


def shapes(zone: str) -> tuple[Shape, Shape]:
    """Days as one number each, and days in three bands."""
    bands = Shape("bands", "day", "1d", zone, 300, Fraction(1, 10), "profile", bands=BANDS)
    return Shape("day", "day", "1d", zone, 300, Fraction(1, 10)), bands


NAMES = [shape.name for shape in shapes("UTC")]


def invent(rng: random.Random) -> list[tuple[str, list[Reading]]]:
    """The readings of each line of JOURNEY in order of arrival; the last has its time."""
    found, from_ms = [], dict(BEGIN_MS)
    for meter, _, end in JOURNEY:
        times_ms = list(range(from_ms[meter], time_ms(end), EVERY_MS))
        late = {at_ms: at_ms + rng.randrange(LATENESS_MS) for at_ms in times_ms[1:]}
        times_ms[1:] = sorted(late, key=late.__getitem__)
        watts = [f"{rng.randrange(6_000_000) / 1000}" for _ in range(len(times_ms) + 1)]
        readings = list(map(Reading, [*times_ms, time_ms(end)], watts))
        found.append((meter, readings))
        from_ms[meter] = time_ms(end) + rng.randrange(1, EVERY_MS)
    return found


class Run(NamedTuple):
    """What was fed, all that came, what is still open, and the ledger."""

    fed: Fed
    received: dict[str, list[bytes]]
    opened: Counter[tuple[str, str]]
    ledger: list[dict[str, Any]]

    def zones(self, name: str, meter: str) -> dict[str, str]:
        """The time zone of each descriptor, by its id."""
        below = f"private/{name}/{meter}/privacy/"
        said = {topic: json.loads(sent[-1]) for topic, sent in self.received.items()}
        return {facts["id"]: facts["timezone"] for topic, facts in said.items() if topic.startswith(below)}

    def windows(self, name: str, meter: str) -> list[tuple[Shape, Window, dict[Key, set[bytes]]]]:
        """Each window that left, in order: its shape and its place by its own zone, and its records."""
        zones, found = self.zones(name, meter), dict[tuple[int, str], dict[Key, set[bytes]]]()
        for payload in self.received[f"private/{name}/{meter}"]:
            facts = json.loads(payload)
            key = Key(time_ms(facts["t"]), facts["for"], facts.get("band", ""))
            records = found.setdefault((key.start_ms, zones[facts["d"]]), defaultdict(set))
            records[key].add(payload)
        both = [(shapes(zone)[NAMES.index(name)], at_ms, sent) for (at_ms, zone), sent in found.items()]
        return [(shape, shape.windows(at_ms, at_ms)[0], sent) for shape, at_ms, sent in both]


@pytest.fixture(scope="module")
def run(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The journey."""
    with mosquitto(settings=TELL_ALL) as broker:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("zones")))


async def _run(broker: Broker, folder: Path) -> Run:
    fed: dict[str, list[Reading]] = {meter: [] for meter in BEGIN_MS}
    with service(folder, "") as agent:
        async with Receiver(broker) as receiver:
            for turn, (meter, readings) in enumerate(invent(random.Random(2))):
                streams = "".join(shape.toml(broker.url) for shape in shapes(JOURNEY[turn][1]))
                agent.path.write_text(f'{streams}\n[store]\npath = "{agent.store}"\n')
                agent.start()
                await subscribed(broker, len(NAMES) * (turn + 1))
                fed[meter] += readings
                await feed(broker.url, [publication(meter, reading) for reading in readings])
                await until(partial(has_come, agent, meter, readings[-1].time_ms), LIMIT_S)
                await agent.kill()
            agent.start()
            await subscribed(broker, len(NAMES) * (turn + 2))
            await agent.stop()
            await receiver.flush(broker.url)
        ledger = json.loads(agent.command("ledger", "--json").stdout)["spent"]
        return Run(fed, dict(receiver.messages), opened(agent), ledger)


def has_come(agent: Service, meter: str, at_ms: int) -> bool:
    """Whether a meter has come to a time in all streams; the agent must run."""
    assert agent.runs, agent.log
    return [at_ms] * len(NAMES) == [
        state.newest_ms for _, of, state in stored_states(agent.store) if of == meter
    ]


def opened(agent: Service) -> Counter[tuple[str, str]]:
    """The windows that are open, or have left some of their records, by stream and meter."""
    return Counter(
        {(stream, meter): len(state.windows) for stream, meter, state in stored_states(agent.store)}
    )


METERS = pytest.mark.parametrize("meter", BEGIN_MS)
EACH = pytest.mark.parametrize("name", NAMES)


@METERS
@EACH
def test_no_two_records_overlap(name: str, meter: str, run: Run) -> None:
    """Each window is a day of the zone that its descriptor names, and begins after the one before ended.

    Where the zone did not change it begins at once; else within a day and the hour of a change.
    """
    windows = run.windows(name, meter)
    for (one, before, _), (two, after, _) in pairwise(windows):
        between_ms = after.start_ms - before.end_ms
        assert 0 <= between_ms <= (0 if one.zone == two.zone else DAY_MS + HOUR_MS)
    passed = [zone for of, zone, _ in JOURNEY if of == meter]
    assert list(dict.fromkeys(shape.zone for shape, _, _ in windows)) == list(dict.fromkeys(passed))


@METERS
@EACH
def test_nothing_is_lost_that_was_acknowledged(name: str, meter: str, run: Run) -> None:
    """Every value is the exact mean of all that was sent of its window, and every slot left once.

    A band whose hour never came has no record; one whose hour came twice is the mean of both.
    """
    curve, left_ms = Curve(run.fed[meter], HOLD_MS), run.fed[meter][-1].time_ms - LATENESS_MS
    for shape, window, records in run.windows(name, meter):
        due = [part for part in window.parts if part.stretches[-1][1] <= left_ms]
        assert records.keys() == {part.key for part in due}
        for part in due:
            [payload] = records[part.key]
            assert shape.is_released(Fraction(value(payload)), shape.value(part, curve))


def test_the_changes_are_seen(run: Run) -> None:
    """Days of 23, 24, 25, 23.5 and 24.5 hours are among them, and a day without the hour from 2 to 3."""
    hours = {window.end_ms - window.start_ms for m in BEGIN_MS for _, window, _ in run.windows("day", m)}
    assert hours == {HOUR_MS * half // 2 for half in (46, 47, 48, 49, 50)}
    bands = Counter(len(records) for m in BEGIN_MS for _, _, records in run.windows("bands", m)[:-1])
    assert bands[2] == 1
    assert bands.keys() == {2, 3}


@METERS
@EACH
def test_the_ledger_has_each_window_once(name: str, meter: str, run: Run) -> None:
    """What was charged are the windows that left, and those that are open."""
    rows = [row for row in run.ledger if (row["stream"], row["meter"]) == (name, meter)]
    left_ms = run.fed[meter][-1].time_ms - LATENESS_MS
    closed = [window for _, window, _ in run.windows(name, meter) if window.end_ms <= left_ms]
    assert sum(row["windows"] for row in rows) == len(closed) + run.opened[name, meter]
