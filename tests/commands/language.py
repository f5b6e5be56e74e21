"""Check how the code reads: docstrings that begin with a verb, and names that say what they hold.

    python -m tests.commands.language [FOLDER...]

prints each place where a rule of CONTRIBUTING is broken, and exits with 1 if there is one.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("meteragent", "simulators", "benchmarks", "deploy")
VERBS = frozenset((Path(__file__).parent / "verbs.txt").read_text("utf-8").split())
VAGUE = frozenset(
    [
        *("again", "all_", "asked", "both", "came", "coming", "done", "each", "found", "given", "gone"),
        *("grouped", "heard", "here", "joined", "kept", "least", "less", "looked", "made", "many", "most"),
        *("much", "needed", "next", "now_", "numbered", "observed", "off", "one", "own", "paused", "said"),
        *("seen", "sending", "sent", "serving", "shrunk", "some", "spanned", "stretched", "taken", "there"),
        *("these", "thing", "those", "told", "took", "typed", "unnamed", "used", "wanted", "way", "what"),
        *("which", "who", "whoever", "whole", "whose"),
    ]
)
"""Pronouns, participles, adverbs and empty nouns, which do not describe a value."""
EXEMPT = frozenset({"property", "cached_property", "overload", "setter"})
"""Decorators of functions that read as a noun, or that have no docstring of their own."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def violations(path: Path) -> Iterator[str]:
    """Yield a line for each place in a file where a rule is broken."""
    tree = ast.parse(path.read_text("utf-8"))
    file = path.relative_to(ROOT)
    for function in public_functions(tree):
        docstring = ast.get_docstring(function)
        if docstring and not starts_with_verb(docstring):
            summary = docstring.splitlines()[0]
            yield f"{file}:{function.lineno}: {function.name}: no verb at the beginning of {summary!r}"
    for node, name in bindings(tree):
        if name in VAGUE:
            yield f"{file}:{node.lineno}: {name!r} does not say what it holds"


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[Function]:
    """Yield the public functions and methods of a module, those without exempt decorators."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node)
        elif (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.name.startswith("_")
            and EXEMPT.isdisjoint(map(decorator_name, node.decorator_list))
        ):
            yield node


def decorator_name(decorator: ast.expr) -> str:
    """Return the last part of a decorator's name."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr
    return decorator.id if isinstance(decorator, ast.Name) else ""


def starts_with_verb(docstring: str) -> bool:
    """Return whether the first word is one of the verbs, in the imperative."""
    return docstring.split(maxsplit=1)[0].rstrip(",.:;") in VERBS


def bindings(tree: ast.AST) -> Iterator[tuple[ast.Name | ast.arg, str]]:
    """Yield each variable that is assigned, and each parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.arg):
            yield node, node.arg


def main(folders: list[str]) -> int:
    """Print the violations in the folders; return the exit code."""
    paths = sorted(path for folder in folders or FOLDERS for path in (ROOT / folder).rglob("*.py"))
    lines = [line for path in paths for line in violations(path)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
