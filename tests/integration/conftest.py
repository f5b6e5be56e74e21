"""What the integration tests share."""

from collections.abc import Iterator

import pytest

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.support.broker import Broker


@pytest.fixture
def broker(mosquitto: MakeBroker) -> Iterator[Broker]:
    """A running broker for this test alone, which remembers nothing and reports subscriptions."""
    with mosquitto(settings=LOGS_SUBSCRIPTIONS) as running:
        yield running
