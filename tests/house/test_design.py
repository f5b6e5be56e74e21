"""docs/design.md and docs/glossary.md: what the code cites is there, and what they name exists."""

import ast
import functools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from meteragent import config
from meteragent.config import model
from meteragent.domain.counters import COUNTERS
from meteragent.domain.grid import parse_time
from meteragent.domain.presets import PRESETS
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.not_run import ROOT

DESIGN = (ROOT / "docs" / "design.md").read_text()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
BOTH = {"design.md": DESIGN, "glossary.md": GLOSSARY}
LAWS = dict(re.findall(r"^### Law (\d+): .*\n((?:(?!^#).*\n)*)", DESIGN, re.MULTILINE))
SECTIONS = re.findall(r"^## (\d+)\. ", DESIGN, re.MULTILINE)
ENTRIES = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", GLOSSARY, re.MULTILINE)
LAW_TESTS = tomllib.loads((ROOT / "tests" / "house" / "laws.toml").read_text())
GOALS = tomllib.loads((ROOT / "benchmarks" / "goals.toml").read_text())["goal"]
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", DESIGN, re.DOTALL)]

CODE = ("meteragent", "simulators", "tests", "benchmarks")
_AND = r"(?:, | and |, and )"
_BREAK = r"\s+(?:#\s+)?"
_LAW = re.compile(rf"\blaws?{_BREAK}(\d+(?:{_AND}\d+\b(?!\.\d))*)\b(?!\.\d)", re.IGNORECASE)
_SECTION = re.compile(rf"\bDESIGN{_BREAK}(\d+)\b")
_NAME = re.compile(r"`((?:meteragent|simulators|benchmarks)(?:\.\w+)+)`")
_TEST = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")
_KEY = re.compile(r"`(source|window|privacy|sink|store|page|archive|stream)\.(\w+)")
EACH = pytest.mark.parametrize("text", BOTH.values(), ids=BOTH.keys())


def sources() -> Iterator[tuple[Path, str]]:
    """Everything that may cite a law or a section: the code, and all that is written about it."""
    python = [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    prose = [path for folder in (*CODE, "deploy", "docs") for path in (ROOT / folder).rglob("*.md")]
    for path in [*python, *prose, *ROOT.glob("*.md")]:
        yield path, path.read_text()


@functools.cache
def parsed(path: Path) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(path.read_text())


def members(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Names that a module or a class defines or imports, with what is inside of them."""
    names: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = node.body
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: [] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id: [] for target in targets if isinstance(target, ast.Name)}
    return names


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or a name in one; nothing is imported."""
    path, names = ROOT, dotted.split(".")
    while names and (path / names[0]).is_dir():
        path /= names.pop(0)
    if names and (path / f"{names[0]}.py").is_file():
        path /= f"{names.pop(0)}.py"
    else:
        path /= "__init__.py"
    body: list[ast.stmt] | None = parsed(path).body if path.is_file() else None
    while body is not None and names:
        body = members(body).get(names.pop(0))
    return body is not None


def test_laws_and_sections_are_numbered() -> None:
    """There are laws 1 to 8 and sections 1 to 7, each once and in order."""
    assert list(LAWS) == [str(number) for number in range(1, 9)]
    assert re.findall(r"^### Law (\d+)", DESIGN, re.MULTILINE) == list(LAWS)
    assert [str(number) for number in range(1, 8)] == SECTIONS


def test_every_citation_of_a_law_resolves() -> None:
    """Whoever cites a law finds it under its number."""
    cited = [
        (str(path.relative_to(ROOT)), number)
        for path, text in sources()
        for match in _LAW.finditer(text)
        for number in re.findall(r"\d+", match[1])
    ]
    assert [one for one in cited if one[1] not in LAWS] == []
    assert len(cited) >= 100
    assert {number for _, number in cited} == set(LAWS)


def test_every_citation_of_a_section_resolves() -> None:
    """Whoever cites a section of the design finds it under its number."""
    cited = [
        (str(path.relative_to(ROOT)), match[1])
        for path, text in sources()
        for match in _SECTION.finditer(text)
    ]
    assert [one for one in cited if one[1] not in SECTIONS] == []
    assert len(cited) >= 20


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("(law 4).", ["4"]),
        ("Laws 1, 2 and 4 hold", ["1", "2", "4"]),
        ("by law\n    # 9, that", ["9"]),
        ("the l_inf law 0.352 times that", []),
        ("flaw 3, lawn 3", []),
    ],
)
def test_a_citation_is_known_when_it_is_seen(text: str, numbers: list[str]) -> None:
    """One number or several, also across lines; a decimal is not the number of a law."""
    assert [one for match in _LAW.finditer(text) for one in re.findall(r"\d+", match[1])] == numbers


@pytest.mark.parametrize("number", LAWS)
def test_a_law_says_why_and_what_enforces_it(number: str) -> None:
    """The law itself is in bold, its reason follows, and at least one module and four tests are named."""
    law = LAWS[number]
    assert law.startswith("\n**")
    assert "\n*Why.* " in law
    assert _NAME.search(law.partition("\n*Enforced by* ")[2])
    assert len(LAW_TESTS["law"][number]["tests"]) >= 4


