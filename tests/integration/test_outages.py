"""Brokers that go away, forget or refuse, a store that is full, and a disk that is."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meteragent.store import commands, read_only
from tests.conftest import MakeBroker
from tests.integration.service import (
    ACKNOWLEDGED,
    SINK_CONNECTED,
    SUBSCRIBED,
    TELL_ALL,
    Arrival,
    Meters,
    Scenarios,
    Sent,
    Service,
    Utility,
    between,
    count_in_log,
    is_released,
    mean_w,
    meters,
    now_ms,
    once,
    service,
    stream,
    subscribed,
    until,
    utility,
)
from tests.support.broker import Broker

STEP_MS = 1000
HOLD_MS = 900_000
PAST_MS = 1_790_000_000_000
"""A second of the past: the streams that fill a store go by their readings' own time."""
JUMP_MS = 400_000
"""A reading so much later opens and closes 400 slots: about 0.16 MB of records."""
FILLER = "filler-" + "x" * 100
"""The meter that does so; with a long name few records fill a store."""


class Full(NamedTuple):
    """What is known of a store that was full."""

    standing: list[tuple[int, int, int]]
    inbox: Utility
    sent: list[Sent]
    totals: Counter[str]


def depth(agent: Service) -> tuple[int, int]:
    """How much waits in the outbox, in bytes, and how many windows have been charged."""
    with read_only(agent.store) as connection:
        ((waiting,),) = connection.execute("SELECT total(waiting_bytes) FROM outbox_total")
        return int(waiting), sum(row.windows for row in commands.day_charges(connection))


async def fill(agent: Service, line: Meters, limit_bytes: float) -> int:
    """One meter jumps through time until so much waits, or the agent has ended; returns its next time."""
    time_ms = PAST_MS
    while agent.runs and depth(agent)[0] < limit_bytes:
        _, before = depth(agent)
        await line.send(FILLER, 7, time_ms)
        await until(lambda: not agent.runs or depth(agent)[1] > before)  # noqa: B023
        time_ms += JUMP_MS
    return time_ms


def right(records: Sequence[Arrival], sent: Sequence[Sent]) -> bool:
    """Whether they are one meter's consecutive slots, in order, with the values of what was sent."""
    first_ms, meter = records[0].start_ms, records[0].meter
    starts_ms = [record.start_ms for record in records]
    return starts_ms == [first_ms + STEP_MS * k for k in range(len(records))] and all(
        is_released(record.value, mean_w(sent, meter, record.start_ms, STEP_MS, HOLD_MS))
        for record in records
    )


