"""Configurations as text, and assertions on the errors that they raise."""

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
    """Return the flat form with `keys` added to its sections; they replace earlier keys of the same name."""
    text = FLAT
    for section, keys in sections.items():
        for key in re.findall(r"^(\w+) =", keys, re.MULTILINE):
            head, header, body = text.partition(f"[{section}]\n")
            table, bracket, tail = body.partition("[")
            text = head + header + re.sub(rf"^{key} = .*\n", "", table, flags=re.MULTILINE) + bracket + tail
        text = text.replace(f"[{section}]\n", f"[{section}]\n{keys}\n")
    return text


def streams(*keys: tuple[str, str, str]) -> str:
    """Return the form with several streams, from names, source topics, and sink topics with further keys."""
    return "".join(
        f'[[stream]]\nname = "{name}"\nsource = {{ topic = "{source}", kind = "power", unit = "W" }}\n'
        f"[stream.sink]\ntopic = {sink}\n"
        for name, source, sink in keys
    )


TWO_STREAMS = streams(
    *((name, f"meters/{{meter}}/{name}", f'"private/{name}/{{meter}}"') for name in ("first", "second"))
)


def settled(**sections: str) -> Terms:
    """Return the terms of a flat configuration."""
    return config.terms(config.parse(written(**sections)).stream[0])


def energy(unit: str, interval: str = "15min") -> str:
    """Return the source keys of interval energy."""
    return f"kind = 'interval_energy'\nunit = '{unit}'\ninterval = '{interval}'"


def refused(parse: Callable[[], object]) -> ConfigError:
    """Call `parse` and return its ConfigError, after checking that its text has one line for each error."""
    with pytest.raises(ConfigError) as caught:
        parse()
    assert str(caught.value).splitlines() == list(map(told, caught.value.errors))
    return caught.value


def told(error: ConfigError) -> str:
    """Return the expected text of one error: place, key, value found, suggestion, and the values allowed."""
    line = None if error.line is None else str(error.line)
    place = (
        f"line {line}: " if line and error.file is None else "".join(f"{p}:" for p in (error.file, line) if p)
    )
    key = "an address: " if "://" in error.key else f"{error.key}: " if error.key else ""
    suggestion = "" if error.meant is None else f"did you mean {error.meant}? "
    expectation = f"expected {error.expected}" if error.meant is None else f"Expected {error.expected}"
    expectation = "" if error.meant == error.expected else expectation
    gap = " " if place.endswith(":") else ""
    return f"{place}{gap}{key}found {error.found}; {suggestion}{expectation}".rstrip()
