"""Collectors under seeded crashes and faults (simulators.simtest.collect): nothing is lost or doubled."""

from collections.abc import Callable
from pathlib import Path

import pytest

from simulators.simtest import runs
from simulators.simtest.schedule import Crash, Trouble, read, write
from tests.simulators.collect_mutants import MUTANTS

SEEDS, FRESH, BLOCKS = 60, 20, 20
SCHEDULES = sorted((Path(__file__).parent / "schedules" / "collect").glob("*.txt"))


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCKS))
def test_nothing_is_lost_or_doubled(first: int) -> None:
    """Schedules of crashes, outages and lost answers break no invariant."""
    outcome = runs.block(range(first, first + BLOCKS), "collect")
    assert outcome.violation is None, f"simtest --of collect --seed {outcome.seed}: {outcome.violation}"


def test_what_was_never_tried_holds() -> None:
    """Schedules that follow from the commit break no invariant; one that does is to be kept (`SCHEDULES`)."""
    first = runs.fresh_seed()
    outcome = runs.block(range(first, first + FRESH), "collect")
    assert outcome.violation is None, f"simtest --of collect --seed {outcome.seed}: {outcome.violation}"


@pytest.mark.parametrize("path", SCHEDULES, ids=lambda path: path.stem)
def test_what_failed_once_holds(path: Path) -> None:
    """Schedules that have broken an invariant break none any more."""
    with runs.place() as where:
        assert runs.run(read(path.read_text()), where)["processes"] > 0


@pytest.mark.parametrize(
    ("mutant", "breaks", "first"), MUTANTS, ids=[patch.__name__ for patch, *_ in MUTANTS]
)
def test_a_mistake_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], breaks: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each collector with a mistake in it breaks an invariant within few schedules."""
    mutant(monkeypatch)
    outcome = runs.block(range(first, first + 50), "collect")
    assert outcome.violation is not None
    assert breaks in outcome.violation.invariant, outcome.violation


def test_the_seeds_exercise_everything() -> None:
    """A hundred schedules crash at every place, and meet every trouble with every sink."""
    plans = [runs.draw(seed, "collect") for seed in range(100)]
    events = [event for plan in plans for event in plan.events]
    assert len({event.where for event in events if isinstance(event, Crash)}) == 5
    assert len({event.how for event in events if isinstance(event, Trouble)}) == 5
    assert {runs.service_of(plan) for plan in plans} == {"collect"}
    assert len({plan.pace for plan in plans}) == 4
    assert all(read(write(plan)) == plan for plan in plans)


def test_a_seed_replays_exactly() -> None:
    """The same schedule gives the same counts, whatever ran before it."""
    with runs.place() as where:
        first, _, again = (runs.run(runs.draw(seed, "collect"), where) for seed in (3, 4, 3))
    assert first == again