@EACH
def test_modules_that_are_named_exist(text: str) -> None:
    """A dotted name is a module of ours or something that it defines."""
    names = _NAME.findall(text)
    assert len(names) >= 25
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize(
    "dotted", ["meteragent.nothing", "meteragent.domain.terms.Terms.nothing", "benchmarks.x.y"]
)
def test_what_does_not_exist_is_noticed(dotted: str) -> None:
    """Neither a module nor a name in one is taken for granted."""
    assert not exists(dotted)


def test_the_tests_that_are_named_exist() -> None:
    """A test of a law, or one that the design names, is a test of that file."""
    listed = [
        *LAW_TESTS["form"]["tests"],
        *(name for law in LAW_TESTS["law"].values() for name in law["tests"]),
    ]
    named = _TEST.findall(f"{DESIGN}`{'` `'.join(listed)}`")
    assert len(named) >= 50
    assert [one for one in named if not (ROOT / "tests" / one[0]).is_file()] == []
    missing = [
        (path, test)
        for path, test in named
        if test and test not in members(parsed(ROOT / "tests" / path).body)
    ]
    assert missing == []


@EACH
def test_configuration_keys_that_are_named_exist(text: str) -> None:
    """A key is one of its section."""
    keys = _KEY.findall(text)
    assert len(keys) >= 15
    unknown = []
    for section, key in keys:
        fields: type[BaseModel] = getattr(model, section.capitalize())
        if key not in fields.model_fields:
            unknown.append(f"{section}.{key}")
    assert unknown == []


@EACH
def test_counters_and_fields_that_are_named_exist(text: str) -> None:
    """A counter is one that is counted, a field one of the messages that the design shows."""
    counters = re.findall(r"\bcounter `(\w+)`", text)
    assert counters
    assert set(counters) <= set(COUNTERS)
    fields = set(re.findall(r"\bfield `(\w+)`", text))
    assert fields <= EXAMPLES[0].keys() | EXAMPLES[1].keys()


@EACH
def test_links_lead_somewhere(text: str) -> None:
    """A link is to a file of the repository."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []


def test_the_messages_shown_are_those_that_leave() -> None:
    """The record and the descriptor are what the four required keys give, byte for byte."""
    text = 'source = {topic = "m/{meter}", kind = "power", unit = "W"}\nsink = {topic = "p/{meter}"}'
    shared = describe_terms(config.terms(config.parse(text).stream[0]))
    start_ms = parse_time("2026-11-20T12:00:00Z")
    record = RecordFormat.of(shared).encode("m1", start_ms, 0, 512)
    assert f"\n{record.decode()}\n" in DESIGN
    descriptor = shared.encode_message("m1", start_ms, store="0" * 16)
    assert f"\n{descriptor.decode()}\n" in DESIGN


def test_the_presets_are_those_of_the_configuration() -> None:
    """What a preset hides, and on which lattice."""
    rows = re.findall(
        r"^\| `([\w-]+)`(?: \(default\))? \| (\d+)?[^|]*\| ([\d.]+) Wh[^|]*\| ([\d.]+) Wh? \|",
        DESIGN,
        re.MULTILINE,
    )
    stated = {name: (int(slots or 1), float(hide), float(quantum)) for name, slots, hide, quantum in rows}
    assert stated == {
        name: (one.blocks, float(one.hide_wh), float(one.quantum)) for name, one in PRESETS.items()
    }


def test_the_goals_are_those_that_are_measured() -> None:
    """Each goal is a row of the benchmarks' table, with the same bound, and none is left out."""
    measured = (ROOT / "benchmarks" / "README.md").read_text()
    [table] = re.findall(r"<!-- bench: goals -->(.*?)<!-- bench end -->", measured, re.DOTALL)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    goals = {(row[0], row[1], row[4]) for row in cells if len(row) == 7}
    stated = {(goal["what"], goal["against"], str(goal["at_least"])) for goal in GOALS}
    assert all((ROOT / f"{goal['program'].replace('.', '/')}.py").is_file() for goal in GOALS)
    assert stated | {("what", "against", "goal"), ("---", "---", "---")} == goals


def test_the_glossary_is_sorted() -> None:
    """Terms are in alphabetical order, each once, and every line of the list is one."""
    terms = [term.lower() for term, _ in ENTRIES]
    assert terms == sorted(set(terms))
    assert len(terms) == len(re.findall(r"^- ", GLOSSARY, re.MULTILINE)) >= 40


@pytest.mark.parametrize(("term", "meaning"), ENTRIES, ids=[term for term, _ in ENTRIES])
def test_a_term_has_one_sentence(term: str, meaning: str) -> None:
    """It begins with a capital letter and ends with its only full stop."""
    assert re.fullmatch(r"[A-Z][^.!?]*\.", re.sub(r"`[^`]*`", "name", meaning)), term
