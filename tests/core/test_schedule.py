"""The schedule is public (law 4): when slots open and leave depends on the clock alone."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain import identity
from meteragent.domain.schedule import Schedule
from meteragent.domain.units import DAY_MS, MICRO
from tests.core import strategies as made
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, World, stream

ZERO = terms_with(TERMS, length_ms=4, step_ms=4)
METERS = ("flat", "busy", "silent", "gone")

Row = tuple[str, int, int]
"""What everybody may see of a record but its value: the meter, its slot, when it is due."""

Arrived = tuple[int, str, int, int]
"""A reading: when it arrives, from whom, how old it is, its value."""

arrivals = st.lists(
    st.tuples(st.integers(2, 40), st.sampled_from(METERS), st.integers(-5, 20), st.sampled_from(made.VALUES)),
    max_size=25,
).map(sorted)


def seen(world: World) -> list[Row]:
    """The records in the order in which they leave: by due time, then by commit."""
    found = world.witness.records.values()
    rows = [(r.slot.meter, r.slot.start_ms - BASE_MS, r.row.due_ms - BASE_MS) for r in found]
    return sorted(rows, key=lambda row: row[2])


def values(world: World, meter: str = "m1") -> dict[int, int]:
    """The values of a meter by the start of the slot, without the noise."""
    found = world.witness.records.values()
    return {r.slot.start_ms - BASE_MS: r.quanta for r in found if r.slot.meter == meter}


def run(schedule: Schedule, spread_ms: int, found: Sequence[Arrived], order: Sequence[str] = METERS) -> World:
    """Four meters are first seen at once, in some order; then readings arrive."""
    world = World(stream(schedule, spread_ms=spread_ms), has_model=False)
    for meter in order:
        world.send(meter, world.now_ms, MICRO)
    world.feed()
    for at_ms, meter, age_ms, value_u in found:
        world.run_to(BASE_MS + at_ms)
        world.send(meter, world.now_ms - age_ms, value_u)
    world.run_to(BASE_MS + 50)
    return world


@given(
    schedule=made.by_the_wall,
    spread_ms=st.sampled_from([0, 5]),
    one=arrivals,
    other=arrivals,
    order=st.permutations(METERS),
)
def test_what_arrives_changes_neither_when_nor_in_which_order_records_leave(
    schedule: Schedule,
    spread_ms: int,
    one: list[Arrived],
    other: list[Arrived],
    order: list[str],
) -> None:
    """Busy, flat, silent and vanished meters leave at the same times and in the same order."""
    first = seen(run(schedule, spread_ms, one))
    assert first == seen(run(schedule, spread_ms, other, order))
    assert len({meter for meter, _, _ in first}) in (len(METERS), 0)  # none: windows of 30 ms and lateness


@given(
    schedule=made.by_the_wall,
    spread_ms=st.sampled_from([0, 5]),
    found=arrivals,
)
def test_a_slot_leaves_at_its_end_and_lateness_and_the_meters_delay(
    schedule: Schedule, spread_ms: int, found: list[Arrived]
) -> None:
    """Due = the end of the slot's last stretch + lateness + a fixed delay of the meter in [0, spread]."""
    for slot, record in run(schedule, spread_ms, found).witness.records.items():
        delay_ms = identity.release_delay_ms(b"secret", "main", slot.meter, spread_ms)
        assert record.row.due_ms == slot.end_ms + schedule.usual.lateness_ms + delay_ms
        assert 0 <= delay_ms <= spread_ms


def test_a_band_that_begins_later_and_ends_earlier_leaves_first() -> None:
    """Bands such as 22-06 and 06-22: each leaves at its own end, in every window, and late to none."""
    grid = made.Grid(n=1, step_ms=4, level=1000, quantum_u=MICRO, gap_u=0, range_u=(0, 20_000 * MICRO))
    night_and_day = made.Uneven(grid, (((1, 0), (2, 1), (1, 0)),), banded=True)
    world = World(stream(made.Turns.of(ZERO, night_and_day)))
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 12)
    assert seen(world) == [("m1", 5, 7), ("m1", 4, 8), ("m1", 9, 11), ("m1", 8, 12)]


