"""Messages in: meteragent.agent.link.source, on connections that a test drives."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.agent.link.source import BATCH_MAX, HELD_MAX_3_1_1
from meteragent.domain.errors import LinkError
from meteragent.domain.reading import Token
from meteragent.mqtt.packets import LAST_ID
from tests.agent.source_line import MAX_PAYLOAD, NOW_MS, Line
from tests.support.mqtt_peer import turns


async def test_every_connection_is_subscribed_on() -> None:
    """The filter is subscribed to on each connection, because the broker may have lost the session."""
    line = Line()
    assert (await line.connect()).filters == ["in/+"]
    assert (await line.connect()).filters == ["in/+"]


async def test_the_subscription_counts_when_it_is_answered() -> None:
    """The broker's answer sets `subscribed`, which also wakes whoever waits for messages."""
    line = Line()
    line.session.granted.clear()
    serving = asyncio.create_task(line.source.serve(line.session))
    waiting = asyncio.create_task(line.source.wait(60))
    await turns(2)
    assert line.session.filters
    assert not line.source.subscribed.is_set()
    assert not waiting.done()
    line.session.granted.set()
    async with asyncio.timeout(10):
        await serving
        await waiting
    assert line.source.subscribed.is_set()


async def test_messages_come_in_order_with_their_time_of_arrival() -> None:
    """A batch holds what has arrived, in order, unchanged, stamped when it arrived."""
    clock = iter([NOW_MS, NOW_MS + 7])
    line = Line(now_ms=lambda: next(clock))
    await line.connect()
    line.session.send(line.source, b"a", "in/m1", retain=True)
    line.session.send(line.source, b"b", "in/m2", qos=0)
    first, second = line.source.take_batch(NOW_MS + 9)
    assert (first.topic, first.payload, first.retain, first.received_ms) == ("in/m1", b"a", True, NOW_MS)
    assert (second.topic, second.payload, second.retain) == ("in/m2", b"b", False)
    assert (second.received_ms, second.token) == (NOW_MS + 7, None)
    assert line.source.take_batch(NOW_MS + 9) == []


async def test_what_arrived_without_a_clock_came_when_it_is_taken() -> None:
    """A message that arrives without a clock has no time of arrival; it gets the first valid time."""
    line = Line(now_ms=lambda: None)
    await line.connect()
    line.send(b"a")
    assert line.source.take_batch(NOW_MS + 3)[0].received_ms == NOW_MS + 3


async def test_what_arrived_without_a_clock_did_not_come_after_what_followed_it() -> None:
    """A later message with a time bounds it: the older of two readings never counts as the newer."""
    clock = iter([None, NOW_MS, None, NOW_MS + 5, None])
    line = Line(now_ms=lambda: next(clock))
    await line.connect()
    line.send(b"a", b"b", b"c", b"d", b"e")
    messages = line.source.take_batch(NOW_MS + 9)
    assert [message.payload for message in messages] == [b"a", b"b", b"c", b"d", b"e"]
    times_ms = [message.received_ms - NOW_MS for message in messages]
    assert times_ms == [0, 0, 5, 5, 9]


async def test_nothing_is_acknowledged_before_the_core_is_done() -> None:
    """Neither arrival nor being taken acknowledges a message; only `acknowledge` does (law 7)."""
    line = Line()
    await line.connect()
    line.send(b"a", b"b")
    assert line.session.acknowledged == []
    first, second = line.take()
    assert line.session.acknowledged == []
    line.source.acknowledge([second])
    assert line.session.acknowledged == [b"b"]
    line.source.acknowledge([first, None])
    assert line.session.acknowledged == [b"b", b"a"]


async def test_beyond_inflight_the_oldest_are_acknowledged_early_and_counted() -> None:
    """The number held is bounded: the oldest that the core has go first, and each is counted."""
    line = Line(inflight=4)
    await line.connect()
    line.send(*(b"%d" % n for n in range(6)))
    tokens = line.take()
    line.source.acknowledge([])
    assert line.session.acknowledged == [b"0", b"1"]
    assert line.counts["acked_open"] == 2
    line.source.acknowledge(tokens[:3])
    assert line.session.acknowledged == [b"0", b"1", b"2"]
    assert line.counts["acked_open"] == 2


