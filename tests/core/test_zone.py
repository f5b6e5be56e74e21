"""Local times that were read in a wrong zone: seen by their steady distance from the arrival."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.intake import SETTLED_MS, ZoneWatch
from meteragent.core.pipeline import Pipeline
from meteragent.domain.reading import Message, Reading
from meteragent.domain.units import HOUR_MS, MICRO, MINUTE_MS
from tests.core.test_pipeline import SLOT, core, feed
from tests.support.terms import terms_with
from tests.support.world import BASE_MS


def decode(payload: bytes) -> list[Reading]:
    """A time after BASE_MS, and a watt."""
    return [Reading(BASE_MS + int(payload), MICRO)]


def zoned(*, local_times: bool) -> Pipeline:
    """A core whose readings have times; its slots are long, because an hour would hold 900,000 of SLOT."""
    return core(terms_with(SLOT, length_ms=10_000, step_ms=10_000), decode=decode, needs_zone=local_times)


def sent(received_ms: int, time_ms: int) -> Message:
    """A message that arrives at a time and states another."""
    return Message("meters/m1/power", str(time_ms).encode(), False, BASE_MS + received_ms, None)


@given(
    hours=st.sampled_from([-3, -1, 1, 2]),
    clock_ms=st.integers(-100_000, 100_000),
    every_ms=st.integers(1000, 10_000),
    delays_ms=st.lists(st.integers(0, 4000), min_size=100, max_size=100),
)
def test_times_that_stay_whole_hours_off_are_refused(
    hours: int, clock_ms: int, every_ms: int, delays_ms: list[int]
) -> None:
    """After a minute every time is known to be of another zone, though clocks and delays differ a little."""
    watch, received_ms = ZoneWatch(), 0
    for at, delay_ms in enumerate(delays_ms):
        measured_ms = at * every_ms
        received_ms = max(received_ms, measured_ms + delay_ms)
        off = watch.is_off("m", measured_ms + hours * HOUR_MS + clock_ms, received_ms)
        if received_ms >= delays_ms[0] + SETTLED_MS:
            assert off
        else:
            assert not off


@given(
    off_ms=st.integers(-5 * HOUR_MS, 5 * HOUR_MS).filter(
        lambda off_ms: abs(off_ms) < HOUR_MS // 2 or MINUTE_MS * 3 < off_ms % HOUR_MS < MINUTE_MS * 57
    )
)
def test_other_differences_are_those_of_a_clock(off_ms: int) -> None:
    """A clock that is wrong by minutes, or by hours and minutes, is not a wrong zone."""
    watch = ZoneWatch()
    assert not any(watch.is_off("m", at + off_ms, at) for at in range(0, 10 * MINUTE_MS, 10_000))


@given(every_ms=st.integers(1000, 10_000), pace=st.integers(0, 50))
def test_what_waited_in_a_broker_is_not_off(every_ms: int, pace: int) -> None:
    """Hours of messages that arrive at once, or in half the time in which they were measured, all count."""
    watch = ZoneWatch()
    for at in range(-4 * HOUR_MS, 0, every_ms):
        assert not watch.is_off("m", at, (at + 4 * HOUR_MS) * pace // 100)


def test_meters_are_told_apart() -> None:
    """One meter in a wrong zone does not make others wrong, and the right time ends it at once."""
    watch = ZoneWatch()
    for at in range(0, 2 * MINUTE_MS, 10_000):
        assert not watch.is_off("right", at, at)
        assert watch.is_off("wrong", at + HOUR_MS, at) == (at >= SETTLED_MS)
    assert not watch.is_off("wrong", at, at)
    watch.clear()
    assert not watch.is_off("wrong", at + HOUR_MS, at + 1)


@pytest.mark.parametrize("local_times", [True, False])
def test_only_local_times_can_be_of_another_zone(local_times: bool) -> None:
    """Readings whose zone is known are late or ahead; local ones are refused under their own name."""
    pipeline = zoned(local_times=local_times)
    for at in range(0, 2 * MINUTE_MS, 10_000):
        feed(pipeline, sent(at, at - HOUR_MS), now_ms=at)
    assert pipeline._counts["refused_zone"] == (6 if local_times else 0)
    assert pipeline._counts["received"] == 12