def test_slots_due_together_leave_in_the_order_of_names() -> None:
    """Whoever is seen first: m1 before m2 before m3 (law 4: never in order of arrival)."""
    world = World(stream(ZERO), has_model=False)
    for meter in ("m2", "m3", "m1"):
        world.send(meter, world.now_ms, MICRO)
    world.run_to(BASE_MS + 8)
    assert [meter for meter, _, _ in seen(world)] == ["m1", "m2", "m3"]


def test_with_pseudonyms_slots_leave_in_the_order_of_those() -> None:
    """The order of what leaves says nothing about the names behind the pseudonyms."""
    world = World(stream(ZERO, pseudonym_key=b"key"), has_model=False)
    names = [f"m{k}" for k in range(8)]
    for meter in names:
        world.send(meter, world.now_ms, MICRO)
    world.run_to(BASE_MS + 8)
    assert [meter for meter, _, _ in seen(world)] == sorted(
        names, key=lambda m: identity.pseudonym(b"key", m)
    )


def test_the_first_window_starts_at_the_first_boundary_after_arrival() -> None:
    """By the wall clock a meter starts when it is first seen, whatever its timestamp says."""
    world = World(stream(ZERO))
    world.now_ms = BASE_MS + 9
    world.send("late", BASE_MS + 2, MICRO)
    world.send("early", BASE_MS + 30, MICRO)
    world.run_to(BASE_MS + 20)
    assert seen(world) == [("early", 12, 16), ("late", 12, 16), ("early", 16, 20), ("late", 16, 20)]


def test_a_meter_seen_on_a_boundary_starts_there() -> None:
    """The first boundary at or after the arrival, not the one after it."""
    world = World(stream(ZERO))
    world.now_ms = BASE_MS + 8
    world.send("m1", BASE_MS + 8, 5 * MICRO)
    world.run_to(BASE_MS + 12)
    assert seen(world) == [("m1", 8, 12)]
    assert values(world) == {8: 5}


def test_the_core_says_when_it_wants_to_be_woken() -> None:
    """The deadline is the next opening or closing; while slots do not close, the next opening."""
    world = World(stream(replace(ZERO, lateness_ms=2)))
    assert world.pipeline.deadline_ms(includes_closings=True) is None
    world.send("m1", BASE_MS + 1, MICRO)
    world.feed()
    assert world.pipeline.deadline_ms(includes_closings=True) == BASE_MS + 4
    world.now_ms = BASE_MS + 8
    world.feed()
    assert world.pipeline.deadline_ms(includes_closings=True) == BASE_MS + 4 + 4 + 2
    assert world.pipeline.deadline_ms(includes_closings=False) == BASE_MS + 12


def test_an_agent_that_is_late_closes_everything_that_is_due() -> None:
    """After a jump of the clock every window between has opened, is charged and leaves at once."""
    world = World(stream(replace(ZERO, lateness_ms=1), spread_ms=3))
    world.send("m1", BASE_MS + 1, MICRO)
    world.feed()
    world.now_ms = BASE_MS + 30
    world.feed()
    delay_ms = identity.release_delay_ms(b"secret", "main", "m1", 3)
    starts = [4, 8, 12, 16, 20, 24]
    assert seen(world) == [("m1", start, max(30, start + 5 + delay_ms)) for start in starts]
    assert world.witness.charged["m1"].windows == 7


