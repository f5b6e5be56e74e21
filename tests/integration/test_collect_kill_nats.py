"""`collect` under kill -9 with a real nats-server: its MQTT gateway, streams, and durable consumers."""

from pathlib import Path

import pytest

from tests.integration.collecting import VICTIMS, Victim, by_nats, kill
from tests.support.nats import Nats
from tests.support.postgres import Postgres


@pytest.mark.parametrize("victim", VICTIMS)
async def test_the_table_equals_what_left(
    victim: Victim, nats: Nats, postgres: Postgres, table_url: str, tmp_path: Path
) -> None:
    """Whatever is killed at whatever moment, each interval is in the table once, with its value."""
    kept = await kill(
        victim,
        chain=by_nats(nats, tmp_path),
        postgres=postgres,
        table_url=table_url,
        folder=tmp_path,
        rounds=5,
        size=250,
    )
    kept.assert_equal()
    assert kept.lives > 0
