"""Readings of a register that stay doubted are a problem, and so are steps that the range does not hold."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.arrivals import Limits
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO, MINUTE_MS
from meteragent.privacy import SeededBits
from tests.core.test_judgement import RULES, WH, Day, days
from tests.core.test_pipeline import records
from tests.support.terms import terms_with
from tests.support.world import BASE_MS, MemoryDisk, stream

pytestmark = pytest.mark.usefixtures("half_quantum")
HALF_HOURS = terms_with(WH, length_ms=HOUR_MS // 2, step_ms=HOUR_MS // 2)
LIMITS = Limits(first_ms=MINUTE_MS, meter_ms=None, phase_ms=None)
LIMIT_S = 60
"""A problem is told within so many seconds of the third message that shows it."""
FIRST_WH = 7_300_000.0
Values = Callable[[int], float]
"""What a counter says, in Wh, by the second since the start."""


class Register:
    """The core and its meter, of which registers are heard, each `period_s`."""

    def __init__(self, terms: Terms = HALF_HOURS, phases: str = "", period_s: int = 10) -> None:
        made = stream(terms)
        if phases:
            topic = SourceTopic.parse("meters/{meter}/{phase}", phases=tuple(phases))
            made = stream(terms, source=topic)
        self.core = Pipeline(made, MemoryDisk().snapshot(), Spending(), SeededBits(1), Counts())
        self.left: dict[str, float] = {}
        self.time_s = 0
        self.period_s = period_s
        self.core.arrivals.advance_clock(BASE_MS, is_connected=True)

    def hear(self, *values: float) -> "Register":
        """Hear a value, or one of each phase, and let a period pass."""
        self._feed([self._message(index, value) for index, value in enumerate(values)])
        for _ in range(self.period_s):
            self._wait()
        return self

    def told_at_s(self, values: Values, until_s: int) -> int:
        """Hear values until a problem is told; return the second at which it is, at most `until_s`."""
        while not self.codes and self.time_s < until_s:
            if self.time_s % self.period_s == 0:
                self._feed([self._message(0, values(self.time_s))])
            if not self.codes:
                self._wait()
        return self.time_s

    def _message(self, index: int, value: float) -> Message:
        phase = "abc"[index] if self.core._stream.source.phases else "power"
        payload = f'{{"t":{self._now_ms},"power":{value:f}}}'.encode()
        return Message(f"meters/m/{phase}", payload, False, self._now_ms, (self.time_s, phase))

    def _feed(self, batch: list[Message]) -> None:
        self.left |= records(self.core.feed(batch, self._now_ms, self._now_ms))

    def _wait(self) -> None:
        self.time_s += 1
        self.core.arrivals.advance_clock(self._now_ms, is_connected=True)

    @property
    def _now_ms(self) -> int:
        return BASE_MS + self.time_s * 1000

    @property
    def codes(self) -> list[str]:
        """The codes of what is wrong."""
        return [found.code for found in self.core.arrivals.problems(LIMITS)]

    @property
    def rows(self) -> dict[str | None, str | None]:
        """The codes by phase."""
        return {row.phase: row.code for row in self.core.arrivals.arrival_rows(LIMITS)}


def right(second: int, watts: float = 600.0) -> float:
    """What a counter of a constant load says."""
    return FIRST_WH + float(int(watts * second / 3600))


def since(turn_s: int, wrong: Values) -> Values:
    """A counter that says something else from a second on."""
    return lambda second: wrong(second) if second >= turn_s else right(second)


TURN_S = 1200
WRONG: dict[str, tuple[Values, str]] = {
    "a smaller unit": (lambda s: 1000 * right(s), "all_clamped"),
    "a smaller unit, much load": (lambda s: 1000 * right(s, 9000), "all_clamped"),
    "a larger unit": (lambda s: right(s) / 1000, "register_jump"),
    "a tenth": (lambda s: right(s) / 10, "register_jump"),
    "ten times": (lambda s: 10 * right(s), "register_jump"),
    "an old value": (lambda _: FIRST_WH - 900, "register_doubted"),
    "zero for ever": (lambda _: 0, "register_doubted"),
    "a count that falls": (lambda s: 5e6 - s, "register_doubted"),
    "a load beyond all bounds": (lambda s: right(s, 10**6) - 300_000 + 10**6, "all_clamped"),
}
ALSO = {"a smaller unit": "register_jump"}
"""With a small load, a rise is possible even in a smaller unit, and confirms the level."""


@pytest.mark.parametrize("period_s", [1, 10, 60, 300])
@pytest.mark.parametrize("name", WRONG)
def test_a_register_that_goes_wrong_is_told(name: str, period_s: int) -> None:
    """Within a minute of the third message that is wrong; a new level as soon as it moves."""
    wrong, code = WRONG[name]
    register = Register(period_s=period_s)
    third_s = TURN_S + 2 * period_s
    told_s = register.told_at_s(since(TURN_S, wrong), third_s + 600)
    [found] = register.codes
    assert found in {code, ALSO.get(name)}
    if found != "register_jump":
        assert told_s <= third_s + LIMIT_S


@pytest.mark.parametrize("name", WRONG)
def test_no_wrong_energy_leaves_before_a_problem_is_told(name: str) -> None:
    """No slot has more than was used in it, however long the doubt."""
    register = Register(terms_with(HALF_HOURS, length_ms=5 * MINUTE_MS, step_ms=5 * MINUTE_MS))
    register.told_at_s(since(TURN_S, WRONG[name][0]), 2 * TURN_S)
    for _ in range(90):
        register.hear()
    assert register.codes
    assert len(register.left) >= TURN_S // 300
    assert [energy for energy in register.left.values() if not 0 <= energy <= 51] == []


TWO: dict[str, Sequence[Values]] = {
    "two tariffs": [right, lambda s: 3_000_000 + float(s // 50)],
    "two tariffs, of which one rests": [lambda _: FIRST_WH, lambda s: 3_000_000 + float(s // 9)],
    "two counts that are near": [right, lambda s: right(s) + 90],
    "two counts, the other first": [lambda s: 3_000_000 + float(s // 9), right],
    "three": [right, lambda s: 3_000_000 + float(s // 50), lambda s: 2_000_000 + float(s // 30)],
}


@pytest.mark.parametrize("period_s", [1, 10, 60, 300])
@pytest.mark.parametrize("name", TWO)
def test_counters_that_share_a_topic_are_told(name: str, period_s: int) -> None:
    """They contradict each other at each message: within a minute of the third that shows it."""
    register, counters = Register(period_s=period_s), TWO[name]
    third_s = 3 * len(counters) * period_s
    told_s = register.told_at_s(
        lambda second: counters[second // period_s % len(counters)](second), third_s + 600
    )
    assert register.codes
    assert set(register.codes) <= {"register_doubted", "register_reset", "register_jump"}
    assert told_s <= third_s + LIMIT_S


def test_one_phase_that_goes_wrong_is_told() -> None:
    """The others go on, but nothing of the meter counts; the phase has the code."""
    register = Register(phases="abc")
    for step in range(20):
        a, b = right(step * 10), right(step * 10, 9000)
        register.hear(a, 1000 * b if step > 9 else b, a)
        assert register.codes == (["all_clamped"] if step >= 15 else [])
    assert register.rows == {"a": None, "b": "all_clamped", "c": None}


def test_one_phase_that_contradicts_itself_is_told() -> None:
    """The phase has the code."""
    register = Register(phases="abc")
    for step in range(20):
        register.hear(right(step * 10), right(step * 10) if step % 2 else 5.0, right(step * 10))
    assert register.rows == {"a": None, "b": "register_doubted", "c": None}


def test_a_doubt_ends_with_the_reading_that_settles_it() -> None:
    """A night of zeros is a problem until dawn."""
    register = Register(period_s=300)
    for value in [right(0)] * 12 + [0.0] * 40:
        register.hear(value)
    assert register.codes == ["register_doubted"]
    assert register.hear(right(0) + 1).codes == []


@pytest.mark.parametrize("every", [5, 6, 60])
def test_a_wrong_reading_now_and_then_is_normal(every: int) -> None:
    """One reading in five that contradicts the others is dropped, and nothing is lost."""
    register = Register()
    for step in range(300):
        register.hear(0.0 if step % every == 3 else right(step * 10))
        assert register.codes == []


# Steps ------------------------------------------------------------------------------------------


def steps(wh: int, watts: int) -> Values:
    """What a counter in steps says of a constant load."""
    return lambda second: FIRST_WH + watts * second // 3600 // wh * wh


@pytest.mark.parametrize("period_s", [1, 10, 60])
@pytest.mark.parametrize("dead_band", [None, Fraction(1)])
def test_steps_that_the_range_does_not_hold_are_told(period_s: int, dead_band: Fraction | None) -> None:
    """Whole kWh, which `source.dead_band` does not state: within a minute of the third rise."""
    register = Register(terms_with(HALF_HOURS, dead_band=dead_band), period_s=period_s)
    told_s = register.told_at_s(steps(1000, 3000), 3 * 3600)
    assert register.codes == ["register_steps"]
    assert 3600 <= told_s <= 3600 + LIMIT_S + period_s


def test_steps_of_which_the_range_holds_some_are_told() -> None:
    """If a rise now and then falls into a longer pause, the others are lost nevertheless."""
    register = Register(terms_with(HALF_HOURS, dead_band=None))
    for step in range(400):
        said = [] if step % 40 in {11, 12} else [steps(100, 3000)(step * 10)]
        register.hear(*said)
    assert register.codes == ["register_steps"]


@pytest.mark.parametrize("period_s", [10, 60])
def test_steps_that_are_stated_are_no_problem(period_s: int) -> None:
    """`source.dead_band` ends it, and all of the energy counts."""
    terms = terms_with(HALF_HOURS, dead_band=Fraction(1000), lateness_ms=2000 * period_s)
    register = Register(terms, period_s=period_s)
    assert register.told_at_s(steps(1000, 3000), 3 * 3600) == 3 * 3600
    assert sum(register.left.values()) == pytest.approx(7000, abs=1)


@pytest.mark.parametrize("period_s", [1, 10, 60])
def test_a_count_that_goes_on_falling_is_told(period_s: int) -> None:
    """It falls by a step at a time, which is allowed once: what it counts has the other sign."""
    register = Register(period_s=period_s)
    told_s = register.told_at_s(lambda second: FIRST_WH - second // period_s, 3600)
    assert register.codes == ["register_doubted"]
    assert told_s <= 4 * period_s + LIMIT_S


def test_a_count_that_flickers_by_a_step_is_right() -> None:
    """While nothing is used it is a step lower now and then; the sum is right, and nothing is told."""
    register = Register()
    for step in range(400):
        register.hear(FIRST_WH + step // 40 - step % 2)
    assert register.codes == []


def test_a_load_beyond_the_range_is_told_as_such() -> None:
    """Its register rises without standing still; the problem ends with the load."""
    register = Register()
    for step in range(100):
        register.hear(right(min(step, 50) * 10, 40_000) + max(step - 50, 0))
        if step == 49:
            assert register.codes == ["all_clamped"]
    assert register.codes == []


# Good registers ---------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 50), min_size=3, max_size=60),
    st.sampled_from([1, 10, 60, 900]),
    st.sampled_from([Fraction(1), Fraction(1000)]),
    st.sampled_from([0.0, 70.0, FIRST_WH]),
    st.data(),
)
def test_a_good_register_is_never_a_problem(
    loads: list[int], period_s: int, step: Fraction, first: float, data: st.DataObject
) -> None:
    """Whatever its load within the range, and whether its readings come twice, an hour late or not at all."""
    terms = terms_with(HALF_HOURS, dead_band=step, lateness_ms=2 * period_s * 1000)
    register = Register(terms, period_s=period_s)
    for value in accumulate((load * 400 * period_s / 3600 for load in loads), initial=first):
        said = float(value // step * step)
        times = data.draw(st.sampled_from([1, 1, 1, 1, 2, 0]))
        assert set(register.hear(*[said] * times).codes) <= {"no_message"}


@given(days(RULES))
def test_a_day_of_wrong_readings_is_named_only_if_they_are_many(day: Day) -> None:
    """Of at least three right readings between wrong ones, none is a problem, but for three resets."""
    period_s = day.items[1].time_ms // 1000
    register = Register(terms_with(HALF_HOURS, lateness_ms=2000 * period_s), period_s=period_s)
    for item in day.items:
        register.hear(item.value_u / MICRO)
    assert set(register.codes) <= (
        {"register_reset"} if day.levels > 2 else {"register_doubted", "no_message"}
    )
