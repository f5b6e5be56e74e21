"""Real load traces through mosquitto and the agent: every slot once, right, with the exact law.

By default a stretch of each, seconds long; with METERAGENT_REAL=whole (`make real`) all of it. Every
statistical test fails a right agent with a chance of 1e-6 (law.ALARM).
"""

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from simulators.commands.replay import replay
from simulators.traces.trace import load
from tests.integration import law
from tests.integration.agent import Agent
from tests.integration.judge import Fed, noise
from tests.integration.plan import SOURCE_TOPIC, Plan, Reading
from tests.integration.wire import Receiver
from tests.support.broker import Broker
from tests.support.not_run import data_folder

pytestmark = pytest.mark.usefixtures("data")

WHOLE = os.environ.get("METERAGENT_REAL") == "whole"
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
HOME = "homes/REFIT_House2.parquet"
TELEVISION = "tracebase/TV-LCD_D33097_2012.01.21.parquet"

HALF_HOUR = Plan("half", HOUR_MS // 2, HOUR_MS // 2)
SIX = Plan("six", HOUR_MS, HOUR_MS // 6)
TEN_SECONDS = Plan("ten", 10_000, 10_000)
# Level 1000 would not do: with 360 slots the radius of a window is some n / (epsilon q) = 4 then.
HOUR = Plan("hour", HOUR_MS, 10_000, level=10_000)


@dataclass(frozen=True, slots=True)
class Run:
    """A trace that some meters replay, so much of it, and the streams that are made of it.

    With `loops` it is a trace without gaps, which comes so often, from `START_MS` on.
    """

    file: str
    plans: tuple[Plan, ...]
    hours: int
    hours_whole: int
    meters: int = 1
    meters_whole: int = 1
    loops: int = 1

    async def go(self, broker: Broker, folder: Path) -> tuple[Fed, Receiver]:
        """What was fed, and everything that came of it; the agent has ended well."""
        hours, meters = (self.hours_whole, self.meters_whole) if WHOLE else (self.hours, self.meters)
        trace = load(data_folder() / self.file).limited(hours * HOUR_MS).ended()
        trace = trace if self.loops == 1 else trace.starting(START_MS)
        pairs = list(zip(trace.times_ms.tolist(), trace.watts.tolist(), strict=True))
        lap_ms, [*lap, end] = hours * HOUR_MS, pairs
        again = [(time_ms + number * lap_ms, watts) for number in range(self.loops) for time_ms, watts in lap]
        again.append((end[0] + (self.loops - 1) * lap_ms, end[1]))
        readings = [Reading(time_ms, repr(watts)) for time_ms, watts in again]
        fed = {f"m{number}": readings for number in range(1, meters + 1)}
        with Agent(folder, self.plans, broker.url) as agent:
            async with Receiver(broker) as receiver:
                await agent.subscribed(broker)
                await replay(trace, broker.url, SOURCE_TOPIC, meters, loops=self.loops)
                await agent.finished(receiver, fed)
                await agent.stop()
                await receiver.flush(broker.url)
            agent.assert_kept(fed, receiver)
        assert (
            agent.totals["accepted"] == agent.totals["received"] == len(readings) * meters * len(self.plans)
        )
        return fed, receiver


RUNS = {
    "half hours and 6 slots of 10 minutes": Run(HOME, (HALF_HOUR, SIX, SIX.noisy), 48, 31 * 24, 1, 2),
    "half hours, shifted and in a loop": Run(HOME, (HALF_HOUR,), 3, 48, loops=8),
    "slots of 10 seconds": Run(TELEVISION, (TEN_SECONDS, HOUR, HOUR.noisy), 5, 24),
}


@pytest.mark.parametrize("name", RUNS)
async def test_every_slot_is_released_once_and_right(name: str, broker: Broker, tmp_path: Path) -> None:
    """Every slot of a real trace leaves once, on the lattice, and exactly right if noise is negligible."""
    run = RUNS[name]
    fed, receiver = await run.go(broker, tmp_path)
    for plan in run.plans:
        for meter, readings in fed.items():
            assert len(receiver.messages[plan.topic(meter)]) == len(plan.truth(readings))
        if not plan.is_exact:
            assert_law(noise(plan, fed, receiver.messages), plan)


LAWS = {
    "half hours": Run(HOME, (HALF_HOUR.noisy,), 48, 31 * 24, 1, 8),
    "slots of 10 seconds": Run(TELEVISION, (TEN_SECONDS.noisy,), 16, 24, 2, 2),
}


@pytest.mark.parametrize("name", LAWS if WHOLE else ["slots of 10 seconds"])
async def test_the_noise_has_its_law(name: str, broker: Broker, tmp_path: Path) -> None:
    """The noise of records has the exact law; a scale 10% off is rejected but with a chance of 1e-7."""
    run = LAWS[name]
    [plan] = run.plans
    fed, receiver = await run.go(broker, tmp_path)
    windows = noise(plan, fed, receiver.messages)
    assert_law(windows, plan)
    assert law.maxima_p(windows, plan.epsilon) > law.ALARM
    for factor in (Fraction(11, 10), Fraction(10, 11)):
        assert law.scale_miss(len(windows), float(factor)) < 1e-7
        assert not law.passes_scale_test(windows, plan.epsilon * factor)


def assert_law(windows: law.Windows, plan: Plan) -> None:
    """The scale, and the law of the rest given the largest; the lattice is 1 W, so a = epsilon."""
    assert law.passes_scale_test(windows, plan.epsilon)
    assert law.sign_p(windows) > law.ALARM
    assert plan.n == 1 or law.rest_p(windows) > law.ALARM
