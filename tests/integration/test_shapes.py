"""Days, months, curves and mean days under kill -9 and a reboot: to the watt-hour, each slot once.

A month cannot be waited for: by the event clock the timestamps of two homes run through three months, of
the spring and of the autumn of 2024, while the agent is killed again and again at seeded random moments.
One agent has all shapes on the same meters, so what they cost adds.
"""

import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.integration.judge import Fed, value
from tests.integration.kills import moment_to_kill
from tests.integration.plan import Curve, Reading, time_ms
from tests.integration.service import Service, service, until
from tests.integration.shapes import (
    DAY_MS,
    HOLD_MS,
    HOUR_MS,
    LATENESS_MS,
    Amount,
    Key,
    Shape,
    Tariff,
    Window,
    iso,
    usual_sum,
)
from tests.integration.wire import LIMIT_S, Publication, Receiver, feed, publication
from tests.support.broker import Broker

KILLS = 25
REBOOT = 12
"""Before this life everything goes, the broker too."""
BETWEEN_MS = 60 * 60_000
"""Between two readings of a home, about: now and then longer than a reading stands."""

DAY = Shape("day", "day", "1d", "Europe/Amsterdam", 300, Fraction(1, 10))
BILL = Shape("bill", "bill", "1mo", "Europe/Amsterdam", 6000, Fraction(1, 1000))
CURVE = Shape("curve", "day", "1d", "Australia/Lord_Howe", 50, Fraction(1, 10), "curve", blocks=4)
SLOTS = Shape("slots", "day", "1d", "Asia/Kathmandu", 100, Fraction(1), blocks=6, level=1)
BANDS = ((0, 7), (7, 17), (17, 21), (21, 24))
TYPICAL = Shape(
    "typical", "typical-day", "1mo", "America/New_York", 1000, Fraction(1, 100), "profile", bands=BANDS
)
HOLIDAYS = ("2024-03-29", "2024-04-01", "2024-10-28")
"""Around the nights on which clocks change."""
TARIFF = Tariff("tariff", "tariff", "1mo", "Europe/Amsterdam", 1000, Fraction(1), "bands", holidays=HOLIDAYS)
NOISY = Tariff("noisy", "tariff", "1mo", "Europe/Amsterdam", 1000, Fraction(1), "bands", level=1)
COST = Amount(
    "cost", "bill", "1mo", "Europe/Amsterdam", 110, Fraction(1, 10_000), "weighted", holidays=HOLIDAYS
)
SHAPES = (DAY, BILL, CURVE, SLOTS, TYPICAL, TARIFF, NOISY, COST)
"""All but two with negligible noise; where it is not, a slot that was drawn twice has two values."""
HOMES = {
    "spring": (time_ms("2024-01-30T17:00:00Z"), 93),  # 29, 31 and 30 days, and a day of 23 hours
    "autumn": (time_ms("2024-09-29T03:00:00Z"), 37),  # a day of 25 hours
}