@pytest.fixture(scope="module")
def outages(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of them, side by side."""
    tells: dict[str, Any] = {"settings": TELL_ALL}
    saved_at_its_end = {"autosave_on_changes": "false", "autosave_interval": 0}
    # mosquitto 2.0.11 ends a connection that it refuses a publication on, if this is 0.
    refuses = {"settings": TELL_ALL | {"max_queued_messages": 100_000}, "acl": ACL}
    scenarios = Scenarios(
        tmp_path_factory.mktemp("outages"),
        between(mosquitto, _store_full, tells, {"is_persistent": True, "settings": saved_at_its_end}),
        between(mosquitto, _disk_full, tells),
        between(mosquitto, _forgetful_broker, tells, tells),
        between(mosquitto, _refused, refuses),
    )
    asyncio.run(scenarios.run())
    return scenarios


# A store that is full


async def _store_full(folder: Path, source: Broker, sink: Broker) -> Full:
    streams = stream(source.url, sink.url, window='lateness = "500ms"\ncatch_up = "2s"')
    streams += stream(source.url, sink.url, name="filling", window='clock = "event"')
    async with utility(sink) as inbox, meters(source) as line:
        with service(folder, streams, "max_mb = 1") as agent:
            agent.start()
            await subscribed(source, 2)
            await line.send("house", 100)
            await until(lambda: depth(agent)[1] > 0)
            sink.stop()
            time_ms = await fill(agent, line, 2**20)
            await until(lambda: agent.log.count("no room in the store") == 2)
            standing = []
            for watts in (300, 500):
                await asyncio.sleep(0.7)
                standing.append((*depth(agent), count_in_log(source, ACKNOWLEDGED)))
                await line.send("house", watts)
                await line.send(FILLER, watts, time_ms)
                time_ms += JUMP_MS
            await agent.kill()
            agent.start()
            await until(lambda: agent.log.count("no room in the store") == 4)
            sink.start()
            back_ms = now_ms()
            await until(lambda: any(r.start_ms > back_ms for r in inbox.records(meter="house")))
            await until(lambda: depth(agent)[0] < 1000)  # one is marked with the next
            await agent.stop()
    return Full(standing, inbox, line.sent, agent.totals)


def test_a_full_store_stands_still(outages: Scenarios) -> None:
    """Full of undelivered records, nothing opens, closes, or is acknowledged, whatever arrives."""
    full = outages["store_full"]
    (waiting_bytes, windows, acknowledged), again = full.standing
    assert again == (waiting_bytes, windows, acknowledged)
    assert 2**20 <= waiting_bytes < 2**20 + 400_000  # a commit or two more


def test_a_full_store_loses_nothing(outages: Scenarios) -> None:
    """Back at the sink everything arrives in order, also what was sent to the full store, over kill -9."""
    full = outages["store_full"]
    filling = once(full.inbox.records("filling", FILLER))
    assert len(filling) == (max(s.time_ms for s in full.sent if s.meter == FILLER) - PAST_MS) // STEP_MS
    assert right(filling, full.sent)


def test_after_a_full_store_the_streams_go_on(outages: Scenarios) -> None:
    """The wall-clock stream releases every slot it stood over, right, for its readings had waited."""
    full = outages["store_full"]
    home = once(full.inbox.records(meter="house"))
    assert right(home, full.sent)
    assert {100, 500} <= {record.value for record in home}
    assert full.totals["store_full"] >= 1
    assert full.totals["acked_open"] == 0


# A disk that is full


class Disk(NamedTuple):
    """What is known of an agent whose file could not grow."""

    code: int
    log: str
    ledger_code: int
    inbox: Utility
    sent: list[Sent]


async def _disk_full(folder: Path, broker: Broker) -> Disk:
    streams = stream(broker.url, name="filling", window='clock = "event"')
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, streams) as agent:
            agent.start(file_bytes=600_000)
            await subscribed(broker)
            last_ms = await fill(agent, line, float("inf")) - JUMP_MS
            code = await agent.code()
            log = agent.log
            told_by_ledger = await asyncio.to_thread(agent.command, "ledger")
            agent.start()
            await until(
                lambda: any(r.start_ms == last_ms - STEP_MS for r in inbox.records("filling", FILLER))
            )
            await agent.stop()
    return Disk(code, log, told_by_ledger.returncode, inbox, line.sent)


def test_a_full_disk_is_a_crash(outages: Scenarios) -> None:
    """What cannot be written ends the agent with 1 and is told; the ledger stays readable."""
    disk = outages["disk_full"]
    assert disk.code == 1
    assert f"{'db'}: " in disk.log.splitlines()[-1]
    assert disk.log.splitlines()[-1].startswith("meteragent: ")
    assert disk.ledger_code == 0


def test_after_a_full_disk_nothing_is_missing(outages: Scenarios) -> None:
    """With room again the agent goes on where it was: every slot once, right; nothing has two values."""
    disk = outages["disk_full"]
    filling = once(disk.inbox.records("filling", FILLER))
    assert len(filling) == (disk.sent[-1].time_ms - PAST_MS) // STEP_MS
    assert right(filling, disk.sent)


# Brokers that forget


class Forgetful(NamedTuple):
    """What is known of an agent whose brokers lost everything."""

    subscriptions: int
    connections: int
    inbox: Utility
    retained: list[Arrival]
    totals: Counter[str]


async def _forgetful_broker(folder: Path, source: Broker, sink: Broker) -> Forgetful:
    with service(folder, stream(source.url, sink.url)) as agent:
        async with utility(sink) as inbox:
            agent.start()
            await subscribed(source)
            async with meters(source) as line:
                await line.send("house", 100)
            await until(inbox.records)
            for broker in (source, sink):
                broker.kill()
                broker.start()
            await subscribed(source, 2)
            async with meters(source) as line:
                await line.send("house", 200)
            await until(lambda: inbox.records() and inbox.records()[-1].value == 200)
        async with utility(sink) as later:
            await until(lambda: len(later.messages) >= 2)
            await agent.stop()
            retained = [c for c in later.messages if c.retain]
    return Forgetful(
        count_in_log(source, SUBSCRIBED), count_in_log(sink, SINK_CONNECTED), inbox, retained, agent.totals
    )


def test_a_broker_that_has_lost_the_session_is_subscribed_to_again(outages: Scenarios) -> None:
    """After a broker without memory has been killed, readings come in again, and the slots go on."""
    forgetful = outages["forgetful_broker"]
    assert forgetful.subscriptions == 2
    assert forgetful.connections == 2
    assert forgetful.totals["source_lost"] == forgetful.totals["sink_lost"] == 1
    starts_ms = [record.start_ms for record in once(forgetful.inbox.records())]
    assert starts_ms == sorted(starts_ms)


def test_descriptors_are_retained_again_at_every_connect(outages: Scenarios) -> None:
    """A broker that has lost them has the descriptors again, under both topics, and retains no record."""
    retained = outages["forgetful_broker"].retained
    (id_,) = {inbox.facts["id"] for inbox in retained}
    assert {inbox.topic for inbox in retained} == {
        "private/main/house/privacy",
        f"private/main/house/privacy/{id_}",
    }


# A broker that refuses

ACL = "topic readwrite meters/#\ntopic read private/#\ntopic write private/main/allowed/#\n"


class Refused(NamedTuple):
    """What is known of an agent that may not publish one of its meters."""

    delivered: int
    totals: Counter[str]
    log: str
    inbox: Utility
    sent: list[Sent]
    codes: list[str]


async def _refused(folder: Path, broker: Broker) -> Refused:
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, stream(broker.url)) as agent:
            agent.start()
            await subscribed(broker)
            for meter in ("allowed", "refused"):
                await line.send(meter, 100)
            await until(lambda: "refuses a topic (reason 0x87)" in agent.log)
            refused_ms = now_ms()
            await until(lambda: any(r.start_ms > refused_ms + 3000 for r in inbox.records(meter="allowed")))
            health = await asyncio.to_thread(agent.command, "health", "--json")
            with read_only(agent.store) as connection:
                ((delivered,),) = connection.execute(
                    "SELECT count(*) FROM outbox WHERE delivered_ms AND topic LIKE '%refused%'"
                )
            (broker.folder / "acl").write_text(ACL + "topic write private/main/refused/#\n")
            await agent.stop()
            totals = agent.totals
            broker.reload()
            agent.start()  # it tries at once
            await until(lambda: len(inbox.records(meter="refused")) >= 5)
            await agent.stop()
    codes = json.loads(health.stdout)["problem_codes"]
    return Refused(delivered, totals, agent.log, inbox, line.sent, codes)


def test_a_refused_publication_is_never_delivered(outages: Scenarios) -> None:
    """What the broker refuses is counted, not marked as delivered, and sent again until it is taken."""
    refused = outages["refused"]
    assert refused.delivered == 0
    assert refused.totals["publish_refused"] >= 2
    assert refused.totals["sink_lost"] <= 1  # mosquitto with no limit to its queue closes it, once
    assert "topic_refused" in refused.codes
    assert right(once(refused.inbox.records(meter="refused")), refused.sent)
    assert right(once(refused.inbox.records(meter="allowed")), refused.sent)
