"""MQTT 3.1.1, whose brokers have limits to unacknowledged messages that they do not state."""

import random
from dataclasses import replace
from pathlib import Path

from tests.conftest import MakeBroker
from tests.integration.agent import Agent
from tests.integration.kills import PLAN, invent
from tests.integration.service import TELL_ALL, count_in_log, until
from tests.integration.wire import CHUNK, Receiver, feed

PASSED_ON = r"Sending PUBLISH to meteragent-\w+-source"
METERS = 30
READINGS = 60
PATIENT = replace(PLAN, lateness_ms=120_000)
"""mosquitto 2.0.11 may send a message before those that wait in its queue: at most a CHUNK, half a minute."""


async def test_more_meters_than_messages_on_the_way_do_not_block(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """Although mosquitto sends at most 20 unacknowledged messages, 30 standing readings do not deadlock.

    The oldest are acknowledged early, and counted.
    """
    fed, messages = invent(random.Random(5), METERS, READINGS)
    with (
        mosquitto(settings=TELL_ALL) as broker,
        Agent(tmp_path, [PATIENT], broker.url, source='protocol = "3.1.1"') as agent,
    ):
        await agent.subscribed(broker)
        async with Receiver(broker) as receiver:
            for sent_count in range(0, len(messages), CHUNK):
                await feed(broker.url, messages[sent_count : sent_count + CHUNK])
                passed_count = min(sent_count + CHUNK, len(messages))
                await until(lambda: count_in_log(broker, PASSED_ON) >= passed_count)  # noqa: B023
            await agent.finished(receiver, fed)
            await agent.stop()
            await receiver.flush(broker.url)
        agent.assert_kept(fed, receiver)
    assert agent.totals["acked_open"] > 0
    assert agent.totals["received"] == len(messages)
