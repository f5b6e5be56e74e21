"""Home Assistant's value templates, if they are plain paths into a JSON document."""

import re

from meteragent.tools.discover.points import Path, expression

_OUTER = re.compile(r"\s*\{\{-?\s*(?P<path>[^{}]*?)\s*-?\}\}\s*", re.DOTALL)
_CONSTANT = r"""(?:\w+\s*=\s*)?(?:-?[\d.]+|'[^'|]*'|"[^"|]*"|[Nn]one|true|false)"""
_ARGUMENTS = rf"\(\s*(?:{_CONSTANT}(?:\s*,\s*{_CONSTANT})*)?\s*\)"
_FILTER = re.compile(rf"\s*(?:float|int|round|default|d|is_defined)\s*(?:{_ARGUMENTS})?\s*")
_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\[\s*(?:'(?P<single>[^'\\]*)'|"(?P<double>[^"\\]*)"|(?P<index>\d{1,4}))\s*\]"""
)
_NOT_PLAIN = "its template calculates, and a configuration cannot: {}"
_SHOWN = 60


def path_of(template: str | None) -> tuple[str | None, str | None]:
    """Return a template's JMESPath expression and None, or None and the problem.

    If both are None, the payload itself is the number. Filters that do not scale the number (float, int,
    round, default, is_defined) are dropped.
    """
    if template is None or not template.strip():
        return None, None
    match = _OUTER.fullmatch(template)
    if match is None:
        return None, _problem(template)
    head, *filters = match["path"].split("|")
    if not all(_FILTER.fullmatch(name) for name in filters):
        return None, _problem(template)
    name, path = head.strip(), None
    if name == "value":
        return None, None
    if name.startswith("value_json"):
        path = _steps(name.removeprefix("value_json"))
    return (None, _problem(template)) if not path else (expression(path), None)


def _problem(template: str) -> str:
    text = " ".join(template.split())
    return _NOT_PLAIN.format(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …")


def _steps(text: str) -> Path | None:
    """Parse the steps after `value_json`; return None if there is anything else."""
    steps: list[str | int] = []
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None:
            return None
        name = next((match[key] for key in ("name", "single", "double") if match[key] is not None), None)
        steps.append(int(match["index"]) if name is None else name)
        place = match.end()
    return tuple(steps)
