"""Paths in a JSON document, which distinguish an absent value from null.

A path such as `ENERGY.Power` or `params."em:0".act_power` consists of names, or of `*` for the only child in
which the rest of the path exists. Any other path is a JMESPath expression, which treats null as absent.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from meteragent.decode.json import make_finder as expression_finder
from meteragent.domain.errors import PayloadError

ABSENT: Final = object()
"""The value at a path that does not exist, as opposed to null."""

Find = Callable[[Any], Any]
_NAME = r'(?:[A-Za-z_][A-Za-z0-9_]*|"(?:[^"\\]|\\.)*")'
_PATH = re.compile(rf"(?:{_NAME}|\*)(?:\.(?:{_NAME}|\*))*", re.ASCII)
_PART = re.compile(rf"{_NAME}|\*", re.ASCII)
_ANY = "*"


def names_of(path: str) -> tuple[str, ...] | None:
    """Return the names in a path; None if it is an expression. Raises ValueError for a wrong quoted name."""
    if not _PATH.fullmatch(path):
        return None
    return tuple(json.loads(part) if part.startswith('"') else part for part in _PART.findall(path))


def words_in(path: str) -> tuple[str, ...]:
    """Return the names that a path or a JMESPath expression may look up."""
    return tuple(part.strip('"') for part in _PART.findall(path) if part != _ANY)


def make_finder(path: str) -> Find:
    """Make a function that returns the value at a path, or `ABSENT`. Raises ValueError for a wrong path."""
    names = names_of(path)
    if names is None:
        search = expression_finder(path)
        return lambda document: ABSENT if (value := search(document)) is None else value
    return make_name_finder(names)


def make_name_finder(names: Sequence[str]) -> Find:
    """Make a function that returns the value at a path of names (each a key or `*`), or `ABSENT`."""
    if _ANY in names:
        index = names.index(_ANY)
        return _any_child(make_name_finder(names[:index]), make_name_finder(names[index + 1 :]))
    if len(names) == 1:
        (key,) = names
        return lambda document: document.get(key, ABSENT) if type(document) is dict else ABSENT

    def find(document: Any) -> Any:
        """Return the value at the path, or `ABSENT`."""
        for name in names:
            if type(document) is not dict:
                return ABSENT
            document = document.get(name, ABSENT)
        return document

    return find


def _any_child(find_parent: Find, find: Find) -> Find:
    """Make a function that finds a value in a parent's children; only one child may contain it."""

    def find_in_children(document: Any) -> Any:
        """Return the value, or `ABSENT`. Raises PayloadError if several children contain it."""
        parent = find_parent(document)
        children = parent.values() if type(parent) is dict else ()
        values = [value for child in children if (value := find(child)) is not ABSENT]
        if len(values) > 1:
            raise PayloadError("refused_ambiguous")
        return values[0] if values else ABSENT

    return find_in_children
