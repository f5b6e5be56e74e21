"""The ticks of an operator: instants that do not depend on how long its work takes."""

import pytest

from meteragent.operators.clock import TICK_S, TICKS_S, Ticks

START_S = 1_795_000_200


@pytest.mark.parametrize("pauses_s", [(1,) * 60, (9, 1, 25, 25), (0, 59, 1)])
def test_a_tick_has_its_own_instant_however_late_it_runs(pauses_s: tuple[int, ...]) -> None:
    """The instants are the multiples of 10 s, whatever the work between them."""
    ticks, now_s, instants = Ticks(START_S), START_S, list[int]()
    for pause_s in pauses_s:
        now_s += pause_s
        instants += ticks.due(now_s, now_s)
    assert instants == [START_S + 10 * place for place in range(1, 7)]
    assert ticks.next_s == START_S + 70


def test_no_tick_overtakes_a_message_that_waits() -> None:
    """A report that arrived before the deadline is taken before the tick that passes the deadline."""
    ticks = Ticks(START_S)
    assert ticks.due(START_S + 35, START_S + 19) == [START_S + 10]
    assert ticks.due(START_S + 36, START_S + 19) == []
    assert ticks.due(START_S + 37, START_S + 37) == [START_S + 20, START_S + 30]


def test_a_clock_that_was_set_has_one_tick() -> None:
    """After a long pause, and after a step back, ticks continue from the time that the clock shows."""
    ticks = Ticks(START_S)
    later_s = START_S + TICKS_S + TICK_S
    assert ticks.due(later_s + 3, later_s + 3) == [later_s]
    assert ticks.due(START_S + 15, START_S + 15) == [START_S + 10]
    assert ticks.due(START_S + 25, START_S + 25) == [START_S + 20]
