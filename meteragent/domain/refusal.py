"""Parse TOML, and word the refusals of configurations, profiles and other files."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from meteragent.domain.errors import ConfigError, ConfigErrors
from meteragent.domain.lines import find_key_lines, line_of, path_of

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a table",
    "path_type": "a path, as a string",
    "string_too_short": "a string that is not empty",
    "string_type": "a string",
    "tuple_type": "a list",
}
"""The expected value in plain words, by the type of pydantic's error, whose own text uses Python's terms."""

_QUOTED = re.compile(r"'([^']*)'")
_SECRET = re.compile(r"(?:^|_)(?:file|key|password|secret|token)(?:_|$)")
_KINDS: dict[type, str] = {bool: "a boolean", int: "a number", Decimal: "a number", list: "a list"}
_PLACE = re.compile(r" \(at line (\d+), column \d+\)$| \(at end of document\)$")
_CURLY = re.compile("[“”„‟‘’‚‛«»]")
_BYTE_ORDER, _UTF_16 = "\ufeff", (b"\xff\xfe", b"\xfe\xff")
_EXTREME = re.compile(r"\d[eE][+-]?[\d_]{19}")
_TEXT_MAX = 60
"""The largest number of characters of a value that `value_text` repeats."""


def expectation(detail: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the value that pydantic expected, in words, and the nearest allowed word, if any."""
    expected, limits = _EXPECTED.get(detail["type"]), detail.get("ctx", {})
    meant = None
    if detail["type"] in ("literal_error", "enum"):
        expected = str(limits["expected"])
        meant = similar(detail["input"], _QUOTED.findall(expected))
    elif detail["type"] in ("too_long", "too_short"):
        expected = (
            f"at most {limits['max_length']} values"
            if "max_length" in limits
            else f"at least {limits['min_length']} value"
        )
    elif detail["type"] == "string_too_long":
        expected = f"at most {limits['max_length']} characters"
    expected = expected or detail["msg"].removeprefix("Value error, ")
    return expected.replace("Input should be", "a value"), meant


def value_refusal(detail: Mapping[str, Any], expected_values: Mapping[str, str]) -> ConfigError:
    """Return the refusal of a missing or wrong value; `expected_values` describes the values of keys."""
    path = detail["loc"]
    if detail["type"] == "missing":
        words = expected_values.get(".".join(part for part in path if isinstance(part, str)), "a value")
        return ConfigError(key_text(path), "nothing", f"{words}: this key has no default")
    expected, meant = expectation(detail)
    return ConfigError(key_text(path), value_text(path[-1], detail["input"]), expected, meant=meant)


def locate(problems: Iterable[ConfigError], text: str) -> None:
    """Set the line of each problem with a key of `text`, which must be valid TOML, unless it has a line."""
    key_problems = [problem for problem in problems if problem.file is None and problem.key]
    key_lines = find_key_lines(text) if key_problems else {}
    for problem in key_problems:
        problem.line = problem.line or line_of(path_of(problem.key), key_lines)


def key_text(path: Sequence[str | int]) -> str:
    """Return a path as text, such as `stream[1].privacy.radius`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def similar(value: Any, words: Sequence[str]) -> str | None:
    """Return, in quotes, the word that equals `value` apart from case, or else the closest, if any."""
    if not isinstance(value, str):
        return None
    matches = [word for word in words if word.lower() == value.lower()]
    matches = matches or difflib.get_close_matches(value, words, n=1)
    return repr(matches[0]) if matches else None


def value_text(name: str | int, value: Any) -> str:
    """Return a value as an error may show it: tables, addresses with passwords, and secrets are replaced.

    A secret may have been entered in place of its file's name. Of a long value, only the start is shown.
    """
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list) and any(isinstance(element, list | dict) for element in value):
        return "a list of lists or tables"
    if _SECRET.search(str(name)):
        return _KINDS.get(type(value), "a value of another kind")
    text = _plain_text(value)
    if "://" in text:
        return "an address"
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} .."


def _plain_text(value: Any) -> str:
    """Return a value almost as it is written in TOML: a decimal is 0.5, not Decimal('0.5')."""
    if isinstance(value, list):
        return f"[{', '.join(map(_plain_text, value))}]"
    return str(value) if isinstance(value, Decimal) else repr(value)


def text_of_file(path: Path) -> str:
    """Return the text of a file. Raises ConfigError if the file cannot be read or is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        fault = "UTF-16 text" if error.object[:2] in _UTF_16 else "a byte that is not UTF-8"
        refusal = ConfigError("", fault, "UTF-8 text")
        refusal.line = error.object.count(b"\n", 0, error.start) + 1
        raise refusal from None
    except (OSError, ValueError) as error:
        is_folder = isinstance(error, IsADirectoryError)
        text = "expected a TOML file, found a directory" if is_folder else unreadable_reason(error)
        raise ConfigError("", unreadable_reason(error), "a TOML file that can be read", text=text) from None


def unreadable_reason(error: Exception) -> str:
    """Return why a file could not be read: in the operating system's words, if it has any."""
    return (getattr(error, "strerror", None) or "not the name of a file").lower()


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML, with decimals for numbers with a point or an exponent. Raises ConfigError with the line."""
    if text.startswith(_BYTE_ORDER):
        raise ConfigError("", "a byte order mark before the text", "UTF-8 without such a mark")
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except InvalidOperation:  # an exponent with more digits than a Decimal has
        refusal = ConfigError("", "a number out of range", "exponents of at most 18 digits")
        if (number := _EXTREME.search(text)) is not None:
            refusal.line = text.count("\n", 0, number.start()) + 1
        raise refusal from None
    except (ValueError, RecursionError) as error:  # also raised for too many digits or nested brackets
        raise _toml_refusal(error, text) from None


def _toml_refusal(error: Exception, text: str) -> ConfigError:
    message = "brackets nested too deeply" if isinstance(error, RecursionError) else str(error)
    place, lines = _PLACE.search(message), text.splitlines()
    line = 0 if place is None else int(place[1]) if place[1] else max(1, len(lines))
    quote = _CURLY.search("".join(lines[line - 1 : line]))
    if quote is None:
        refusal = ConfigError("", f"text that is not TOML ({_PLACE.sub('', message)})", "TOML")
    else:
        expected = "straight quotation marks, such as 'W' or \"W\""
        refusal = ConfigError("", f"a typographic quotation mark ({quote[0]})", expected)
    refusal.line = line or None
    return refusal


def raise_all(problems: Iterable[ConfigError]) -> None:
    """Raise one ConfigError with all problems, if any, sorted by file and line (without a line: last)."""
    errors = sorted(problems, key=lambda error: (error.file or "", error.line is None, error.line or 0))
    if errors:
        raise (errors[0] if len(errors) == 1 else ConfigErrors(*errors)) from None
