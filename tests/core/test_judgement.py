"""Which readings of a counter are believed: each kind of wrong reading, and days that add up."""

from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from meteragent.core.register_judgement import (
    HELD_MAX,
    Change,
    droppable_doubts,
    next_change,
    possible_shift,
    use_limits,
)
from meteragent.domain.readings import ReadingRules
from meteragent.domain.units import HOUR_MS, MICRO, Kind
from tests.support.terms import terms_with
from tests.support.witness import TERMS

WH = terms_with(
    TERMS,
    kind=Kind.REGISTER,
    unit="Wh",
    hold_ms=0,
    interval_ms=HOUR_MS,
    low_u=0,
    high_u=20_000 * MICRO,
    dead_band=Fraction(1),
)
RULES = WH.readings
NET = terms_with(WH, low_u=-20_000 * MICRO).readings
ROLLING = terms_with(WH, modulus_u=10**6 * MICRO).readings
COARSE = terms_with(WH, dead_band=Fraction(1000)).readings


class Count(NamedTuple):
    """A reading of a counter."""

    time_ms: int
    value_u: int


def counts(values: list[float], period_s: int = 60) -> list[Count]:
    """Readings in Wh, one each period."""
    return [Count(index * period_s * 1000, round(wh * MICRO)) for index, wh in enumerate(values)]


def walk(items: list[Count], rules: ReadingRules = RULES, *, is_over: bool = True) -> list[Change]:
    """The changes between good readings; if no more can arrive, the last is believed unless it is doubted."""
    changes: list[Change] = []
    good = 0
    while (change := next_change(items, good, rules)) is not None:
        if change.settled_by == len(items) and not is_over:
            break
        changes.append(change)
        good = change.end
    return changes


def use_wh(items: list[Count], rules: ReadingRules = RULES) -> Fraction:
    """What is believed to have been used, without limits."""
    total, good = 0, 0
    for change in walk(items, rules):
        total += items[change.end].value_u - items[good].value_u - change.shift_u
        good = change.end
    return Fraction(total, MICRO)


def believed(
    values: list[float], rules: ReadingRules = RULES, period_s: int = 60
) -> tuple[list[int], list[str]]:
    """The places of the good readings, and what was counted."""
    changes = walk(counts(values, period_s), rules)
    return [0, *(change.end for change in changes)], [
        change.counter_name for change in changes if change.counter_name
    ]


@pytest.mark.parametrize(
    ("values", "good", "names"),
    [
        pytest.param([5000, 5010, 5020], [0, 1, 2], [], id="a load"),
        pytest.param([5000, 0, 5020, 5030], [0, 2, 3], [], id="zero once"),
        pytest.param([5000, 0, 0, 0, 5040], [0, 4], [], id="zeros that stand still"),
        pytest.param([5000, 4300, 0, 4300, 5040], [0, 4], [], id="a sum that goes and comes in steps"),
        pytest.param([5000, 4920, 5020, 5030], [0, 2, 3], [], id="a dip"),
        pytest.param([5000, -42, 5020, 5030], [0, 2, 3], [], id="below zero once"),
        pytest.param([5000, 500_000, 5020, 5030], [0, 2, 3], [], id="a spike"),
        pytest.param([5000, 5900, 5020, 5030], [0, 2, 3], [], id="a spike that ten times the range hold"),
        pytest.param([5000, 4800, 4800, 4800], [0], [], id="an old value that is repeated"),
        pytest.param([5000, 0, 0, 1, 11], [0, 2, 3, 4], ["register_reset"], id="a new meter"),
        pytest.param([5000, 7, 900, 910], [0, 2, 3], ["register_reset"], id="a new meter after a glitch"),
        pytest.param([5000, 50_000, 50_010], [0, 1, 2], ["register_jump"], id="a decimal point"),
        pytest.param([5000, 50_000, 50_000, 5040], [0, 3], [], id="a spike that stands still"),
        pytest.param([5000, 10_000, 15_000, 20_000], [0], [], id="a load beyond all bounds"),
        pytest.param([50, 50_000, 54_000, 58_010, 62_000], [0], [], id="a smaller unit, fast"),
        pytest.param([50, 50_000, 50_010], [0, 1, 2], ["register_jump"], id="a smaller unit, slow"),
        pytest.param([5e6, 5000, 5000.01], [0, 1, 2], ["register_jump"], id="a larger unit"),
        pytest.param([5e6, 5e5, 5e5 + 1], [0, 1, 2], ["register_jump"], id="a tenth"),
        pytest.param([5e6, 5060, 5061], [0, 1, 2], ["register_reset"], id="another meter"),
        pytest.param([5000, 5500, 6000, 6500], [0, 1, 2, 3], [], id="a load beyond the range"),
        pytest.param([5000, 4999, 5000, 5001], [0, 1, 2, 3], [], id="the last digit"),
    ],
)
def test_good_readings(values: list[float], good: list[int], names: list[str]) -> None:
    """A fall and an impossible rise are glitches, until the register moves on at a new level."""
    assert believed(values) == (good, names)


