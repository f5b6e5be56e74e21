"""What leaves besides records: meteragent.agent.link.sink's status, and devices for Home Assistant."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from meteragent.agent.link import sink
from meteragent.agent.link.sink import UNRETAINED_S, Presence
from meteragent.domain.errors import LinkError
from meteragent.domain.grid import iso_time
from meteragent.mqtt import Will
from meteragent.wire import status
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.home_assistant import Discovery
from tests.agent.sink_line import NOW_MS, Line
from tests.support.configurations import settled
from tests.support.fake_session import FakeSession, Publication
from tests.support.mqtt_peer import soon, turns
from tests.support.stores import open_store

STATUS, BIRTH = "agent/status", "homeassistant/status"
MakeLine = Callable[[Presence], Line]


def beside(delay_s: float = 0.0) -> Presence:
    """A status and devices."""
    return Presence(STATUS, Discovery("homeassistant", STATUS, total=False), delay_s)


def descriptor(label: str) -> bytes:
    """Return a descriptor as the core writes it."""
    return describe_terms(settled()).encode_message(label, NOW_MS)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeLine]:
    """Return a maker of sinks whose outbox is empty."""
    with ExitStack() as stack:
        yield lambda beside: Line(stack.enter_context(open_store(tmp_path / "db")), beside)


def running(line: Line, *labels: str) -> None:
    """Announce meters, so that their windows open."""
    for label in labels:
        line.describe(f"private/{label}", "id", descriptor(label))
        line.running.add(f"private/{label}")


def devices(publications: list[Publication]) -> list[str]:
    """Return the names of the devices that were announced."""
    actual = [json.loads(p.payload) for p in publications if p.topic.startswith("homeassistant/device/")]
    return [document["device"]["name"] for document in actual]


async def pause(session: FakeSession) -> list[Publication]:
    """Wait until the sink has nothing left to do, and return what was published."""
    await turns(20)
    return [session.published.get_nowait() for _ in range(session.published.qsize())]


# The newest record


@pytest.mark.parametrize("retain", [False, True])
async def test_the_newest_record_is_retained_where_the_configuration_says_so(
    make: MakeLine, retain: bool
) -> None:
    """Records are retained only if configured; descriptors always are, and the bytes are the same."""
    line = make(Presence(retain=retain))
    line.commit(b"terms", topic="private/m/privacy", retain=True)
    line.commit(b"first", b"second")
    async with line.connected() as session:
        messages = await session.take(3)
    assert [(p.payload, p.retain) for p in messages] == [
        (b"terms", True),
        (b"first", retain),
        (b"second", retain),
    ]


# The status


async def test_the_status_is_the_first_thing_on_a_connection(make: MakeLine) -> None:
    """Retained, with the time, before any descriptor; on each connection."""
    line = make(Presence(STATUS))
    line.describe("private/a", "id")
    for _ in range(2):
        async with line.connected() as session:
            first, *others = await session.take(3)
        expected = b'{"v":1,"status":"online","t":"%s"}' % iso_time(NOW_MS).encode()
        assert first[1:] == (STATUS, expected, True)
        assert [p.topic for p in others] == ["private/a/privacy", "private/a/privacy/id"]


async def test_the_status_comes_on_its_schedule_whatever_is_sent(
    make: MakeLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every PERIOD_S from the connection on: a busy sink sends no more of them than an idle one."""
    line = make(Presence(STATUS))
    clock = FakeClock(monkeypatch)
    async with line.connected() as session:
        assert [p.topic for p in await pause(session)] == [STATUS]
        for number in range(6):
            clock.now_s += status.PERIOD_S / 3
            line.now_ms = NOW_MS + round(clock.now_s * 1000)
            line.commit(b"%d" % number)
            topics = [p.topic for p in await pause(session)]
            told = number % 3 == 2
            assert sorted(topics) == ([STATUS, "private/m"] if told else ["private/m"])


