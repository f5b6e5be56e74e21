"""The form of the house: what a reader may rely on without looking."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from meteragent.domain import errors
from tests.support.not_run import ROOT

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 600
CLASS_LINES_MAX = 250
ATTRIBUTES_MAX = 15
LARGE_CLASSES = {  # lines and attributes of classes beyond a limit: they may only fall
    "meteragent/agent/link/sink.py Sink": (207, 19),
    "meteragent/core/stream.py Stream": (63, 18),
    "meteragent/decode/profile.py Profile": (48, 17),
    "meteragent/mqtt/session.py Session": (248, 19),
    "meteragent/operators/link.py Link": (149, 17),
    "meteragent/operators/service.py Service": (187, 21),
    "meteragent/tools/discover/candidate.py Candidate": (63, 25),
    "simulators/simtest/model/setting.py Setting": (86, 24),
    "simulators/simtest/world.py World": (230, 33),
}
CODE = sorted(
    path for house in ("meteragent", "simulators", "deploy") for path in (ROOT / house).rglob("*.py")
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Definition(NamedTuple):
    """A function or class: where and what it is; it is public if everybody can name it."""

    where: str
    name: str
    lines: int
    doc: str | None
    is_function: bool
    is_public: bool


class Form(NamedTuple):
    """What is looked at of a file; `names` stand after dots, `calls` are last words of what is called."""

    name: str
    lines: int
    doc: str | None
    definitions: list[Definition]
    names: set[str]
    calls: set[str]


def name_of(path: Path) -> str:
    """A file's name in the repository."""
    return path.relative_to(ROOT).as_posix()


@cache
def form(path: Path) -> Form:
    """A file, read once for all tests."""
    name, text = name_of(path), path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Attribute)]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    return Form(
        name,
        text.count("\n"),
        ast.get_docstring(tree),
        list(definitions(tree, name)),
        {node.attr for node in nodes if isinstance(node, ast.Attribute)},
        {one.id for one in called if isinstance(one, ast.Name)}
        | {one.attr for one in called if isinstance(one, ast.Attribute)},
    )


def is_overload(node: Function | ast.ClassDef) -> bool:
    """Return whether it is a signature of a function, which says what it does at its body."""
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)


def definitions(tree: ast.AST, where: str, *, is_public: bool = True) -> Iterator[Definition]:
    """All under a tree; nobody can name what stands inside functions or private classes."""
    for node in ast.iter_child_nodes(tree):
        inner = is_public
        if isinstance(node, Function | ast.ClassDef):
            open_ = is_public and not node.name.startswith("_") and not is_overload(node)
            lines, doc = (node.end_lineno or 0) - node.lineno + 1, ast.get_docstring(node)
            is_function = isinstance(node, Function)
            yield Definition(f"{where}:{node.lineno} {node.name}", node.name, lines, doc, is_function, open_)
            inner = open_ and not is_function
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):  # no expression defines anything
            yield from definitions(node, where, is_public=inner)


def functions(paths: list[Path]) -> Iterator[Definition]:
    """Every function, those in classes and functions too."""
    return (one for file in map(form, paths) for one in file.definitions if one.is_function)


