"""Profiles as data: a TOML file that describes the messages of a family of devices (docs/profiles.md)."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from meteragent.decode.profile import Profile
from meteragent.decode.profile_model import CodedTable, ProfileTable, QuantityTable, SourceTable
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, find_key_lines, line_of
from meteragent.domain.refusal import expectation, key_text, parse_toml, raise_all, value_text

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)
"""The pattern of a profile's name."""
_RESERVED_NAMES = ("number", "json")
"""The names of the formats that any device may send."""


def parse_profile(text: str, name: str, *, is_coded: bool = False) -> Profile:
    """Parse a profile file; if `is_coded`, keys that a module replaces may be missing. Raises ConfigError."""
    document = parse_toml(text)
    try:
        table = (CodedTable if is_coded else ProfileTable).model_validate(document)
    except ValidationError as error:
        raise_all(_refusals(error.errors(include_url=False), document, text))
        raise
    raise_all(_name_refusals(table.name, name, text))
    return table.to_profile()


def _name_refusals(stated_name: str, name: str, text: str) -> Iterator[ConfigError]:
    """Yield an error if the file's name, `name`, is not a valid profile name or not the stated name."""
    problem = None
    if not NAME.fullmatch(name) or name in _RESERVED_NAMES:
        problem = ConfigError(
            "name",
            repr(name),
            "a file name such as my-meter.toml, of at most 40 lower-case letters, digits, - and _, the first"
            " a letter or digit; number and json are reserved",
        )
    elif stated_name != name:
        problem = ConfigError("name", repr(stated_name), f"{name!r}, the name of the file")
    if problem is not None:
        problem.line = line_of(("name",), find_key_lines(text))
        yield problem


def _refusals(details: list[ErrorDetails], document: dict[str, Any], text: str) -> Iterator[ConfigError]:
    """Yield an error for each unknown, missing or wrong key; yield only one for a misspelt key."""
    key_lines = find_key_lines(text)
    unknown_paths = [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"]
    probable_keys = {path: _probable_key(path, document) for path in unknown_paths}
    misspelt_paths = {(*path[:-1], name) for path, name in probable_keys.items()}
    refused_paths = set[Path]()
    for detail in details:
        path = _key_path(detail["loc"])
        is_misspelt = detail["type"] == "missing" and detail["loc"] in misspelt_paths
        if not is_misspelt and path not in refused_paths:
            refused_paths.add(path)
            yield _refusal(detail, path, probable_keys, key_lines)


def _probable_key(path: Path, document: Any) -> str | None:
    """Return the missing key that is most similar to a misspelt key of the same table; None without one."""
    for part in path[:-1]:
        document = document[part]
    names = [name for name in _keys(path) if name not in document]
    return next(iter(difflib.get_close_matches(str(path[-1]), names, n=1)), None)


def _refusal(
    detail: ErrorDetails, path: Path, probable_keys: Mapping[Path, str | None], key_lines: Mapping[Path, int]
) -> ConfigError:
    if detail["type"] == "extra_forbidden":
        nearest_key = probable_keys[detail["loc"]]
        expected = nearest_key or f"one of {', '.join(_keys(path))}"
        error = ConfigError(key_text(path), "an unknown key", expected, meant=nearest_key)
    elif detail["type"] == "missing":
        error = ConfigError(key_text(path), "nothing", "a value, because this key has no default")
    else:
        expected, nearest_value = expectation(detail)
        key, separator, limits = expected.partition(": ")
        if separator and key in QuantityTable.model_fields and path[:1] == ("quantity",):
            path, expected = (*path, key), limits
        value = "nothing" if isinstance(detail["input"], Mapping) else value_text(path[-1], detail["input"])
        error = ConfigError(key_text(path), value, expected, meant=nearest_value)
    error.line = line_of(path, key_lines)
    return error


def _key_path(location: Path) -> Path:
    """Convert pydantic's location of an error to the key's path, without pydantic's type names."""
    depth = {"quantity": 3, "source": 3}.get(str(location[0]), 1) if location else 0
    return location[:depth]


def _keys(path: Path) -> list[str]:
    """Return the keys that are allowed in the table of the key at `path`."""
    table: dict[str, type[BaseModel]] = {"quantity": QuantityTable, "source": SourceTable}
    model = table.get(str(path[0]), ProfileTable) if len(path) > 1 else ProfileTable
    return list(model.model_fields)
