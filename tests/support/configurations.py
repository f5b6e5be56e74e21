"""Configurations as text, and what refuses them: shared by tests."""

import re
from collections.abc import Callable

import pytest

from meteragent import config
from meteragent.domain.errors import ConfigError
from meteragent.domain.terms import Terms

FLAT = """
[source]
topic = "meters/{meter}/power"
kind = "power"
unit = "W"
[window]
[privacy]
[sink]
topic = "private/{meter}/power"
[store]
"""
BUDGET = "budget = { level = %s, per = '%s' }"


def written(**sections: str) -> str:
    """The flat form, with keys added to its sections (a key again replaces the one that is there)."""
    text = FLAT
    for section, keys in sections.items():
        for key in re.findall(r"^(\w+) =", keys, re.MULTILINE):
            head, mark, rest = text.partition(f"[{section}]\n")
            table, end, others = rest.partition("[")
            text = head + mark + re.sub(rf"^{key} = .*\n", "", table, flags=re.MULTILINE) + end + others
        text = text.replace(f"[{section}]\n", f"[{section}]\n{keys}\n")
    return text


def streams(*keys: tuple[str, str, str]) -> str:
    """The other form: streams by name, source topic and sink topic (and what follows it)."""
    return "".join(
        f'[[stream]]\nname = "{name}"\nsource = {{ topic = "{into}", kind = "power", unit = "W" }}\n'
        f"[stream.sink]\ntopic = {out}\n"
        for name, into, out in keys
    )


def settled(**sections: str) -> Terms:
    """The terms of a flat configuration."""
    return config.terms(config.parse(written(**sections)).stream[0])


def energy(unit: str, interval: str = "15min") -> str:
    """Source keys of interval energy."""
    return f"kind = 'interval_energy'\nunit = '{unit}'\ninterval = '{interval}'"


def refused(parse: Callable[[], object]) -> ConfigError:
    """The error of what is refused: its text is where it is, key, found and expected, a line for each."""
    with pytest.raises(ConfigError) as caught:
        parse()
    assert str(caught.value).splitlines() == list(map(told, caught.value.errors))
    return caught.value


def told(error: ConfigError) -> str:
    """The text of one error: its place, its key, what was found, what was meant and what would be right."""
    line = None if error.line is None else str(error.line)
    place = (
        f"line {line}: " if line and error.file is None else "".join(f"{p}:" for p in (error.file, line) if p)
    )
    key = "an address: " if "://" in error.key else f"{error.key}: " if error.key else ""
    meant = "" if error.meant is None else f"did you mean {error.meant}? "
    right = f"expected {error.expected}" if error.meant is None else f"Expected {error.expected}"
    right = "" if error.meant == error.expected else right
    gap = " " if place.endswith(":") else ""
    return f"{place}{gap}{key}found {error.found}; {meant}{right}".rstrip()
