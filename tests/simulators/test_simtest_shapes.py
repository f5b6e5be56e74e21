"""The simulation's judge finds each kind of window that states a wrong fact of its numbers."""

import importlib
from collections.abc import Iterator

import pytest

from meteragent.domain import schedule
from meteragent.domain.shapes import Space
from simulators.simtest import runs
from simulators.simtest.judge import crowd
from tests.simulators.shape_mutants import FACTS, SHAPE_MUTANTS, SILENT, ShapeMutant
from tests.support.not_run import not_run

TERMS = importlib.import_module("meteragent.config.terms")  # the package has a function of this name
TESTED_SEEDS = 200
"""`test_simtest` runs the seeds below without any mistake."""


@pytest.fixture
def _fresh_terms() -> Iterator[None]:
    """Forget terms that were built before and during a test: they hold what kinds said of them."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for module in (TERMS, schedule):
        for item in vars(module).values():
            if hasattr(item, "cache_clear"):
                item.cache_clear()


@pytest.mark.usefixtures("_fresh_terms")
@pytest.mark.parametrize("mutant", SHAPE_MUTANTS, ids=[f"{one.space}-{one.fact}" for one in SHAPE_MUTANTS])
def test_a_wrong_fact_is_found(mutant: ShapeMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of window with one wrong fact breaks an invariant in the one schedule of its seed."""
    if mutant.space is Space.SHARE and not crowd.is_available():
        not_run("crowd", "a simulated crowd: install the extra `crowd`")
    mutant.patch(monkeypatch)
    violation = runs.block([mutant.seed]).violation
    assert violation is not None
    assert mutant.breaks in violation.invariant


def test_right_facts_break_nothing() -> None:
    """The schedules of the mutants hold without them."""
    seeds = {mutant.seed for mutant in SHAPE_MUTANTS if mutant.seed >= TESTED_SEEDS}
    assert [runs.block([seed]).violation for seed in seeds] == [None] * len(seeds)


def test_each_fact_of_each_kind_is_made_wrong() -> None:
    """A new kind of window, or a new fact, needs mutants, or the reason why nothing asks it."""
    listed = [(mutant.space, mutant.fact) for mutant in SHAPE_MUTANTS]
    assert len(listed) == len(set(listed))
    assert not SILENT.keys() & set(listed)
    assert SILENT.keys() | set(listed) == {(space, fact) for space in Space for fact in FACTS}
