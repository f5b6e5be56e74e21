"""The laws of DESIGN 3 on the core, whatever happens: readings, crashes, restarts, configurations.

Each program runs in a `World`, whose witness and model look at every commit and acknowledgement.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.noise import Noise
from meteragent.core.stream import Stream
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from tests.core import strategies as made
from tests.core.strategies import Grid, Late, Step, Uneven, play
from tests.support.witness import LabelledSlot
from tests.support.world import BASE_MS, World, stream

LONG_MS = 80
"""Longer than any window with its lateness, any hold, and any reading ahead of the clock."""


@given(meaning=made.meanings, grids=st.tuples(*[made.any_grid] * 3), program=made.rough)
def test_values_and_acknowledgements_are_those_of_the_design(
    meaning: Terms, grids: tuple[Grid | Uneven, ...], program: list[Step]
) -> None:
    """Every accumulator, record and acknowledgement is what the design says, at every commit (laws 3, 7)."""
    streams = [stream(made.scheduled(meaning, grid)) for grid in grids]
    world = World(streams[0])
    play(world, program, streams)
    world.check_records()


@given(streams=st.lists(made.streams, min_size=3, max_size=3), program=made.rough)
def test_an_interval_leaves_at_most_once_whatever_changes(streams: list[Stream], program: list[Step]) -> None:
    """One interval, one draw, one charge, one record (laws 1, 2), also under changed configurations.

    Kind, unit, clock, grid, lateness, hold, noise, topic, pseudonyms, delays and `forget` all change.
    """
    play(World(streams[0], has_model=False), program, streams)


def begun(world: World, schedule: Schedule) -> list[tuple[LabelledSlot, int]]:
    """The slots of the meter m1 that have begun since its first boundary, each with its end + lateness."""
    found, start_ms = [], schedule.first_start_ms(BASE_MS + 1)
    while start_ms <= world.now_ms:
        terms = schedule.terms_at(start_ms)
        slots = [LabelledSlot.of("m1", start_ms, place, terms) for place in range(terms.n)]
        found += [(slot, slot.end_ms + terms.lateness_ms) for slot in slots if slot.start_ms <= world.now_ms]
        start_ms += terms.length_ms
    return found


@given(schedule=made.by_the_wall, program=made.calm)
def test_in_the_end_everything_has_left_and_is_acknowledged(schedule: Schedule, program: list[Step]) -> None:
    """By the wall clock every slot since the first boundary leaves, and no message stays unacknowledged.

    But those of each register's last good reading, and of up to two that are doubted: they wait for the next.
    """
    world = World(stream(schedule))
    play(world, program, [])
    world.run_to(world.now_ms + LONG_MS)
    waiting = Counter(queued.meter for queued in world.queue.values())
    assert max(waiting.values(), default=0) <= (3 if schedule.usual.readings.kind is Kind.REGISTER else 0)
    mine = {slot for slot in world.witness.records if slot.meter == "m1"}
    assert mine == {slot for slot, due_ms in begun(world, schedule) if due_ms <= world.now_ms}


@given(schedule=made.by_the_wall, program=made.calm)
def test_each_window_is_drawn_once_and_each_slot_when_it_opens(
    schedule: Schedule, program: list[Step]
) -> None:
    """Without crashes each charged window has its own noise bound, and each begun slot one draw from it."""
    world = World(stream(schedule))
    play(world, program, [])
    witness = world.witness
    drawn = [world.draws.lines[label] for label in witness.slots]
    slots = Counter(draw.radius for draw in drawn)
    assert len(slots) == sum(account.windows for account in witness.charged.values())
    assert all(slots[draw.radius] <= draw.terms.n for draw in drawn)
    mine = {slot for slot in witness.slots.values() if slot.meter == "m1"}
    assert mine == {slot for slot, _ in begun(world, schedule)}


def a_third(_: Noise, terms: Terms, slot_index: int) -> int:
    """A dither that is a third of a quantum in every slot."""
    return terms.steps_per_quantum[slot_index] // 3


def released(schedule: Schedule, readings: list[Late], which: int) -> dict[LabelledSlot, int]:
    """What leaves when each reading arrives after one of its delays.

    `lateness` counts from the end of a slot, so what covers an `interval` before has that less.
    """
    longest_ms = max(schedule.usual.lateness_ms - schedule.usual.readings.interval_ms, 0)
    world = World(stream(schedule))
    world.send("m1", BASE_MS, MICRO)
    world.feed()
    arrivals = [(r.time_ms + r.delays[which] % (longest_ms + 1), r) for r in readings]
    for at_ms, reading in sorted(arrivals, key=lambda arrival: arrival[0]):
        world.run_to(BASE_MS + at_ms)
        world.send("m1", BASE_MS + reading.time_ms, reading.value_u)
    world.run_to(BASE_MS + LONG_MS)
    world.send("m1", BASE_MS + LONG_MS, 0)
    world.feed()
    return {slot: record.quanta for slot, record in world.witness.records.items()}


@given(
    schedule=made.schedules.filter(lambda schedule: schedule.usual.readings.kind is not Kind.REGISTER),
    readings=made.late_readings,
)
def test_arrival_order_inside_the_lateness_changes_nothing(schedule: Schedule, readings: list[Late]) -> None:
    """Readings that arrive before their slots close, in whatever order, give the same values.

    But of registers: a slot is made also of the first reading after it, which may be any time later.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "draw_dither", a_third)  # else values differ by a quantum at random
        first = released(schedule, readings, 0)
        assert first == released(schedule, readings, 1)
    assert first