@pytest.mark.parametrize(
    ("values", "good", "names"),
    [
        pytest.param([999_990, 5, 15], [0, 1, 2], ["rolled_over"], id="a rollover"),
        pytest.param([999_990, 0, 999_999, 8], [0, 2, 3], ["rolled_over"], id="a zero before a rollover"),
        pytest.param([999_990, 999_995, 0, 10], [0, 1, 2, 3], ["rolled_over"], id="a rollover at the zero"),
        pytest.param(
            [500_000, 0, 10], [0, 1, 2], ["register_reset"], id="no rollover at half of the modulus"
        ),
    ],
)
def test_rollovers(values: list[float], good: list[int], names: list[str]) -> None:
    """A fall by the modulus is a rollover, unless the next reading is back."""
    assert believed(values, ROLLING) == (good, names)


def test_a_net_register_falls_within_its_range() -> None:
    """What is fed in is no glitch; a level that stands still confirms nothing here, either."""
    assert believed([5000, 4900, 4800, 4810], NET) == ([0, 1, 2, 3], [])
    assert believed([50_000, 0, 0, 49_800], NET) == ([0, 3], [])
    assert believed([50_000, 0, -10, -20], NET) == ([0, 1, 2, 3], ["register_reset"])


def test_coarse_counters_step() -> None:
    """A step of 1 kWh within 10 s is no glitch, and the limits hold it."""
    values = [5000.0] * 5 + [6000.0] * 5
    assert believed(values, COARSE, 10) == (list(range(10)), [])
    assert use_limits(COARSE, 10_000)[1] > 1000 * MICRO * HOUR_MS


def test_limits_allow_a_step_and_a_second() -> None:
    """A count is cut off to its step, and a time to its second."""
    second = 20_000 * MICRO * 1000
    assert use_limits(RULES, 0) == (-MICRO * HOUR_MS, second + MICRO * HOUR_MS)
    assert use_limits(NET, 1000) == (-2 * second - MICRO * HOUR_MS, 2 * second + MICRO * HOUR_MS)


@pytest.mark.parametrize(("more", "shift"), [(0, 0), (1, None)])
def test_possible_changes_are_exact(more: int, shift: int | None) -> None:
    """Ten times the range in the first hour, the range afterwards; a fall by one step."""
    hours = 3
    limit_u = 20_000 * MICRO * hours + 20_000 * MICRO * 9 + 20_000 * MICRO // 3600 + MICRO
    start = Count(0, 0)
    assert possible_shift(RULES, start, Count(hours * HOUR_MS, limit_u + more)) == shift
    assert possible_shift(RULES, start, Count(hours * HOUR_MS, -MICRO - more)) == shift


def test_one_more_reading_settles_what_the_range_does_not_hold() -> None:
    """Until it arrives, the change is believed only if there is no time to wait."""
    items = counts([5000, 5900])
    assert walk(items, is_over=False) == []
    assert walk(items) == [Change(1, 2)]
    assert walk(counts([5000, 5900, 6800]), is_over=False) == [Change(1, 2)]
    assert walk(counts([5000, 0])) == []


# --- days --------------------------------------------------------------------------------------------


class Day(NamedTuple):
    """The readings of a counter, its use, and how often its level changed."""

    items: list[Count]
    use_wh: int
    levels: int


