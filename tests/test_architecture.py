"""The form of the house: what a reader may rely on without looking."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from meteragent import errors
from tests.not_run import ROOT

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
CODE = sorted(path for folder in ("meteragent", "simulators") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """A file's name in the repository."""
    return path.relative_to(ROOT).as_posix()


def parsed(paths: list[Path]) -> Iterator[tuple[str, ast.Module]]:
    """Names and syntax trees."""
    for path in paths:
        yield name_of(path), ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function, those in classes and functions too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def calls(tree: ast.AST) -> Iterator[str]:
    """What is called, as written."""
    return (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))


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
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in parsed(CODE + TESTS)
        for node in functions(tree)
        if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


def test_files_are_short() -> None:
    """No file is longer than 400 lines."""
    assert not [name_of(path) for path in CODE + TESTS if path.read_text().count("\n") > FILE_LINES_MAX]


def test_modules_say_what_they_are() -> None:
    """Every module begins with its purpose."""
    assert not [name for name, tree in parsed(CODE + TESTS) if not ast.get_docstring(tree)]


def test_public_names_say_what_they_are() -> None:
    """Every public class, function and method has a docstring."""
    silent = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in parsed(CODE)
        for node in ast.walk(tree)
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and node not in nested(tree)
        and not ast.get_docstring(node)
    ]
    assert not silent


def nested(tree: ast.AST) -> set[ast.AST]:
    """What stands inside functions or private classes: nobody else can name it."""
    private = (
        node
        for node in ast.walk(tree)
        if isinstance(node, Function) or (isinstance(node, ast.ClassDef) and node.name.startswith("_"))
    )
    return {inner for node in private for inner in ast.walk(node) if inner is not node}


def test_tests_are_sentences() -> None:
    """The docstring of a test begins with a sentence of the specification."""
    wordless = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in parsed(TESTS)
        for node in functions(tree)
        if node.name.startswith("test_") and not re.match(r"[^.]+\S[.:]", ast.get_docstring(node) or "")
    ]
    assert not wordless


def test_tests_do_not_sleep() -> None:
    """No test outside integration sleeps: it waits for what it needs; commands are no tests."""
    sleeps = [
        name
        for name, tree in parsed(TESTS)
        if not name.startswith(("tests/integration/", "tests/tools/"))
        and any(re.search(r"(^|\.)sleep$", call) for call in calls(tree))
    ]
    assert not sleeps


def test_nothing_is_skipped_in_silence() -> None:
    """A test is left out by `not_run` only, which says so and fails unless MISSING_OK names the part."""
    skips = [
        name
        for name, tree in parsed(TESTS)
        if name != "tests/not_run.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and re.search("skip|xfail", node.attr)
    ]
    assert not skips


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
        "meteragent.discover",
        "meteragent.export",
        "meteragent.plan",
        "meteragent.redact",
        "meteragent.statement",
        "meteragent.tap",
    ]
    code = f"import sys, meteragent.cli, meteragent.agent; print(*sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_mathematics_stands_alone() -> None:
    """Importing meteragent.privacy loads nothing else of ours, and neither scipy nor pydantic."""
    code = "import sys, meteragent.privacy; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    ours = [name for name in loaded if name.startswith("meteragent.")]
    assert all(name.startswith("meteragent.privacy") for name in ours)
    assert {"numpy", "meteragent.privacy.mechanism.gaussian"} <= set(loaded)
    assert not {"scipy", "pydantic"} & set(loaded)


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
