"""Registers that say something wrong, through a real broker: the right energy, or a problem that says why.

All cases are meters of one agent, whose half hours follow the times of the readings.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from meteragent.domain.grid import iso_time
from tests.conftest import MakeBroker
from tests.integration.doubted import (
    LATENESS_S,
    SLOT_S,
    START_MS,
    WH,
    Readings,
    kill_while_doubted,
    same,
    steady,
    streams_of,
    wrong,
)
from tests.integration.service import TELL_ALL, Service, meters, service, subscribed, until, utility
from tests.support.broker import Broker

SOURCES = {
    "fine": WH,
    "shifted": WH,
    "restarted": WH,
    "coarse": "dead_band = 1\nevery = '10s'",
    "rolling": f"{WH}\nmodulus = 10000",
}
"""The streams, each with what its counters are."""


class Case(NamedTuple):
    """What a meter of a stream says, and the energy of its half hours in kWh, each within `off`."""

    stream: str
    readings: Readings
    slots: dict[int, float]
    off: float = 0.0025

    @property
    def last_slot(self) -> int:
        """The last half hour that closes."""
        return (max(self.readings) - LATENESS_S) // SLOT_S - 1


def cases() -> dict[str, Case]:
    """Return the cases by the name of their meter."""
    each_minute = steady(60)
    night = steady(300, 2) | dict.fromkeys(range(7500, 8700, 300), 0.0)
    night |= steady(300, 3, first=7301.2, since=46_800)
    reboot = {s: kwh for s, kwh in each_minute.items() if not 4020 <= s < 4620} | {4620: 0.0, 4680: 0.0}
    day = steady(300, 2, first=9.0) | steady(300, 3, first=0.0, since=7500)
    tenfold = {s: kwh * (10 if 7500 <= s < 18_300 else 1) for s, kwh in steady(300, 8).items()}
    falls = {s: kwh - 0.001 * (s // 60 % 7 == 3) for s, kwh in each_minute.items()}
    restarts = steady(300, 1, first=3.0)
    for since in (3900, 7800, 11_700, 15_600):
        restarts |= steady(300, 1, first=0.0, since=since)
    rolls = {s: kwh % 10_000 for s, kwh in steady(300, first=9999.1).items()}
    return {
        **{f"zero{p}": Case("fine", wrong(steady(p), 4500, says=0), same(4)) for p in (10, 60, 300, 900)},
        "zeroatend": Case("fine", wrong(each_minute, 3600, says=0), same(4)),
        "two": Case("fine", wrong(each_minute, 3960, 4020, says=0), same(4)),
        "spike": Case("fine", wrong(each_minute, 2700, says=730_000), same(4)),
        "smallspike": Case("fine", wrong(each_minute, 2700, more=1.5), same(4)),
        "dips": Case("fine", wrong(each_minute, *range(300, 10_000, 600), more=-0.09), same(4)),
        "stale": Case("fine", wrong(each_minute, 4800, 4860, 4920, says=7300.5), same(4)),
        "reboot": Case("fine", reboot, same(4)),
        "falls": Case("fine", falls, same(4), off=0.0035),
        "night": Case(
            "fine", night, {**same(4), **dict.fromkeys(range(6, 25), 0.0), 27: 0.3, 28: 0.3}, off=0.004
        ),
        "newday": Case("fine", day, {**same(4), 5: 0.3, 6: 0.3}),
        "tenfold": Case("shifted", tenfold, {**same(4), 5: 3.0, 6: 3.0, 9: 3.0, 11: 0.3, 12: 0.3}, off=0.02),
        "again": Case("restarted", restarts, {}),
        "whole": Case(
            "coarse", steady(10, 6, kw=2, first=800.0, step=1), dict.fromkeys(range(10), 1.0), off=0.002
        ),
        "over": Case("rolling", rolls, same(4)),
        "zeroover": Case("rolling", wrong(rolls, 4500, says=0), same(4)),
    }


CASES = cases()


class Outcome(NamedTuple):
    """What left of each meter, by the half hour, and the codes of the problems of each stream."""

    slots: Mapping[str, Mapping[int, float]]
    problems: Mapping[str, set[str]]


@pytest.fixture(scope="module")
def outcome(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Let one agent read all of it."""
    with mosquitto(settings=TELL_ALL) as broker:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("registers")))


async def _run(broker: Broker, folder: Path) -> Outcome:
    slots: defaultdict[str, dict[int, float]] = defaultdict(dict)
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, streams_of(broker, SOURCES)) as agent:
            agent.start()
            await subscribed(broker, len(SOURCES))
            for name, case in CASES.items():
                for second, kwh in sorted(case.readings.items()):
                    time = iso_time(START_MS + second * 1000)
                    await line.raw(f"{case.stream}/{name}/power", f'{{"power": {kwh:.3f}, "t": "{time}"}}')
            expected = sum(case.last_slot + 1 for case in CASES.values())
            await until(lambda: sum(message.is_record for message in inbox.messages) >= expected)
            problems = await asyncio.to_thread(_problems, agent)
            await agent.stop()
        for record in [message for message in inbox.messages if message.is_record]:
            index, rest = divmod(record.start_ms - START_MS, SLOT_S * 1000)
            assert rest == 0
            assert index not in slots[record.meter], "a slot left twice"
            slots[record.meter][index] = record.value
    return Outcome(slots, problems)


def _problems(agent: Service) -> Mapping[str, set[str]]:
    answer = json.loads(agent.command("health", "--json").stdout)
    problems: defaultdict[str, set[str]] = defaultdict(set)
    for detail in answer["problem_details"]:
        problems[detail["stream"]].add(detail["code"])
    return problems


@pytest.mark.parametrize("name", CASES)
def test_each_half_hour_is_right(name: str, outcome: Outcome) -> None:
    """Whatever a register says once, its half hours have the energy that was used."""
    case, slots = CASES[name], outcome.slots[name]
    wrong_slots = {
        index: slots.get(index) for index, kwh in case.slots.items() if abs(slots[index] - kwh) > case.off
    }
    assert not wrong_slots, dict(slots)


def test_a_night_of_zeros_adds_nothing(outcome: Outcome) -> None:
    """The sum of all half hours is the difference of the counts."""
    slots = outcome.slots["night"]
    readings = CASES["night"].readings
    until_s = (max(slots) + 1) * SLOT_S
    assert sum(slots.values()) == pytest.approx(readings[until_s] - readings[0], abs=0.03)


def test_a_new_day_loses_the_time_of_its_reset(outcome: Outcome) -> None:
    """Five minutes of the half hour in which the counter starts again."""
    assert outcome.slots["newday"][4] == pytest.approx(0.25, abs=0.0025)


def test_a_jump_and_resets_are_problems(outcome: Outcome) -> None:
    """Each is named in its stream, and nothing else is: one reset a day is normal, as all glitches are."""
    assert outcome.problems == {"shifted": {"register_jump"}, "restarted": {"register_reset"}}


def test_kills_while_readings_are_doubted_change_nothing(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Each half hour leaves once, and is exact: what is doubted is delivered again, and the slot resumes."""
    with mosquitto(settings=TELL_ALL) as broker:
        outcome = asyncio.run(kill_while_doubted(broker, tmp_path, rounds=12))
    assert outcome.is_kept
    assert outcome.slots >= 7