@st.composite
def days(draw: st.DrawFn, rules: ReadingRules) -> Day:
    """A day with loads within the range, in which wrong readings are at least two right ones apart."""
    period_s = draw(st.sampled_from([10, 60, 300, 900]))
    limit_wh = 20_000 * period_s // 3600
    parts = draw(
        st.lists(st.tuples(st.integers(1, max(limit_wh, 1)), st.integers(2, 9)), min_size=3, max_size=12)
    )
    uses = [use for use, many in parts for _ in range(many)]
    modulus = None if rules.modulus_u is None else rules.modulus_u // MICRO
    level = draw(st.sampled_from([0, 70, 999_990, 5_000_000] if modulus is None else [0, 999_000, 999_990]))
    true = list(accumulate(uses, initial=level))
    said: list[int] = []
    kinds = st.sampled_from(["right"] * 6 + ["zero", "dip", "spike", "double", "reset"])
    shift, total, levels, since = 0, 0, 0, 0
    for index, wh in enumerate(true):
        kind = "right" if since < 3 or index + 3 > len(true) else draw(kinds)
        value = wh - shift
        since = since + 1 if kind == "right" else 0
        if kind == "reset" and modulus is None and value > 3 * limit_wh + 9:
            shift, levels, value = wh, levels + 1, 0
        elif index:
            total += wh - true[index - 1]
        rolled = value if modulus is None else value % modulus
        # A fall just before a rollover cannot be told from it.
        is_rolling = modulus is not None and modulus - rolled <= 2 * limit_wh + 2
        wrong = {
            "zero": 0 if rolled > 2 * limit_wh + 2 and not is_rolling else rolled,
            "dip": rolled - (0 if is_rolling else draw(st.integers(limit_wh + 2, 10**6))),
            "spike": rolled + 3 * limit_wh + 30 + draw(st.integers(0, 10**7)),
            "double": 2 * rolled + 4 * limit_wh + 30,
        }.get(kind, rolled)
        event(kind)
        said.append(wrong)
    return Day(counts([float(wh) for wh in said], period_s), total, levels)


@given(days(RULES))
def test_a_day_adds_up(day: Day) -> None:
    """Glitches cost nothing, and a reset costs the use of its own span."""
    assert use_wh(day.items) == day.use_wh
    changes = walk(day.items)
    assert sum(change.counter_name == "register_reset" for change in changes) == day.levels
    assert not any(change.counter_name == "register_jump" for change in changes)


@given(days(ROLLING))
def test_a_day_with_rollovers_adds_up(day: Day) -> None:
    """The use goes on through the modulus."""
    assert use_wh(day.items, ROLLING) == day.use_wh


@given(
    st.lists(st.integers(-2, 12) | st.sampled_from([-5000, 5000, 900]), max_size=25),
    st.sampled_from([RULES, NET, ROLLING, COARSE]),
)
def test_no_later_reading_changes_what_is_settled(moves: list[int], rules: ReadingRules) -> None:
    """What is settled depends on the readings up to the one that settles it."""
    items = counts([float(wh) for wh in accumulate(moves, initial=6000)])
    whole = walk(items, rules, is_over=False)
    for end in range(len(items) + 1):
        part = walk(items[:end], rules, is_over=False) if end else []
        assert part == [change for change in whole if change.settled_by < end][: len(part)]
        assert len(part) == sum(change.settled_by < end for change in whole)


@given(
    st.lists(st.integers(-2, 12) | st.sampled_from([-5000, 5000, 900]), max_size=25),
    st.sampled_from([RULES, NET, ROLLING, COARSE]),
)
def test_the_last_two_doubted_readings_suffice(moves: list[int], rules: ReadingRules) -> None:
    """Older ones change nothing: they may be dropped while nothing is settled."""
    items = counts([float(wh) for wh in accumulate(moves, initial=6000)])
    pending: list[Count] = []
    ends: list[Count] = []
    for item in items:
        pending.append(item)
        while (change := next_change(pending, 0, rules)) is not None and change.settled_by < len(pending):
            ends.append(pending[change.end])
            pending = pending[change.end :]
        for index in reversed(droppable_doubts(len(pending), 0, change)):
            del pending[index]
        assert len(pending) <= 1 + HELD_MAX
    settled = walk(items, rules, is_over=False)
    assert ends == [items[change.end] for change in settled]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.integers(0, 5))
def test_every_reading_of_a_load_is_believed(uses: list[int], steps: int) -> None:
    """If none falls by more than a step or rises beyond ten times the range, the load decides nothing."""
    values = [float(wh - (wh // 7 % 2 if steps else 0)) for wh in accumulate(uses, initial=6000)]
    assert believed(values)[0] == list(range(len(values)))
