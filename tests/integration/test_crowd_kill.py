"""A crowd under kill -9 of leader, helper and mosquitto; all of them real."""

from pathlib import Path

from tests.conftest import MakeBroker
from tests.integration.collecting import DURABLE
from tests.integration.crowding import kill


async def test_each_slot_has_one_total_of_one_set(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Whatever is killed at whatever moment, each total is published once, of one set of enough homes."""
    with mosquitto(is_persistent=True, settings=DURABLE) as broker:
        totals = await kill(tmp_path, broker, rounds=5)
    totals.assert_right()
    assert totals.received
