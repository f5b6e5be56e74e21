"""Receivers that a person pauses, resumes and ends, between real brokers, through kill -9."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from meteragent.domain.grid import parse_time
from tests.conftest import MakeBroker
from tests.integration.hurried import make_clock
from tests.integration.service import Service, end_tasks, service, until
from tests.integration.test_receivers import (
    APP,
    HURRIED,
    KEPT,
    START_MS,
    UTILITY,
    is_without_gap,
    kill_often,
    retained,
    rewrite,
    sending,
    slots,
    text,
)
from tests.integration.wire import Receiver
from tests.support.broker import Broker

NOTICE_MS = 30_000
REASONS = ("(paused)", "(ended)")


class Scene(NamedTuple):
    """Two receivers of one stream at two brokers, and the agent that sends to both."""

    agent: Service
    outside: Broker
    utility: Receiver
    app: Receiver

    def slots(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """What the utility and the app have got."""
        return slots(self.utility, UTILITY), slots(self.app, APP)

    async def act(self, *words: str) -> str:
        """Run the command; return what it printed."""
        done = await asyncio.to_thread(self.agent.command, "receivers", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def further(self, count: int = 3) -> None:
        """Wait until the utility has got further slots."""
        newest = len(slots(self.utility, UTILITY))
        await until(lambda: len(slots(self.utility, UTILITY)) >= newest + count)

    async def silent(self) -> None:
        """Whatever is on its way has arrived; from then on, the app gets nothing while the utility does."""
        await until(lambda: self.app.messages[f"{APP}/privacy"][-1:] == [b""])
        before = slots(self.app, APP)
        await self.further()
        assert slots(self.app, APP) == before
        assert await retained(self.outside, APP) == {}


def receipts(folder: Path) -> list[str]:
    """The receipts of the app, in order."""
    return [path.read_text() for path in sorted(folder.glob("db.receipt-app-*.txt"))]


@asynccontextmanager
async def running(mosquitto: MakeBroker, folder: Path, more: str = "") -> AsyncIterator[Scene]:
    """Run the agent and both receivers, until both have got numbers; `more` is more of the configuration."""
    with mosquitto() as home, mosquitto(is_persistent=True, settings=KEPT) as outside:
        make_clock(folder, START_MS, hour_s=1)
        content = text(home, outside, more)
        async with Receiver(home, "utility") as utility, Receiver(outside, "app") as app:
            with service(folder, content, program=HURRIED) as agent:
                rewrite(agent, content)
                feeding = asyncio.create_task(sending(home))
                agent.start()
                try:
                    await until(lambda: slots(app, APP) and slots(utility, UTILITY))
                    yield Scene(agent, outside, utility, app)
                    await agent.stop()
                finally:
                    await end_tasks(feeding)


async def test_a_receiver_is_paused_resumed_and_ended_while_the_other_gets_all(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """The paused one gets nothing, then windows that begin half a minute later, the same bytes as the other.

    Once it has ended, it gets nothing more, not after kill -9 either, and nothing brings it back.
    """
    rng = random.Random(31)
    async with running(mosquitto, tmp_path) as scene:
        said = await scene.act("pause", "app")
        assert "app is paused" in said
        await scene.silent()
        _, before = scene.slots()
        await kill_often(scene.agent, rng, 3)
        await scene.further()
        assert scene.slots()[1] == before
        paused = json.loads(await scene.act("--json"))
        rows = {row["name"]: row for row in paused["receivers"]}
        assert rows["app"]["is_paused"]
        assert (rows["app"]["epsilon_per_day"], rows["utility"]["epsilon_per_day"]) == ("0", "12/55")
        resumed_after = max(scene.slots()[0])
        await scene.act("resume", "app")
        await until(lambda: len(scene.slots()[1]) >= len(before) + 3)
        everything, shared = scene.slots()
        later = {start: payload for start, payload in shared.items() if start not in before}
        assert parse_time(min(later)) >= parse_time(resumed_after) + NOTICE_MS
        assert shared.items() <= everything.items()
        assert all(map(is_without_gap, (before, later, everything)))
        await scene.act("end", "app", "--yes")
        await scene.silent()
        _, at_end = scene.slots()
        await kill_often(scene.agent, rng, 2)
        await scene.further()
        refused = await asyncio.to_thread(scene.agent.command, "receivers", "resume", "app")
        assert refused.returncode == 1
        assert "ended for good" in refused.stderr
        await scene.further()
        assert scene.slots()[1] == at_end
        assert is_without_gap(scene.slots()[0])
        assert "app: end, by the command" in scene.agent.log
    assert [said in text for text, said in zip(receipts(tmp_path), REASONS, strict=True)] == [True, True]


async def test_what_is_done_while_the_agent_is_stopped_counts_at_its_start(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """With all paused no window opens and nothing is charged, and the agent still takes an action."""
    async with running(mosquitto, tmp_path) as scene:
        await scene.agent.stop()
        for name in ("app", "utility"):
            await scene.act("pause", name)
        scene.agent.start()
        await until(lambda: scene.agent.command("health", "--quiet").returncode == 0)
        spent = scene.agent.command("ledger").stdout
        before = scene.slots()
        await asyncio.sleep(2)  # four slots
        assert scene.slots() == before
        assert scene.agent.command("ledger").stdout == spent
        together = json.loads(await scene.act("--json"))["together"]
        assert together["epsilon_per_day"] == "0"
        await scene.act("resume", "utility")
        await scene.further()
        assert scene.slots()[1] == before[1]


async def test_no_action_of_many_at_once_is_lost(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Commands that run at once, while the agent settles others, are all rows; the last one counts."""
    async with running(mosquitto, tmp_path) as scene:
        verbs = ["pause", "resume"] * 4
        await asyncio.gather(*(scene.act(verb, "app") for verb in verbs))
        await scene.act("pause", "app")
        await scene.silent()
        rows = {row["name"]: row for row in json.loads(await scene.act("--json"))["receivers"]}
        # The agent logs only those that it writes itself: none while it opens the store again.
        assert (rows["app"]["last_action"]["id"], rows["app"]["last_action"]["verb"]) == (9, "pause")
