"""The core: what becomes of messages, when windows open and are charged, what leaves and in which order."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.decode import wrap_single
from meteragent.domain.commit import Charge, Destination, Outgoing, Receiver, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time
from meteragent.domain.reading import Message
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import DAY_MS, MICRO, Kind
from meteragent.privacy import Odometer, SeededBits
from meteragent.wire.descriptor import describe_terms
from tests.support import bare_numbers
from tests.support.stores import opened
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, MemoryDisk, World, message, stream

SLOT = terms_with(TERMS, length_ms=4, step_ms=4)
EVENT = replace(SLOT, clock=Clock.EVENT)


def core(
    terms: Terms = SLOT, known: Snapshot | None = None, spending: Spending | None = None, **how: Any
) -> Pipeline:
    """A core with noise that is nothing: epsilon is 100 per quantum."""
    known = Snapshot({}, {}, {}) if known is None else known
    return Pipeline(stream(terms, **how), known, spending or Spending(), SeededBits(1), Counts())


def feed(pipeline: Pipeline, *batch: Message, now_ms: int | None = None) -> Effects:
    """One turn, at the time of the last arrival unless said."""
    at_ms = batch[-1].received_ms if now_ms is None else BASE_MS + now_ms
    return pipeline.feed(batch, at_ms, at_ms)


def records(effects: Effects) -> list[tuple[str, float]]:
    """Slot start and value of what leaves."""
    found = [json.loads(row.payload) for row in effects.commit.outgoing if not row.retain]
    return [(row["t"], row["value"]) for row in found]


def at(time_ms: int) -> str:
    """A time as records say it."""
    return iso_time(BASE_MS + time_ms)


# --- what is not a reading --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Message("meters/m1/power/more", b'{"t":1,"power":1}', False, BASE_MS, 7), "refused_topic"),
        (Message("meters/m1", b"1", False, BASE_MS, 7), "refused_topic"),
        (Message("meters//power", b"1", False, BASE_MS, 7), "refused_topic"),
        (Message("meters/m1/power", b"1" * 1001, False, BASE_MS, 7), "refused_size"),
        (Message("meters/m1/power", b"x" * 2**20, False, BASE_MS, 7), "refused_size"),
        (Message("meters/m1/power", b"", False, BASE_MS, 7), "refused_empty"),
        (Message("meters/m1/power", b"{", False, BASE_MS, 7), "refused_json"),
        (message(0, '"12"', token=7), "refused_type"),
        (message(0, 1, token=7)._replace(retain=True), "retained"),
        (message(101, 1, received_ms=0, token=7), "refused_ahead"),
        (message(-(10**9), 1, received_ms=0, token=7), "late"),
    ],
)
def test_what_is_not_a_reading_is_counted_and_acknowledged_at_once(bad: Message, reason: str) -> None:
    """A refused message has one named counter, is acknowledged, and changes nothing (law 7)."""
    pipeline = core()
    effects = feed(pipeline, bad)
    assert pipeline._counts == {"received": 1, reason: 1}
    assert effects.acknowledge == [7]
    assert not effects.commit
    assert pipeline.deadline_ms(includes_closings=True) is None


def test_a_bad_message_stops_nothing() -> None:
    """Readings around it in the same batch count."""
    pipeline = core()
    bad = Message("meters/m1/power", b"\xff", False, BASE_MS + 5, "bad")
    feed(pipeline, message(1, 100))
    effects = feed(pipeline, message(4, 200), bad, message(6, 400), now_ms=8)
    assert "bad" in effects.acknowledge
    assert records(effects) == [(at(4), 300)]


def test_a_timestamp_may_be_ahead_by_so_much() -> None:
    """`ahead` itself is accepted, a millisecond more is refused, by both clocks."""
    for terms in (SLOT, EVENT):
        pipeline = core(terms, ahead_ms=5)
        feed(pipeline, message(5, 1, received_ms=0), message(6, 1, received_ms=0), now_ms=0)
        assert pipeline._counts["refused_ahead"] == 1
        assert pipeline._timelines["m1"].newest_ms == BASE_MS + 5


def test_meters_beyond_the_bound_are_refused() -> None:
    """`max_meters` are known, the next one is refused and counted; the others go on."""
    pipeline = core(max_meters=2)
    effects = feed(pipeline, *(message(1, 1, meter=name, token=name) for name in ("a", "b", "c")))
    assert effects.acknowledge == ["c"]
    assert pipeline._counts["refused_meters"] == 1
    feed(pipeline, message(2, 1, meter="a"), message(2, 1, meter="b"))
    assert pipeline._counts["accepted"] == 4


def test_a_payload_without_a_time_has_that_of_its_arrival() -> None:
    """The profile `number` counts from the arrival."""
    pipeline = core(decode=wrap_single(bare_numbers.decode))
    feed(pipeline, Message("meters/m1/power", b"100", False, BASE_MS + 1, 1), now_ms=3)
    effects = feed(pipeline, Message("meters/m1/power", b"300", False, BASE_MS + 6, 2), now_ms=8)
    assert records(effects) == [(at(4), 200)]


def test_values_beyond_the_range_are_clamped_and_counted() -> None:
    """A finite value is never refused: it counts as the end of the range."""
    pipeline = core(terms_with(SLOT, low_u=0, high_u=50 * MICRO))
    feed(pipeline, message(1, 20))
    effects = feed(pipeline, message(4, "1e400"), message(6, -7), now_ms=8)
    assert records(effects) == [(at(4), 25)]
    assert pipeline._counts["clamped"] == 2


def test_what_became_of_readings_is_counted() -> None:
    """Every reading is accepted or has a counter that says why not; slots without one are counted."""
    pipeline = core()
    feed(pipeline, message(-50, 1, received_ms=0), message(1, 1), message(1, 1), message(1, 2, received_ms=2))
    feed(pipeline, now_ms=20)
    feed(pipeline, message(3, 1, received_ms=20))
    counts = Counter(pipeline._counts)
    assert counts == {
        "received": 5,
        "early": 1,
        "accepted": 1,
        "duplicate": 2,
        "late": 1,
        "opened": 6,
        "released": 5,
        "gap_slots": 3,
    }


# --- opening ----------------------------------------------------------------------------------------


def test_a_window_opens_with_its_charge_its_mark_and_its_first_noise() -> None:
    """One commit holds charge, mark, terms, radius and the first slot's noise (law 2)."""
    pipeline = core(TERMS)
    assert feed(pipeline, message(1, 5)).commit.charges == {}
    commit = feed(pipeline, now_ms=12).commit
    assert commit.marks == {"m1": BASE_MS + 24}
    assert commit.charges == {Charge(BASE_MS, Fraction(100)): {"m1": 1}}
    assert commit.terms == {TERMS.id: TERMS}
    state = commit.states["m1"]
    assert state is not None
    (window,) = state.windows
    assert (window.start_ms, window.draws, len(window.slots)) == (BASE_MS + 12, 1, 1)
    assert feed(pipeline, now_ms=16).commit.charges == {}


