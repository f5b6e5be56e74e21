"""What an operator signs is bound as a whole: no byte of a request or an answer can be changed."""

from collections.abc import Callable

import pytest

from meteragent.crowd import message
from meteragent.crowd.machine import Effects
from meteragent.crowd.message import Chunk
from tests.support.crowd import LEADER, SLOT_S, Street, make_group

QUANTA = {"a": 40, "b": -7, "c": 300}


def changed(payload: bytes) -> list[bytes]:
    """Return a message with each of its bytes changed in turn."""
    return [
        payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :] for place in range(len(payload))
    ]


def asked() -> tuple[Street, list[bytes]]:
    """Return a street whose leader asks for a batch in two chunks."""
    world = Street(make_group())
    world.deliver({label: world.report(label, quanta) for label, quanta in QUANTA.items()})
    entries = Chunk.decode(world.group.id, world.ask()[0]).message.entries
    keys = world.leader.keys_of_slot(SLOT_S)
    assert keys is not None
    digest = message.batch_digest(world.group.id, SLOT_S, entries)
    batch = message.Batch(SLOT_S, digest, keys.public, len(entries), 2)
    chunks = [Chunk(batch, 0, entries[:2]), Chunk(batch, 1, entries[2:])]
    return world, [chunk.encode(world.group.id, LEADER.sign) for chunk in chunks]


def assert_refused(take: Callable[[bytes, int], Effects], payload: bytes, now_s: int) -> None:
    """Every changed form of a message changes no row, and is answered with nothing."""
    for form in changed(payload):
        effects = take(form, now_s)
        assert effects.rows == {}
        assert effects.messages == []
        assert effects.refusals in (["malformed"], ["other_group"], ["bad_signature"])


@pytest.mark.parametrize("place", [0, 1])
def test_each_byte_of_a_request_is_signed(place: int) -> None:
    """Group, slot, digest of the ordered list, key, counts, place, entries: none can be changed."""
    world, request = asked()
    assert_refused(world.helper.take_request, request[place], world.deadline_s())
    assert len(world.answer(request)) == 1


def test_each_byte_of_an_answer_is_signed() -> None:
    """The leader takes no answer that was changed on its way, and then the right one."""
    world = Street(make_group())
    world.deliver({label: world.report(label, quanta) for label, quanta in QUANTA.items()})
    answers = world.answer(world.ask())
    assert_refused(world.leader.take_answer, answers[0], world.deadline_s())
    assert len(world.finish(answers)) == 1
