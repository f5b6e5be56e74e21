"""Topics that the sink's broker refuses: their messages wait, in order, and no others do."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.agent.link import refused_topics as refusal
from meteragent.agent.link import sink
from meteragent.agent.link.refused_topics import ABRUPT_ENDS_MAX, PROMPT_S, RETRY_S, SOON_S, STRIKES, Refusals
from meteragent.domain.commit import Destination
from tests.agent.sink_line import NOW_MS, Line
from tests.core.test_pipeline import core, feed
from tests.support.fake_session import LIMIT_S, FakeSession, Publication
from tests.support.mqtt_peer import turns
from tests.support.stores import open_store
from tests.support.world import BASE_MS, message

BAD, GOOD = "private/bad/power", "private/good/power"


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    """A sink whose outbox is empty."""
    with open_store(tmp_path / "db") as store:
        yield Line(store)


class Broker:
    """A broker that refuses some topics; it keeps what it accepted."""

    def __init__(self, line: Line, session: FakeSession) -> None:
        self.line = line
        self.session = session
        self.refuses = {BAD}
        self.reason = 0x87
        self.took: list[bytes] = []
        self.refused: list[bytes] = []

    async def answer(self, number: int) -> None:
        """Answer this number of publications."""
        for _ in range(number):
            self.one(await self.session.next())

    def one(self, one: Publication) -> None:
        """Accept or refuse a publication."""
        packet_id = self.session.answered(one)
        if any(one.topic.startswith(topic) for topic in self.refuses):
            self.refused.append(one.payload)
            self.line.sink.on_refused(packet_id, self.reason)
        else:
            self.took.append(one.payload)
            self.line.sink.on_delivered(packet_id, 0)


async def idle(line: Line) -> None:
    """Wait until the sink has nothing more to do."""
    async with asyncio.timeout(LIMIT_S):
        await line.sink.idle.wait()


def payloads(letter: str, *numbers: int) -> list[bytes]:
    """Return the payloads of a meter."""
    return [f"{letter}{number}".encode() for number in numbers]


async def test_a_refused_topic_holds_back_its_own_meter_only(line: Line) -> None:
    """Other meters' records keep leaving; the refused ones are neither delivered nor sent repeatedly."""
    line.commit(*payloads("b", 1, 2), topic=BAD)
    line.commit(*payloads("g", 1, 2), topic=GOOD)
    async with line.connected() as session:
        broker = Broker(line, session)
        await broker.answer(4)
        await idle(line)
        line.commit(b"total", topic=f"{BAD}/total")
        line.commit(b"b3", topic=BAD)
        line.commit(b"g3", topic=GOOD)
        await broker.answer(1)
        await idle(line)
        assert session.published.empty()
    assert broker.took == payloads("g", 1, 2, 3)
    assert broker.refused == payloads("b", 1, 2)
    assert set(line.sink.refusals.held_topics) == {BAD}
    assert len(line.sink.unmarked_ids) == 3
    line.mark()
    assert line.sink.refusals.waiting_bytes == _waiting_bytes(line)


def _waiting_bytes(line: Line) -> int:
    [(size,)] = line.store.connection.execute("SELECT waiting_bytes FROM outbox_total")
    return int(size)


