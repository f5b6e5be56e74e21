"""One to three SIGTERMs for the operators of a crowd: each ends with 0."""

from pathlib import Path

from tests.conftest import MakeBroker
from tests.integration import collecting, crowding

STOPS = 5


async def test_operators_that_are_stopped_publish_each_total_once(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """Whenever leader and helper are stopped, they end with 0, and each total is published once."""
    with mosquitto(is_persistent=True, settings=collecting.DURABLE) as broker:
        totals = await crowding.kill(tmp_path, broker, rounds=STOPS, is_stopped=True)
    totals.assert_right()
    assert totals.received
