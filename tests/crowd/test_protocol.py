"""The protocol of leader and helper, whatever is lost, repeated or killed."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.crowd import home, message
from meteragent.crowd.codec import Malformed
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import DAYS_AHEAD, RowKey, response_due_s
from meteragent.crowd.message import KeyList
from meteragent.crowd.seal import check_platform
from meteragent.privacy.bits import SystemBits
from tests.support.crowd import (
    HELPER,
    LATTICE,
    LEADER,
    SLOT_S,
    Street,
    fixed_entropy,
    make_group,
)

TINY_NOISE = {"hide_wh": "0.5", "level": "16"}
"""Terms under which a draw other than 0 has a chance of 2e-7."""


def street(**changes: str) -> Street:
    """Return a street whose noise is almost surely 0."""
    return Street(make_group(**(TINY_NOISE | changes)))


def reports(world: Street, count: int = 4) -> dict[str, bytes]:
    """Return reports of 100, 200, .. quanta."""
    return {f"h{i}": world.report(f"h{i}", 100 * (i + 1)) for i in range(count)}


def value_quanta(record: bytes) -> float:
    """Return the value of a record, in quanta of 0.5 Wh."""
    return float(json.loads(record)["value"]) * 2


def test_a_total_is_the_sum_of_the_homes() -> None:
    """Pads and shares cancel; the record counts the homes."""
    world = street()
    [record] = world.total(reports(world))
    assert value_quanta(record) == 1000
    assert json.loads(record)["homes"] == 4
    assert [key.table for key in world.leader_rows if key.table not in ("secret", "mark")] == ["closed"]


def test_negative_energies_and_the_dither() -> None:
    """Feeding in counts below zero; a fraction of a quantum is rounded down or up."""
    world = street()
    payloads = {f"h{i}": world.report(f"h{i}", -1000 * i) for i in range(3)}
    slot = home.open_slot(world.group, "h9", SLOT_S, LATTICE, world.keys(), SystemBits())
    payloads["h9"] = home.close_slot(world.group.id, "h9", slot.with_energy(LATTICE // 2))
    [record] = world.total(payloads)
    assert value_quanta(record) in (-3000, -2999)


def test_nothing_is_sent_in_clear() -> None:
    """Neither the pad nor the share is in the report, nor the pad in what a home stores."""
    world = street()
    pad = 0x1122334455667788

    class Fixed:
        """Bits with a pad that is easily recognised."""

        def integer(self, k: int) -> int:
            """Return the pad, or 0."""
            return pad if k == 64 else 0

    slot = home.open_slot(world.group, "h", SLOT_S, LATTICE, world.keys(), Fixed())  # type: ignore[arg-type]
    payload = home.close_slot(world.group.id, "h", slot.with_energy(5 * LATTICE))
    for number in (pad, (5 - pad) % 2**64):
        assert number.to_bytes(8, "big") not in payload
        assert number.to_bytes(8, "little") not in payload
    assert pad.to_bytes(8, "big") not in slot.sealed_pad


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda world: ("h2", world.report("h1", 1), 0), "other_label"),
        (lambda world: ("h1", world.report("h1", 1), -1), "early"),
        (lambda world: ("h1", world.report("h1", 1), 1201), "late"),
        (lambda world: ("h1", b"\1\1" + bytes(32), 0), "other_group"),
        (lambda world: ("h1", b"", 0), "malformed"),
        (
            lambda _world: ("h1", Street(make_group(slot_s="900", **TINY_NOISE)).report("h1", 1), 0),
            "other_group",
        ),
        (lambda world: ("h1", Street(world.group, seed="x").report("h1", 1), 0), "unknown_key"),
    ],
    ids=["label", "early", "late", "group", "malformed", "other parameters", "key"],
)
def test_a_report_that_does_not_count_is_refused_by_name(
    change: Callable[[Street], tuple[str, bytes, int]], reason: str
) -> None:
    """A refused report changes no row."""
    world = street()
    label, payload, late_s = change(world)
    effects = world.leader.take_report(label, payload, world.group.end_s(SLOT_S) + late_s)
    assert effects.refusals == [reason]
    assert not effects.rows


def test_a_slot_off_the_grid_is_refused() -> None:
    """A report is of a slot of the group."""
    world = street()
    effects = world.leader.take_report("h", world.report("h", 1, SLOT_S + 1), SLOT_S + 4000)
    assert effects.refusals == ["unknown_slot"]


def test_of_two_reports_the_first_counts() -> None:
    """The same bytes again are a repetition; other bytes are refused."""
    world = street()
    payloads = reports(world)
    world.deliver(payloads)
    now_s = world.group.end_s(SLOT_S)
    assert world.leader.take_report("h0", payloads["h0"], now_s).refusals == ["repeated"]
    assert world.leader.take_report("h0", world.report("h0", 9999), now_s).refusals == ["second_report"]
    [record] = world.finish(world.answer(world.ask()))
    assert value_quanta(record) == 1000


def test_fewer_than_the_smallest_crowd_have_no_total() -> None:
    """The helper is not asked, and the slot is closed."""
    world = street()
    world.deliver(reports(world, 2))
    assert world.ask() == []
    assert world.leader_rows[RowKey("closed", SLOT_S)] == b"refused:too_few"


def test_pads_that_do_not_open_are_not_counted() -> None:
    """The leader leaves out the shares of rejected homes; the rest is exact."""
    world = street()
    payloads = reports(world)
    mixed = world.keys()._replace(helper=Street(world.group, seed="other").keys().helper)
    slot = home.open_slot(world.group, "bad", SLOT_S, LATTICE, mixed, SystemBits())
    payloads["bad"] = home.close_slot(world.group.id, "bad", slot)
    [record] = world.total(payloads)
    assert (value_quanta(record), json.loads(record)["homes"]) == (1000, 4)


def test_shares_that_do_not_open_are_not_asked_for() -> None:
    """A report whose share was sealed for another slot is dropped at the deadline."""
    world = street()
    payloads = reports(world)
    good = payloads["h3"]
    later = world.report("h3", 5, SLOT_S + 1800)
    payloads["h3"] = good[:-56] + later[-56:]
    [record] = world.total(payloads)
    assert (value_quanta(record), json.loads(record)["homes"]) == (600, 3)


def test_too_few_pads_end_the_slot() -> None:
    """The helper's one answer is a refusal, and no total is published."""
    world = street()
    mixed = world.keys()._replace(helper=Street(world.group, seed="other").keys().helper)
    payloads = {}
    for label in ("a", "b", "c"):
        slot = home.open_slot(world.group, label, SLOT_S, LATTICE, mixed, SystemBits())
        payloads[label] = home.close_slot(world.group.id, label, slot)
    assert world.total(payloads) == []
    assert world.leader_rows[RowKey("closed", SLOT_S)] == b"refused:too_few"
    assert RowKey("answer", SLOT_S) in world.helper_rows


