"""The order of acknowledgements: of each packet id or, where a broker insists, of all messages."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from meteragent.mqtt.unacknowledged import Unacknowledged
from tests.support.fake_broker import PUBACK, FakeBroker, Wire
from tests.support.mqtt_peer import connected, token, turns

ARRIVALS = st.lists(st.integers(1, 4), max_size=12)


@given(ARRIVALS, st.randoms(use_true_random=False), st.booleans())
def test_each_message_is_acknowledged_once_after_the_earlier_ones(
    packet_ids: list[int], random: Random, in_order: bool
) -> None:
    """After each release, acknowledged is what was released and waits for nothing earlier of its queue."""
    unacknowledged = Unacknowledged(keeps_order=in_order)
    tokens = [unacknowledged.add(packet_id) for packet_id in packet_ids]
    places = list(range(len(tokens)))
    random.shuffle(places)
    acknowledged: list[int] = []
    for count, place in enumerate(places, 1):
        acknowledged += unacknowledged.release([tokens[place], tokens[place], (packet_ids[place],)])
        released = set(places[:count])
        expected = [
            packet_ids[this]
            for this in range(len(tokens))
            if all(
                earlier in released
                for earlier in range(this + 1)
                if in_order or packet_ids[earlier] == packet_ids[this]
            )
        ]
        assert sorted(acknowledged) == sorted(expected)
        assert not in_order or acknowledged == packet_ids[: len(acknowledged)]
        assert len(unacknowledged) == len(tokens) - len(acknowledged)
        for packet_id in range(1, 5):
            assert (packet_id in unacknowledged) == (packet_ids.count(packet_id) > expected.count(packet_id))


async def test_a_broker_that_insists_gets_its_order() -> None:
    """Also a message that is too large, which is acknowledged unread, waits for the earlier ones."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"first") + wire.publish(8, bytes(5 * 2**20)) + wire.publish(9, b"last"))
        for packet_id in (b"\0\7", b"\0\10", b"\0\11"):
            assert await wire.expect(PUBACK) == packet_id
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url, keeps_order=True) as peer:
        session = await peer.session()
        first, last = await peer.get(2)
        session.acknowledge([token(last)])
        await turns(1)
        assert session.unacknowledged_count == 3
        session.acknowledge([token(first)])
        await turns(1)
        assert session.unacknowledged_count == 0
