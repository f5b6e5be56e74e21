"""Lines of code by room: `python -m tests.commands.code_lines [FOLDER]`.

Blank lines, comments and docstrings are not counted. The agent's path consists of the modules that
`meteragent run` loads with the page, without the mathematics. FOLDER is a different checkout to compare with.
"""

import argparse
import ast
import io
import statistics
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("meteragent", "simulators", "benchmarks", "tests")
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
RUN = "meteragent.cli.run"
PAGE = "meteragent.agent.page.app"
_LOADED = """
import sys, importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*(module.__file__ for name, module in sys.modules.items()
        if name.startswith("meteragent") and getattr(module, "__file__", None)), sep="\\n")
"""


def code_lines(text: str) -> int:
    """Return the number of lines of a module that contain code."""
    docs = {line for node in _documented(ast.parse(text)) for line in range(node.lineno, _end(node) + 1)}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docs)


def _documented(tree: ast.Module) -> Iterator[ast.Expr]:
    """Yield string statements: docstrings, and the strings below constants."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def function_lengths(text: str) -> Iterator[int]:
    """Yield the number of lines of each function in a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield _end(node) - node.lineno + 1


def agents_path(root: Path) -> set[Path]:
    """Return the modules that `meteragent run` loads with the page, without the mathematics."""
    return {path for path in loaded(root, RUN, PAGE) if root / "meteragent" / "privacy" not in path.parents}


def loaded(root: Path, *names: str) -> set[Path]:
    """Return the modules of ours that are loaded if these are imported."""
    result = subprocess.run(
        [sys.executable, "-c", _LOADED, *names],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": ""},
    )
    return {Path(line).resolve() for line in result.stdout.splitlines()}


def main() -> int:
    """Print the lines of code by room, on the agent's path and in all, and the median function."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT)
    root = parser.parse_args().folder.resolve()
    path, rooms, lengths, agent = agents_path(root), Counter[str](), list[int](), 0
    for folder in FOLDERS:
        for file in (root / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            lines = code_lines(text)
            parts = file.relative_to(root).parts
            rooms["/".join(parts[:2]) if folder == "meteragent" else folder] += lines
            agent += lines if file.resolve() in path else 0
            if folder == "meteragent":
                lengths += function_lengths(text)
    for room, lines in sorted(rooms.items()):
        print(f"{lines:>7,}  {room}")
    print(f"{agent:>7,}  the agent's path, without the mathematics")
    print(f"{sum(n for room, n in rooms.items() if room.startswith('meteragent')):>7,}  meteragent in all")
    print(f"{statistics.median(lengths):>7}  lines of the median function of meteragent, of {len(lengths):,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
