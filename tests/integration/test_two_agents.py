"""Two agents with the same configuration and two stores, on one broker: no interval is released by both."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from meteragent.agent.environment import LISTEN_S
from tests.conftest import MakeBroker
from tests.integration.service import (
    SUBSCRIBED,
    TELL_ALL,
    Meters,
    Service,
    Utility,
    count_in_log,
    meters,
    service,
    stream,
    until,
    utility,
)

PROGRAM = ("meteragent",)
"""As it is: it listens for ten seconds."""


async def sending(to: Meters) -> None:
    """A meter's readings, five a second."""
    while True:
        await to.send("m1", 250)
        await asyncio.sleep(0.2)


def times(inbox: Utility) -> Counter[int]:
    """How often each slot of the meter came."""
    return Counter(record.start_ms for record in inbox.records())


async def more(inbox: Utility, number: int) -> None:
    """Wait for a number of further slots."""
    wanted = len(times(inbox)) + number
    await until(lambda: len(times(inbox)) >= wanted)


async def problems(agent: Service) -> list[str]:
    """What `health` tells of an agent, by its codes."""
    done = await asyncio.to_thread(agent.command, "health", "--json")
    found: list[str] = json.loads(done.stdout)["problem_codes"]
    assert done.returncode == (1 if found else 0)
    return found


async def test_no_interval_is_released_by_both(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """The second agent sees the first one's descriptor, opens and charges nothing, and says why.

    When the first is gone for good it is told to take over, and no slot comes a second time.
    """
    with mosquitto(settings=TELL_ALL) as broker:
        text = stream(broker.url)
        first, second = (service(tmp_path / name, text, program=PROGRAM) for name in ("a", "b"))
        with first as one, second as other:
            async with utility(broker) as inbox, meters(broker) as home:
                task = asyncio.create_task(sending(home))
                one.start()
                await until(inbox.records)
                other.start()
                await until(lambda: count_in_log(broker, SUBSCRIBED) == 2)
                await until(_tells(other, "another agent releases a meter"))
                await more(inbox, 12)
                assert await problems(other) == ["other_agent"]
                assert await problems(one) == []
                assert json.loads(other.command("ledger", "--json").stdout)["spent"] == []
                await one.stop()
                await other.stop()
                assert other.totals["opened"] == other.totals["delivered"] == 0
                assert other.totals["held"] > 10
                taken = other.command("ledger", "--restored-at", "now")
                assert taken.returncode == 0, taken.stderr
                other.start()
                await more(inbox, 3)
                assert await problems(other) == []
                await other.stop()
                task.cancel()
                assert max(times(inbox).values()) == 1
            descriptors = [c.facts["store"] for c in inbox.messages if c.topic == "private/main/m1/privacy"]
            assert len(set(descriptors)) == 2


async def test_a_deleted_store_is_named_as_such(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """A store that was deleted with all files beside it: the log and `health` say so, and no other agent."""
    with (
        mosquitto(settings=TELL_ALL) as broker,
        service(tmp_path / "a", stream(broker.url), program=PROGRAM) as agent,
    ):
        async with utility(broker) as inbox, meters(broker) as home:
            task = asyncio.create_task(sending(home))
            agent.start()
            await until(inbox.records)
            await agent.stop()
            for path in agent.store.parent.glob("db*"):
                path.unlink()
            agent.start()
            await until(_tells(agent, "an earlier store has released a meter"))
            assert await problems(agent) == ["earlier_store"]
            await agent.stop()
            task.cancel()
            assert "--restored-at now" in agent.log
            assert "another agent releases" not in agent.log


async def test_a_new_store_in_the_place_of_a_damaged_one_is_not_another_agent(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """The claim key outlives the store: what was announced before the damage holds no meter back."""
    with mosquitto(settings=TELL_ALL) as broker, service(tmp_path / "a", stream(broker.url)) as agent:
        async with utility(broker) as inbox, meters(broker) as home:
            task = asyncio.create_task(sending(home))
            agent.start()
            await until(inbox.records)
            await agent.stop()
            agent.store.write_bytes(b"damage" + agent.store.read_bytes()[6:])
            with service(tmp_path / "a", stream(broker.url), program=PROGRAM) as successor:
                successor.start()
                await more(inbox, 3)
                assert await problems(successor) == []
                await successor.stop()
                assert successor.totals["store_set_aside"] == 1
                # It hears its claim at once, in a window or two on a busy machine; without it, it would
                # listen for ten seconds, of which each is a window.
                assert successor.totals["held"] < LISTEN_S / 2
            task.cancel()
        assert max(times(inbox).values()) == 1
        assert len({c.facts["store"] for c in inbox.messages if c.topic == "private/main/m1/privacy"}) == 1


def _tells(agent: Service, words: str) -> Callable[[], bool]:
    return lambda: words in agent.log
