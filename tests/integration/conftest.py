"""What the integration tests share."""

from collections.abc import Iterator

import pytest

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.support.broker import Broker


@pytest.fixture
def broker(mosquitto: MakeBroker) -> Iterator[Broker]:
    """A running broker of this test's own, which remembers nothing and tells who subscribes."""
    with mosquitto(settings=LOGS_SUBSCRIPTIONS) as running:
        yield running