def invent(rng: random.Random) -> tuple[Fed, list[list[Publication]]]:
    """Readings of homes, each in its order of arrival; and as they are sent, a burst for each life."""
    sent: list[tuple[float, str, Reading]] = []
    for home, (first_ms, days) in HOMES.items():
        for index in range(days * DAY_MS // BETWEEN_MS):
            after_ms = index * BETWEEN_MS + rng.randrange(BETWEEN_MS) * (index > 0)
            late_ms = rng.randrange(LATENESS_MS) * (index > 0)
            reading = Reading(first_ms + after_ms, f"{rng.randrange(6_000_000) / 1000}")
            sent.append(((after_ms + late_ms) / days, home, reading))
    sent.sort()
    fed: dict[str, list[Reading]] = {}
    for _, home, reading in sent:
        fed.setdefault(home, []).append(reading)
    messages = [publication(home, reading) for _, home, reading in sent]
    burst = -(-len(messages) // (KILLS + 1))
    return fed, [messages[at : at + burst] for at in range(0, len(messages), burst)]


class Outcome(NamedTuple):
    """What was fed, what came of it, what the commands say, and what the agent counted at last."""

    fed: Fed
    received: dict[str, list[bytes]]
    ledger: list[dict[str, Any]]
    check: list[dict[str, Any]]
    lives: int

    def records(self, shape: Shape, home: str) -> dict[Key, list[bytes]]:
        """The distinct payloads of each slot, in order of first arrival."""
        found: dict[Key, list[bytes]] = defaultdict(list)
        for payload in dict.fromkeys(self.received[shape.topic(home)]):
            facts = json.loads(payload)
            found[Key(time_ms(facts["t"]), facts["for"], facts.get("band", ""))].append(payload)
        return found

    def descriptors(self, shape: Shape, home: str) -> dict[str, dict[str, Any]]:
        """What was said under each id."""
        below = f"{shape.topic(home)}/privacy/"
        found = {topic: sent for topic, sent in self.received.items() if topic.startswith(below)}
        return {topic.removeprefix(below): json.loads(sent[-1]) for topic, sent in found.items()}


@pytest.fixture(scope="module")
def outcome(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One agent, killed KILLS times, and rebooted with its broker."""
    with mosquitto(is_persistent=True, settings=LOGS_SUBSCRIPTIONS) as broker:
        return asyncio.run(kill_and_reboot(broker, tmp_path_factory.mktemp("shapes")))


async def kill_and_reboot(broker: Broker, folder: Path) -> Outcome:
    """Kill the agent at random moments, and reboot the broker once."""
    rng = random.Random(KILLS)
    fed, bursts = invent(rng)
    due = {shape.topic(home): len(shape.due(fed[home])) for shape in SHAPES for home in fed}
    lives = 0
    with service(folder, "".join(shape.toml(broker.url) for shape in SHAPES)) as agent:
        begun_s = time.monotonic()
        agent.start()
        log = broker.folder / "log"
        await until(lambda: log.read_text().count("meters/+/power") >= len(SHAPES))
        startup_s = time.monotonic() - begun_s
        async with Receiver(broker) as receiver:
            for life, burst in enumerate(bursts[:-1]):
                before = receiver.records
                feeding = asyncio.create_task(feed(broker.url, burst))
                await moment_to_kill(rng, life, receiver, startup_s)
                await agent.kill()
                lives += receiver.records > before
                if life == REBOOT:
                    broker.stop()
                    broker.start()
                agent.start()
                await feeding
            await feed(broker.url, bursts[-1])
            await until(lambda: not agent.runs or has_left(receiver, due), LIMIT_S)
            await agent.stop()
            await receiver.flush(broker.url)
        return Outcome(fed, dict(receiver.messages), *told(agent), lives)


def has_left(receiver: Receiver, due: Mapping[str, int]) -> bool:
    """Whether as many different records have come of each topic as must come."""
    return all(len(set(receiver.messages[topic])) >= count for topic, count in due.items())


def told(agent: Service) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What `ledger` and `check` say."""
    ledger = json.loads(agent.command("ledger", "--json").stdout)["spent"]
    return ledger, json.loads(agent.command("check", "--json").stdout)["streams"]


EVERY = pytest.mark.parametrize("home", HOMES)
EACH = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def test_the_agent_is_killed_and_rebooted(outcome: Outcome) -> None:
    """At least half of the lives that were killed had released something, and months were among it."""
    assert outcome.lives >= KILLS // 2
    assert len(BILL.due(outcome.fed["spring"])) == 3
    lengths = {shape: {key.duration for key in outcome.records(shape, "spring")} for shape in SHAPES}
    assert lengths[BILL] == {"PT696H", "PT743H", "PT720H"}
    assert lengths[DAY] == {"PT23H", "PT24H"}
    assert {key.duration for key in outcome.records(DAY, "autumn")} == {"PT24H", "PT25H"}
    assert {key.duration for key in outcome.records(BILL, "autumn")} == {"PT745H"}


@EVERY
@EACH
def test_every_slot_is_released_once_and_right(shape: Shape, home: str, outcome: Outcome) -> None:
    """No slot is missing, none was not fed, none has two payloads among all messages ever received.

    Without noise each is the exact mean's whole quanta, or one more; with it, on the lattice.
    """
    released, truth = outcome.records(shape, home), shape.truth(outcome.fed[home])
    assert released.keys() == truth.keys()
    assert {len(payloads) for payloads in released.values()} == {1}
    values = {key: Fraction(value(payload)) for key, (payload,) in released.items()}
    assert all((one / shape.quantum).denominator == 1 for one in values.values())
    right = all(shape.is_released(values[key], mean) for key, mean in truth.items())
    assert right is shape.is_exact


@EVERY
def test_a_bill_is_right_to_the_watt_hour(home: str, outcome: Outcome) -> None:
    """The energy of a month that 25 kills and a reboot interrupted is off by the lattice alone."""
    curve = Curve(outcome.fed[home], HOLD_MS)
    parts = {part.key: part for part in BILL.due(outcome.fed[home])}
    for key, (payload,) in outcome.records(BILL, home).items():
        energy_wh = Fraction(value(payload)) * parts[key].duration_ms / HOUR_MS
        quantum_wh = BILL.quantum * parts[key].duration_ms / HOUR_MS
        assert abs(energy_wh - parts[key].energy_wh(curve)) < quantum_wh <= 1


@EVERY
@EACH
def test_windows_leave_in_order(shape: Shape, home: str, outcome: Outcome) -> None:
    """What leaves first is never of a later window than what leaves next."""
    starts_ms = [key.start_ms for key in outcome.records(shape, home)]
    assert starts_ms == sorted(starts_ms)


@EVERY
def test_the_ledger_charges_each_window_of_each_shape(home: str, outcome: Outcome) -> None:
    """Windows and epsilon by stream: those whose time has begun, each at its own epsilon; they add."""
    windows, spent = Counter[str](), Counter[str]()
    for row in outcome.ledger:
        if row["meter"] == home:
            windows[row["stream"]] += row["windows"]
            spent[row["stream"]] += Fraction(row["epsilon_per_w"])  # type: ignore[assignment]
    opened = {shape.name: shape.opened(outcome.fed[home]) for shape in SHAPES}
    assert windows == {name: len(found) for name, found in opened.items()}
    assert spent == {shape.name: sum(map(shape.epsilon, opened[shape.name])) for shape in SHAPES}
    assert min(windows.values()) >= 2


@EVERY
@EACH
def test_descriptors_tell_each_window_and_the_sum(shape: Shape, home: str, outcome: Outcome) -> None:
    """Every record's descriptor was sent: its window's length, zone and radius, and what a meter spends.

    That is this stream's own epsilon a day and that of all the others.
    """
    described = outcome.descriptors(shape, home)
    windows = {part.key: window for window in shape.opened(outcome.fed[home]) for part in window.parts}
    for key, (payload,) in outcome.records(shape, home).items():
        assert_tells(described[json.loads(payload)["d"]], shape, windows[key])
    latest = json.loads(outcome.received[f"{shape.topic(home)}/privacy"][-1])
    assert_tells(latest, shape, shape.opened(outcome.fed[home])[-1])


def assert_tells(facts: dict[str, Any], shape: Shape, window: Window) -> None:
    """A descriptor is that of a window."""
    epsilon, unit = shape.stated(window)
    assert facts["length"] == iso(window.end_ms - window.start_ms)
    assert facts["n"] == len(window.parts)
    assert facts["timezone"] == shape.zone
    assert facts.get("space", "linf") == shape.space
    assert (Fraction(facts["epsilon"]), facts["epsilon_unit"]) == (epsilon, unit)
    assert facts["metric"] == ("l1" if shape.space in {"bands", "weighted"} else "linf")
    assert Fraction(facts["level"]) / Fraction(facts["radius"]) == epsilon
    assert Fraction(facts["quantum"]) == shape.quantum
    total = shape.per_day(window) + usual_sum(SHAPES, shape)
    assert (Fraction(facts["meter_epsilon_per_day"]), facts["meter_epsilon_unit"]) == (total, "1/W")
    if shape.bands or shape.space == "bands":
        assert facts["bands"] == {part.key.band: iso(part.duration_ms) for part in window.parts}


def test_check_says_what_all_shapes_cost_together(outcome: Outcome) -> None:
    """`check` has the same sum for every stream: that of ordinary windows."""
    total = sum(shape.usual_per_day for shape in SHAPES)
    assert [facts["stream"] for facts in outcome.check] == [shape.name for shape in SHAPES]
    assert {Fraction(facts["meter_epsilon_per_day"]) for facts in outcome.check} == {total}


def test_days_follow_each_other(outcome: Outcome) -> None:
    """Days of 23, 24 and 25 hours, and the blocks of a curve, leave no time out and overlap nowhere."""
    for shape in (DAY, BILL, CURVE, SLOTS):
        for home in HOMES:
            parts = shape.due(outcome.fed[home])
            assert [part.key for part in parts] == list(outcome.records(shape, home))
            assert all(one.stretches[-1][1] == two.stretches[0][0] for one, two in pairwise(parts))
