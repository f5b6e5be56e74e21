"""`collect` under kill -9 with a mock cluster of librdkafka: a group, and offsets that follow the commits."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.collecting import IMPATIENT, Collector, Victim, by_kafka, count, kill
from tests.integration.service import until
from tests.support.collecting import record_messages, terms_message
from tests.support.kafka import TOPICS, Kafka
from tests.support.postgres import Postgres
from tests.support.stores import TERMS


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


async def test_a_record_whose_descriptor_another_collector_took(
    kafka: Kafka, table_url: str, tmp_path: Path
) -> None:
    """A record waits in the table, and becomes a row although its own collector never gets the descriptor."""
    collectors = []
    for number, topic in enumerate(TOPICS):
        (tmp_path / topic).mkdir()
        source = f'url = "kafka://{kafka.servers}"\nkafka_topics = ["{topic}"]\nclient_id = "c{number}"'
        collectors.append(Collector(tmp_path / topic, source, table_url, IMPATIENT))
    records, descriptors = collectors
    with records, descriptors:
        await until(lambda: records.is_connected() and descriptors.is_connected())
        kafka.send([terms_message(TERMS)])
        await until(lambda: count(table_url, "descriptor") == 1)
        kafka.send(record_messages(TERMS, range(5)))
        await until(lambda: count(table_url) == 5)
    assert count(table_url, "waiting") == 0
