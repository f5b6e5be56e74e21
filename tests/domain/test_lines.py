"""Where the keys of a TOML file stand: the scanner against `tomllib`."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.lines import find_key_lines, line_of, path_of
from tests.support.not_run import ROOT

# Documents as people, and people who mean harm, write them ------------------------------------------

TRICKY = st.sampled_from(
    ["", "a", "#", "[x]", "[[x]]", "a = 1", "]", "}", ",", "=", ".", "a.b", " ", "'", "ä"]
)
BARE = st.sampled_from(["a", "b", "c", "a-1", "2", "_"])


def basic(text: str) -> str:
    """A basic string: quotes and line ends are escaped."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


names = st.one_of(
    BARE,
    TRICKY.map(basic),
    TRICKY.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    st.just('"\\u0061"'),  # the same key as a
)
keys = st.lists(names, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([".", " . ", "\t."]).map(lambda dot: dot.join(parts))
)
texts = st.one_of(
    TRICKY.map(basic),
    TRICKY.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    TRICKY.map(lambda text: f'"""{text}\n[a]\nb = 2 # "\n{text} \\""""'),
    TRICKY.filter(lambda text: "'" not in text).map(
        lambda text: f"'''\n{text}\n[[a]]\n# it's '' \n{text}'''"
    ),
    st.sampled_from(
        ['""""two quotes at each end"""""', "'''''two'''''", '"""\\\n   b = 1"""', '"\\\\"', "''"]
    ),
)
scalars = st.one_of(
    texts,
    st.sampled_from(["1", "-0.5", "true", "1979-05-27 07:32:00", "1979-05-27", "07:32:00", "inf", "1_0"]),
)
blanks = st.sampled_from(["", " ", "\n", "\r\n", " # a = [ 1\n", "\n\n  # ] }\n", "\t"])


@st.composite
def arrays(draw: st.DrawFn, elements: st.SearchStrategy[str]) -> str:
    """An array with ends of lines and comments anywhere between its elements."""
    values = draw(st.lists(elements, max_size=3))
    text = "[" + draw(blanks)
    for number, value in enumerate(values):
        comma = "," if number < len(values) - 1 or draw(st.booleans()) else ""
        text += value + draw(blanks) + comma + draw(blanks)
    return text + "]"


def inline_tables(elements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A table in one line; its values may have more."""
    pairs = st.lists(st.tuples(keys, elements).map(lambda pair: f"{pair[0]} = {pair[1]}"), max_size=2)
    return pairs.map(lambda texts: "{ " + ", ".join(texts) + " }")


values = st.recursive(scalars, lambda inner: st.one_of(arrays(inner), inline_tables(inner)), max_leaves=4)
statements = st.one_of(
    st.tuples(keys, values).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    keys.map(lambda key: f"[ {key} ]"),
    keys.map(lambda key: f"[[{key}]]"),
    st.sampled_from(["", "# [a]", "   ", "# a = 1"]),
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A valid document: of drawn statements those that may follow what stands before them."""
    text = ""
    for statement in draw(st.lists(statements, min_size=1, max_size=10)):
        end = draw(st.sampled_from(["\n", " # [b]\n", "\r\n"]))
        if parsed(text + statement + end) is not None:
            text += statement + end
    return text


def parsed(text: str) -> dict[str, Any] | None:
    """The document; None if it is not TOML."""
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each table, element and value of a document."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, child in children:
        yield (*path, name)
        yield from paths(child, (*path, name))


@given(documents())
def test_every_key_and_no_other_has_a_line(text: str) -> None:
    """The paths that have a line are those of the document that `tomllib` reads."""
    assert set(find_key_lines(text)) == set(paths(tomllib.loads(text)))


@given(documents())
def test_a_line_is_that_of_the_statement_that_first_names_a_path(text: str) -> None:
    """Cut before its statement the text has no such path; one within a value lies within its statement."""
    rows = text.replace("\r\n", "\n").split("\n")
    prefixes = {n: parsed("\n".join(rows[:n])) for n in range(len(rows) + 1)}
    valid = {n: set(paths(document)) for n, document in prefixes.items() if document is not None}
    for path, line in find_key_lines(text).items():
        before = max(n for n, known in valid.items() if path not in known)
        after = min(n for n, known in valid.items() if path in known)
        starts = all(path[:depth] in valid[before] for depth in range(1, len(path)))
        assert before < line <= after
        assert line == before + 1 or not starts


def test_the_lines_of_a_document_that_has_everything() -> None:
    """Tables, arrays of tables, dotted and quoted keys, strings and arrays over several lines."""
    text = '''\
# a = 1
a.b."c.d" = """
[x]
y = 1"""
[e]
f = [
  1, # ]
  { g = "]" },
]

[[h]]
i = 1
[h.j]
k = \'\'\'
[[h]]\'\'\'
[[h]]
[h.j]
"k" = 2
[[h.l]]
[[h.l]]
m = 3
'''
    assert find_key_lines(text) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("a", "b", "c.d"): 2,
        ("e",): 5,
        ("e", "f"): 6,
        ("e", "f", 0): 7,
        ("e", "f", 1): 8,
        ("e", "f", 1, "g"): 8,
        ("h",): 11,
        ("h", 0): 11,
        ("h", 0, "i"): 12,
        ("h", 0, "j"): 13,
        ("h", 0, "j", "k"): 14,
        ("h", 1): 16,
        ("h", 1, "j"): 17,
        ("h", 1, "j", "k"): 18,
        ("h", 1, "l"): 19,
        ("h", 1, "l", 0): 19,
        ("h", 1, "l", 1): 20,
        ("h", 1, "l", 1, "m"): 21,
    }


def test_the_line_of_a_key_that_is_missing_is_that_of_its_table() -> None:
    """A key is found by its text; one that is not there by the nearest table around it, or not at all."""
    known = find_key_lines("[[stream]]\n[stream.privacy]\n[[stream]]\nname = 'b'\nprivacy.radius = 1\n")
    assert path_of("stream[1].privacy.radius") == ("stream", 1, "privacy", "radius")
    for key, line in (
        ("stream[1].privacy.radius", 5),
        ("stream[1].privacy.level", 5),
        ("stream[0].privacy", 2),
    ):
        assert line_of(path_of(key), known) == line
    assert line_of(path_of("stream[1].sink.topic"), known) == 3
    assert line_of(path_of("store.path"), known) is None


@pytest.mark.parametrize("name", ["meteragent.toml", "archive.toml"])
def test_each_key_of_the_reference_is_on_its_line(name: str) -> None:
    """In the files that people start from each key stands on the line that is said."""
    text = (ROOT / "deploy" / name).read_text()
    rows = text.splitlines()
    known = find_key_lines(text)
    assert set(known) == set(paths(tomllib.loads(text)))
    for path, line in known.items():
        assert isinstance(path[-1], int) or str(path[-1]) in rows[line - 1]


def test_what_is_nested_too_deep_has_no_lines() -> None:
    """Brackets without end say nothing, and end nothing."""
    assert find_key_lines("a = " + "[" * 100_000) == {}
