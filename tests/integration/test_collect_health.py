"""`health` of a running collector: what is down, what was refused, and that all is well again."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from meteragent.service.health import ask_socket
from tests.conftest import MakeBroker
from tests.integration.collecting import DURABLE, Collector, burst, by_mqtt
from tests.integration.service import LIMIT_S, until
from tests.support.postgres import Postgres


async def test_what_a_collector_misses_is_named_until_it_is_back(
    mosquitto: MakeBroker, postgres: Postgres, table_url: str, tmp_path: Path
) -> None:
    """A broker and a database that are killed are problems until they run again."""

    def state() -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            ask_socket(tmp_path / "health") or '{"problem_codes": null, "state": ""}'
        )
        return answer

    def codes() -> Any:
        return state()["problem_codes"]

    with mosquitto(is_persistent=True, settings=DURABLE) as broker:
        chain = by_mqtt(broker)
        with Collector(tmp_path, chain.source, table_url) as collector:
            await until(lambda: codes() == [])
            broker.kill()
            await until(lambda: codes() == ["collect_source_down"])
            broker.start()
            await until(lambda: codes() == [])
            postgres.kill()
            messages, _ = burst(random.Random(0), 0, 10)
            await chain.send(messages)
            await until(lambda: codes() == ["collect_sink_down"])
            postgres.start()
            try:
                await until(lambda: state()["counts"].get("written", 0) > 0, 2 * LIMIT_S)
            except TimeoutError:
                raise AssertionError(f"{state()}\n{collector.log.read_text()}") from None
            assert (state()["state"], state()["counts"]["refused"]) == ("well", 0)
            assert await asyncio.to_thread(collector.stop) == 0
        assert not (tmp_path / "health").exists()
