"""Mechanisms and attackers by name: one of ours, or anybody's as `package.module:Name`, with key=value."""

import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

_WHOLE = re.compile(r"-?\d+")


class Unusable(ValueError):
    """What was named cannot be used; the text says why, and what can."""


def made(text: str, ours: Mapping[str, Callable[..., Any]], **offered: Any) -> Any:
    """What "name key=value .." or "package.module:Name key=value .." makes.

    Values are exact strings; integers without a fraction or a point are ints. Of `offered`, it gets what it
    takes and was not given. Modules are looked for from the current directory too.

    Raises:
        Unusable: there is none such, its keywords are not key=value, or it refuses them.
    """
    name, *keywords = shlex.split(text) or [""]
    pairs = dict(keyword.split("=", 1) for keyword in keywords if "=" in keyword)
    if len(pairs) < len(keywords):
        raise Unusable(f"{text}: write key=value for each parameter, each once")
    make = ours[name] if name in ours else _imported(name, ours)
    if not callable(make):
        return make
    given = {key: int(value) if _WHOLE.fullmatch(value) else value for key, value in pairs.items()}
    takes = _parameters(make) - set(given)
    taken = {key: value for key, value in offered.items() if key in takes}
    try:
        return make(**taken, **given)
    except (TypeError, ValueError) as error:
        raise Unusable(f"{name} takes other parameters: {error}") from None


def _imported(name: str, ours: Mapping[str, Any]) -> Any:
    """The object at `package.module:Name`."""
    module, _, path = name.partition(":")
    if not path:
        raise Unusable(f"{name} is none of {', '.join(ours)}, nor a package.module:Name")
    sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise Unusable(f"{name}: {error}") from None
    finally:
        sys.path.remove("")
    return found


def _parameters(make: Callable[..., Any]) -> set[str]:
    """What it can be given by name."""
    try:
        return set(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # some built-in classes have no signature
        return set()
