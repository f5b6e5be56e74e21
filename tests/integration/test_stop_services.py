"""One to three SIGTERMs for `collect`, and for operators and homes of a crowd: each ends with 0."""

from pathlib import Path

from tests.conftest import MakeBroker
from tests.integration import collecting, crowd_homes, crowding
from tests.integration.service import TELL_ALL
from tests.support.postgres import Postgres

STOPS = 5


async def test_what_a_collector_is_stopped_in_is_in_the_table(
    mosquitto: MakeBroker, postgres: Postgres, table_url: str, tmp_path: Path
) -> None:
    """Whenever `collect` is stopped, it ends with 0, and each interval is in the table once."""
    with mosquitto(is_persistent=True, settings=collecting.DURABLE) as broker:
        kept = await collecting.kill(
            "collect",
            chain=collecting.by_mqtt(broker),
            postgres=postgres,
            table_url=table_url,
            folder=tmp_path,
            rounds=STOPS,
            size=250,
            is_stopped=True,
        )
    kept.assert_equal()


async def test_operators_that_are_stopped_publish_each_total_once(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """Whenever leader and helper are stopped, they end with 0, and each total is published once."""
    with mosquitto(is_persistent=True, settings=collecting.DURABLE) as broker:
        totals = await crowding.kill(tmp_path, broker, rounds=STOPS, is_stopped=True)
    totals.assert_right()
    assert totals.received


async def test_homes_that_are_stopped_report_each_slot_once(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Whenever the agent of a crowd's homes is stopped, it ends with 0, and each report has one form."""
    with mosquitto(settings=TELL_ALL) as broker:
        counts = await crowd_homes.kill(tmp_path, broker, rounds=STOPS, is_stopped=True)
    assert counts["reports"] == (STOPS + 2) * len(crowd_homes.HOMES)
    assert not any(counts[name] for name in ("unopened", "missing", "doubled", "wrong"))
