"""The judgement of registers against another account, in days of all sorts; a mistake in it is found."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from meteragent.core import register_judgement as judgement
from meteragent.core.register_judgement import Change, next_change
from meteragent.domain.readings import ReadingRules
from meteragent.domain.units import MICRO
from tests.core.test_judgement import COARSE, NET, ROLLING, RULES, Count
from tests.support.model import Span, believed

DAYS = 400
"""How many days the account is compared in, and within how many each mistake must be found."""
KINDS = [RULES, NET, ROLLING, COARSE, replace(RULES, dead_band=None), replace(RULES, low_u=100 * MICRO)]


def day(seed: int) -> tuple[list[Count], ReadingRules]:
    """What a counter says: loads, also beyond the range, with wrong readings, resets, jumps and rollovers."""
    draw = random.Random(seed)
    readings, period_s = draw.choice(KINDS), draw.choice([1, 10, 60, 300, 900, 7200])
    step_wh = int(readings.dead_band or 1)
    count_wh = Fraction(draw.choice([0, 40, 5000, 999_990]))
    items: list[Count] = []
    time_ms = 0
    for _ in range(draw.randint(2, 60)):
        time_ms += 1000 * draw.choice([period_s] * 6 + [period_s // 2 + 1, 13 * period_s])
        power_w = draw.choice([0, 90, 500, 9000, 20_000, 20_001, 90_000, 10**6, -3000 * (readings is NET)])
        count_wh += Fraction(power_w * draw.choice([1, period_s]), 3600)
        event = draw.random()
        if event < 0.03:
            count_wh = Fraction(draw.choice([0, 7]))
        elif event < 0.05:
            count_wh *= 10
        if readings.modulus_u is not None:
            count_wh %= readings.modulus_u // MICRO
        said_wh = count_wh // step_wh * step_wh
        said_wh = (
            draw.choice([0, 0, said_wh // 2, said_wh - 80, said_wh + 900, 40]) if event > 0.8 else said_wh
        )
        items.append(Count(time_ms, int(said_wh) * MICRO))
    return items, readings


def account(items: Sequence[Count], readings: ReadingRules) -> list[Span]:
    """The spans between good readings, as the core judges them."""
    spans: list[Span] = []
    good = 0
    while (change := next_change(items, good, readings)) is not None:
        start, end = items[good], items[change.end]
        use_u = None if change.is_gap else end.value_u - start.value_u - change.shift_u
        settled_ms = items[change.settled_by].time_ms if change.settled_by < len(items) else None
        spans.append(Span(start.time_ms, end.time_ms, use_u, settled_ms))
        good = change.end
    return spans


def differing_days() -> int:
    """Return the number of the first day on which the two accounts differ; `DAYS` if there is none."""
    for seed in range(DAYS):
        items, readings = day(seed)
        if account(items, readings) != believed([(item.time_ms, item.value_u) for item in items], readings):
            return seed
    return DAYS


def test_two_accounts_agree() -> None:
    """Each day has the same good readings, uses and gaps in both, settled by the same readings."""
    assert differing_days() == DAYS


def test_days_are_of_all_sorts() -> None:
    """Every sort of change is in them, as are dropped readings and changes that stay doubted."""
    sorts: set[Any] = set()
    for seed in range(DAYS):
        items, readings = day(seed)
        good = 0
        while (change := next_change(items, good, readings)) is not None:
            sorts |= {change.counter_name, f"{change.end > good + 1}", change.settled_by - change.end}
            good = change.end
        sorts.add("doubted" if good + 1 < len(items) else "settled")
    assert sorts >= {
        None,
        "rolled_over",
        "register_reset",
        "register_jump",
        "True",
        0,
        1,
        "doubted",
        "settled",
    }


def _still(items: Sequence[Count], good: int, index: int, readings: ReadingRules) -> Change | None:
    start, first, second = items[good], items[index - 1], items[index]
    if first.value_u != second.value_u or first.value_u > start.value_u:
        return NEW_LEVEL(items, good, index, readings)
    return Change(index - 1, index, first.value_u - start.value_u, "register_reset")


NEW_LEVEL: Callable[..., Change | None] = judgement._new_level
IS_WITHIN = judgement.is_within
POSSIBLE = judgement.possible_shift
MISTAKES: dict[str, tuple[str, Any]] = {
    "a level that stands still is believed": ("_new_level", _still),
    "no level is believed": ("_new_level", lambda *_: None),
    "a spike is believed": ("_is_contradicted", lambda *_: False),
    "a rise is believed on the way back": (
        "is_within",
        lambda readings, start, end, shift_u=0: IS_WITHIN(
            replace(readings, high_u=10 * readings.high_u), start, end, shift_u
        ),
    ),
    "a second is not allowed": ("_SECOND_MS", 0),
    "a step is not allowed": ("_reading_step", lambda _: 0),
    "the range is the limit": ("_EXCESS", 0),
    "a pause is no longer than an hour": ("HOUR_MS", 60_000),
    "a rollover is a reset": (
        "possible_shift",
        lambda readings, start, end: POSSIBLE(replace(readings, modulus_u=None), start, end),
    ),
    "a jump is use": (
        "_new_level",
        lambda *rest: (level := NEW_LEVEL(*rest)) and level._replace(counter_name=None),
    ),
}
POSSIBLE = judgement.possible_shift


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one mistake in the judgement, the accounts differ on some day."""
    attribute, mistaken = MISTAKES[name]
    monkeypatch.setattr(judgement, attribute, mistaken)
    assert differing_days() < DAYS
