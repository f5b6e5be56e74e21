"""`collect` under kill -9 with a mock cluster of librdkafka: a group, and offsets that follow the commits."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.collecting import Collector, Victim, by_kafka, kill
from tests.support.kafka import Kafka
from tests.support.postgres import Postgres

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("victim", ["collect", "postgres"])
async def test_the_table_equals_what_left(
    victim: Victim, kafka: Kafka, postgres: Postgres, table_url: str, tmp_path: Path
) -> None:
    """Each interval is in the table once, with its value; the mock is not killed.

    Beside the collector that is killed, a second member of its group stays: partitions move to and fro, and a
    record and its descriptor often come to different members.
    """
    chain = by_kafka(kafka)
    (tmp_path / "beside").mkdir()
    with ExitStack() as stack:
        if victim == "collect":
            beside = Collector(tmp_path / "beside", chain.source, table_url, chain.program)
            stack.enter_context(beside)
        kept = await kill(
            victim,
            chain=chain,
            postgres=postgres,
            table_url=table_url,
            folder=tmp_path,
            rounds=5,
            size=250,
        )
        if victim == "collect":
            assert beside.stop() == 0
    kept.assert_equal()
    assert kept.lives > 0
