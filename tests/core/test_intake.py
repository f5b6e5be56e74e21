"""Messages of several readings: each counts by itself, and the message is free when all of them are."""

import json
from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.pipeline import Pipeline
from meteragent.domain.reading import Message, Reading, Token
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from tests.core.test_pipeline import SLOT, core, feed, records
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS

BLOCKS = terms_with(
    SLOT,
    kind=Kind.INTERVAL_ENERGY,
    unit="Wh",
    length_ms=60,
    step_ms=60,
    hold_ms=0,
    interval_ms=5,
    lateness_ms=20,
)
LONG = terms_with(SLOT, length_ms=60, step_ms=60, hold_ms=15)


def decode(payload: bytes) -> list[Reading]:
    """A list of [time after BASE_MS, number]; negative times are so long before the arrival."""
    return [
        Reading(time_ms if time_ms is None or time_ms < 0 else BASE_MS + time_ms, number * MICRO)
        for time_ms, number in json.loads(payload)
    ]


def pack(received_ms: int, *readings: tuple[int | None, int], token: Token = 1) -> Message:
    """A message of several readings, as it arrives."""
    payload = json.dumps(readings).encode()
    return Message("meters/m1/power", payload, False, BASE_MS + received_ms, token)


def several(terms: Terms) -> Pipeline:
    """A core whose messages are lists."""
    return core(terms, decode=decode)


def test_a_message_is_free_when_all_its_readings_are() -> None:
    """Its token is given back once, with the last of them (law 7)."""
    pipeline = several(LONG)
    assert feed(pipeline, pack(0, (0, 100), (3, 200), (6, 300)), now_ms=6).acknowledge == []
    assert feed(pipeline, pack(8, (8, 400), token=2)).acknowledge == [1]
    assert pipeline._counts["accepted"] == 4
    assert pipeline._counts["received"] == 2


def test_readings_are_taken_in_in_order_of_their_time() -> None:
    """The newest first or last: a message's readings make none of each other late."""
    values = []
    for readings in ([(0, 60), (20, 120), (40, 0)], [(40, 0), (20, 120), (0, 60)]):
        pipeline = several(terms_with(LONG, hold_ms=20))
        feed(pipeline, pack(0, (0, 60)))
        feed(pipeline, pack(40, *readings))
        values.append(records(feed(pipeline, now_ms=60)))
        assert pipeline._counts["late"] == 0
    assert values[0] == values[1]
    assert [value for _, value in values[0]] == [60]


def test_each_reading_is_counted_by_what_became_of_it() -> None:
    """Accepted, too far ahead, late, known: one message can be all of these."""
    pipeline = several(terms_with(LONG, high_u=150 * MICRO))
    feed(pipeline, pack(0, (0, 1)), now_ms=0)
    feed(pipeline, now_ms=61)
    effects = feed(pipeline, pack(62, (62, 200), (200, 1), (10, 1), (62, 200), (0, 1), token=2))
    assert effects.acknowledge == []
    assert pipeline._counts["accepted"] == 2
    assert pipeline._counts["refused_ahead"] == 1
    assert pipeline._counts["late"] == 1
    assert pipeline._counts["duplicate"] == 2
    assert pipeline._counts["clamped"] == 1
    assert feed(pipeline, pack(63, (63, 1), token=3)).acknowledge == [2]


def test_a_message_without_a_reading_is_none() -> None:
    """A payload that holds none of the quantity is refused by name, and acknowledged."""
    pipeline = several(LONG)
    assert feed(pipeline, pack(0, token=7)).acknowledge == [7]
    assert pipeline._counts == {"received": 1, "refused_missing": 1}


def test_a_negative_time_is_so_long_before_the_arrival() -> None:
    """A block of intervals tells its ends by their age."""
    pipeline = several(replace(BLOCKS, lateness_ms=0))
    feed(pipeline, pack(0, (0, 0)), now_ms=0)
    feed(pipeline, pack(20, (-10, 4), (-5, 5), (None, 6)))
    assert pipeline._timelines["m1"].newest_ms == BASE_MS + 20
    assert records(feed(pipeline, now_ms=60))[0][1] == 15