def test_an_answer_after_the_expiry_is_refused() -> None:
    """Whether a slot has a total depends on when its answer arrived, not on when the leader looked."""
    world = street()
    world.deliver(reports(world))
    [answer] = world.answer(world.ask())
    effects = world.leader.take_answer(answer, world.group.expiry_s(SLOT_S))
    assert (effects.refusals, effects.rows) == (["expired"], {})
    assert world.leader.take_answer(answer, world.group.expiry_s(SLOT_S) - 1).messages


@pytest.mark.parametrize("rejected_max", [0, 1])
def test_too_many_rejected_places_end_the_slot(monkeypatch: pytest.MonkeyPatch, rejected_max: int) -> None:
    """An answer that would be longer than a message is a refusal instead."""
    monkeypatch.setattr(message, "REJECTED_MAX", rejected_max)
    world = street()
    mixed = world.keys()._replace(helper=Street(world.group, seed="other").keys().helper)
    slot = home.open_slot(world.group, "bad", SLOT_S, LATTICE, mixed, SystemBits())
    totals = world.total(reports(world) | {"bad": home.close_slot(world.group.id, "bad", slot)})
    assert len(totals) == rejected_max
    assert (world.leader_rows[RowKey("closed", SLOT_S)] == b"refused:too_few") == (not totals)


def test_an_implausible_total_is_refused() -> None:
    """A home outside the range by more than the noise allows spoils the slot, not the record."""
    world = street()
    payloads = reports(world) | {"liar": world.report("liar", 10**9)}
    assert world.total(payloads) == []
    assert world.leader_rows[RowKey("closed", SLOT_S)] == b"refused:implausible"