def tracked() -> list[Path]:
    """The files of the repository; all but hidden folders where git does not know."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not any(p.startswith(".") for p in path.parts)]
    return [path for path in found if path.is_file()]


def test_functions_are_short() -> None:
    """No function is longer than 60 lines."""
    assert not [one.where for one in functions(CODE + TESTS) if one.lines > FUNCTION_LINES_MAX]


def attributes(node: ast.ClassDef) -> set[str]:
    """The attributes of an instance: declared in the class, or set through `self`."""
    declared = {
        part.target.id
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        if "ClassVar" not in ast.unparse(part.annotation)
    }
    targets = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
    stored = (part for part in targets if isinstance(part.ctx, ast.Store))
    return declared | {part.attr for part in stored if getattr(part.value, "id", "") == "self"}


def test_classes_are_small() -> None:
    """No class has more than 250 lines or 15 attributes, but for tables of pydantic and the listed ones."""
    large, tables = {}, {"_Table", "Broker", "Section"}
    for path in CODE:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for node in (one for one in nodes if isinstance(one, ast.ClassDef)):
            if tables & {getattr(base, "id", "") for base in node.bases}:
                continue
            size = (node.end_lineno or 0) - node.lineno + 1, len(attributes(node))
            if size[0] > CLASS_LINES_MAX or size[1] > ATTRIBUTES_MAX:
                large[f"{name_of(path)} {node.name}"] = size
    assert large.keys() == LARGE_CLASSES.keys()
    assert not {name for name, size in large.items() if size > LARGE_CLASSES[name]}


def test_attributes_are_read() -> None:
    """An attribute that an object sets on itself and nothing reads is one that was renamed in part."""
    parts = {
        path: [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        for path in CODE + TESTS
    }
    read = {part.attr for some in parts.values() for part in some if isinstance(part.ctx, ast.Load)}
    product = [path for path in CODE if path.is_relative_to(ROOT / "meteragent")]
    own = [part for path in product for part in parts[path] if getattr(part.value, "id", "") == "self"]
    assert not {part.attr for part in own if isinstance(part.ctx, ast.Store)} - read


def test_files_are_short() -> None:
    """No file is longer than 600 lines."""
    assert not [file.name for file in map(form, CODE + TESTS) if file.lines > FILE_LINES_MAX]


def test_modules_say_what_they_are() -> None:
    """Every module begins with its purpose."""
    assert not [file.name for file in map(form, CODE + TESTS) if not file.doc]


def test_public_names_say_what_they_are() -> None:
    """Every public class, function and method has a docstring."""
    known = [one for file in map(form, CODE) for one in file.definitions]
    assert not [one.where for one in known if one.is_public and not one.doc]


def test_tests_are_sentences() -> None:
    """The docstring of a test begins with a sentence of the specification."""
    tests = [one for one in functions(TESTS) if one.name.startswith("test_")]
    assert not [one.where for one in tests if not re.match(r"[^.]+\S[.:]", one.doc or "")]


def test_tests_do_not_sleep() -> None:
    """No test outside integration sleeps: tests wait for events. Commands are not tests."""
    may = "tests/integration/", "tests/commands/"
    sleeps = [file.name for file in map(form, TESTS) if "sleep" in file.calls]
    assert not [name for name in sleeps if not name.startswith(may)]


def test_folders_and_fixtures_mark_tests() -> None:
    """No test sets these marks itself: `make test` looks for those of a folder in this folder only."""
    itself = re.compile(r"mark\.(integration|spark|parts|data|covered)\b")
    assert not [name_of(path) for path in TESTS if itself.search(path.read_text())]


def test_tests_are_in_the_room_that_they_are_about() -> None:
    """Every room of the agent has tests in a folder of its name, and no test lies outside a folder."""
    rooms = {path.parent.name for path in (ROOT / "meteragent").glob("*/__init__.py")}
    tested = {path.parent.name for path in TESTS if path.name.startswith("test_")}
    assert rooms <= tested
    assert "tests" not in tested


def test_what_is_slow_says_why() -> None:
    """`make quick` leaves out nothing without a reason."""
    marks = [line for path in TESTS for line in path.read_text().splitlines() if "mark.slow" in line]
    assert len(marks) >= 10
    assert not [line for line in marks if not re.search(r'mark\.slow\("[^"]{8,}"\)$|"mark\.slow"', line)]


def test_nothing_is_skipped_in_silence() -> None:
    """A test is left out by `not_run` only, which says so and fails unless MISSING_OK names the part."""
    others = [file for file in map(form, TESTS) if file.name != "tests/support/not_run.py"]
    assert not [file.name for file in others if re.search("skip|xfail", " ".join(file.names))]


def test_no_paths_of_a_machine() -> None:
    """No file names a place of the machine that it was written on."""
    place = re.compile(r"/(?:h[o]me|Us[e]rs|ro[o]t|w[o]rk|tmp/scr[a]tch|tmp/b[a]sh_jobs)/")
    assert not [name_of(path) for path in tracked() if place.search(path.read_text(errors="replace"))]


def test_no_lock_files() -> None:
    """No file records where packages were downloaded from."""
    assert not [path.name for path in tracked() if path.suffix == ".lock" or path.name.endswith("-lock.json")]


def test_the_agent_starts_light() -> None:
    """Its imports load neither scipy nor what only simulations, archives, pages, other commands use."""
    heavy = [
        "scipy",
        "pandas",
        "pyarrow",
        "pyspark",
        "matplotlib",
        "starlette",
        "uvicorn",
        "aiomqtt",
        "simulators",
        "meteragent.tools.discover",
        "meteragent.tools.export",
        "meteragent.privacy.adversary",
        "meteragent.privacy.channel",
        "meteragent.privacy.mechanism.vector",
        "meteragent.report.plan",
        "meteragent.tools.redact",
        "meteragent.report.markdown",
        "meteragent.tools.tap",
    ]
    imports = "sys, meteragent.cli, meteragent.agent.service"
    code = f"import {imports}; print(*sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_mathematics_stands_alone() -> None:
    """All names of meteragent.privacy load nothing else of ours, and neither scipy nor pydantic."""
    code = "import sys; from meteragent.privacy import *; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    ours = [name for name in loaded if name.startswith("meteragent.")]
    assert all(name.startswith("meteragent.privacy") for name in ours)
    assert {"numpy", "meteragent.privacy.mechanism.vector"} <= set(loaded)
    assert not {"scipy", "pydantic"} & set(loaded)


def test_no_import_of_ours_hides_in_a_string() -> None:
    """Import contracts see every arrow between rooms; only commands are looked up by their names."""
    hidden = re.compile(r"import_module\(f?[\"']meteragent\.")
    rooms = [path for path in CODE if path.is_relative_to(ROOT / "meteragent")]
    inner = [path for path in rooms if path.parent.name != "cli" and "usage" not in path.parts]
    assert not [name_of(path) for path in inner if hidden.search(path.read_text())]


def test_error_tree() -> None:
    """The tree of errors drawn at the top of errors.py is the tree of its classes."""
    rows = re.findall(r"^( +(?:\+-- )?)([A-Z][A-Za-z]+)(?:  .*)?$", errors.__doc__ or "", re.MULTILINE)
    drawn: dict[str, str] = {}
    branch: list[tuple[int, str]] = []
    for before, name in rows:
        branch = [(depth, parent) for depth, parent in branch if depth < len(before)]
        drawn[name] = branch[-1][1] if branch else "Exception"
        branch.append((len(before), name))
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert drawn == {cls.__name__: cls.__bases__[0].__name__ for cls in classes}
