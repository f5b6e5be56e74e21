"""The ticks of an operator: instants that do not depend on how long its work takes."""

import pytest

from meteragent.operators import clock
from meteragent.operators.clock import CATCH_UP_MAX_S, TICK_S, Clock, StepWatch, Ticks

START_S = 1_795_000_200
DAY_S = 86_400


class Settable(Clock):
    """A clock that can be set, on a machine that has run for `boot_s`."""

    boot_s = 100

    def boot_ms(self) -> int:
        """Return the time since the machine's start."""
        return 1000 * self.boot_s


def steps(monkeypatch: pytest.MonkeyPatch, synchronised: bool | None = True) -> tuple[StepWatch, Settable]:
    """Return the steps of a clock that shows START_S, and the clock."""
    monkeypatch.setattr(clock, "was_synchronised", lambda: synchronised)
    settable = Settable()
    watch = StepWatch(settable)
    assert watch.ahead_s(START_S) == 0
    return watch, settable


def test_a_jump_of_the_clock_lasts_until_it_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of more than 5 minutes is a jump; after the clock was set back, the same step is one again."""
    watch, settable = steps(monkeypatch)
    settable.boot_s += DAY_S
    now_s = START_S + DAY_S + 300
    assert watch.ahead_s(now_s) == 0
    assert watch.ahead_s(now_s + 301) == 301
    settable.boot_s += 3600
    assert watch.ahead_s(now_s + 3600 + DAY_S) == DAY_S
    assert watch.ahead_s(now_s + 3600) == 0
    assert watch.ahead_s(now_s + 3600 + DAY_S) == DAY_S
    assert watch.ahead_s(now_s) == 0


def test_a_jump_where_it_is_unknown_whether_the_clock_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour is allowed if the machine does not tell, and any step before the clock is first set."""
    watch, _ = steps(monkeypatch, synchronised=None)
    assert watch.ahead_s(START_S + 3600) == 0
    assert watch.ahead_s(START_S + 7201) == 3601
    watch, _ = steps(monkeypatch, synchronised=False)
    assert watch.ahead_s(START_S + DAY_S) == 0


@pytest.mark.parametrize("pauses_s", [(1,) * 60, (9, 1, 25, 25), (0, 59, 1)])
def test_a_tick_has_its_own_instant_however_late_it_runs(pauses_s: tuple[int, ...]) -> None:
    """The instants are the multiples of 10 s, whatever the work between them."""
    ticks, now_s, instants = Ticks(START_S), START_S, list[int]()
    for pause_s in pauses_s:
        now_s += pause_s
        instants += ticks.take_due(now_s, now_s)
    assert instants == [START_S + 10 * place for place in range(1, 7)]
    assert ticks.next_s == START_S + 70


def test_no_tick_overtakes_a_message_that_waits() -> None:
    """A report that arrived before the deadline is taken before the tick that passes the deadline."""
    ticks = Ticks(START_S)
    assert ticks.take_due(START_S + 35, START_S + 19) == [START_S + 10]
    assert ticks.take_due(START_S + 36, START_S + 19) == []
    assert ticks.take_due(START_S + 37, START_S + 37) == [START_S + 20, START_S + 30]


def test_a_clock_that_was_set_has_one_tick() -> None:
    """After a long pause, and after a step back, ticks continue from the time that the clock shows."""
    ticks = Ticks(START_S)
    later_s = START_S + CATCH_UP_MAX_S + TICK_S
    assert ticks.take_due(later_s + 3, later_s + 3) == [later_s]
    assert ticks.take_due(START_S + 15, START_S + 15) == [START_S + 10]
    assert ticks.take_due(START_S + 25, START_S + 25) == [START_S + 20]