def test_charges_are_in_1_per_w_and_by_day() -> None:
    """Charges of a stream in kWh are counted in 1/W, on the UTC day of the window's start."""
    hour_ms = 3_600_000
    terms = terms_with(
        EVENT,
        kind=Kind.INTERVAL_ENERGY,
        unit="kWh",
        length_ms=hour_ms,
        step_ms=hour_ms,
        hold_ms=0,
        interval_ms=hour_ms,
        level=Fraction(1),
        radius=Fraction(11, 100),
        quantum_u=1000,
    )
    pipeline = core(terms)
    feed(pipeline, message(-3 * hour_ms, 1), now_ms=0)
    commit = feed(pipeline, message(0, 1)).commit
    assert commit.charges == {
        Charge(BASE_MS - DAY_MS, Fraction(1, 110)): {"m1": 3},
        Charge(BASE_MS, Fraction(1, 110)): {"m1": 1},
    }


def test_a_window_that_would_exceed_the_budget_is_passed_for_ever() -> None:
    """Passed windows raise the mark, cost nothing, release nothing and are counted; the next day opens."""
    odometer = Odometer(DAY_MS, Fraction(250))
    quarter_ms = DAY_MS // 4
    terms = terms_with(SLOT, length_ms=quarter_ms, step_ms=quarter_ms)
    pipeline = core(terms, spending=Spending(odometer, (odometer,)))
    feed(pipeline, message(0, 1), now_ms=0)
    effects = feed(pipeline, now_ms=2 * DAY_MS - 1)
    assert effects.commit.marks == {"m1": BASE_MS + 2 * DAY_MS}
    starts = [start for start, _ in records(effects)]
    assert starts == [at(0), at(quarter_ms), at(DAY_MS), at(DAY_MS + quarter_ms)]
    assert [odometer.spent("m1", BASE_MS + day * DAY_MS) for day in (0, 1)] == [200, 200]
    assert pipeline._counts["over_budget"] == 4
    assert records(feed(pipeline, now_ms=2 * DAY_MS)) == []


