"""Reports of a crowd that cannot leave before the group's deadline, by a wall clock that runs fast."""

import asyncio
import json
from collections import Counter
from pathlib import Path

from meteragent.crowd.message import Report
from meteragent.service.health import ask_socket, socket_path
from tests.conftest import MakeBroker
from tests.integration.crowd_homes import (
    BEGIN_MS,
    CHANGES,
    HOMES,
    HOUR_MS,
    HOUR_S,
    Arrival,
    configuration,
    note,
    publish,
    publish_lists,
)
from tests.integration.hurried import make_clock
from tests.integration.proxy import Proxy
from tests.integration.service import TELL_ALL, end_tasks, service, subscribed, until
from tests.support.crowd import Street, make_group

HURRIED = ("tests.integration.hurried",)
LATE = CHANGES | {"deadline_s": str(HOUR_S)}


async def test_a_report_after_the_deadline_is_never_sent(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Cut off until the deadline, homes count each report as late, keep its charge, and send later ones."""
    world, arrivals, ready = Street(make_group(**LATE)), list[Arrival](), asyncio.Event()
    with mosquitto(settings=TELL_ALL) as broker, service(tmp_path, "", program=HURRIED) as agent:
        await publish_lists(broker.url, world)
        async with Proxy(broker.port) as proxy:
            text = configuration(broker.url, tmp_path, changes=LATE, lateness="10min", sink_url=proxy.url)
            agent.path.write_text(agent.path.read_text() + text)
            clock = make_clock(tmp_path, BEGIN_MS, 2, stands=True)
            noting = asyncio.create_task(note(broker.url, clock, arrivals, ready))
            await ready.wait()
            agent.start()
            await subscribed(broker)
            clock.start()
            publishing = asyncio.create_task(publish(broker.url, clock, 1))
            await until(lambda: counts(agent.store)["opened"] >= len(HOMES))
            await proxy.refuse()
            slot_ms = clock() // HOUR_MS * HOUR_MS
            await until(lambda: clock() >= slot_ms + 2 * HOUR_MS)
            await proxy.flow()
            await until(lambda: len({arrival.label for arrival in arrivals}) == len(HOMES))
            await agent.stop()
            await publishing
        await end_tasks(noting)
    slots = {Report.decode(world.group.id, arrival.payload).slot_s for arrival in arrivals}
    assert min(slots) > slot_ms // 1000
    late = agent.totals["report_late"]
    assert late >= len(HOMES)
    spent = json.loads(agent.command("ledger", "--json").stdout)["spent"]
    assert sum(row["windows"] for row in spent) >= late + len({arrival.payload for arrival in arrivals})


def counts(store: Path) -> Counter[str]:
    """Return the counters of a running agent; none before it answers."""
    answer = ask_socket(socket_path(store))
    return Counter(json.loads(answer)["counts"] if answer else {})
