"""Home Assistant's value templates, if they are plain paths into a JSON document."""

import re

from meteragent.decode.dialects import expression, steps

_OUTER = re.compile(r"\s*\{\{-?\s*(?P<path>[^{}]*?)\s*-?\}\}\s*", re.DOTALL)
_CONSTANT = r"""(?:\w+\s*=\s*)?(?:-?[\d.]+|'[^'|]*'|"[^"|]*"|[Nn]one|true|false)"""
_ARGUMENTS = rf"\(\s*(?:{_CONSTANT}(?:\s*,\s*{_CONSTANT})*)?\s*\)"
_FILTER = re.compile(rf"\s*(?:float|int|round|default|d|is_defined)\s*(?:{_ARGUMENTS})?\s*")
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
        path = steps(name.removeprefix("value_json"))
    return (None, _problem(template)) if not path else (expression(path), None)


def _problem(template: str) -> str:
    text = " ".join(template.split())
    return _NOT_PLAIN.format(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …")
