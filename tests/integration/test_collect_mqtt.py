"""The source of MQTT at a real broker: what the log says when two collectors have one client id."""

import asyncio
import logging
import os

import pytest

from meteragent.collect.mqtt import MqttSource
from meteragent.mqtt import Endpoint
from tests.integration.service import end_tasks, until
from tests.support.broker import Broker


async def test_a_second_collector_with_the_client_id_is_said(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """When the broker gives the session to another collector again and again, the log says so."""
    caplog.set_level(logging.INFO)
    sources = [MqttSource(Endpoint.parse(broker.url), "same", ("a",), os.urandom) for _ in range(2)]
    first = asyncio.create_task(sources[0].run())
    await until(lambda: "connected with MQTT 5" in caplog.text)
    second = asyncio.create_task(sources[1].run())
    try:
        await until(lambda: "does another collector have source.client_id = 'same'?" in caplog.text, 60)
    finally:
        await end_tasks(first, second)
