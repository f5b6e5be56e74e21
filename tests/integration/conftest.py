"""What the integration tests share."""

from collections.abc import Iterator

import pytest

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.support.broker import Broker

LONGEST = [f"test_{name}" for name in ("shapes", "readme", "price_kill", "kill_agent", "two_agents", "init")]
LONGEST += ["test_kill_rounds", "test_counters"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that none of them is left for one worker at the end."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture
def broker(mosquitto: MakeBroker) -> Iterator[Broker]:
    """A running broker for this test alone, which remembers nothing and reports subscriptions."""
    with mosquitto(settings=LOGS_SUBSCRIPTIONS) as running:
        yield running
