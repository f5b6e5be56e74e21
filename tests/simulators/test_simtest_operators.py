"""A crowd's operators under seeded crashes and faults (simulators.simtest.operators)."""

from collections.abc import Callable

import pytest

from simulators.simtest import runs
from simulators.simtest.schedule import Crash, read, write
from tests.simulators.operator_mutants import MUTANTS

SEEDS, FRESH, BLOCKS = 30, 10, 10


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCKS))
def test_totals_are_the_sums_of_reports(first: int) -> None:
    """Whatever crashes or is lost, each slot has at most one total: a sum of what enough homes sent."""
    outcome = runs.block(range(first, first + BLOCKS), "operators")
    assert outcome.violation is None, f"simtest --of operators --seed {outcome.seed}: {outcome.violation}"
    assert outcome.counts["totals due"] > 0


def test_what_was_never_tried_holds() -> None:
    """Schedules that follow from the commit break no invariant."""
    first = runs.fresh_seed()
    outcome = runs.block(range(first, first + FRESH), "operators")
    assert outcome.violation is None, f"simtest --of operators --seed {outcome.seed}: {outcome.violation}"


@pytest.mark.parametrize(
    ("mutant", "breaks", "first"), MUTANTS, ids=[patch.__name__ for patch, *_ in MUTANTS]
)
def test_a_mistake_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], breaks: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operator with a mistake in it breaks an invariant within few schedules."""
    mutant(monkeypatch)
    outcome = runs.block(range(first, first + 50), "operators")
    assert outcome.violation is not None
    assert breaks in outcome.violation.invariant, outcome.violation


def test_the_seeds_exercise_everything() -> None:
    """A hundred schedules crash at every place, and meet every trouble."""
    plans = [runs.draw(seed, "operators") for seed in range(100)]
    events = [event for plan in plans for event in plan.events]
    assert len({event.where for event in events if isinstance(event, Crash)}) == 6
    assert {type(event).__name__ for event in events} == {"Report", "Crash", "Stop", "Drop", "Step"}
    assert all(read(write(plan)) == plan for plan in plans)


def test_a_seed_replays_exactly() -> None:
    """The same schedule gives the same counts, whatever ran before it."""
    with runs.place() as where:
        first, _, again = (runs.run(runs.draw(seed, "operators"), where) for seed in (3, 4, 3))
    assert first == again
