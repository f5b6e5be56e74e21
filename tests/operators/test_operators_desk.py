"""Rounds of an operator: what is dropped, held back, sent again and written into the ledger."""

from meteragent.crowd.machine import Outgoing, response_due_s
from meteragent.operators.departures import REFUSED_S, Departures
from meteragent.operators.desk import RESEND_S, Arrival, Desk, LedgerLine, Step, order_by_time, split_arrivals
from tests.support.crowd import SLOT_S, Street, fixed_entropy, make_group


def street() -> tuple[Street, Desk, Desk]:
    """Return a street of four homes whose reports the leader has, and the desks of its operators."""
    world = Street(make_group())
    desks = [Desk(machine, fixed_entropy("desk")) for machine in (world.leader, world.helper)]
    labels = ("a", "b", "c", "d")
    arrivals = [
        Arrival(f"report/{label}", world.report(label, 100), world.group.end_s(SLOT_S)) for label in labels
    ]
    step = desks[0].take_messages(arrivals, world.group.end_s(SLOT_S))
    assert step.counts == {"reports": 4}
    assert not step.refusals
    return world, desks[0], desks[1]


def payloads(step: Step, topic: str) -> list[bytes]:
    """Return the messages of a step on a topic."""
    return [message.payload for message in step.messages if message.topic == topic]


def test_a_slot_from_reports_to_total() -> None:
    """Both ledgers get a line, with the number of homes, and the messages leave at their instants."""
    world, leader, helper = street()
    now_s = world.deadline_s()
    [request] = payloads(leader.tick(now_s), "request")
    answered = helper.take_messages([Arrival("request", request, now_s)], now_s)
    assert answered.lines == [LedgerLine(SLOT_S, now_s, "answer", 4)]
    assert {message.due_s for message in answered.messages} == {response_due_s(now_s, 4)}
    [answer] = payloads(answered, "answer")
    closed = leader.take_messages([Arrival("answer", answer, now_s)], now_s)
    assert closed.lines == [LedgerLine(SLOT_S, now_s, "total", 4)]
    assert closed.counts == {"answers": 1, "slots_total": 1}
    assert len(payloads(closed, "total")) == 1


def test_a_refused_slot_is_in_the_ledger() -> None:
    """A slot of too few homes has the reason, and how many had reported for it and no other."""
    world = Street(make_group())
    leader = Desk(world.leader, fixed_entropy("desk"))
    for label in ("a", "b"):
        leader.take_messages(
            [Arrival(f"report/{label}", world.report(label, 1), world.group.end_s(SLOT_S))], 0
        )
    now_s = world.deadline_s()
    assert leader.tick(now_s).lines == [LedgerLine(SLOT_S, now_s, "too_few", 2)]


def test_acknowledgements_do_not_show_a_draw() -> None:
    """Reports that wait while a total is drawn stay unacknowledged until the total leaves."""
    world, leader, helper = street()
    now_s = world.deadline_s()
    [request] = payloads(leader.tick(now_s), "request")
    [answer] = payloads(helper.take_messages([Arrival("request", request, now_s)], now_s), "answer")
    closed = leader.take_messages([Arrival("answer", answer, now_s)], now_s)
    assert closed.quiet_s == response_due_s(now_s, 4)
    repeated = leader.take_messages([Arrival("answer", answer, now_s + 60)], now_s + 60)
    assert repeated.refusals == {"repeated": 1}
    assert repeated.quiet_s == 0  # nothing was drawn


def test_an_answer_arrives_on_its_topic_only() -> None:
    """An answer on the topic of a report without a label is refused: its draw would be hidden by nothing."""
    world, leader, helper = street()
    now_s = world.deadline_s()
    [request] = payloads(leader.tick(now_s), "request")
    [answer] = payloads(helper.take_messages([Arrival("request", request, now_s)], now_s), "answer")
    step = leader.take_messages([Arrival("report/", answer, now_s)], now_s)
    assert (step.refusals, step.rows) == ({"malformed": 1}, {})


def test_messages_and_ticks_are_in_the_order_of_their_times() -> None:
    """However late a tick runs, it comes after what arrived before it and before all else."""
    arrivals = [Arrival(topic, b"", at_s) for topic, at_s in (("a", 25), ("b", 9), ("c", 10), ("d", 19))]
    order = [
        (instant_s, "".join(a.topic for a in some)) for some, instant_s in order_by_time(arrivals, [10, 20])
    ]
    assert order == [(10, "b"), (20, "cd"), (None, "a")]
    assert list(order_by_time([], [])) == [([], None)]


def test_each_request_is_a_commit_of_its_own() -> None:
    """Requests and answers are taken one by one, reports in a row together."""
    topics = ("report/a", "report/b", "answer", "answer", "report/a")
    order = [[a.topic for a in some] for some in split_arrivals([Arrival(topic, b"", 0) for topic in topics])]
    assert order == [["report/a", "report/b"], ["answer"], ["answer"], ["report/a"]]


def test_what_waited_too_long_is_dropped() -> None:
    """A request that waited for more than 20 s is dropped, so that no answer is late; reports are not."""
    world, leader, helper = street()
    now_s = world.deadline_s()
    [request] = payloads(leader.tick(now_s), "request")
    late_s = now_s + 21
    step = helper.take_messages([Arrival("request", request, now_s)], late_s)
    assert (step.counts, step.rows, step.messages) == ({"dropped": 1}, {}, [])
    assert helper.take_messages([Arrival("request", request, now_s + 1)], late_s).lines
    end_s = world.group.end_s(SLOT_S)
    report = world.report("e", 1)
    assert leader.take_messages([Arrival("report/e", report, end_s)], end_s + 500).counts == {"reports": 1}


