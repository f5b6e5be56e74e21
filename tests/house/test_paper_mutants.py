"""The table of mistakes about the papers' items fits the map and the code (tests.commands.paper_mutants)."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.commands.paper_mutants import Mutant, table, verdict
from tests.house.test_map import ROWS, functions
from tests.support.not_run import ROOT

MUTANTS, EXEMPT = table()
PAPERS = {row[0]: row for row in ROWS if not row[0].startswith("Ours")}
by_item = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.item)


def test_each_item_has_two_mutants_or_a_reason() -> None:
    """Every row of the papers is in the table at least twice or exempt, and nothing else is in it."""
    times = Counter(mutant.item for mutant in MUTANTS)
    assert sorted([*times, *EXEMPT]) == sorted(PAPERS)
    assert min(times.values()) > 1


def test_only_what_is_cited_or_defined_is_exempt() -> None:
    """An item without a test is cited; any other one that has no mutant defines words and states no bound."""
    assert set(EXEMPT.values()) <= {"cited", "definition"}
    cited = {item for item, (_, _, _, test, _) in PAPERS.items() if test.strip() == "–"}
    assert {item for item, reason in EXEMPT.items() if reason == "cited"} == cited


@by_item
def test_a_mutant_fits_the_code(mutant: Mutant) -> None:
    """What it replaces occurs once in the library or the papers' examples; what it makes differs."""
    assert mutant.file.startswith(("meteragent/privacy/", "simulators/papers/"))
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    changed = mutant.apply(text)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@by_item
def test_a_mutant_is_found_by_the_test_of_its_row(mutant: Mutant) -> None:
    """The test exists, and is the one that the map names for the item."""
    path, _, function = mutant.test.partition("::")
    name, _, _ = function.partition("[")
    assert name in functions(path)
    assert re.findall(r"`([\w/.:]+)`", PAPERS[mutant.item][3]) == [f"{path}::{name}"]


def test_no_two_items_have_the_same_mutant_and_test() -> None:
    """Each item has its own mistake, or at least its own test that finds one."""
    tried = [(mutant.file, mutant.old, mutant.new, mutant.test) for mutant in MUTANTS]
    assert len(set(tried)) == len(tried)


def test_a_mutant_must_be_applied_to_one_place() -> None:
    """A text that does not occur, or occurs twice, is refused with how often it does."""
    mutant = Mutant("PG Example 1", "a.py", "1 + 1", "2", "test_a.py::test_a")
    assert mutant.apply("x = 1 + 1") == "x = 2"
    for text, times in (("x = 1", 0), ("x = 1 + 1 + 1 + 1", 2)):
        with pytest.raises(ValueError, match=f"occurs {times} times in a.py"):
            mutant.apply(text)


@pytest.mark.parametrize(
    ("code", "expected"),
    [  # of a file, and why a run of its test_it finds nothing, unless it does
        ("def test_it():\n    assert 1 + 1 == 3\n", None),
        ("def test_it():\n    raise ValueError('out of range')\n", None),
        ("def test_it():\n    assert 1 + 1 == 2\n", "survived"),
        ("def test_it():\n    assert one + 1 == 2\n", "is broken code, not a mistake"),
        ("def test_it():\n    assert 'a' + 1 == 2\n", "is broken code, not a mistake"),
        ("import nowhere\n\ndef test_it():\n    assert nowhere\n", "its test did not run"),
        ("def test_it():\n    assert (\n", "its test did not run"),
        ("def test_it(nothing):\n    assert nothing\n", "its test did not run"),
        ("def test_other():\n    assert False\n", "its test did not run"),
    ],
)
def test_only_a_test_that_fails_for_a_reason_finds_a_mutant(
    code: str, expected: str | None, tmp_path: Path
) -> None:
    """An assertion or an error of the library counts; broken code, or a test that does not run, does not."""
    (tmp_path / "test_one.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py::test_it"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    outcome = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    reason = verdict(outcome)
    assert reason is None if expected is None else (reason or "").startswith(expected)