def test_a_redelivered_message_takes_over_what_it_brings_again() -> None:
    """The first delivery is free at once, the second when all its readings are covered."""
    pipeline = several(LONG)
    feed(pipeline, pack(0, (0, 100), (3, 200), (6, 300), token="first"), now_ms=4)
    assert feed(pipeline, pack(4, (0, 100), (3, 200), (6, 300), token="second")).acknowledge == ["first"]
    assert feed(pipeline, pack(8, (8, 400), token="next")).acknowledge == ["second"]


def test_a_refused_message_frees_its_token_once() -> None:
    """Also when every reading in it is refused for another reason."""
    pipeline = several(LONG)
    feed(pipeline, pack(0, (0, 1)), now_ms=0)
    feed(pipeline, now_ms=61)
    assert feed(pipeline, pack(62, (1, 1), (400, 1), (2, 2), token=9)).acknowledge.count(9) == 1


# --- overlapping blocks -----------------------------------------------------------------------------

COUNT = 10
energies = st.lists(st.integers(0, 100), min_size=COUNT, max_size=COUNT)


def block(received_ms: int, values: list[int], shift_ms: int = 0, token: Token = 1) -> Message:
    """Intervals of 5 ms that end at 5, 10 .. 50, or a little later or earlier."""
    ends = [(5 * (k + 1) + shift_ms, value) for k, value in enumerate(values)]
    return pack(received_ms, *reversed(ends), token=token)


@given(energies, st.integers(1, 46))
def test_a_block_that_comes_again_adds_nothing(values: list[int], times: int) -> None:
    """However often a radio repeats it: each interval counts once, each copy is a duplicate."""
    pipeline = several(BLOCKS)
    feed(pipeline, pack(0, (0, 0), token="seen"), now_ms=0)
    effects = feed(pipeline, *(block(50, values, token=k) for k in range(times + 1)))
    assert sorted(effects.acknowledge, key=str)[:times] == sorted(range(times), key=str)
    assert pipeline._counts["duplicate"] == COUNT * times
    feed(pipeline, pack(70, (70, 0), token="next"))
    assert records(feed(pipeline, now_ms=80))[0][1] == sum(values)


@given(energies, st.lists(st.integers(-1, 1), max_size=6))
def test_blocks_off_by_a_jitter_conserve_the_energy(values: list[int], shifts: list[int]) -> None:
    """Time is covered once: versions that are off by d move what a sliver of d holds, and no more."""
    pipeline = several(BLOCKS)
    feed(pipeline, pack(0, (0, 0), token="seen"), now_ms=0)
    feed(pipeline, block(51, values), *(block(51, values, shift, token=k) for k, shift in enumerate(shifts)))
    released = records(feed(pipeline, now_ms=80))[0][1]
    assert abs(released - sum(values)) <= Fraction(2 * max(values), BLOCKS.readings.interval_ms) + Fraction(
        1, 2
    )


def test_other_blocks_continue_where_the_last_one_ended() -> None:
    """A block that repeats nine intervals and brings a new one adds that one."""
    pipeline = several(replace(BLOCKS, lateness_ms=10))
    values = list(range(1, COUNT + 1))
    feed(pipeline, pack(0, (0, 0), token="seen"), now_ms=0)
    feed(pipeline, block(50, values))
    feed(pipeline, pack(55, *((5 * (k + 2), value) for k, value in enumerate([*values[1:], 100])), token=2))
    feed(pipeline, now_ms=69)
    assert records(feed(pipeline, now_ms=70))[0][1] == sum(values) + 100


def test_several_readings_of_a_power_are_one_by_one() -> None:
    """What a message brings at once is worth what its readings would be worth in messages of their own."""
    one, other = several(TERMS), several(TERMS)
    readings = [(0, 5), (3, 8), (7, 2), (11, 9)]
    for one_of_two in (one, other):
        feed(one_of_two, pack(0, (0, 5)))
    feed(one, pack(11, *readings), now_ms=0)
    for k, reading in enumerate(readings):
        feed(other, pack(11, reading, token=k), now_ms=0)
    assert records(feed(one, now_ms=30)) == records(feed(other, now_ms=30))
