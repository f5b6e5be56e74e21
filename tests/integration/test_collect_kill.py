"""`collect` under kill -9: of itself, of PostgreSQL and of mosquitto; all of them real."""

from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.integration.collecting import DURABLE, VICTIMS, Victim, by_mqtt, kill
from tests.integration.collecting_files import kill_with_files
from tests.support.postgres import Postgres


@pytest.mark.parametrize("victim", VICTIMS)
async def test_the_table_equals_what_left(
    victim: Victim, mosquitto: MakeBroker, postgres: Postgres, table_url: str, tmp_path: Path
) -> None:
    """Whatever is killed at whatever moment, each interval is in the table once, with its value."""
    with mosquitto(is_persistent=True, settings=DURABLE) as broker:
        kept = await kill(
            victim,
            chain=by_mqtt(broker),
            postgres=postgres,
            table_url=table_url,
            folder=tmp_path,
            rounds=5,
            size=250,
        )
    kept.assert_equal()
    assert kept.lives > 0


async def test_the_files_equal_what_left(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """With a Parquet dataset, whenever `collect` is killed, each interval is in the files once."""
    with mosquitto(is_persistent=True, settings=DURABLE) as broker:
        kept = await kill_with_files(chain=by_mqtt(broker), folder=tmp_path, rounds=5, size=250)
    kept.assert_equal()
    assert kept.lives > 0