async def test_what_is_due_leaves_though_nothing_is_announced(
    make: MakeLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink wakes by itself for the status and for the answer to Home Assistant, without a commit."""
    monkeypatch.setattr(sink, "POLL_S", 60.0)
    line = make(beside(delay_s=0.01))
    running(line, "a")
    async with line.connected() as session:
        await pause(session)
        line.sink.on_message(BIRTH, b"online", 0, False, None)
        assert devices([await session.next()]) == ["a"]
    monkeypatch.setattr(status, "PERIOD_S", 0.01)
    async with line.connected() as session:
        sent = await session.take(5)
        assert [p.topic for p in sent].count(STATUS) == 2


async def test_where_nothing_is_retained_descriptors_come_each_hour(
    make: MakeLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that says so gets them again every `UNRETAINED_S`; another gets them once per connection."""
    line = make(Presence())
    line.describe("private/a", "id")
    clock, topics = FakeClock(monkeypatch), ["private/a/privacy", "private/a/privacy/id"]
    for retains in (True, False):
        async with line.connected(retains=retains) as session:
            assert [p.topic for p in await pause(session)] == topics
            for passed_s in (UNRETAINED_S - 1, 1):
                clock.now_s += passed_s
                line.sink.reread_outbox()
                is_due = not retains and passed_s == 1
                assert [p.topic for p in await pause(session)] == (topics if is_due else [])
        assert line.sink.refusals.retains is retains


class FakeClock:
    """The loop's clock as the sink reads it, from 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr("meteragent.agent.link.sink.loop_s", lambda: self.now_s)


async def test_without_a_clock_there_is_no_status(make: MakeLine) -> None:
    """An agent that cannot tell the time releases nothing, so the broker's message `offline` stays."""
    line = make(Presence(STATUS))
    line.now_ms = None
    async with line.connected() as session:
        assert await pause(session) == []
        line.now_ms = NOW_MS
        line.sink.reread_outbox()
        assert (await session.next()).topic == STATUS


def test_the_will_is_that_the_agent_is_gone() -> None:
    """When the connection has ended, the broker publishes offline on the status topic, if there is one."""
    will = beside().will
    assert will == Will(STATUS, b'{"v":1,"status":"offline"}')
    assert Presence().will is None


# Home Assistant


async def test_every_connection_announces_the_devices(make: MakeLine) -> None:
    """Retained, after the descriptors, and the same bytes each time."""
    line = make(beside())
    running(line, "a", "b")
    sent = []
    for _ in range(2):
        async with line.connected() as session:
            sent.append([p for p in await session.take(7) if p.topic != STATUS])
    assert [p[1:] for p in sent[0]] == [p[1:] for p in sent[1]]
    assert devices(sent[0]) == ["a", "b"]
    assert devices(sent[0][:4]) == []
    assert all(p.retain for p in sent[0])


async def test_a_device_is_announced_before_the_first_record(make: MakeLine) -> None:
    """When a meter's first descriptor leaves, its device has left and its record has not."""
    line = make(beside())
    async with line.connected() as session:
        await pause(session)
        line.commit(descriptor("new"), topic="private/new/privacy", retain=True)
        line.commit(b"record", topic="private/new")
        sent = await session.take(3)
    assert devices(sent[:1]) == ["new"]
    assert [p.topic for p in sent[1:]] == ["private/new/privacy", "private/new"]


async def test_a_meter_that_has_left_is_not_brought_back(make: MakeLine) -> None:
    """A device of a retired meter or of an old label is not announced, so a deleted one stays deleted."""
    line = make(beside())
    running(line, "old", "new")
    line.running.remove("private/old")
    async with line.connected() as session:
        sent = await pause(session)
        assert devices(sent) == ["new"]
        line.sink.on_message(BIRTH, b"online", 0, False, None)
        sent = await pause(session)
        assert devices(sent) == ["new"]


async def test_when_home_assistant_starts_it_is_told_again(make: MakeLine) -> None:
    """Its birth message, to which the agent subscribes, has all devices sent again; nothing else does."""
    line = make(beside())
    running(line, "a")
    async with line.connected() as session:
        await pause(session)
        assert session.filters == [BIRTH]
        for topic, payload, retain in (
            (BIRTH, b"offline", False),
            (BIRTH, b"online", True),
            ("homeassistant/other", b"online", False),
        ):
            line.sink.on_message(topic, payload, 0, retain, None)
            assert await pause(session) == []
        line.sink.on_message(BIRTH, b"online", 0, False, None)
        assert devices(await pause(session)) == ["a"]


async def test_the_answer_to_home_assistant_has_its_own_time(
    make: MakeLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes once, `delay_s` after the first of any number of starts."""
    line = make(beside(delay_s=3.0))
    running(line, "a")
    clock = FakeClock(monkeypatch)
    async with line.connected() as session:
        await pause(session)
        for now_s, told in ((0.0, []), (2.9, []), (3.0, ["a"]), (4.0, []), (7.0, ["a"])):
            clock.now_s = now_s
            line.sink.on_message(BIRTH, b"online", 0, False, None)
            line.sink.reread_outbox()
            assert devices(await pause(session)) == told


async def test_what_arrives_is_acknowledged(make: MakeLine) -> None:
    """Whatever arrives is acknowledged: otherwise the broker would keep it and finally stop sending."""
    line = make(Presence())
    async with line.connected() as session:
        await turns(3)
        session.send(line.sink, b"online", BIRTH)
        session.send(line.sink, b"left by another configuration", "somewhere")
        assert session.unacknowledged_count == 0


async def test_a_broker_that_lets_nobody_subscribe_gets_its_records(
    make: MakeLine, caplog: pytest.LogCaptureFixture
) -> None:
    """A refused subscription is a warning: the retained devices are found without it."""

    class Shut(FakeSession):
        async def subscribe(self, topic_filter: str) -> None:
            raise LinkError("subscription refused: reason 0x87")

    line = make(beside())
    running(line, "a")
    line.commit(b"record")
    session = Shut()
    serving = asyncio.create_task(line.sink.serve(session))
    sent = await session.take(5)
    serving.cancel()
    await asyncio.wait({serving})
    assert devices(sent) == ["a"]
    assert sent[-1].payload == b"record"
    assert "birth messages at the sink's broker: subscription refused" in caplog.text


async def test_what_leaves_beside_records_is_bounded_too(make: MakeLine) -> None:
    """Status and devices wait for room like everything else."""
    line = make(beside())
    running(line, "a")
    async with line.connected(inflight=1) as session:
        for _ in range(4):
            sent = await session.next()
            await turns(3)
            assert session.published.empty()
            line.answer(session, sent)
        await soon(line.sink.idle.wait())
    assert line.mark() == []
