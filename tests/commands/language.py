"""Check how code and pages read: verbs in docstrings, names that say what they hold, and words to avoid.

    python -m tests.commands.language [FOLDER...]

prints each place where a rule of CONTRIBUTING is broken, and exits with 1 if there is one. Test modules
(`test_*.py`) are not checked: a test's docstring is a sentence of the specification. Without a folder, the
pages for users are checked, too, and the names in those test modules that have been tidied.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.commands.words import by_hand, is_for_users, names, without_code

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *("meteragent", "simulators", "benchmarks", "deploy"),
    *("tests/support", "tests/commands", "tests/integration"),
)
TIDY_TESTS = (
    *("tests/cli/test_profile_command.py", "tests/decode/test_profiles.py", "tests/house/test_fence.py"),
    *("tests/house/test_presets.py", "tests/house/test_words.py", "tests/tools/test_export.py"),
)
"""The test modules whose names are checked: add those that you tidy."""
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
EXCUSE = "# names: "
"""The beginning of a comment that says why a name stands on this line nevertheless."""
STATEMENTS = frozenset(
    [
        *("are", "can", "cannot", "does", "has", "have", "is", "may", "must", "needs", "should", "was"),
        *("were", "will", "would", "accepts", "admits", "agrees", "allows", "answers", "bends", "carries"),
        *("closes", "completes", "conforms", "continues", "contradicts", "differs", "divides", "exceeds"),
        *("excludes", "exists", "explains", "fails", "fills", "fits", "follows", "forgets", "gets", "gives"),
        *("goes", "hides", "holds", "identifies", "includes", "keeps", "knows", "lacks", "listens", "lives"),
        *("matches", "meets", "names", "outlives", "overlaps", "owns", "passed", "passes", "reads"),
        *("repeats", "reports", "resets", "resumes", "retains", "rises", "runs", "sends", "stands", "starts"),
        *("stays", "trusts", "uses", "waits"),
    ]
)
"""The first words by which the name of a bool reads as a statement; `is` may also follow its subject."""
KEYS = frozenset(
    [
        *("clamp", "clean", "duplicate", "extended", "paused", "raw", "retain", "rounded", "session_present"),
        *("sink_up", "source_up", "take_over", "tight", "tls", "total", "yes"),
    ]
)
"""Bools named as in a protocol, a file, a message or a documented function, or on the command line."""
VAGUE_LOCALS = frozenset(
    [
        *("counted", "drawn", "ended", "everything", "failed", "held", "hidden", "known", "lost", "masked"),
        *("nothing", "others", "owed", "parsed", "rest", "shown", "stamped", "struck", "tapped", "torn"),
        *("turned", "waited", "whom", "written"),
    ]
)
"""Likewise, for variables and parameters: a field of a class may also be a key of a file or of a message."""
NOUNS = frozenset({"property", "cached_property", "setter"})
"""Decorators of functions that are read like an attribute, so that their docstring begins with a noun."""
PARTICIPLE = re.compile(r"_*(?!(?:feed|need|seed|speed|proceed|embed)$)[a-z]+ed")
"""The name of a function that says neither what it does, as `parse`, nor what it returns, as `parsed_row`."""
PRODUCT = "meteragent"
"""The folder in which functions may not be named so."""

AVOIDED = {
    re.compile(r"(?<![`'\".])\bbeside\b(?![`'\"])", re.IGNORECASE): "next to, with or compared with",
    re.compile(r"\bwhoever\b", re.IGNORECASE): "anyone who",
}
"""Words that native engineers do not use, in docstrings, comments and pages, and what to write instead."""
AVOIDED_IN_PAGES = AVOIDED | {
    re.compile(r"\bcounts? as\b"): "is treated as",
    re.compile(r"\b(?:do|does|did|will) not count\b"): "is not used",
    re.compile(r"\bin all[.,;:)]"): "in total",
    re.compile(r"\b(?:anything|what|nothing|numbers?|records?) leaves?\b"): "is sent",
}
"""Likewise, on pages for users."""
AVOIDING = ("meteragent", "simulators", "benchmarks", "deploy")
"""The folders whose docstrings and comments avoid these words."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def violations(path: Path) -> Iterator[str]:
    """Yield a line for each place in a file where a rule is broken."""
    tree = ast.parse(path.read_text("utf-8"))
    file = path.relative_to(ROOT)
    for node in definitions(tree):
        docstring = ast.get_docstring(node)
        if not docstring:
            yield f"{file}:{node.lineno}: {node.name}: no docstring"
        elif needs_verb(node) and not starts_with_verb(docstring):
            summary = docstring.splitlines()[0]
            yield f"{file}:{node.lineno}: {node.name}: no verb at the beginning of {summary!r}"
    yield from vague_names(path)
    excused = excused_lines(path)
    complaints = list(bools(tree))
    if file.parts[0] == PRODUCT:
        complaints += participles(tree)
    for line_number, complaint in complaints:
        if line_number not in excused:
            yield f"{file}:{line_number}: {complaint}"