def test_streams_of_a_meter_share_their_budgets() -> None:
    """What one stream is charged counts in the budget of another; a stream without one is not limited."""
    odometer = Odometer(DAY_MS, Fraction(150))
    limited = core(spending=Spending(odometer, (odometer,)))
    free = core(spending=Spending(None, (odometer,)))
    feed(free, message(0, 1), now_ms=0)
    feed(limited, message(0, 1), now_ms=0)
    assert limited._counts["over_budget"] == 1
    feed(free, now_ms=40)
    assert free._counts["over_budget"] == 0
    assert odometer.spent("m1", BASE_MS) == 11 * 100


def test_no_window_opens_before_the_floor() -> None:
    """After a lost or restored store windows open at the first boundary at or after the floor."""
    known = Snapshot({"m1": BASE_MS + 4}, {}, {}, floor_ms=BASE_MS + 9)
    for terms in (SLOT, EVENT):
        pipeline = core(terms, known=known)
        feed(pipeline, message(1, 1))
        commit = feed(pipeline, message(13, 1)).commit
        assert commit.marks == {"m1": BASE_MS + 16}
        assert opened(commit) == 1


def test_no_window_opens_before_the_mark() -> None:
    """Also with a longer grid that does not meet the mark: the first boundary after it (law 1)."""
    known = Snapshot({"m1": BASE_MS + 28}, {}, {})
    pipeline = core(terms_with(EVENT, length_ms=12, step_ms=12), known=known)
    commit = feed(pipeline, message(1, 1), message(40, 1)).commit
    assert commit.marks == {"m1": BASE_MS + 48}
    assert opened(commit) == 1


# --- the event clock --------------------------------------------------------------------------------


def test_a_jump_of_the_event_clock_opens_and_releases_every_window_between() -> None:
    """Each has its charge and its record, in one commit, in order of time."""
    pipeline = core(EVENT)
    feed(pipeline, message(0, 100, received_ms=1000))
    effects = feed(pipeline, message(21, 300, received_ms=1000))
    assert records(effects) == [(at(0), 100), (at(4), 25), (at(8), 0), (at(12), 0), (at(16), 0)]
    assert opened(effects.commit) == 5
    assert effects.commit.marks == {"m1": BASE_MS + 24}
    assert {row.due_ms for row in effects.commit.outgoing} == {BASE_MS + 1000}


def test_the_event_clock_of_each_meter_is_its_own() -> None:
    """What one meter sends opens and closes nothing of another; a silent one stands."""
    pipeline = core(EVENT)
    feed(pipeline, message(0, 1, meter="a"), message(0, 1, meter="b"))
    effects = feed(pipeline, message(90, 1, meter="a"))
    assert {row.topic for row in effects.commit.outgoing if not row.retain} == {"private/a/power"}
    assert pipeline.deadline_ms(includes_closings=True) is None
    assert not feed(pipeline, now_ms=99).commit


def test_a_refused_timestamp_does_not_move_the_event_clock() -> None:
    """Only accepted readings move it: not those too far ahead, nor those that are late."""
    pipeline = core(EVENT, ahead_ms=10)
    feed(pipeline, message(0, 1))
    assert not feed(pipeline, message(50, 1, received_ms=0)).commit


def test_the_event_clock_starts_at_the_first_readings_boundary() -> None:
    """Windows start at the first boundary at or after the first timestamp, however old that is."""
    pipeline = core(EVENT)
    feed(pipeline, message(-10 * DAY_MS + 1, 1, received_ms=0))
    effects = feed(pipeline, message(-10 * DAY_MS + 8, 1, received_ms=0))
    assert [start for start, _ in records(effects)] == [at(-10 * DAY_MS + 4)]


def test_forget_and_spread_do_not_apply_to_the_event_clock() -> None:
    """A meter that is silent for long goes on where it stood; its records leave at once."""
    pipeline = core(EVENT, forget_ms=1, spread_ms=1000)
    feed(pipeline, message(0, 1))
    effects = feed(pipeline, message(90, 1))
    assert len(records(effects)) == 22
    assert {row.due_ms for row in effects.commit.outgoing} == {BASE_MS + 90}
    assert pipeline._counts["forgotten"] == 0


def test_the_event_clock_resumes_after_a_stop() -> None:
    """The newest timestamp is kept: after a restart time goes on from there."""
    world = World(stream(EVENT))
    world.send("m1", BASE_MS, 100 * MICRO)
    world.send("m1", BASE_MS + 6, 200 * MICRO)
    world.feed()
    world.crash()
    world.feed()
    assert len(world.witness.records) == 1
    world.send("m1", BASE_MS + 8, 0)
    world.feed()
    assert [record.quanta for record in world.witness.records.values()] == [100, 125]


