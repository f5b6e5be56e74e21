"""The leader's conditions for a report and for an answer, one by one."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from meteragent.crowd import leader, machine, message
from meteragent.crowd.machine import RowKey, response_due_s
from meteragent.crowd.message import FINAL_REASONS, REASONS, Answer, Refusal
from meteragent.crowd.seal import TOTAL, seal_info, seal_number
from meteragent.crowd.share import sum_modulo
from tests.support.crowd import HELPER, SLOT_S, Street
from tests.support.crowd_attacks import attacked


def answer_of(world: Street) -> Answer:
    """Return an answer to the open request, signed by a helper that adds no noise."""
    keys, helper_keys = (operator.keys_of_slot(SLOT_S) for operator in (world.leader, world.helper))
    batch, entries = world.leader._batch(SLOT_S)
    assert keys is not None
    assert helper_keys is not None
    assert batch is not None
    digest = message.batch_digest(world.group.id, SLOT_S, entries)
    pads = sum_modulo(world.helper._open_pad(helper_keys, SLOT_S, entry) or 0 for entry in entries)
    sealed = seal_number(pads, keys.public, seal_info(TOTAL, world.group.id, SLOT_S, keys.id, digest))
    return Answer(SLOT_S, batch.digest, batch.homes, (), keys.id, sealed)


def test_a_report_at_the_deadline_counts() -> None:
    """A second later it is late."""
    world = attacked()
    payload, deadline_s = world.report("d", 1), world.group.closing_s(SLOT_S)
    assert world.leader.take_report("d", payload, deadline_s + 1).refusals == ["late"]
    assert world.leader.take_report("d", payload, deadline_s).refusals == []


def test_a_batch_has_a_largest_number_of_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is refused: with more, sums could wrap around."""
    monkeypatch.setattr(leader, "HOMES_MAX", 5)
    world = attacked()
    world.deliver({"d": world.report("d", 1)})
    effects = world.leader.take_report("e", world.report("e", 1), world.group.end_s(SLOT_S))
    assert (effects.refusals, effects.rows) == (["full"], {})


def test_an_answer_to_the_request_publishes_a_total() -> None:
    """The answers below differ from this one in one field each."""
    world = attacked()
    world.ask()
    assert world.finish([answer_of(world).encode(world.group.id, HELPER.sign)])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda answer: answer._replace(digest=bytes(32)), "other_batch"),
        (lambda answer: answer._replace(homes=answer.homes + 1), "malformed"),
        (lambda answer: answer._replace(leader_key=bytes(8)), "unknown_key"),
    ],
    ids=["digest", "homes", "key"],
)
def test_an_answer_to_anything_else_changes_nothing(change: Callable[[Answer], Answer], reason: str) -> None:
    """Neither another batch, nor another number of homes, nor another key; the slot stays open."""
    world = attacked()
    world.ask()
    answer = answer_of(world)
    effects = world.leader.take_answer(change(answer).encode(world.group.id, HELPER.sign), world.deadline_s())
    assert (effects.refusals, effects.rows, effects.messages) == ([reason], {}, [])
    assert world.finish([answer.encode(world.group.id, HELPER.sign)])


@pytest.mark.parametrize("reason", REASONS.values())
def test_only_a_final_refusal_closes_the_slot(reason: str) -> None:
    """At any other, the leader goes on as if nothing had come."""
    world = attacked()
    world.ask()
    answer = answer_of(world)
    refusal = Refusal(SLOT_S, answer.digest, reason).encode(world.group.id, HELPER.sign)
    assert world.leader.take_answer(refusal, world.deadline_s()).refusals == [reason]
    closed = world.leader.rows.get(RowKey("closed", SLOT_S))
    assert closed == (b"refused:" + reason.encode() if reason in FINAL_REASONS else None)
    assert bool(world.finish([answer.encode(world.group.id, HELPER.sign)])) == (reason not in FINAL_REASONS)


def test_a_refusal_of_another_batch_closes_nothing() -> None:
    """Its digest is not that of the open request."""
    world = attacked()
    world.ask()
    refusal = Refusal(SLOT_S, bytes(32), "malformed").encode(world.group.id, HELPER.sign)
    effects = world.leader.take_answer(refusal, world.deadline_s())
    assert (effects.refusals, effects.rows) == (["other_batch"], {})


def test_the_margin_follows_from_all_open_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request leaves after a margin for the homes of all open requests, a total after one for its own."""
    monkeypatch.setattr(machine, "_MARGIN_HOMES", Fraction(1, 60))  # a minute for each home
    world, later_s = attacked(), SLOT_S + 1800
    answers = world.answer(world.ask())
    world.deliver({label: world.report(label, 1, later_s) for label in ("a", "b", "c")}, later_s)
    now_s = world.deadline_s(later_s)
    [request] = world.leader.tick(now_s).messages
    assert request.due_s == response_due_s(now_s, 4 + 3) == now_s - 1 + 9 * 60
    [published] = world.leader.take_answer(answers[0], now_s).messages
    assert published.due_s == response_due_s(now_s, 4)