def test_a_request_of_two_chunks_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper answers when the last chunk has come."""
    world = street()
    world.deliver(reports(world))
    split = message.split_entries
    monkeypatch.setattr(message, "split_entries", lambda entries: split(entries, 400))
    request = world.ask()
    assert len(request) == 2
    assert world.answer(request[1:]) == []
    [record] = world.finish(world.answer(request[:1]))
    assert value_quanta(record) == 1000


def test_keys_are_made_ahead_and_destroyed() -> None:
    """Today's and the next days' keys are published; a day's secret goes when its last slot has expired."""
    world = street(slot_s="86400", answer_s="3600")
    assert len(world.lists["leader"].keys) == DAYS_AHEAD + 1
    day = SLOT_S // 86_400
    end_s = (day + 1) * 86_400 + 1200 + 3600
    effects = world.helper.renew_keys(end_s - 1, fixed_entropy("more"))
    assert RowKey("secret", day) not in effects.rows
    effects = world.helper.renew_keys(end_s, fixed_entropy("more"))
    assert effects.rows[RowKey("secret", day)] is None
    assert world.helper.keys_of_slot(day * 86_400) is None
    assert [sent.retain for sent in effects.messages] == [True]


def test_a_day_s_secret_goes_with_its_last_answer() -> None:
    """Once the only slot of a day is answered, neither operator can open anything of it."""
    world = street(slot_s="86400")
    day_s = SLOT_S - SLOT_S % 86_400
    payloads = {f"h{i}": world.report(f"h{i}", i, day_s) for i in range(3)}
    assert world.total(payloads, day_s)
    for machine in (world.leader, world.helper):
        effects = machine.renew_keys(world.deadline_s(day_s), fixed_entropy("more"))
        assert effects.rows[RowKey("secret", day_s // 86_400)] is None
        assert machine.keys_of_slot(day_s) is None


def test_an_expired_slot_is_neither_asked_nor_answered() -> None:
    """After the time for answers the slot is closed without a total, and its rows are deleted."""
    world = street()
    world.deliver(reports(world))
    [request] = world.ask()
    end_s = world.group.expiry_s(SLOT_S)
    assert world.helper.take_request(request, end_s).refusals == ["expired"]
    world.answer([request])
    day_end_s = SLOT_S - SLOT_S % 86_400 + 86_400 + 1200 + 86_400
    for now_s, tables in ((end_s, {"batch", "answer"}), (day_end_s, set())):
        for machine in (world.leader, world.helper):
            world.commit(machine, machine.renew_keys(now_s, fixed_entropy("more")))
            world.commit(machine, machine.tick(now_s))
        assert {key.table for rows in (world.leader_rows, world.helper_rows) for key in rows} == tables | {
            "secret",
            "mark",
        }


def test_a_clock_that_steps_back_reopens_no_slot() -> None:
    """After expiry, with the clock back before it, neither operator takes part in a second total.

    The helper still has its secret, and what it answered; the leader's secret is destroyed.
    """
    world = street()
    [record] = world.total(reports(world))
    end_s = world.group.expiry_s(SLOT_S)
    for machine in (world.leader, world.helper):
        world.commit(machine, machine.renew_keys(end_s, fixed_entropy("more")))
        world.commit(machine, machine.tick(end_s))
    world.restart()
    effects = world.leader.take_report("h9", world.report("h9", 5), world.group.end_s(SLOT_S))
    assert effects.refusals == ["unknown_key"]
    other = Street(world.group)
    other.deliver(reports(other, 3))
    [request] = other.ask()
    assert world.helper.take_request(request, world.deadline_s()).refusals == ["other_batch"]
    assert json.loads(record)["homes"] == 4


def test_an_identity_is_that_of_the_group() -> None:
    """An operator does not start with another key."""
    with pytest.raises(ValueError, match="leader"):
        Leader(make_group(), HELPER, {})


def test_a_key_list_is_signed_by_the_operator() -> None:
    """A home takes no list that another has signed."""
    group = make_group()
    forged = KeyList("helper", 0, ((1, bytes(32)),)).encode(group.id, LEADER.sign)
    with pytest.raises(Malformed, match="signature"):
        home.decode_key_list(group, "helper", forged, 0)


def test_serials_ascend_after_a_lost_store_and_a_clock_that_steps_back() -> None:
    """An operator that begins anew, or whose clock is wrong, signs lists that homes take."""
    world = street()
    serial = world.lists["helper"].serial
    for rows, now_s in (({}, SLOT_S + 60), (world.helper_rows, SLOT_S - 999)):
        effects = Helper(world.group, HELPER, rows).renew_keys(now_s, fixed_entropy("new"))
        payload = effects.messages[0].payload
        assert home.decode_key_list(world.group, "helper", payload, serial + 1).serial > serial
        assert effects.rows[RowKey("mark", 0, "serial")] is not None


def test_messages_leave_at_instants_that_do_not_show_the_work() -> None:
    """Whole minutes, at least one minute and one second for each 1,000 homes after the cause."""
    assert [response_due_s(*cause) for cause in ((0, 3), (1, 3), (60, 999), (60, 1000), (61, 0))] == [
        60,
        120,
        120,
        180,
        180,
    ]
    assert response_due_s(0, 1 << 20) == 1140


def test_every_message_of_an_operator_has_such_an_instant() -> None:
    """Key lists, requests, answers, refusals and totals; also what is sent again."""
    world = street()
    world.deliver(reports(world))
    now_s = world.deadline_s()
    request = world.leader.tick(now_s).messages
    answer = world.helper.take_request(request[0].payload, now_s).messages
    repeated = world.helper.take_request(request[0].payload, now_s).messages
    refused = world.helper.take_request(request[0].payload, world.group.expiry_s(SLOT_S)).messages
    again = world.leader.unanswered_requests(now_s)
    total = world.leader.take_answer(answer[0].payload, now_s).messages
    lists = [
        machine.renew_keys(now_s, fixed_entropy("x")).messages for machine in (world.leader, world.helper)
    ]
    for messages in (request, answer, repeated, again, total, world.leader.messages_to_resend(now_s), *lists):
        assert [message.due_s for message in messages] == [response_due_s(now_s, 4)]
    assert [message.due_s for message in refused] == [response_due_s(world.group.expiry_s(SLOT_S), 4)]


def test_a_home_that_restarts_after_midnight_closes_the_last_slot() -> None:
    """The open slot has what it needs; the operators' lists have only today's key and later ones."""
    world = street()
    last_s = SLOT_S - SLOT_S % 86_400 + 86_400 - 1800
    slots = {
        f"h{i}": home.open_slot(world.group, f"h{i}", last_s, LATTICE, world.keys(last_s), SystemBits())
        for i in range(3)
    }
    world.prepare(last_s + 1801)
    assert home.slot_keys(world.lists["leader"], world.lists["helper"], last_s) is None
    closed = {
        label: home.close_slot(world.group.id, label, slot.with_energy(LATTICE))
        for label, slot in slots.items()
    }
    [record] = world.total(closed, last_s)
    assert value_quanta(record) == 3


def test_a_system_of_32_bits_is_refused() -> None:
    """The error says what is missing."""
    with pytest.raises(ImportError, match="64-bit system"):
        check_platform(2**31 - 1)


STEPS = st.lists(
    st.sampled_from(["tick", "ask", "answer", "old answer", "kill leader", "kill helper", "lose"]),
    max_size=12,
)


@given(STEPS, STEPS)
@settings(max_examples=50)
def test_any_schedule_of_kills_publishes_one_total_at_most(first: list[str], second: list[str]) -> None:
    """Each total once, the same bytes again, and with everything delivered in the end, a total."""
    world = Street(make_group())
    world.deliver(reports(world))
    answers: list[bytes] = []
    totals: list[bytes] = []
    for step in [*first, "tick", *second]:
        if step == "tick":
            world.ask()
        elif step == "ask":
            answers += world.answer([sent.payload for sent in world.leader.unanswered_requests(SLOT_S)])
        elif step == "answer":
            totals += world.finish(answers[-1:])
        elif step == "old answer":
            totals += world.finish(answers[:1])
        elif step == "lose":
            request = [sent.payload for sent in world.leader.unanswered_requests(SLOT_S)]
            for payload in request:  # computed, but killed before the commit
                world.helper.take_request(payload, world.deadline_s())
            world.restart()
        else:
            world.restart()
    world.ask()
    answers += world.answer([sent.payload for sent in world.leader.unanswered_requests(SLOT_S)])
    totals += world.finish(answers)
    assert len(totals) == 1
    resumed = [sent.payload for sent in world.leader.messages_to_resend(SLOT_S)]
    assert resumed == totals
