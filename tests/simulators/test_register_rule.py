"""The simulation judges registers by an account of its own: a mistake in the agent's rule is found."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from meteragent.core import register
from meteragent.core import register_judgement as judgement
from meteragent.core.register_judgement import Change
from meteragent.domain.readings import ReadingRules
from simulators.invariant import InvariantViolation
from simulators.simtest import runs
from simulators.simtest.generator import generate
from simulators.simtest.model.setting import kind_of
from simulators.simtest.schedule import Schedule

SEEDS = 1000
"""The schedules among which those of registers are run."""
NEW_LEVEL: Callable[..., Change | None] = judgement._new_level
POSSIBLE = judgement.possible_shift


def _still(items: Sequence[Any], good: int, index: int, readings: ReadingRules) -> Change | None:
    start, first, second = items[good], items[index - 1], items[index]
    if first.value_u != second.value_u or first.value_u > start.value_u:
        return NEW_LEVEL(items, good, index, readings)
    return Change(index - 1, index, first.value_u - start.value_u, "register_reset")


MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "a level that stands still is believed": (judgement, "_new_level", _still),
    "no level is believed": (judgement, "_new_level", lambda *_: None),
    "a spike is believed": (judgement, "_is_contradicted", lambda *_: False),
    "the range is the limit": (judgement, "_EXCESS", 0),
    "a rollover is a reset": (
        judgement,
        "possible_shift",
        lambda readings, start, end: POSSIBLE(replace(readings, modulus_u=None), start, end),
    ),
    "a step is not allowed": (judgement, "_reading_step", lambda _: 0),
    "doubted readings pile up": (register, "droppable_doubts", lambda *_: range(0)),
}


def is_of_registers(plan: Schedule) -> bool:
    """Return whether some stream reads registers."""
    return any(kind_of(setting) == "register" for settings in plan.configurations for setting in settings)


@pytest.mark.slow("runs up to a hundred schedules")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some schedule of registers violates an invariant."""
    module, attribute, mistaken = MISTAKES[name]
    plans = (plan for seed in range(SEEDS) if is_of_registers(plan := generate(seed)))
    monkeypatch.setattr(module, attribute, mistaken)
    with pytest.raises(InvariantViolation):
        _run(plans)


def _run(plans: Iterable[Schedule]) -> None:
    with runs.place() as folder:
        for plan in plans:
            runs.run(plan, folder)
