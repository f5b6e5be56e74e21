"""docs/theory.md is numbered in order, proves what it states, and has every section that is cited."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.house.test_architecture import name_of, tracked
from tests.house.test_map import functions
from tests.support.not_run import ROOT

THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^#{2,4} ([0-9AT](?:\.\d+)*) ", re.MULTILINE)
NUMBERS = HEADING.findall(THEORY)
SECTIONS = dict(zip(NUMBERS, HEADING.split(THEORY)[2::2], strict=True))
"""The text of each section by its number, without that of the sections inside it."""

SECTION = r"(?:A(?:\.\d+)+|\d(?:\.\d+)*(?!\d))"
CITATION = re.compile(rf"\bTHEORY[\s#]+({SECTION}(?:(?:,|;| and)\s+{SECTION})*)")
SHORT = re.compile(r"(?<![\w.)\]])[AT]\.\d+(?:\.\d+)*")
MAPPED = re.compile(r"^\| Ours ([\dAT][\d.]*)", re.MULTILINE)
CODE = ("meteragent/", "simulators/", "tests/", "benchmarks/")
STATEMENT = re.compile(r"^\*\*(?:Theorem|Lemma|Claim)\b", re.MULTILINE)
MARKS = ("∎", "**Cited.**", "**Open.**", "**Measured.**", "**Decision.**", "is open")


def citations(text: str) -> set[str]:
    """Return the number of every section that a text cites."""
    numbers = {*SHORT.findall(text), *MAPPED.findall(text)}
    return numbers.union(*(re.findall(SECTION, sections) for sections in CITATION.findall(text)))


def citing_files() -> list[Path]:
    """Return the Python files of the packages, the tests and the benchmarks, and every Markdown file."""
    files = [path for path in tracked() if path != Path(__file__)]
    return [p for p in files if p.suffix == ".md" or (p.suffix == ".py" and name_of(p).startswith(CODE))]


@cache
def cited() -> dict[str, set[str]]:
    """Return the numbers that are cited, by the name of the file."""
    return {name_of(path): citations(path.read_text(encoding="utf-8")) for path in citing_files()}


def test_chapters_and_sections_are_numbered_in_order() -> None:
    """Chapters are 0 to 7, A and T; in each the sections are 1, 2 and so on, and A begins with A.0."""
    assert [number for number in NUMBERS if "." not in number] == [*"01234567", "A", "T"]
    for chapter in NUMBERS:
        inside = [
            n for n in NUMBERS if n.startswith(f"{chapter}.") and n.count(".") == chapter.count(".") + 1
        ]
        first = 0 if chapter == "A" else 1
        assert inside == [f"{chapter}.{i}" for i in range(first, first + len(inside))]
    assert sorted(NUMBERS) == sorted(SECTIONS)


def test_the_tests_that_are_named_exist() -> None:
    """A test of a section, or one that the text names, is a test of that file."""
    tests = tomllib.loads((ROOT / "tests" / "house" / "theory.toml").read_text(encoding="utf-8"))
    assert set(tests) <= set(NUMBERS)
    listed = [name.split("::") for names in tests.values() for name in names]
    named = [*listed, *re.findall(r"`([\w/]+\.py)::(\w+)`", THEORY)]
    assert len(named) >= 100
    assert all(function in functions(path) for path, function in named)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_statement_has_a_proof(number: str) -> None:
    """Each theorem, lemma or claim is followed by its proof, before the next one begins."""
    for statement in STATEMENT.split(SECTIONS[number])[1:]:
        assert statement.count("**Proof.**") == statement.count("∎") == 1, statement[:80]
        assert statement.index("**Proof.**") < statement.index("∎")


@pytest.mark.parametrize("number", NUMBERS)
def test_every_section_is_proved_or_says_what_it_is(number: str) -> None:
    """A section has a proof, or says cited, open, measured or decision; it may leave that to those inside."""
    if not any(other.startswith(f"{number}.") for other in NUMBERS):
        text = SECTIONS[number].replace("\n", " ")
        assert any(mark in text for mark in MARKS)


def test_every_citation_resolves() -> None:
    """What code, tests, benchmarks and documents cite as THEORY n.m, THEORY A.n or T.n is a section."""
    missing = {name: numbers - set(NUMBERS) for name, numbers in cited().items()}
    assert not {name: numbers for name, numbers in missing.items() if numbers}


def test_citations_are_seen() -> None:
    """The code cites most sections, from many files: a reader that sees none would pass the test above."""
    by_code = {
        name: numbers for name, numbers in cited().items() if name.startswith("meteragent/") and numbers
    }
    assert len(by_code) >= 40
    assert len(set().union(*by_code.values())) >= 35


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("(THEORY 3.4). A raw", {"3.4"}),
        ("(THEORY 1.2, 4.2). k", {"1.2", "4.2"}),
        ("(THEORY 5.1, 7).", {"5.1", "7"}),
        ("(THEORY\n    A.8). The", {"A.8"}),
        ("of THEORY A.1.1, A.10:", {"A.1.1", "A.10"}),
        ("THEORY 3.4's q*T", {"3.4"}),
        ("(THEORY 1.3, q95)", {"1.3"}),
        ("THEORY 9.9 is not there", {"9.9"}),
        ("`docs/theory.md`, T.4 and T.99", {"T.4", "T.99"}),
        ("THEORY A.1", {"A.1"}),
        ("| Ours 2.1, by rows | each", {"2.1"}),
        ("PATH.5, matrix.T.1, THEORY oracles", set()),
    ],
)
def test_citations_are_read(text: str, numbers: set[str]) -> None:
    """Lists, line breaks and genitives are read; what is no citation is not."""
    assert citations(text) == numbers