# --- descriptors and names --------------------------------------------------------------------------


def descriptors(effects: Effects) -> list[Outgoing]:
    """What is retained."""
    return [row for row in effects.commit.outgoing if row.retain]


def test_a_descriptor_leaves_before_the_first_record_and_once() -> None:
    """Retained on <topic>/privacy and under its id, when the first window opens; not again."""
    pipeline = core()
    feed(pipeline, message(1, 1))
    rows = descriptors(feed(pipeline, now_ms=4))
    id_ = json.loads(rows[0].payload)["id"]
    assert [row.topic for row in rows] == ["private/m1/power/privacy", f"private/m1/power/privacy/{id_}"]
    assert rows[0].payload == rows[1].payload
    assert json.loads(rows[0].payload)["valid_from"] == at(4)
    assert {row.due_ms for row in rows} == {BASE_MS + 4}
    effects = feed(pipeline, now_ms=30)
    assert descriptors(effects) == []
    assert json.loads(effects.commit.outgoing[0].payload)["d"] == id_


def test_new_terms_have_a_new_descriptor_and_old_ones_none_again() -> None:
    """After a restart the descriptor leaves again only if it says something new."""
    disk = MemoryDisk()
    for terms, expected in ((SLOT, 1), (SLOT, 0), (replace(SLOT, radius=Fraction(20)), 1)):
        pipeline = core(terms, known=disk.snapshot())
        disk.write(feed(pipeline, message(1, 1)).commit)
        start_ms = (pipeline.deadline_ms(includes_closings=True) or 0) - BASE_MS
        commit = feed(pipeline, now_ms=start_ms + 8).commit
        disk.write(commit)
        assert len(commit.descriptors) == expected
        assert disk.contents.announced[Destination("main", "private/m1/power")] == describe_terms(terms).id


def test_with_a_key_meters_leave_under_pseudonyms() -> None:
    """Neither topic nor payload names the meter; ledger and state do."""
    pipeline = core(pseudonym_key=b"key")
    feed(pipeline, message(1, 1, meter="kitchen"))
    commit = feed(pipeline, now_ms=8).commit
    assert len({row.topic.split("/")[1] for row in commit.outgoing}) == 1
    assert not any(b"kitchen" in row.topic.encode() + row.payload for row in commit.outgoing)
    assert (
        {meter for windows in commit.charges.values() for meter in windows} == {*commit.states} == {"kitchen"}
    )


def test_a_window_leaves_where_and_as_it_opened() -> None:
    """With another topic and other terms after a restart, open windows finish as they began (law 1)."""
    world = World(stream(TERMS), has_model=False)
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 13)
    world.crash(stream(SLOT, receivers=(Receiver("main", "new/{meter}"),), pseudonym_key=b"key"))
    world.run_to(BASE_MS + 28)
    topics = [record.row.topic.split("/")[0] for record in world.witness.records.values()]
    assert topics == ["private", "private", "private", "new"]
    names = [json.loads(record.row.payload)["meter"] for record in world.witness.records.values()]
    assert names[:3] == ["m1"] * 3
    assert names[3] != "m1"
    assert [slot.start_ms - BASE_MS for slot in world.witness.records] == [12, 16, 20, 24]


# --- batches ----------------------------------------------------------------------------------------


def test_a_reading_ahead_of_its_arrival_waits_for_its_slot() -> None:
    """In a batch that is taken in later, it covers no slot that was not open when it arrived."""
    pipeline = core(TERMS)
    feed(pipeline, message(11, 100), now_ms=12)
    effects = feed(pipeline, message(17, 100, received_ms=13), now_ms=18)
    assert records(effects) == [(at(12), 100)]
    assert records(feed(pipeline, now_ms=20)) == [(at(16), 75)]


def test_a_batch_is_as_good_as_its_messages_one_by_one() -> None:
    """Slots open and close at the times of arrival within a batch, whenever it is taken in."""
    messages = [message(k, k, token=k) for k in range(40)]
    one, other = core(TERMS), core(TERMS)
    single = [row for m in messages for row in records(feed(one, m))]
    assert single == records(feed(other, *messages))
    assert len(single) == 9


def test_states_are_in_the_order_in_which_meters_report() -> None:
    """So that in the store, too, those that report together lie together."""
    names = [f"m{k * 7 % 40}" for k in range(40)]
    commit = feed(core(EVENT), *(message(1, 1, meter=name) for name in names)).commit
    assert [*commit.states] == names