async def test_a_refused_topic_is_tried_hourly_and_then_leaves_in_order(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message is the trial; once it is accepted, all that waited follow in order, byte for byte, once."""
    clock_s = [1000.0]
    monkeypatch.setattr(sink, "loop_s", lambda: clock_s[0])
    line.commit(*payloads("b", 1, 2, 3), topic=BAD)
    async with line.connected() as session:
        broker = Broker(line, session)
        await broker.answer(3)
        for _ in range(2):
            await idle(line)
            clock_s[0] += RETRY_S - 1
            await line.looked()
            assert session.published.empty()
            clock_s[0] += 1
            line.sink.reread_outbox()
            await broker.answer(1)
        assert broker.refused == payloads("b", 1, 2, 3, 1, 1)
        await idle(line)
        broker.refuses.clear()
        line.commit(b"b4", topic=BAD)
        clock_s[0] += RETRY_S
        line.sink.reread_outbox()
        await broker.answer(4)
        await idle(line)
        assert session.published.empty()
    assert broker.took == payloads("b", 1, 2, 3, 4)
    assert not line.sink.refusals.held_topics


@pytest.mark.parametrize("reason", [0x80, 0x83])
async def test_a_reason_that_may_pass_is_tried_after_seconds_and_then_more_rarely(
    line: Line, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    """The pause grows up to an hour; after an acceptance it begins at seconds again."""
    clock_s = [1000.0]
    monkeypatch.setattr(sink, "loop_s", lambda: clock_s[0])
    line.commit(*payloads("b", 1, 2), topic=BAD)
    async with line.connected() as session:
        broker = Broker(line, session)
        broker.reason = reason
        await broker.answer(2)
        for pause_s in (5, 20, 80, 320, 1280, 3600, 3600):
            await idle(line)
            assert line.sink.refusals.next_trial_s == clock_s[0] + pause_s
            clock_s[0] += pause_s
            line.sink.reread_outbox()
            await broker.answer(1)
        assert broker.refused == payloads("b", 1, 2, *[1] * 7)
        broker.refuses.clear()
        await idle(line)
        clock_s[0] += RETRY_S
        line.sink.reread_outbox()
        await broker.answer(2)
        broker.refuses.add(BAD)
        line.commit(b"b3", topic=BAD)
        await broker.answer(1)
        assert line.sink.refusals.next_trial_s == clock_s[0] + SOON_S
    assert broker.took == payloads("b", 1, 2)


def test_a_topic_that_ends_connections_is_tried_hourly_whatever_the_reason() -> None:
    """A refusal that may pass, and then the end of the connection: the next trial is an hour later, alone."""
    refusals = Refusals("{meter}")
    refusals.on_connected(0.0)
    refusals.on_refused("a", 10.0, 0x80)
    refusals.on_refused("b", 10.0 - PROMPT_S, 0x80)
    assert refusals.next_trial_s == 10.0 - PROMPT_S + SOON_S
    refusals.on_ended([], 0.0, 10.0 + PROMPT_S / 2)
    assert refusals.next_trial_s == 10.0 - PROMPT_S + SOON_S
    refusals.on_connected(20.0)
    refusals.update_trials(20.0)
    assert refusals.may_send("b", 1, 1)
    assert not refusals.may_send("a", 2, 1)
    refusals.update_trials(10.0 + PROMPT_S / 2 + RETRY_S)
    assert refusals.may_send("a", 3, 1)
    assert refusals.must_send_singly


async def test_a_new_connection_tries_what_was_refused(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins with one message of the topic, and sends its descriptor only after that is accepted."""
    clock_s = [1000.0]
    monkeypatch.setattr(sink, "loop_s", lambda: clock_s[0])
    line.describe(BAD, "d1")
    line.commit(*payloads("b", 1, 2), topic=BAD)
    async with line.connected() as session:
        await Broker(line, session).answer(4)
        await idle(line)
        clock_s[0] += refusal.PROMPT_S + 1
    async with line.connected() as session:
        broker = Broker(line, session)
        broker.refuses.clear()
        await broker.answer(2)
        await idle(line)
    assert broker.took == payloads("b", 1, 2)


async def test_what_overtook_a_refused_record_leaves_again(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record accepted after an earlier one of its meter was refused is sent again after that one."""
    clock_s = [1000.0]
    monkeypatch.setattr(sink, "loop_s", lambda: clock_s[0])
    line.commit(*payloads("b", 1, 2), topic=BAD)
    async with line.connected() as session:
        broker = Broker(line, session)
        first, second = await session.take(2)
        broker.one(first)
        broker.refuses.clear()
        broker.one(second)
        assert not line.sink.unmarked_ids
        clock_s[0] += refusal.PROMPT_S + 1
    async with line.connected() as session:
        broker = Broker(line, session)
        broker.refuses.clear()
        await broker.answer(2)
    assert broker.took == payloads("b", 1, 2)


async def test_more_refused_records_than_are_read_at_once_starve_nobody(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records behind a long queue of a refused topic leave, on this connection and the next."""
    monkeypatch.setattr(sink, "FETCH_MAX", 3)
    line.commit(*payloads("b", *range(50)), topic=BAD, due_ms=NOW_MS - 10)
    for _ in range(2):
        line.commit(*payloads("g", 1, 2), topic=GOOD)
        async with line.connected(inflight=2) as session:
            broker = Broker(line, session)
            async with asyncio.timeout(LIMIT_S):
                while len(broker.took) < 2:
                    broker.one(await session.next())
            await idle(line)
        assert broker.took == payloads("g", 1, 2)
        assert len(broker.refused) <= 3


# What it may take of the store ----------


def test_a_refused_topic_that_has_had_its_part_of_the_store_opens_no_window() -> None:
    """No charge; the mark passes over the window for ever; windows of other meters open (laws 1 and 2)."""
    pipeline = core()
    for meter in ("m1", "m2"):
        feed(pipeline, message(1, 1, meter=meter))
    pipeline.withhold_from({Destination("main", "private/m1/power")})
    commit = feed(pipeline, now_ms=9).commit
    assert [dict(windows) for windows in commit.charges.values()] == [{"m2": 2}]
    assert commit.marks == {"m1": BASE_MS + 12, "m2": BASE_MS + 12}
    assert {row.topic for row in commit.outgoing if not row.retain} == {"private/m2/power"}
    assert pipeline._counts["withheld"] == 2
    pipeline.withhold_from(())
    assert feed(pipeline, now_ms=12).commit.marks == {"m1": BASE_MS + 16, "m2": BASE_MS + 16}
    assert pipeline._counts["withheld"] == 2
    assert pipeline._counts["opened"] == 4


# A broker that closes the connection --------------------------------------------------------------


async def _closing(line: Line, refuses: set[str]) -> list[bytes]:
    """Connect to a broker that answers in order and closes at a refused topic; return what it accepted."""
    took: list[bytes] = []
    async with line.connected() as session:
        while True:
            await turns(5)
            if session.published.empty():
                await line.looked()
            if session.published.empty():
                return took
            item = session.published.get_nowait()
            if item.topic in refuses:
                return took
            took.append(item.payload)
            line.answer(session, item)


async def test_a_broker_that_closes_the_connection_is_found_out(line: Line) -> None:
    """After a few connections, only the topic that ends them waits, and all others have left."""
    line.commit(b"g1", topic=GOOD)
    line.commit(*payloads("b", 1, 2), topic=BAD)
    line.commit(*payloads("o", 1, 2), topic="private/other/power")
    line.commit(b"g2", topic=GOOD)
    took = []
    for _ in range(ABRUPT_ENDS_MAX + STRIKES):
        took += await _closing(line, {BAD})
    assert took == [b"g1"]
    assert set(line.sink.refusals.held_topics) == {BAD}
    took += await _closing(line, {BAD})
    assert took == [b"g1", *payloads("o", 1, 2), b"g2"]
    line.commit(b"b3", topic=BAD)
    line.commit(b"g3", topic=GOOD)
    assert await _closing(line, {BAD}) == [b"g3"]


async def test_a_suspect_is_tried_alone(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour later one message leaves by itself; if it ends the connection, others lose nothing."""
    clock_s = [1000.0]
    monkeypatch.setattr(sink, "loop_s", lambda: clock_s[0])
    line.commit(*payloads("b", 1, 2), topic=BAD)
    for _ in range(ABRUPT_ENDS_MAX + STRIKES + 1):
        await _closing(line, {BAD})
    clock_s[0] += RETRY_S
    line.commit(b"g1", topic=GOOD)
    assert await _closing(line, {BAD}) == []
    assert await _closing(line, {BAD}) == [b"g1"]
    clock_s[0] += RETRY_S
    assert await _closing(line, set()) == payloads("b", 1, 2)
    assert not line.sink.refusals.held_topics


async def test_a_broker_that_refuses_and_closes_is_not_asked_again_at_once(line: Line) -> None:
    """Each refusal ends the connection: the topic is tried hourly, and the others leave on the next one."""
    line.commit(*payloads("b", 1, 2), topic=BAD)
    line.commit(b"g1", topic=GOOD)
    async with line.connected(inflight=1) as session:
        await Broker(line, session).answer(1)
    for number in (1, 2):
        async with line.connected() as session:
            broker = Broker(line, session)
            await broker.answer(1)
            await idle(line)
            assert session.published.empty()
        assert (broker.took, broker.refused) == (payloads("g", number), [])
        line.commit(b"g2", topic=GOOD)


def test_a_link_that_is_lost_now_and_then_accuses_nobody() -> None:
    """A loss that is late, after all was confirmed, or with several topics unanswered, accuses none."""
    refusals = Refusals("private/power/{meter}")
    for at in range(100):
        refusals.on_connected(100.0 * at)
        refusals.on_ended({(BAD, False)}, 100.0 * at, 100.0 * at + refusal.PROMPT_S + 1)
        refusals.on_ended(set(), 100.0 * at, 100.0 * at)
        refusals.on_ended({(BAD, False), (GOOD, False)}, 100.0 * at, 100.0 * at)
        refusals.on_ended({(BAD, False)}, 100.0 * at, 100.0 * at)
        refusals.on_idle()
    assert not refusals.held_topics


@pytest.mark.parametrize("is_flag_to_blame", [True, False])
def test_a_flag_is_suspected_before_a_topic(is_flag_to_blame: bool) -> None:
    """A broker of MQTT 3.1.1 that ends connections at a message to be retained gets it without the flag.

    If that does not help, the topic is held, and later messages have the flag again.
    """
    refusals, flags = Refusals("private/power/{meter}"), []
    for at in range(ABRUPT_ENDS_MAX + 2 + STRIKES):
        retains = refusals.on_connected(100.0 * at, retains=True)
        flags.append(retains)
        if is_flag_to_blame and not retains:
            assert refusals.on_accepted(BAD, at)
        else:
            refusals.on_ended({(BAD, True)}, 100.0 * at, 100.0 * at)
    assert flags[: ABRUPT_ENDS_MAX + 2] == [True] * (ABRUPT_ENDS_MAX + 1) + [False]
    assert set(flags[ABRUPT_ENDS_MAX + 2 :]) == {not is_flag_to_blame}
    assert set(refusals.held_topics) == (set() if is_flag_to_blame else {BAD})


@pytest.mark.parametrize("is_stated", [False, True])
@pytest.mark.parametrize("is_confirmed", [False, True])
def test_a_flag_that_the_broker_takes_is_not_suspected(is_stated: bool, is_confirmed: bool) -> None:
    """A broker that confirmed the flag takes it, and one of MQTT 5 states whether it does.

    However many connections end, it gets messages with the flag.
    """
    refusals = Refusals("private/power/{meter}")
    flags = []
    for at in range(ABRUPT_ENDS_MAX + 2):
        flags.append(refusals.on_connected(100.0 * at, version=5 if is_stated else 4))
        if is_confirmed and at == 0:
            refusals.on_accepted(GOOD, 1, retain=True)
        refusals.on_ended({(BAD, True)}, 100.0 * at, 100.0 * at)
    assert flags == [True] * (ABRUPT_ENDS_MAX + 1) + [is_stated or is_confirmed]


def test_a_confirmation_without_the_flag_says_nothing_of_it() -> None:
    """What is confirmed while the flag is off does not show that the broker takes the flag."""
    refusals, flags = Refusals("private/power/{meter}"), []
    for at in range(ABRUPT_ENDS_MAX + 3):
        flags.append(refusals.on_connected(100.0 * at))
        if not flags[-1]:
            refusals.on_accepted(BAD, 1, retain=True)
        refusals.on_ended({(BAD, True)}, 100.0 * at, 100.0 * at)
    assert flags == [True] * (ABRUPT_ENDS_MAX + 1) + [False, True]


async def test_a_sink_does_not_suspect_the_flag_of_a_confirmed_descriptor(line: Line) -> None:
    """Connections that end with a descriptor in flight leave the flag on, once it was confirmed with it."""
    line.commit(b"terms", topic=f"{BAD}/privacy", retain=True)
    for at in range(ABRUPT_ENDS_MAX + 2):
        session = FakeSession(4)
        serving = asyncio.create_task(line.sink.serve(session))
        published = await session.next()
        assert session.retains
        if at == 0:
            line.answer(session, published)
            line.commit(b"other terms", topic=f"{BAD}/privacy", retain=True)
            await session.next()
        session.over = True
        serving.cancel()
        await asyncio.wait({serving})


events = st.lists(
    st.tuples(st.sampled_from(["pass", "refuse", "take", "turn", "connect"]), st.integers(0, 2))
)


@given(events)
def test_of_a_held_topic_at_most_one_message_is_on_its_way_for_a_trial(plan: list[tuple[str, int]]) -> None:
    """Until a topic's trial is answered, none of its other messages leaves, whatever else is answered."""
    refusals, now_s, row = Refusals("{meter}"), 0.0, 0
    trials: dict[str, int] = {}
    for what, number in plan:
        topic, row, now_s = "abc"[number], row + 1, now_s + RETRY_S / 3
        held = topic in refusals.held_topics
        if what == "pass":
            if refusals.may_send(topic, row, 1) and held:
                assert topic not in trials
                trials[topic] = row
        elif what == "refuse":
            refusals.on_refused(topic, now_s)
            assert topic in refusals.held_topics
            trials.pop(topic, None)
        elif what == "take":
            if held and number != 2:
                assert not refusals.on_accepted(topic, -1)
            elif held and topic in trials:
                assert refusals.on_accepted(topic, trials.pop(topic))
                refusals.update_trials(now_s)
                assert topic not in refusals.held_topics
        elif what == "turn":
            refusals.update_trials(now_s)
        else:
            refusals.on_connected(now_s)
            trials.clear()