@pytest.mark.usefixtures("half_quantum")
def test_catch_up_keeps_slots_open_for_what_waited_in_the_broker() -> None:
    """While closing stands windows open on and readings count; then all leaves, in order of time."""
    world = World(stream(ZERO))
    world.send("m1", BASE_MS + 1, MICRO)
    world.send("m2", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 8)
    world.crash()
    world.now_ms, world.closing_ms = BASE_MS + 30, BASE_MS + 8
    world.feed()
    assert len(seen(world)) == 2
    for time_ms in (9, 13, 17, 21):
        world.send("m2", BASE_MS + time_ms, time_ms * MICRO)
    world.now_ms += 5
    world.feed()
    assert len(seen(world)) == 2
    assert world.witness.charged["m1"].windows == 8
    world.closing_ms = None
    world.feed()
    assert seen(world)[2:] == [(m, s, 35) for s in (8, 12, 16, 20, 24, 28) for m in ("m1", "m2")]
    assert values(world, "m2") == {4: 1, 8: 7, 12: 12, 16: 16, 20: 20, 24: 11, 28: 0}


def test_a_silent_meter_is_forgotten_after_whole_windows() -> None:
    """After `forget` without an accepted reading no window opens; what is open leaves; it is counted."""
    world = World(stream(ZERO, forget_ms=12), has_model=False)
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 7)
    world.send("m1", BASE_MS + 7, MICRO)
    world.send("m1", BASE_MS + 6, MICRO)
    world.run_to(BASE_MS + 40)
    assert [start for _, start, _ in seen(world)] == [4, 8, 12, 16]
    assert world.counts["forgotten"] == 1
    assert world.disk.snapshot().states == {}
    assert world.disk.snapshot().marks == {"m1": BASE_MS + 20}
    assert world.pipeline.deadline_ms(includes_closings=True) is None
    assert not world.queue


def test_what_a_forgotten_meter_held_is_acknowledged() -> None:
    """A reading that would stand longer than its meter is known has said all it has."""
    world = World(stream(terms_with(ZERO, hold_ms=1000), forget_ms=4), has_model=False)
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 7)
    assert len(world.queue) == 1
    world.run_to(BASE_MS + 8)
    assert values(world) == {4: 1}
    assert not world.queue


def test_a_forgotten_meter_starts_again_after_its_mark() -> None:
    """Seen again, it starts at the first boundary after that, never before what it once opened (law 1)."""
    world = World(stream(ZERO, forget_ms=4), has_model=False)
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 21)
    assert seen(world) == [("m1", 4, 8)]
    world.send("m1", BASE_MS + 21, 3 * MICRO)
    world.run_to(BASE_MS + 50)
    assert seen(world) == [("m1", 4, 8), ("m1", 24, 28)]


def test_a_reading_of_an_open_window_counts_while_its_meter_is_being_forgotten() -> None:
    """Forgetting opens no more windows; those that are open take readings in until they close."""
    terms = replace(ZERO, lateness_ms=30)
    world = World(stream(terms, forget_ms=4), has_model=False)
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 20)
    world.send("m1", BASE_MS + 5, 9 * MICRO)
    world.run_to(BASE_MS + 60)
    assert values(world)[4] == 7


def test_readings_that_waited_are_given_time_before_a_meter_is_forgotten() -> None:
    """After a stop longer than `forget`, windows open for what the broker kept (at most 7 days)."""
    day = terms_with(TERMS, length_ms=DAY_MS, step_ms=DAY_MS, hold_ms=DAY_MS)
    world = World(stream(day, forget_ms=DAY_MS), has_model=False)
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + DAY_MS)
    world.crash()
    world.now_ms, world.closing_ms = BASE_MS + 20 * DAY_MS, BASE_MS + DAY_MS
    world.feed()
    opened = [slot.start_ms - BASE_MS for slot in world.witness.slots.values()]
    assert opened == [*range(DAY_MS, 9 * DAY_MS, DAY_MS)]
    world.send("m1", BASE_MS + 3 * DAY_MS, 4 * MICRO)
    world.feed()
    world.closing_ms = None
    world.feed()
    assert [*values(world).values()][:4] == [0, 0, 4, 0]


def test_silence_before_a_first_window_is_not_counted() -> None:
    """However short `forget` is, a meter that was seen has its first window."""
    world = World(stream(ZERO, forget_ms=1), has_model=False)
    world.send("m1", BASE_MS + 1, MICRO)
    world.run_to(BASE_MS + 30)
    assert seen(world) == [("m1", 4, 8)]
