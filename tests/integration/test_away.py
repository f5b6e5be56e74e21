"""Who is away for a while gets everything when it is back."""

import random
from pathlib import Path

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS, Agent
from tests.integration.kills import PLAN, invent
from tests.integration.wire import Receiver, feed
from tests.support.broker import Broker

METERS = 3
READINGS = 400
# Saved at an orderly end only: here nobody is killed.
PERSISTENT = {**LOGS_SUBSCRIPTIONS, "persistence": "true", "autosave_interval": 0}


async def test_a_receiver_that_was_away_gets_everything(broker: Broker, tmp_path: Path) -> None:
    """What leaves while a receiver is away waits for it in its broker, in order."""
    fed, messages = invent(random.Random(6), METERS, READINGS)
    half = len(messages) // 2
    with Agent(tmp_path, [PLAN], broker.url) as agent:
        await agent.subscribed(broker)
        async with Receiver(broker) as receiver, Receiver(broker, "other") as other:
            await feed(broker.url, messages[:half])
            await receiver.more_than(0)
            await receiver.go()
            before = receiver.records
            await feed(broker.url, messages[half:])
            await agent.finished(other, fed)
            await agent.stop()
            assert receiver.records == before
            await receiver.come()
            await receiver.flush(broker.url)
        agent.assert_kept(fed, receiver)
        agent.assert_kept(fed, other)
    assert before < other.records == agent.totals["released"]


async def test_a_broker_that_was_away_gets_everything(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """What is released while the sink's broker is away waits in the outbox, and leaves in order."""
    fed, messages = invent(random.Random(7), METERS, READINGS)
    third = len(messages) // 3
    source: Broker = mosquitto(settings=LOGS_SUBSCRIPTIONS).start()
    sink: Broker = mosquitto(settings=PERSISTENT)
    with Agent(tmp_path, [PLAN], source.url, sink.url) as agent:
        await agent.subscribed(source)
        await feed(source.url, messages[:third])  # it has never been there
        sink.start()
        async with Receiver(sink) as receiver:
            await feed(source.url, messages[third : 2 * third])
            await receiver.more_than(0)
            sink.stop()
            await feed(source.url, messages[2 * third :])
            sink.start()
            await agent.finished(receiver, fed)
            await agent.stop()
            await receiver.flush(sink.url)
        agent.assert_kept(fed, receiver)
