"""kill -9 of the agent within windows of peaks."""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tests.integration.agent import Agent
from tests.integration.judge import slots, violations
from tests.integration.kills import START_MS
from tests.integration.plan import HOLD_MS, Plan, Reading
from tests.integration.service import stream
from tests.integration.wire import Receiver, feed, publication
from tests.support.broker import Broker

DAY_MS = 86_400_000
KILLS = 8
READINGS = 2_700
"""The last of three windows ends after the last kill."""


@dataclass(frozen=True, slots=True)
class PeakPlan(Plan):
    """The largest mean of a step of each day."""

    def toml(self, source_url: str, sink_url: str | None, source: str = "", sink: str = "") -> str:
        """The stream in the agent's configuration."""
        return stream(
            source_url,
            sink_url,
            name=self.name,
            source=f'hold = "{HOLD_MS}ms"\n{source}',
            window=f'length = "{self.length_ms}ms"\nstep = "{self.step_ms}ms"\nclock = "event"',
            privacy=f'space = "peak"\nlevel = {self.level}\nradius = {self.radius}',
            sink=sink,
        )

    def truth(self, readings: Sequence[Reading]) -> dict[int, Fraction]:
        """The largest mean of a step of every window that must leave, by its start."""
        means = Plan.truth(self, readings)
        first_ms, count = min(means), self.length_ms // self.step_ms
        starts_ms = range(first_ms, max(means) + self.step_ms - self.length_ms + 1, self.length_ms)
        return {
            start_ms: max(means[start_ms + part * self.step_ms] for part in range(count))
            for start_ms in starts_ms
        }


PLAN = PeakPlan("peak", length_ms=DAY_MS, step_ms=900_000)


async def test_a_peak_survives_every_kill(broker: Broker, tmp_path: Path) -> None:
    """Each day has one peak, exact; the ledger has a charge for each noise that the records state."""
    rng = random.Random(KILLS)
    fed = {
        f"m{meter}": [
            Reading(
                START_MS + meter * 1000 + index * 100_000 + rng.randrange(90_000), f"{rng.randrange(6000)}"
            )
            for index in range(READINGS)
        ]
        for meter in range(2)
    }
    readings = [
        (name, reading)
        for pair in zip(*fed.values(), strict=True)
        for name, reading in zip(fed, pair, strict=True)
    ]
    messages = [publication(name, reading) for name, reading in readings]
    burst = len(messages) // (KILLS + 1)
    with Agent(tmp_path, [PLAN], broker.url) as agent:
        await agent.subscribed(broker)
        async with Receiver(broker) as receiver:
            for life in range(KILLS):
                feeding = asyncio.create_task(feed(broker.url, messages[life * burst : (life + 1) * burst]))
                await asyncio.sleep(rng.uniform(0.5, 2))
                await agent.kill()
                agent.start()
                await feeding
            await feed(broker.url, messages[KILLS * burst :])
            await agent.finished(receiver, fed)
            await agent.stop()
            await receiver.flush(broker.url)
        assert not violations(PLAN, fed, receiver.messages)
        draws = {
            name: [
                json.loads(payload)["draws"]
                for payloads in slots(PLAN, name, receiver.messages).values()
                for payload in payloads
            ]
            for name in fed
        }
        charged = {name: windows for (_, name), (windows, _) in agent.ledger().items()}
    assert {name: len(counts) for name, counts in draws.items()} == dict.fromkeys(fed, 3)
    assert max(max(counts) for counts in draws.values()) > 1
    for name, counts in draws.items():  # and the window that is open
        assert sum(counts) < charged[name] <= sum(counts) + 1 + KILLS
