"""kill -9 of mosquitto at random moments under a burst feed."""

from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.integration.kills import PLAN, UNLIMITED, kill_brokers

KILLS = 25
SETTINGS = LOGS_SUBSCRIPTIONS | UNLIMITED


@pytest.mark.parametrize(("brokers", "burst"), [(1, 40), (2, 60)])
async def test_a_broker_that_is_killed_costs_nothing(
    brokers: int, burst: int, mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """Nothing is missing, nothing has two values, nothing is wrong, for one broker and for two.

    The feeder sends again what was not answered: such duplicates are refused. The ledger is equal to
    what was released.
    """
    running = [mosquitto(is_persistent=True, settings=SETTINGS).start() for _ in range(brokers)]
    outcome = await kill_brokers(running, tmp_path, [PLAN], KILLS, burst)
    outcome.agent.assert_kept(outcome.fed, outcome.receiver)
    assert outcome.lives >= KILLS // 3