async def test_in_order_a_message_waits_for_all_earlier_ones() -> None:
    """A silent meter holds up the others up to `inflight`: then its message is acknowledged early."""
    line = Line(inflight=3, keeps_order=True)
    await line.connect()
    line.send(b"silent", b"0", b"1")
    _, *tokens = line.take()
    line.source.acknowledge(tokens)
    assert line.session.acknowledged == []
    line.send(b"2")
    line.source.acknowledge(line.take())
    assert line.session.acknowledged == [b"silent", b"0", b"1", b"2"]
    assert line.counts["acked_open"] == 1


async def test_what_still_waits_is_never_acknowledged_early() -> None:
    """Only messages that the core has are acknowledged early; a crash would lose the others."""
    line = Line(inflight=1)
    await line.connect()
    line.send(b"0", b"1")
    line.source.acknowledge([])
    assert line.session.acknowledged == []


async def test_over_mqtt_3_1_1_fewer_are_held() -> None:
    """A broker of MQTT 3.1.1 has a limit that nobody states: at most 16 are held, or inflight.

    Who writes `source.inflight` knows the limit: then that many are.
    """
    for inflight, capped, held in ((1000, True, HELD_MAX_3_1_1), (3, True, 3), (30, False, 30)):
        line = Line(inflight, capped=capped)
        await line.connect(version=4)
        line.send(*(b"%d" % n for n in range(40)))
        line.take()
        line.source.acknowledge([])
        assert line.session.unacknowledged_count == held


async def test_a_packet_id_used_again_names_another_message() -> None:
    """When the core gives back what was acknowledged early, the new owner of its id stays held."""
    line = Line(inflight=1)
    await line.connect()
    line.send(b"old", b"next")
    old, following = line.take()
    line.source.acknowledge([])
    assert line.session.acknowledged == [b"old"]
    line.send(b"new")
    line.take()
    line.source.acknowledge([old, following])
    assert line.session.acknowledged == [b"old", b"next"]
    line.send(b"newest")
    line.take()
    line.source.acknowledge([])
    assert line.session.acknowledged == [b"old", b"next", b"new"]
    assert line.counts["acked_open"] == 2


async def test_nothing_of_an_old_connection_is_acknowledged_on_a_new_one() -> None:
    """A message of a lost connection returns with a new token; the old one is worthless."""
    line = Line()
    await line.connect()
    line.send(b"taken", b"waiting")
    taken = line.source.take_batch(NOW_MS)[0].token
    await line.connect()
    line.send(b"taken", b"waiting")
    line.source.acknowledge([taken])
    assert line.session.acknowledged == []
    line.source.acknowledge(line.take())
    assert line.session.acknowledged == [b"taken", b"waiting"]


async def test_what_waited_over_a_reconnection_is_taken_in_but_not_held() -> None:
    """Messages that wait when a connection is lost still reach the core: the broker may forget them."""
    line = Line(inflight=1)
    await line.connect()
    line.send(b"a", b"b")
    await line.connect()
    assert line.batch() == [b"a", b"b"]
    line.send(b"c")
    line.take()
    line.source.acknowledge([])
    assert line.session.acknowledged == []
    assert line.counts["acked_open"] == 0


async def test_what_an_old_connection_held_does_not_count_on_a_new_one() -> None:
    """A new connection begins with nothing held: what comes again is not acknowledged early."""
    line = Line(inflight=2)
    await line.connect()
    line.send(b"a", b"b")
    line.take()
    await line.connect()
    line.send(b"a", b"b")
    line.take()
    line.source.acknowledge([])
    assert line.session.acknowledged == []
    assert line.counts["acked_open"] == 0


async def test_qos_0_messages_beyond_the_bound_are_shed_and_counted() -> None:
    """QoS 0 waits up to twice inflight; beyond that it is dropped and counted, and the connection stays."""
    line = Line(inflight=4)
    await line.connect()
    line.send(*(b"%d" % n for n in range(11)), qos=0)
    assert line.batch() == [b"%d" % n for n in range(8)]
    assert line.counts["shed"] == 3
    line.send(b"again", qos=0)
    assert line.batch() == [b"again"]


async def test_qos_1_messages_are_never_shed() -> None:
    """QoS 1 is accepted even when QoS 0 has filled the queue, and more of it than inflight."""
    line = Line(inflight=2)
    await line.connect()
    line.send(*[b"0"] * 5, qos=0)
    line.send(*[b"1"] * 100)
    assert line.batch() == [b"0"] * 4 + [b"1"] * 100