def test_an_open_request_is_sent_again() -> None:
    """The same bytes are sent again until there is an answer, also after a restart or a clock set back."""
    world, leader, _ = street()
    now_s = world.deadline_s()
    leader.first_step(now_s - 10)
    requests = payloads(leader.tick(now_s), "request")
    assert payloads(leader.tick(now_s + 60), "request") == []
    assert payloads(leader.tick(now_s - 10 + RESEND_S), "request") == requests
    assert payloads(leader.tick(now_s + 20), "request") == requests
    assert leader.unanswered_s(now_s + 500) == 501
    assert payloads(Desk(world.leader, fixed_entropy("x")).first_step(now_s + 500), "request") == requests


def test_the_first_step_publishes_keys_and_descriptor() -> None:
    """Both are retained; the helper publishes keys only. Later steps publish keys on a new day only."""
    _, leader, helper = street()
    assert [message.topic for message in leader.first_step(SLOT_S).messages] == [
        "keys/leader",
        "total/privacy",
    ]
    assert [message.topic for message in helper.first_step(SLOT_S).messages] == ["keys/helper"]
    assert all(message.retain for message in leader.first_step(SLOT_S).messages)
    assert leader.tick(SLOT_S + 60).messages == []
    next_day_s = SLOT_S + 86_400
    assert [message.topic for message in helper.tick(next_day_s).messages] == ["keys/helper"]
    assert helper.tick(next_day_s + 60).messages == []


def test_an_unconfirmed_time_changes_no_key() -> None:
    """After a jump of the clock no key is created, published or destroyed; once it is confirmed, all are."""
    _, _, helper = street()
    later_s = SLOT_S + 3650 * 86_400
    step = helper.tick(later_s, is_confirmed=False)
    assert (step.messages, [key for key in step.rows if key.table in ("secret", "mark")]) == ([], [])
    assert helper.tick(SLOT_S + 60).messages == []
    assert [message.topic for message in helper.tick(later_s).messages] == ["keys/helper"]


def test_a_key_is_destroyed_when_its_day_is_over() -> None:
    """The day's secret is deleted at the tick after its last slot has expired or is answered."""
    world, _, helper = street()
    day = SLOT_S // 86_400
    last_s = world.group.expiry_s((day + 1) * 86_400 - world.group.slot_s)
    destroyed = [key for key, value in helper.tick(last_s - 1).rows.items() if value is None]
    assert destroyed == []
    destroyed = [key for key, value in helper.tick(last_s).rows.items() if value is None]
    assert ("secret", day, "") in destroyed


def test_messages_leave_at_their_instants() -> None:
    """What is late leaves at the next minute, but an answer never; what is repeated leaves once.

    What is retained is replaced.
    """
    departures = Departures()
    assert departures.add_messages([Outgoing("answer", b"1", due_s=120)], 100) == {}
    assert departures.add_messages([Outgoing("answer", b"1", due_s=180)], 100) == {}
    assert departures.add_messages([Outgoing("total", b"2", due_s=60)], 121) == {"late": 1}
    assert departures.add_messages([Outgoing("answer", b"3", due_s=120)], 121) == {"dropped": 1}
    assert departures.next_s() == 120
    assert [message.payload for message in departures.due_messages(120)] == [b"1"]
    assert [message.payload for message in departures.due_messages(179)] == [b"1"]
    assert [message.payload for message in departures.due_messages(180)] == [b"1", b"2"]
    departures = Departures()
    departures.add_messages([Outgoing("keys/leader", b"old", retain=True, due_s=60)], 0)
    departures.add_messages([Outgoing("keys/leader", b"new", retain=True, due_s=60)], 0)
    assert [message.payload for message in departures.due_messages(60)] == [b"new"]


def test_what_was_not_accepted_is_sent_again() -> None:
    """A new connection sends what is unanswered, and the newest retained messages in any case."""
    departures = Departures()
    keys = Outgoing("keys/leader", b"keys", retain=True, due_s=60)
    total = Outgoing("total", b"total", due_s=60)
    departures.add_messages([keys, total], 0)
    for packet_id, message in enumerate(departures.due_messages(60)):
        departures.on_sent(message, packet_id)
    assert departures.due_messages(60) == []
    departures.on_delivered(0)
    assert departures.in_flight_count == 1
    departures.on_connected(100)
    assert {message.payload for message in departures.due_messages(100)} == {b"keys", b"total"}
    assert len(departures) == 2


def test_what_the_broker_refuses_is_tried_later() -> None:
    """A refused message waits; its topic is a problem until the broker accepts it."""
    departures = Departures()
    departures.add_messages([Outgoing("total", b"total", due_s=60)], 0)
    departures.on_sent(departures.due_messages(60)[0], 1)
    departures.on_refused(1, 60)
    assert departures.refused_topics == {"total"}
    assert departures.due_messages(60) == []
    [message] = departures.due_messages(60 + REFUSED_S)
    departures.on_sent(message, 2)
    departures.on_delivered(2)
    assert departures.refused_topics == set()
