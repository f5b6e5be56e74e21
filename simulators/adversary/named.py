"""Construct mechanisms and attackers from a short name or `package.module:Name` and parameters."""

import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

_INTEGER = re.compile(r"-?\d+")


class Unusable(ValueError):
    """The error for a name, an argument or data that cannot be used. Its message gives the reason."""


def make(text: str, ours: Mapping[str, Callable[..., Any]], **offered: Any) -> Any:
    """Construct the object that "name key=value .." or "package.module:Name key=value .." describes.

    A value that is a whole number is passed as an int, and every other value as a string. Those parameters of
    `offered` that the object accepts and that `text` does not set are passed as well. An object that cannot
    be called is returned as it is. Modules are also searched for in the current directory.

    Raises:
        Unusable: the name is unknown, a quotation mark is not closed, a parameter is not key=value or is
            repeated, or the object refuses the parameters.
    """
    try:
        name, *keywords = shlex.split(text) or [""]
    except ValueError as error:  # an unclosed quotation mark, or a backslash at the end
        raise Unusable(f"{text}: {error}") from None
    pairs = dict(keyword.split("=", 1) for keyword in keywords if "=" in keyword)
    if len(pairs) < len(keywords):
        raise Unusable(f"{text}: write each parameter once, as key=value")
    factory = ours[name] if name in ours else _import(name, ours)
    if not callable(factory):
        return factory
    explicit = {key: int(value) if _INTEGER.fullmatch(value) else value for key, value in pairs.items()}
    unset = _parameters(factory) - set(explicit)
    defaults = {key: value for key, value in offered.items() if key in unset}
    try:
        return factory(**defaults, **explicit)
    except (TypeError, ValueError) as error:
        names = [key for key in inspect.signature(factory).parameters if key not in offered]
        choice = f"; its parameters are: {', '.join(names) or 'none'}" if set(explicit) - set(names) else ""
        raise Unusable(f"{name} refuses these parameters: {error}{choice}") from None


def _import(name: str, ours: Mapping[str, Any]) -> Any:
    """Import the object at `package.module:Name`."""
    module, _, path = name.partition(":")
    if not path:
        raise Unusable(f"{name} is none of {', '.join(ours)}, nor a package.module:Name")
    sys.path.insert(0, "")
    try:
        target: Any = importlib.import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise Unusable(f"{name}: {error}") from None
    finally:
        sys.path.remove("")
    return target


def _parameters(factory: Callable[..., Any]) -> set[str]:
    """Return the names of a callable's parameters, or an empty set if they are unknown."""
    try:
        return set(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # some built-in classes have no signature
        return set()
