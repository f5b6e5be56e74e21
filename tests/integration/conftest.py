"""What the integration tests share."""

from collections.abc import Iterator

import pytest

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.support.broker import Broker
from tests.support.kafka import Kafka
from tests.support.nats import Nats, nats_program
from tests.support.not_run import not_run

LONGEST = [f"test_{name}" for name in ("shapes", "readme", "price_kill", "kill_agent", "two_agents", "init")]
LONGEST += ["test_kill_rounds", "test_counters"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that none of them is left for one worker at the end."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture
def broker(mosquitto: MakeBroker) -> Iterator[Broker]:
    """Start a broker for this test alone, which remembers nothing and reports subscriptions."""
    with mosquitto(settings=LOGS_SUBSCRIPTIONS) as running:
        yield running


@pytest.fixture
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    """Start a NATS server with the users and streams of deploy/collect."""
    program = nats_program()
    if program is None:
        not_run("nats-server", "nats-server is not on the path, nor in /usr/sbin, nor in METERAGENT_NATS")
    with Nats(program, tmp_path_factory.mktemp("nats")) as server:
        server.make_streams()
        yield server


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """Start a mock cluster of librdkafka, with the topics of docs/collect.md."""
    with Kafka() as cluster:
        yield cluster
