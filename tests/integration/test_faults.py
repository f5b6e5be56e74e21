"""A clock that jumps, a store that cannot be written, a disk without room, a topic that is refused.

The readings are canaries: numbers that nothing else is, so that a log which holds one has said it.
"""

import asyncio
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.clocked import set_clock
from tests.integration.service import (
    ACKNOWLEDGED,
    TELL_ALL,
    Meters,
    Scenarios,
    Sent,
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
from tests.support.not_run import not_run

CANARIES = (13_371, 17_771, 19_191)
HOLD_MS = 900_000
WINDOW = 'length = "1s"\nlateness = "500ms"\ncatch_up = "500ms"'
"""A reading sent in the last millisecond of a slot arrives after its end: the lateness covers its way."""
CLOCKED = ("tests.integration.clocked",)
JUMP_MS = 60_000
"""60 windows of a second."""


class Run(NamedTuple):
    """An agent that went through a fault: its log, the messages received and sent, and its counters."""

    log: str
    inbox: Utility
    sent: list[Sent]
    totals: Counter[str]
    facts: dict[str, Any]


@pytest.fixture(scope="module")
def faults(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of them, side by side."""
    tells = {"settings": TELL_ALL}
    scenarios = Scenarios(
        tmp_path_factory.mktemp("faults"),
        between(mosquitto, _clock, tells),
        between(mosquitto, _read_only, tells),
        between(mosquitto, _truncated, tells),
        between(mosquitto, _refused, tells | {"acl": ACL}),  # 2.0.11 ends connections that it refuses on
    )
    asyncio.run(scenarios.run())
    return scenarios


NAMES = pytest.mark.parametrize("name", ["clock", "read_only", "truncated", "refused"])


async def keep_sending(line: Meters) -> None:
    """A canary after the other, several a window."""
    for number in range(10**6):
        await line.send("home", CANARIES[number % len(CANARIES)])
        await asyncio.sleep(0.15)


@contextmanager
def sending(line: Meters) -> Iterator[None]:
    """While something else happens."""
    task = asyncio.create_task(keep_sending(line))
    try:
        yield
    finally:
        task.cancel()


def more(inbox: Utility, stream_name: str = "main", count: int = 2) -> Any:
    """Whether this number of further records has arrived."""
    wanted = len(inbox.records(stream_name)) + count
    return lambda: len(inbox.records(stream_name)) >= wanted


# A clock that jumps


async def _clock(folder: Path, broker: Broker) -> Run:
    """Forwards by a minute, then back; and back further while it runs and while it does not."""
    facts: dict[str, Any] = {}
    set_clock(folder, 0)
    with service(folder, stream(broker.url, window=WINDOW), program=CLOCKED) as agent:
        async with utility(broker) as inbox, meters(broker) as line:
            agent.start()
            await subscribed(broker)
            await line.send("home", CANARIES[0])
            await until(more(inbox))
            set_clock(folder, JUMP_MS)
            jumped_ms = now_ms() + JUMP_MS
            await until(lambda: inbox.records()[-1].start_ms > jumped_ms)
            set_clock(folder, 0)
            await until(lambda: "the clock shows" in agent.log)
            facts["behind"] = await still(broker, inbox, line)
            await agent.kill()
            agent.start()
            await until(lambda: agent.log.count("the clock shows") == 2)
            facts["behind after a restart"] = await still(broker, inbox, line)
            set_clock(folder, JUMP_MS + 10_000)
            await until(lambda: inbox.records()[-1].start_ms > jumped_ms + 15_000)
            await agent.stop()
    return Run(agent.log, inbox, line.sent, agent.totals, facts)


async def still(broker: Broker, inbox: Utility, line: Meters) -> bool:
    """Whether no record leaves and nothing is acknowledged though a reading comes."""
    await asyncio.sleep(0.6)  # what is on its way
    before = len(inbox.records()), count_in_log(broker, ACKNOWLEDGED)
    await line.send("home", CANARIES[1])
    await asyncio.sleep(0.8)
    return before == (len(inbox.records()), count_in_log(broker, ACKNOWLEDGED))


def test_a_clock_that_jumps_forwards_skips_nothing(faults: Scenarios) -> None:
    """Every window that it passed over is released, once, in order, over a restart too."""
    starts_ms = [record.start_ms for record in once(faults["clock"].inbox.records())]
    assert starts_ms == [starts_ms[0] + 1000 * k for k in range(len(starts_ms))]
    assert len(starts_ms) > JUMP_MS // 1000


def test_a_clock_that_jumps_back_stops_everything_by_name(faults: Scenarios) -> None:
    """No record leaves, no reading is acknowledged until it is right again, also by a new process."""
    run = faults["clock"]
    assert run.facts == {"behind": True, "behind after a restart": True}
    assert run.log.count(": set the clock") == 2


# A store that cannot be written, and one that lost its end


def without_override() -> list[str]:
    """What a command runs through for which file permissions count, also where the tests run as root."""
    if os.geteuid() != 0:
        return []
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    try:
        subprocess.run([*drop, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        not_run("setpriv", "setpriv cannot take root's right to write everything")
    return drop


async def _read_only(folder: Path, broker: Broker) -> Run:
    """Stopped, made read-only, started in vain, made writable, started."""
    facts: dict[str, Any] = {}
    store = folder / "store"
    with service(folder, stream(broker.url, window=WINDOW)) as agent:
        store.mkdir()
        agent.path.write_text(agent.path.read_text().replace(str(agent.store), str(store / "db")))
        agent.store = store / "db"
        async with utility(broker) as inbox, meters(broker) as line:
            agent.start()
            await subscribed(broker)
            with sending(line):
                await until(more(inbox))
                await agent.stop()
                for name, writable in (("a file", [store]), ("a folder", [])):
                    modes = {path: path.stat().st_mode for path in (*store.iterdir(), store)}
                    for path in modes.keys() - set(writable):
                        path.chmod(modes[path] & ~0o222)
                    ended = await asyncio.to_thread(agent.command, "run", before=without_override())
                    facts[name] = ended.returncode, ended.stderr
                    for path, mode in modes.items():
                        path.chmod(mode)
                agent.start()
                await until(more(inbox))
                await agent.stop()
    return Run(agent.log, inbox, line.sent, agent.totals, facts)


def test_a_store_that_cannot_be_written_is_named(faults: Scenarios) -> None:
    """A file or a folder without the right to write ends `run` with 1 and its path, in one line."""
    for code, said in faults["read_only"].facts.values():
        assert code == 1
        (line,) = [text for text in said.splitlines() if not text.startswith("INFO")]
        assert line.startswith("meteragent: ")
        assert "db" in line


async def _truncated(folder: Path, broker: Broker) -> Run:
    """Killed, and the second half of the file is gone."""
    with service(folder, stream(broker.url, window=WINDOW)) as agent:
        async with utility(broker) as inbox, meters(broker) as line:
            agent.start()
            await subscribed(broker)
            with sending(line):
                await until(more(inbox))
                await agent.kill()
                os.truncate(agent.store, agent.store.stat().st_size // 2)
                for suffix in ("-wal", "-shm"):
                    agent.store.with_name(f"db{suffix}").unlink(missing_ok=True)
                agent.start()
                await until(lambda: agent.log.count("a new one has replaced it") == 1)
                await until(more(inbox))
                await agent.stop()
    return Run(agent.log, inbox, line.sent, agent.totals, {})


def test_a_truncated_store_is_set_aside(faults: Scenarios) -> None:
    """The agent says so, counts it, and goes on with the next window; nothing has two values."""
    run = faults["truncated"]
    assert run.totals["store_set_aside"] == 1
    once(run.inbox.records())


@pytest.mark.parametrize("name", ["read_only"])
def test_what_was_sent_meanwhile_counts(name: str, faults: Scenarios) -> None:
    """After it, every slot is there and right, with what waited in the broker meanwhile."""
    run = faults[name]
    records = {record.start_ms: record for record in run.inbox.records()}
    starts_ms = list(records)
    assert starts_ms == [starts_ms[0] + 1000 * k for k in range(len(starts_ms))]
    for start_ms, record in records.items():
        assert is_released(record.value, mean_w(run.sent, "home", start_ms, 1000, HOLD_MS))


# A topic that is refused

ACL = "topic readwrite meters/#\ntopic read private/#\ntopic write private/main/#\n"


async def _refused(folder: Path, broker: Broker) -> Run:
    """Of two streams one may not be published; then it may."""
    streams = stream(broker.url, window=WINDOW) + stream(broker.url, name="other", window=WINDOW)
    with service(folder, streams) as agent:
        async with utility(broker) as inbox, meters(broker) as line:
            agent.start()
            await subscribed(broker, 2)
            with sending(line):
                await until(lambda: "refuses a topic (reason 0x87)" in agent.log)
                refused_ms = now_ms()
                await until(lambda: any(r.start_ms > refused_ms for r in inbox.records()))
                health = await asyncio.to_thread(agent.command, "health", "--json")
                facts = {"health": json.loads(health.stdout), "none": not inbox.records("other")}
                (broker.folder / "acl").write_text(ACL + "topic write private/other/#\n")
                await agent.stop()
                totals = agent.totals
                broker.reload()
                agent.start()  # it tries at once
                await until(lambda: any(r.start_ms > refused_ms for r in inbox.records("other")))
                await agent.stop()
    return Run(agent.log, inbox, line.sent, totals, facts)


def test_a_refused_topic_stops_its_stream_only(faults: Scenarios) -> None:
    """The other stream's slots come in time, and readings go on being acknowledged: none is late."""
    run = faults["refused"]
    assert run.facts["none"]
    assert not {"late", "acked_open"} & set(run.totals)
    late_ms = [record.at_ms - record.start_ms - 1000 for record in run.inbox.records()]
    assert max(late_ms) < 5000


def test_a_refused_topic_is_seen(faults: Scenarios) -> None:
    """`health` tells of the stream that its messages wait and a topic of it is refused."""
    health = faults["refused"].facts["health"]
    streams = {one["name"]: one for one in health["streams"]}
    assert streams["other"]["waiting"] > 0
    assert streams["other"]["refused_topics"] == 1
    assert streams["main"]["refused_topics"] == 0
    assert "topic_refused" in health["problem_codes"]
    assert health["counts"].get("sink_lost", 0) <= 1  # mosquitto with no limit to its queue closes it, once


def test_what_was_refused_leaves_once_it_may(faults: Scenarios) -> None:
    """Nothing is given up: every slot of both streams is there, with the same values."""
    inbox = faults["refused"].inbox
    values = [{r.start_ms: r.value for r in inbox.records(name)} for name in ("main", "other")]
    both = values[0].keys() & values[1].keys()
    assert min(values[0]) == min(values[1])
    assert sorted(both) == list(range(min(both), max(both) + 1, 1000))
    assert all(abs(values[0][start_ms] - values[1][start_ms]) <= 1 for start_ms in both)  # two dithers


@NAMES
def test_no_log_holds_a_reading(name: str, faults: Scenarios) -> None:
    """Whatever goes wrong: no canary is in what the agent says."""
    run = faults[name]
    said = run.log + json.dumps(run.facts)
    assert not [watts for watts in CANARIES if str(watts) in said]
