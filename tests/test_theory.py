"""The results in docs/theory.md are numbered in order, and the tests that they name exist."""

import re

from tests.not_run import ROOT
from tests.test_map import functions

THEORY = (ROOT / "docs" / "theory.md").read_text()


def test_results_are_numbered_in_order() -> None:
    """Their numbers are 1, 2 and so on, each once."""
    numbers = [int(number) for number in re.findall(r"^## T\.(\d+) ", THEORY, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_tests_that_are_named_exist() -> None:
    """A test that a result names is a test of that file."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", THEORY)
    assert len(named) >= 6
    assert all(function in functions(path) for path, function in named)


def test_every_result_has_a_proof_or_says_that_it_is_open() -> None:
    """A claim ends with its proof; what is not proved is called open."""
    for section in re.split(r"^## ", THEORY, flags=re.MULTILINE)[1:]:
        assert "∎" in section or "**Open.**" in section or "is open" in section.replace("\n", " "), section[
            :40
        ]
