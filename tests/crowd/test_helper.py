"""The helper's conditions for an answer, one by one."""

from fractions import Fraction

import pytest

from meteragent.crowd import machine, message
from meteragent.crowd.machine import response_due_s
from meteragent.crowd.message import Answer, Chunk, Refusal
from tests.support.crowd import LEADER, SLOT_S
from tests.support.crowd_attacks import attacked, chunks, entries_of


def test_a_batch_has_as_many_entries_as_it_announces() -> None:
    """Otherwise its one answer is a refusal; the margin of an answer follows from the announced number."""
    world = attacked()
    [answer] = world.answer(chunks(world, [entries_of(world)], homes=5))
    assert Refusal.decode(world.group.id, answer).message.reason == "malformed"


def test_a_second_chunk_of_one_place_is_refused() -> None:
    """The first chunk of a place stays, and completes the batch."""
    world = attacked()
    entries = entries_of(world)
    first, second = chunks(world, [entries[:2], entries[2:]])
    assert world.answer([first]) == []
    batch = Chunk.decode(world.group.id, first).message.batch
    other = Chunk(batch, 0, tuple(entries[:3])).encode(world.group.id, LEADER.sign)
    effects = world.helper.take_request(other, world.deadline_s())
    assert (effects.refusals, effects.rows) == (["other_batch"], {})
    [refusal] = effects.messages
    assert Refusal.decode(world.group.id, refusal.payload).message.reason == "other_batch"
    [answer] = world.answer([second])
    assert Answer.decode(world.group.id, answer).message.rejected == ()


def test_a_time_at_which_no_slot_starts_gets_no_reply() -> None:
    """A request for it changes nothing."""
    world = attacked()
    [request] = chunks(world, [entries_of(world)], slot_s=SLOT_S + 1)
    effects = world.helper.take_request(request, world.deadline_s() + 1)
    assert (effects.refusals, effects.messages, effects.rows) == (["unknown_slot"], [], {})


def test_a_request_at_the_deadline_is_early() -> None:
    """Until then a report can still count; a second later the same request is answered."""
    world = attacked()
    [request] = chunks(world, [entries_of(world)])
    deadline_s = world.group.closing_s(SLOT_S)
    effects = world.helper.take_request(request, deadline_s)
    assert (effects.refusals, effects.rows) == (["early"], {})
    [answer] = world.helper.take_request(request, deadline_s + 1).messages
    assert message.message_type(answer.payload) == message.ANSWER


def test_a_pad_with_another_key_id_is_rejected() -> None:
    """Also if it opens: the id is part of the entry, and names the key of the slot's day."""
    world = attacked()
    entries = entries_of(world)
    [answer] = world.answer(chunks(world, [[entries[0]._replace(key_id=bytes(8)), *entries[1:]]]))
    assert Answer.decode(world.group.id, answer).message.rejected == (0,)


def test_the_margin_follows_from_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts the homes of the batch and not those of the last chunk, also for a refusal."""
    monkeypatch.setattr(machine, "_MARGIN_HOMES", Fraction(1, 60))  # a minute for each home
    world = attacked()
    entries, now_s = entries_of(world), world.deadline_s()
    first, second = chunks(world, [entries[:3], entries[3:]])
    world.answer([first])
    [early] = world.helper.take_request(first, now_s - 1).messages
    [answer] = world.helper.take_request(second, now_s).messages
    assert early.due_s == response_due_s(now_s - 1, 4) == now_s - 1 + 5 * 60
    assert answer.due_s == response_due_s(now_s, 4)
