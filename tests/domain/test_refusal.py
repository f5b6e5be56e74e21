"""meteragent.domain.refusal: the words in which a TOML file is refused."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import parse_exact
from meteragent.domain.refusal import (
    expectation,
    key_text,
    parse_toml,
    raise_all,
    similar,
    text_of_file,
    value_text,
)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("radius", {"a": 1}, "a table"),
        ("range", [[1], 2], "a list of lists or tables"),
        ("password_file", 12, "a number"),
        ("url", "mqtt://user:secret@broker", "an address"),
        ("hide", Decimal("1.50"), "1.50"),
        ("topic", "x" * 100, "'" + "x" * 59 + " .."),
    ],
)
def test_a_value_is_shown_without_secrets(name: str, value: Any, text: str) -> None:
    """An error shows a short value, and neither an address, which may hold a password, nor a secret."""
    assert value_text(name, value) == text


def test_a_path_is_shown_as_keys() -> None:
    """A path reads as in TOML, with the number of a list's element in brackets."""
    assert key_text(("stream", 1, "privacy", "radius")) == "stream[1].privacy.radius"


def test_the_nearest_word_ignores_case() -> None:
    """A word in another case or with a typo is recognised; anything else has no nearest word."""
    words = ("power", "register")
    assert similar("Power", words) == "'power'"
    assert similar("regster", words) == "'register'"
    assert similar("zzz", words) is None
    assert similar(3, words) is None


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (
            {
                "type": "literal_error",
                "ctx": {"expected": "'power' or 'register'"},
                "input": "powr",
                "msg": "",
            },
            ("'power' or 'register'", "'power'"),
        ),
        ({"type": "too_long", "ctx": {"max_length": 2}, "msg": ""}, ("at most 2 values", None)),
        ({"type": "too_short", "ctx": {"min_length": 1}, "msg": ""}, ("at least 1 value", None)),
        ({"type": "value_error", "msg": "Value error, a time zone"}, ("a time zone", None)),
    ],
)
def test_the_expected_value_of_an_error(detail: dict[str, Any], expected: tuple[str, str | None]) -> None:
    """The expected value is named, with the word that was probably meant."""
    assert expectation(detail) == expected


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are not UTF-8 are refused, the bytes with their line."""
    path = tmp_path / "file.toml"
    for place, text in ((path, "no such file or directory"), (tmp_path, "found a directory")):
        with pytest.raises(ConfigError, match=text):
            text_of_file(place)
    path.write_bytes(b"a = 1\n\xff")
    with pytest.raises(ConfigError, match="not UTF-8") as refusal:
        text_of_file(path)
    assert refusal.value.line == 2
    path.write_text("a = 1\n")
    assert text_of_file(path) == "a = 1\n"


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("[source\n", "not TOML", 1),
        ("a = 1\nb = = 2\n", "not TOML", 2),
        ("a = 1\nb = [1,\n", "not TOML", 2),
        ("a = 1\nb = 1e99999999999999999999\n", "out of range", 2),
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply", None),
        ("a = " + "1" * 5000, "not TOML", None),
    ],
)
def test_a_text_that_is_not_toml_has_a_line(text: str, reason: str, line: int | None) -> None:
    """The refusal of a text that is not TOML names the line at which reading ended, if it is known."""
    with pytest.raises(ConfigError, match=reason) as refusal:
        parse_toml(text)
    assert refusal.value.line == line


@pytest.mark.parametrize(
    ("data", "reason", "line"),
    [
        (b"\xef\xbb\xbfa = 1\n", "a byte order mark before the text", None),
        ("a = 1\n".encode("utf-16"), "UTF-16 text", 1),
        ("a = 1\nb = “W”\n".encode(), "a typographic quotation mark \\(“\\)", 2),
        ("a = 'x'\nb = ‘W’\n".encode(), "a typographic quotation mark \\(‘\\)", 2),
        ("a = '„x“'\nb = =\n".encode(), "not TOML", 2),
    ],
)
def test_what_editors_write_is_named(tmp_path: Path, data: bytes, reason: str, line: int | None) -> None:
    """A byte order mark, UTF-16, and typographic quotation marks on the line that is not TOML."""
    path = tmp_path / "home.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=reason) as refusal:
        parse_toml(text_of_file(path))
    assert refusal.value.line == line


def test_numbers_of_toml_are_exact() -> None:
    """A number with a point becomes a decimal, never a float."""
    assert parse_toml("a = 0.10\nb = 2\n[c]\nd = 1e3") == {"a": Decimal("0.10"), "b": 2, "c": {"d": 1000}}


def test_all_problems_are_raised_at_once() -> None:
    """Several problems are one error, in the order of their lines; none raises nothing."""
    raise_all([])
    first, second = ConfigError("a", "1", "2"), ConfigError("b", "1", "2")
    first.line, second.line = 7, 3
    with pytest.raises(ConfigError) as refusal:
        raise_all([first, second])
    assert [error.key for error in refusal.value.errors] == ["b", "a"]


@pytest.mark.parametrize("value", [True, 1.5, None, "1e999", 10**400, "x", "1/0", Decimal("NaN")])
def test_a_number_that_is_not_exact_is_refused(value: Any) -> None:
    """A boolean, a float, an enormous number and a text that is not a number are refused."""
    with pytest.raises(ValueError, match="number"):
        parse_exact(value)
