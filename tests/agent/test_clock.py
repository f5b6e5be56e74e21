"""The clocks of the agent: meteragent.agent.clock."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.agent.clock import EARLIEST_MS, CatchUp, SteadyClock
from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time

NOW_MS = EARLIEST_MS + 10**9


class Wall:
    """A wall clock that a test sets."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """What it shows."""
        return self.now_ms


def test_the_steady_clock_shows_what_the_wall_clock_shows() -> None:
    """A wall clock that runs or jumps forward is followed as it is."""
    wall = Wall()
    clock = SteadyClock(wall, Counts())
    for wall.now_ms in (NOW_MS, NOW_MS, NOW_MS + 1, NOW_MS + 10**12):
        assert clock.now_ms() == clock.newest_ms == wall.now_ms


def test_a_clock_set_back_is_no_clock_until_it_is_where_it_was() -> None:
    """A clock behind the newest time seen shows no time until it has caught up."""
    wall = Wall()
    clock = SteadyClock(wall, Counts())
    clock.now_ms()
    for wall.now_ms in (NOW_MS - 1, NOW_MS - 10**6, 0):
        assert clock.now_ms() is None
    assert clock.newest_ms == NOW_MS
    wall.now_ms = NOW_MS
    assert clock.now_ms() == NOW_MS


def test_a_clock_that_is_not_synchronised_is_no_clock() -> None:
    """A time before the software's release (1970, a date in the past) is invalid, even at a first start."""
    wall = Wall()
    clock = SteadyClock(wall, Counts())
    for wall.now_ms in (0, EARLIEST_MS - 1):
        assert clock.now_ms() is None
    wall.now_ms = EARLIEST_MS
    assert clock.now_ms() == EARLIEST_MS


def test_what_the_store_has_seen_holds_for_the_clock() -> None:
    """A clock behind the store's newest time is not used; a store that is behind changes nothing."""
    wall = Wall()
    clock = SteadyClock(wall, Counts())
    clock.set_earliest(NOW_MS + 5)
    clock.set_earliest(0)
    assert clock.now_ms() is None
    wall.now_ms += 5
    assert clock.now_ms() == NOW_MS + 5


def test_a_clock_that_waits_is_counted_and_said_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """Each time that the clock falls behind is counted and logged once, however often it is read."""
    wall, counts = Wall(), Counts()
    clock = SteadyClock(wall, counts)
    with caplog.at_level(logging.WARNING, "meteragent"):
        for _ in range(2):
            wall.now_ms = NOW_MS
            clock.now_ms()
            wall.now_ms = NOW_MS - 60_000
            clock.now_ms()
            clock.now_ms()
    assert counts["clock_waits"] == 2
    shown, newest = iso_time(NOW_MS - 60_000), iso_time(NOW_MS)
    text = f"processing paused: the clock shows {shown}, but the newest known time is {newest}: set the clock"
    assert [record.getMessage() for record in caplog.records] == [text] * 2


@given(st.lists(st.integers(EARLIEST_MS - 100, EARLIEST_MS + 100), max_size=30))
def test_the_steady_clock_never_runs_backwards(times_ms: list[int]) -> None:
    """Whatever the wall clock does, the times shown never decrease and are times that it showed."""
    wall = Wall()
    clock = SteadyClock(wall, Counts())
    shown = []
    for wall.now_ms in times_ms:
        now_ms = clock.now_ms()
        if now_ms is not None:
            assert now_ms == wall.now_ms
            shown.append(now_ms)
    assert shown == sorted(shown)


def test_where_nothing_can_have_fallen_due_slots_close_by_the_clock() -> None:
    """A first start has nothing to wait for, whether subscribed or not."""
    catch_up = CatchUp(5, 100, waits=False)
    assert catch_up.is_over
    assert catch_up.advance(1000, is_subscribed=False) == 1000


def test_what_fell_due_waits_for_catch_up_since_the_subscription() -> None:
    """Slots close again when catch_up has passed since the subscription, and not before."""
    catch_up = CatchUp(5, 100, waits=True)
    assert catch_up.advance(1000, is_subscribed=False) == 5
    assert catch_up.ends_ms is None
    assert catch_up.advance(2000, is_subscribed=True) == 5
    assert catch_up.ends_ms == 2100
    assert catch_up.advance(2099, is_subscribed=True) == 5
    assert not catch_up.is_over
    assert catch_up.advance(2100, is_subscribed=True) == 2100
    assert catch_up.is_over


def test_without_catch_up_slots_close_at_the_subscription() -> None:
    """With catch_up = 0, slots that fell due still wait for the subscription."""
    catch_up = CatchUp(5, 0, waits=True)
    assert catch_up.advance(1000, is_subscribed=False) == 5
    assert catch_up.advance(1001, is_subscribed=True) == 1001


def test_a_stream_that_stood_still_waits_again() -> None:
    """After a pause, slots up to the pause stay closed for another catch_up."""
    catch_up = CatchUp(5, 100, waits=False)
    catch_up.advance(1000, is_subscribed=True)
    catch_up.restart()
    assert not catch_up.is_over
    assert catch_up.advance(9000, is_subscribed=True) == 1000
    assert catch_up.advance(9100, is_subscribed=True) == 9100


def test_standing_still_within_a_catch_up_starts_it_anew() -> None:
    """Readings that waited during the pause get the full time as well."""
    catch_up = CatchUp(5, 100, waits=True)
    catch_up.advance(1000, is_subscribed=True)
    catch_up.restart()
    assert catch_up.advance(1100, is_subscribed=True) == 5
    assert catch_up.advance(1200, is_subscribed=True) == 1200


@given(
    st.integers(0, 50),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.booleans()), max_size=20),
)
def test_slots_close_in_time(wait_ms: int, waits: bool, steps: list[tuple[int, bool, bool]]) -> None:
    """The time up to which slots close never decreases and is never ahead of the clock."""
    now_ms = closed_ms = 100
    catch_up = CatchUp(closed_ms, wait_ms, waits=waits)
    for step_ms, subscribed, stood in steps:
        now_ms += step_ms
        if stood:
            catch_up.restart()
        before_ms, closed_ms = closed_ms, catch_up.advance(now_ms, is_subscribed=subscribed)
        assert before_ms <= closed_ms <= now_ms
