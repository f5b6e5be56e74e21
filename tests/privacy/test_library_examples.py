"""The examples that the library's modules and its README show come out as they are written."""

import doctest
import importlib
import re
from typing import Any

import pytest

from tests.support.not_run import ROOT

MODULES = ["adversary", "conformance", "divergence", "mechanism", "optimality"]


def test_the_example_of_the_mechanism_of_windows_comes_out_as_written() -> None:
    """What `help(LInfLaplace)` shows is what the mechanism does."""
    outcome = doctest.testmod(importlib.import_module("meteragent.privacy.mechanism.laplace"))
    assert outcome.failed == 0
    assert outcome.attempted == 3


@pytest.mark.parametrize("name", MODULES)
def test_a_module_s_example_comes_out_as_written(name: str) -> None:
    """What a module's text shows is what the library does; each shows something."""
    outcome = doctest.testmod(importlib.import_module(f"meteragent.privacy.{name}"))
    assert outcome.failed == 0
    assert outcome.attempted >= 5


def test_the_readme_s_example_of_a_key_runs() -> None:
    """The README's second program runs, and draws the same again."""
    text = (ROOT / "meteragent" / "privacy" / "README.md").read_text()
    program = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[1]
    names: dict[str, Any] = {}
    exec(program, names)
    assert (names["again"] == names["once"][1:]).all()


def test_the_readme_s_example_runs() -> None:
    """The README's first program runs as it stands; what it says of itself is true."""
    text = (ROOT / "meteragent" / "privacy" / "README.md").read_text()
    program = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["mechanism"].loss(220) == 1
    assert names["sd"](names["mechanism"]) == pytest.approx(311.1, abs=0.1)