def excused_lines(path: Path) -> set[int]:
    """Return the lines of a file on which a name stands with a reason."""
    lines = path.read_text("utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if EXCUSE in line}


def vague_names(path: Path) -> Iterator[str]:
    """Yield a line for each variable and parameter in a file whose name does not say what it holds."""
    tree, excused = ast.parse(path.read_text("utf-8")), excused_lines(path)
    fields = set(fields_of_classes(tree))
    for binding, name in bindings(tree):
        is_vague = name in VAGUE or (name in VAGUE_LOCALS and binding not in fields)
        if is_vague and binding.lineno not in excused:
            yield f"{path.relative_to(ROOT)}:{binding.lineno}: {name!r} does not say what it holds"


def avoided_words(path: Path) -> Iterator[str]:
    """Yield a line for each word to avoid in the strings and comments of a module."""
    with tokenize.open(path) as file:
        tokens = list(tokenize.generate_tokens(io.StringIO(file.read()).readline))
    for token in tokens:
        if token.type in {tokenize.STRING, tokenize.COMMENT}:
            yield from _found(token.string, AVOIDED, f"{path.relative_to(ROOT)}:{token.start[0]}")


def avoided_words_of_page(name: str) -> Iterator[str]:
    """Yield a line for each word to avoid on a page for users."""
    yield from _found(without_code(by_hand((ROOT / name).read_text("utf-8"))), AVOIDED_IN_PAGES, name)


def _found(text: str, avoided: dict[re.Pattern[str], str], place: str) -> Iterator[str]:
    for pattern, instead in avoided.items():
        for match in pattern.finditer(text):
            yield f"{place}: {match[0]!r}: write {instead}"


def definitions(tree: ast.Module) -> Iterator[Definition]:
    """Yield the functions and classes that need a docstring; those inside others do, too."""
    for node in ast.walk(tree):
        if (
            isinstance(node, Definition)
            and not node.name.startswith("_")
            and "overload" not in map(decorator_name, node.decorator_list)
        ):
            yield node


def needs_verb(node: Definition) -> bool:
    """Return whether the docstring begins with a verb: a function's, except a test's or an attribute's."""
    if not isinstance(node, Function) or node.name.startswith("test_"):
        return False
    return NOUNS.isdisjoint(map(decorator_name, node.decorator_list))


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


def fields_of_classes(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the names that are assigned in the body of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign):
                    yield statement.target


def participles(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line of each function that only a participle names, and a complaint; attributes may be so."""
    for node in ast.walk(tree):
        if (
            isinstance(node, Function)
            and PARTICIPLE.fullmatch(node.name)
            and NOUNS.isdisjoint(map(decorator_name, node.decorator_list))
        ):
            yield node.lineno, f"{node.name!r} says neither what it does nor what it returns"


def bools(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line of each bool whose name is no statement, and a complaint.

    These are functions, parameters and variables that are annotated as a bool. A function that acts, and then
    returns whether it had an effect, is named after its act.
    """
    for line_number, name in annotated_bools(tree):
        if not reads_as_statement(name):
            yield line_number, f"{name!r} is a bool, but does not read as a statement"


def annotated_bools(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each function, parameter and variable that is annotated as a bool."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and is_bool(node.returns) and not does_act(node):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg) and is_bool(node.annotation):
            yield node.lineno, node.arg
        elif isinstance(node, ast.AnnAssign) and is_bool(node.annotation):
            yield node.lineno, ast.unparse(node.target).removeprefix("self.")


def does_act(node: Function) -> bool:
    """Return whether a function does something before it returns, according to its docstring."""
    return needs_verb(node) and not (ast.get_docstring(node) or "Return").startswith("Return ")


def is_bool(annotation: ast.expr | None) -> bool:
    """Return whether an annotation is `bool`."""
    return isinstance(annotation, ast.Name) and annotation.id == "bool"


def reads_as_statement(name: str) -> bool:
    """Return whether the name of a bool is a statement, Python's own, or a key."""
    words = name.strip("_").split("_")
    return words[0] in STATEMENTS or "is" in words or name.strip("_") in KEYS or name.startswith("__")


def main(folders: list[str]) -> int:
    """Print the violations in the folders; return the exit code."""
    files = sorted(path for folder in folders or FOLDERS for path in (ROOT / folder).rglob("*.py"))
    paths = [path for path in files if not path.name.startswith("test_")]
    lines = [line for path in paths for line in violations(path)]
    avoiding = [path for path in paths if path.relative_to(ROOT).parts[0] in AVOIDING]
    lines += [line for path in avoiding for line in avoided_words(path)]
    lines += [line for name in TIDY_TESTS if not folders for line in vague_names(ROOT / name)]
    pages = [] if folders else filter(is_for_users, names())
    lines += [line for page in pages for line in avoided_words_of_page(page)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
