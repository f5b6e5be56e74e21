"""Paths as other tools write them, translated to JMESPath, so that a refusal says what to write.

It recognises Jinja (`{{ value_json.power }}`), JSONPath (`$.power`), jq (`.power`), JSON pointers
(`/data/power`), and names that need quotation marks (`active-power`, `1-0:16.7.0`).
"""

import json
import re
from collections.abc import Sequence

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BRACES = re.compile(r"\{++%?-?(?P<path>[^{}]*?)-?%?\}++", re.DOTALL)
_ROOT = re.compile(r"JSONPATH:|(?:value_json|\$)(?=[.\[])")
_CALCULATION = re.compile(r"(.*\S)(?<!\.\d)(?<!\.\d\d)\s*([*/])\s*(\d+(?:\.\d+)?)")
_POINTER = re.compile(r"/?[\w:-]+(?:/[\w:-]+)+|/[\w:-]+")
_PLACE = r"""\[\s*(?:'(?P<single>[^'\\]*)'|"(?P<double>[^"\\]*)"|(?P<index>\d{1,4}))\s*\]"""
_JINJA_STEP = re.compile(rf"\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)|{_PLACE}")
_OBIS = r"(?:\d+-\d+:)?\d+\.\d+\.\d+(?:\*\d+)?"
_WORD = r"[^\W_][\w:%°-]*"
_STEP = re.compile(
    rf'\.?(?:"(?P<double_name>[^"\\]+)"|(?P<name>{_OBIS}|{_WORD}(?: {_WORD})*|_[\w:-]*))|{_PLACE}'
)


def to_jmespath(path: Sequence[str | int]) -> str:
    """Format a path of names and indices as JMESPath."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_name(step)}" for step in path).removeprefix(
        "."
    )


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def parse_steps(text: str, step: re.Pattern[str] = _JINJA_STEP) -> tuple[str | int, ...] | None:
    """Parse the steps of a path, such as `.data['power'][0]`; return None if there is anything else."""
    path: list[str | int] = []
    place = 0
    while place < len(text):
        match = step.match(text, place)
        if match is None:
            return None
        name = next((part for part in match.groups() if part is not None), "")
        path.append(int(name) if match["index"] is not None else name)
        place = match.end()
    return tuple(path)


def is_of_template(text: str) -> bool:
    """Return whether a path begins with the name by which templates call the document."""
    return re.match(r"value_json\b", text) is not None


def translate_path(text: str) -> str | None:
    """Return, in words, what to write instead of another tool's path; None if it is not such a path."""
    template = _BRACES.fullmatch(text.strip())
    path = (text if template is None else template["path"]).partition("|")[0].strip()
    if template is not None and path == "value":
        return "none: with profile = 'number' the payload is the number"
    calculation = _CALCULATION.fullmatch(path)
    scale = ""
    if calculation is not None:
        path, sign, number = calculation.groups()
        scale = f", and source.scale = {number if sign == '*' else repr(f'1/{number}')}"
    names = tuple(path.strip("/").split("/")) if _POINTER.fullmatch(path) else None
    names = names or parse_steps(_ROOT.sub("", path, count=2), _STEP if template is None else _JINJA_STEP)
    if not names or (path := to_jmespath(names)) == text:
        return None
    toml = f"'{path}'" if "'" not in path else json.dumps(path, ensure_ascii=False)
    return f"write {toml}{scale}"