async def test_a_broker_that_sends_more_than_there_are_packet_ids_is_left() -> None:
    """The queue is bounded for QoS 1 too: beyond it the connection ends, and nothing is acknowledged."""
    line = Line(inflight=1)
    await line.connect()
    token = (1,)
    for _ in range(line.source.receive_maximum + LAST_ID):
        line.source.on_message("in/m", b"", 1, False, token)
    with pytest.raises(LinkError):
        line.source.on_message("in/m", b"", 1, False, token)


async def test_nothing_is_read_while_more_waits_than_was_asked_for() -> None:
    """A broker that sends without regard to Receive Maximum is not read from until the core has caught up."""
    line = Line(inflight=5)
    await line.connect()
    asked = line.source.receive_maximum
    line.send(*[b""] * (asked + 2 * BATCH_MAX - 1))
    assert line.session.reading
    line.send(b"")
    assert not line.session.reading
    for _ in range(2):
        assert not line.session.reading
        line.batch()
    assert not line.session.reading
    line.batch()
    assert line.session.reading


async def test_batches_are_bounded() -> None:
    """A batch has at most 1,000 messages, so that a commit stays short; `batch_count` says how many wait."""
    line = Line(inflight=2 * BATCH_MAX)
    await line.connect()
    line.send(*(b"%d" % n for n in range(BATCH_MAX + 1)))
    assert line.source.batch_count == 2
    assert line.batch() == [b"%d" % n for n in range(BATCH_MAX)]
    assert line.source.batch_count == 1
    assert line.batch() == [b"%d" % BATCH_MAX]
    assert line.source.batch_count == 0


async def test_a_payload_that_is_too_large_does_not_fill_the_memory() -> None:
    """Of a payload beyond max_payload one byte more is kept: enough to refuse it, and no more."""
    line = Line()
    await line.connect()
    line.send(b"x" * MAX_PAYLOAD, b"x" * 1_000_000)
    assert [len(payload) for payload in line.batch()] == [MAX_PAYLOAD, MAX_PAYLOAD + 1]


@pytest.mark.parametrize(("inflight", "asked"), [(1, 2), (1000, 2000), (30_000, 31_000), (65_000, 65_535)])
def test_the_broker_may_send_more_than_is_held(inflight: int, asked: int) -> None:
    """Receive Maximum leaves room for a batch beside what is held, and fits the protocol."""
    assert Line(inflight).source.receive_maximum == asked


async def test_waiting_ends_with_a_message_or_after_its_time() -> None:
    """`wait` returns at once if messages wait, when one arrives, and when its time is over."""
    line = Line()
    await line.connect()
    async with asyncio.timeout(10):
        await line.source.wait(60)  # woken by the subscription
        await line.source.wait(0.001)
        waiting = asyncio.create_task(line.source.wait(60))
        await turns(1)
        assert not waiting.done()
        line.send(b"a")
        await waiting
        await line.source.wait(60)


STEPS = st.lists(st.sampled_from(["send", "send", "send", "take", "finish", "reconnect"]), max_size=60)


@given(STEPS, st.integers(1, 5), st.sampled_from([4, 5]), st.booleans())
def test_acknowledged_means_done_with_or_counted(
    steps: list[str], inflight: int, version: int, in_order: bool
) -> None:
    """However things interleave: what was acknowledged is done with or counted, and the bound holds.

    If `in_order`, the messages of each connection are acknowledged as they came.
    """

    async def run() -> None:
        line = Line(inflight, keeps_order=in_order)
        await line.connect(version)
        kept: list[tuple[bytes, Token]] = []
        acknowledged: list[bytes] = []
        result: set[bytes] = set()
        sent: list[bytes] = []
        for number, step in enumerate(steps):
            if step == "send":
                line.send(b"%d" % number)
                sent.append(b"%d" % number)
            elif step == "take":
                kept += [(m.payload, m.token) for m in line.source.take_batch(NOW_MS)]
            elif step == "finish":
                finished, kept = kept[::2], kept[1::2]
                result |= {payload for payload, _ in finished}
                line.take()
                line.source.acknowledge(token for _, token in finished)
                assert line.session.unacknowledged_count <= inflight
                if in_order:
                    arrived = sent[: len(line.session.acknowledged)]
                    assert line.session.acknowledged == arrived
            else:
                acknowledged += line.session.acknowledged
                sent = left = line.session.left
                await line.connect(version)
                line.send(*left)
        acknowledged += line.session.acknowledged
        assert len(set(acknowledged) - result) <= line.counts["acked_open"]

    asyncio.run(run())
