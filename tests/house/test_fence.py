"""The fence around what is told once: places that ask which kind of window it is, and how large the house is.

A fact about a kind of window has one home: its class in `meteragent.domain.shapes`, or its row in `config`,
`report` or `wire`. Elsewhere the shape is asked. The numbers here may only fall: lower them with the code.
CONTRIBUTING.md says under Budgets what a patch does that needs more lines.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from meteragent.domain import shapes
from tests.commands.code_lines import RUN, agents_path, code_lines, loaded
from tests.support.budgets import assert_within
from tests.support.not_run import ROOT

HOUSE = ROOT / "meteragent"
HOMES = ("domain/", "config/", "core/", "report/shapes.py", "wire/shapes.py", "privacy/")
"""Where a kind of window may be named: its class, configurations, accumulators and rows. The mathematics
knows no kind of ours, but has names like theirs."""
CLASSES = {kind.__name__ for kind in shapes.SHAPES.values()} | {shapes.Banded.__name__}
FENCE = {
    "Space.X": 0,
    "Metric.X": 0,
    "Accumulator.X": 1,
    "a shape's class": 5,
    ".weights": 1,
    ".threshold": 0,
    ".bands": 0,
    ".crowd": 4,
    ".receivers": 3,
}
"""The number of tests of each sort outside the homes."""
LINES_MAX = 63_234
"""The lines of the package: whoever adds removes."""
AGENT_LINES_MAX = 14_992
"""The lines of code that `run` loads with the page, without the mathematics."""
MODULES_MAX = 181
"""The modules that `run` loads."""


def decisions(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions on which a decision depends."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.Compare | ast.BoolOp):
            yield node
        elif isinstance(node, ast.Match):
            yield node.subject


def sorts(test: ast.expr) -> Iterator[tuple[str, int, int]]:
    """Yield each part of a test that asks for a kind of window, as its sort and its place."""
    for node in ast.walk(test):
        place = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and f"{node.value.id}.X" in FENCE:
                yield f"{node.value.id}.X", *place
            name = "threshold" if node.attr.startswith("threshold") else node.attr
            if f".{name}" in FENCE:
                yield f".{name}", *place
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"isinstance", "issubclass"}:
            named = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node.args[1])}
            if named & CLASSES:
                yield "a shape's class", *place


@cache
def places() -> dict[str, set[str]]:
    """Return where outside the homes each sort of test stands."""
    places_by_sort: dict[str, set[str]] = {sort: set() for sort in FENCE}
    for path in sorted(HOUSE.rglob("*.py")):
        name = path.relative_to(HOUSE).as_posix()
        if name.startswith(HOMES):
            continue
        for test in decisions(ast.parse(path.read_text())):
            for sort, line, column in sorts(test):
                places_by_sort[sort].add(f"{name}:{line}:{column}")
    return places_by_sort


@pytest.mark.parametrize("sort", FENCE)
def test_a_kind_of_window_is_asked_not_tested(sort: str) -> None:
    """The places that test for a kind are as many as stated: more are a mistake, fewer are to be stated."""
    stand = places()[sort]
    assert len(stand) == FENCE[sort], sorted(stand)


def test_the_house_does_not_grow() -> None:
    """The package has no more lines than stated."""
    lines = sum(Path(path).read_text().count("\n") for path in HOUSE.rglob("*.py"))
    assert_within("LINES_MAX (lines of the package)", lines, LINES_MAX)


def test_the_agents_path_does_not_grow() -> None:
    """What `run` loads with the page has no more lines of code than stated."""
    lines = sum(code_lines(path.read_text()) for path in agents_path(ROOT))
    assert_within("AGENT_LINES_MAX (lines of code that `run` loads)", lines, AGENT_LINES_MAX)


def test_run_loads_no_more_modules() -> None:
    """`run` loads no more modules of ours than stated."""
    assert_within("MODULES_MAX (modules that `run` loads)", len(loaded(ROOT, RUN)), MODULES_MAX)
