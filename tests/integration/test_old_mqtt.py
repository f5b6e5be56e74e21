"""MQTT 3.1.1, whose brokers have limits to unacknowledged messages that they do not state."""

import random
from pathlib import Path

import pytest

from tests.integration.agent import Agent
from tests.integration.kills import PLAN, invent
from tests.integration.wire import Receiver, feed
from tests.support.broker import Broker

pytestmark = pytest.mark.integration

METERS = 30
READINGS = 60


async def test_more_meters_than_messages_on_the_way_do_not_block(broker: Broker, tmp_path: Path) -> None:
    """Although mosquitto sends at most 20 unacknowledged messages, 30 standing readings do not deadlock.

    The oldest are acknowledged early, and counted.
    """
    fed, messages = invent(random.Random(5), METERS, READINGS)
    with Agent(tmp_path, [PLAN], broker.url, source='protocol = "3.1.1"') as agent:
        await agent.subscribed(broker)
        async with Receiver(broker) as receiver:
            await feed(broker.url, messages)
            await agent.finished(receiver, fed)
            await agent.stop()
            await receiver.flush(broker.url)
        agent.assert_kept(fed, receiver)
    assert agent.totals["acked_open"] > 0
    assert agent.totals["received"] == len(messages)
