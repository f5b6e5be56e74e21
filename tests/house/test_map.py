"""The map of the papers' results in meteragent/privacy/README.md is complete, and what it names exists."""

import ast
import functools
import importlib
import re

import pytest

from tests.support.not_run import ROOT

README = (ROOT / "meteragent" / "privacy" / "README.md").read_text()
SECTIONS = re.findall(r"^### (HLM|CABP|PG|Ours)\b.*\n((?:(?!#).*\n)*)", README, re.MULTILINE)
ROWS = [
    (f"{paper} {item}", *cells)
    for paper, section in SECTIONS
    for item, *cells in re.findall(
        r"^\| ([A-Z\d][^|]*?) " + r"\|([^|]*)" * 3 + r"\|(?:([^|]+)\|)?$", section, re.MULTILINE
    )
]
"""Each row with the paper of its section before its item; a row without a note has no cell for it."""


def numbered(kind: str, *numbers: int) -> list[str]:
    """Results of one kind by their numbers."""
    return [f"{kind} {number}" for number in numbers]


RESULTS = {
    "HLM": [
        *numbered("Theorem", 1, 2, 3, 4, 5, 6, 7),
        *numbered("Lemma", 1, 2, 3, 4),
        *numbered("Definition", 1, 2),
        *numbered("Example", 1, 2, 3, 4, 5, 6, 7),
        *numbered("Equation", 1, 7, 13),
        *("Equations 2 to 4", "Proposition 1", "Corollary 1", "Section 2.3", "Remark 2.1", "Remark 5"),
        *("Section 2.2, sets", "Section 4", "Equation 20"),
    ],
    "CABP": [
        *numbered("Definition", 1, 2, 3, 4, 5, 6, 7, 8),
        *numbered("Proposition", 1, 2, 3, 4, 5),
        *numbered("Theorem", 1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13),
        *numbered("Corollary", 11, 12, 13),
        *numbered("Fact", 5, 7),
        *numbered("Figure", 1, 2, 3),
        *numbered("Example", 1, 2),
        *("Equation 1", "Remark 4", "Section 2", "Section 2, d_r", "Section 2, metrics", "Section 4.2"),
        *("Section 5, null", "Section 5.1", "Section 5.2", "Section 5.2, usefulness"),
        *("Section 6.1", "Section 6.2", "Definition 1, metrics", "Fact 5, family", "Section 4.2, risk"),
        *("Section 5, histograms", "Section 5.1, order", "Section 5.2, conclusions", "Section 6.1, d_∞"),
    ],
    "PG": [
        *numbered("Definition", 1, 2, 3),
        *numbered("Proposition", 1, 2, 3, 4, 5, 6, 7),
        *numbered("Example", 1, 2, 3, 4, 5, 6),
        *("Section 2", "Remark 1", "Proposition 2, KL", "Proposition 5, norms", "Proposition 6, tail"),
    ],
    "Ours": [
        *("0", "1.4", "2.1", "2.2", "2.4"),
        "3.1",
        "3.2",
        "3.3",
        "3.7",
        *("2.1, by rows", "2.1, from a key", "2.2, by a table", "T.8, samples", "T.8, counts"),
        *("4.1", "4.3", "5.1", "5.2", "6", "7", "A.1", "A.8", "A.10"),
    ],
}
"""What the papers number and this library is built on, and the sections of our own theory."""


def test_each_result_has_one_row() -> None:
    """Every numbered result is in the map once, named singly, and nothing else is."""
    assert sorted(row[0] for row in ROWS) == sorted(f"{p} {r}" for p, known in RESULTS.items() for r in known)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_exists(row: tuple[str, ...]) -> None:
    """The name that implements a result can be imported, and the test that shows it is a test."""
    _, _, name, test, note = row
    if (name.strip(), test.strip()) == ("–", "–"):
        assert note.strip().startswith("cited")
        return
    (dotted,), (shown,) = re.findall(r"`([\w.]+)`", name), re.findall(r"`([\w/.:]+)`", test)
    assert resolve(dotted)
    for one in [shown, *re.findall(r"`([\w/]+\.py::\w+)`", note)]:
        path, _, function = one.partition("::")
        assert function in functions(path)
    for other in re.findall(r"`([a-z]+\.[A-Za-z_.]+)`", note):
        assert other.endswith(".py") or resolve(other)


def resolve(dotted: str) -> object:
    """What a name relative to meteragent.privacy stands for."""
    module, *attributes = dotted.split(".")
    found: object = importlib.import_module(f"meteragent.privacy.{module}")
    return functools.reduce(attribute, attributes, found)


def attribute(of: object, name: str) -> object:
    """An attribute, or the field of a value type by that name."""
    return getattr(of, "__dataclass_fields__", {}).get(name) or getattr(of, name)


@functools.cache
def functions(path: str) -> set[str]:
    """The tests in a file."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_first_example_runs() -> None:
    """The README's first block does what its comments say."""
    block, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    scope: dict[str, object] = {}
    *lines, last = block.strip().splitlines()
    exec("\n".join(lines), scope)
    loss, deviation = eval(last, scope)
    assert (loss, round(deviation, 1)) == (1, 311.1)


def test_the_papers_have_a_hundred_and_six_items() -> None:
    """Holohan et al. have 32, Chatzikokolakis et al. 53, Pauwels and Gerchinovitz 21."""
    assert [len(RESULTS[paper]) for paper in ("HLM", "CABP", "PG")] == [32, 53, 21]
