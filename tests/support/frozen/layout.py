"""The layout of frozen files: JSON in which a short value is a line, and a long one a line for each part."""

import json
from typing import Any

WIDTH, DEPTH = 200, 3
WHOLE = "bands"
MISSING, ORDER = "(missing)", "(in the order)"
"""The names under which a difference lists the fields that it lacks, and its fields in another order."""


def text(value: Any) -> str:
    """Return a file."""
    return _text(value, "", 0) + "\n"


def _text(value: Any, indent: str, column: int) -> str:
    """Return a value that begins in this column of its line."""
    line = json.dumps(value, ensure_ascii=False)
    if (
        not value
        or not isinstance(value, dict | list)
        or (column + len(line) <= WIDTH and _depth(value) < DEPTH)
    ):
        return line
    inner = indent + " "
    if isinstance(value, list):
        parts = [_text(item, inner, len(inner)) for item in value]
        return _block("[]", parts, indent)
    heads = [(json.dumps(name, ensure_ascii=False) + ": ", item) for name, item in value.items()]
    return _block("{}", [head + _text(item, inner, len(inner + head)) for head, item in heads], indent)


def _depth(value: Any) -> int:
    """Return how deeply lists and objects are nested."""
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def _block(brackets: str, parts: list[str], indent: str) -> str:
    """Return parts in brackets, one below the other."""
    body = ",\n".join(f"{indent} {part}" for part in parts)
    return f"{brackets[0]}\n{body}\n{indent}{brackets[1]}"


def document(payload: bytes) -> Any:
    """Return the value that a payload states; a payload that is not exactly its JSON stays a string."""
    value = json.loads(payload)
    same = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() == payload
    return value if same else payload.decode()


def difference(base: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return how an object differs from another: changed and new fields, and the names of missing ones.

    Bands are stated as a whole; the order of fields counts.
    """
    changes: dict[str, Any] = {}
    for name, item in value.items():
        if name in base and json.dumps(item) == json.dumps(base[name]):
            continue
        if is_text(item) and is_text(base.get(name)):
            changes[name] = new_lines(base[name], item)
            continue
        is_deep = name != WHOLE and isinstance(item, dict) and isinstance(base.get(name), dict)
        changes[name] = difference(base[name], item) if is_deep else item
    missing = [name for name in base if name not in value]
    common = [name for name in value if name in base]
    is_sorted = common == [name for name in base if name in value]
    order = {} if is_sorted else {ORDER: list(value)}
    return changes | ({MISSING: missing} if missing else {}) | order


def is_text(value: Any) -> bool:
    """Return whether a value is a list of lines."""
    return isinstance(value, list) and bool(value) and all(isinstance(line, str) for line in value)


def new_lines(base: list[str], lines: list[str]) -> list[str]:
    """Return the number of a text's lines, and those of them that another text does not have."""
    return [f"{len(lines)} lines, new:", *(line for line in lines if line not in set(base))]


def changes(entries: list[tuple[str, Any]]) -> list[Any]:
    """Return messages with their times; of each but the first, only what differs from the one before."""
    rows: list[Any] = []
    before: dict[str, Any] = {}
    for due, value in entries:
        rows.append([due, difference(before, value) if before else value])
        before = value
    return rows
