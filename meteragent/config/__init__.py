"""The configuration: one TOML file, parsed once into frozen models, refused with the key's path.

Decimals are read exactly (never through a binary float), unknown keys are errors, and a setting
that cannot keep the promise is refused here, before anything runs. `model` says which keys there
are, `terms` turns them into what the mechanism needs, `refuse` refuses what cannot hold.
"""

import difflib
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from meteragent.config.accept import refusals
from meteragent.config.accept import warnings as load_warnings
from meteragent.config.files import endpoint, exposed, read_secret
from meteragent.config.model import (
    Archive,
    Budget,
    Config,
    Page,
    Privacy,
    Sink,
    Source,
    Store,
    Stream,
    Window,
)
from meteragent.config.refuse import refuse
from meteragent.config.schema import schema
from meteragent.config.source import decoder, forget_ms, has_times, held, reports_on_change, topic_of
from meteragent.config.terms import budget, others_per_day, schedule, shapes, sink_url, terms
from meteragent.domain.errors import ConfigError

__all__ = [
    "Archive",
    "Config",
    "Page",
    "Stream",
    "budget",
    "decoder",
    "endpoint",
    "exposed",
    "forget_ms",
    "has_times",
    "held",
    "load",
    "load_warnings",
    "others_per_day",
    "parse",
    "read_secret",
    "refusals",
    "reports_on_change",
    "schedule",
    "schema",
    "shapes",
    "sink_url",
    "terms",
    "topic_of",
]


def load(path: Path) -> Config:
    """Read and check a configuration file.

    Raises ConfigError with the key's path, what was found and what would be right.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), _reason(error), "a readable TOML file") from None
    return parse(text)


def parse(text: str) -> Config:
    """Check a configuration given as text; raises ConfigError as `load`."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:  # also of digits and brackets without end
        raise ConfigError("file", str(error), "TOML") from None
    flat = "stream" not in document
    if flat:
        shared: dict[str, Any] = {name: document.pop(name) for name in _SHARED if name in document}
        document = {"stream": [{"name": "main", **document}], **shared}
    try:
        config = Config.model_validate(document)
    except ValidationError as error:
        raise _explain(error, flat=flat) from None
    refuse(config, flat=flat)
    return config


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or type(error).__name__).lower()


def _explain(error: ValidationError, *, flat: bool) -> ConfigError:
    """The first problem pydantic found, as key, found, expected."""
    first = error.errors(include_url=False)[0]
    place = list(first["loc"])
    if flat and place[:1] == ["stream"]:
        place = place[2:]
    key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).lstrip(".") or "file"
    if first["type"] == "missing":
        return ConfigError(key, "nothing", "a value: this key has no default")
    if first["type"] == "extra_forbidden":
        return ConfigError(key, "an unknown key", _nearest(place, flat=flat))
    expected = _EXPECTED.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    return ConfigError(key, _found(first["input"]), expected.replace("Input should be", "a value"))


def _found(value: Any) -> str:
    """What was found, as text; addresses are never repeated: somebody may have put a password there."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return "an address" if "://" in text else text


_SHARED = ("store", "page", "archive")
"""The tables beside the streams'."""

_EXPECTED = {
    "int_type": "a whole number",
    "model_type": "a table",
    "string_type": "a text",
    "tuple_type": "a list",
}
"""What pydantic says in words of Python, by the type of its error."""

_SECTIONS: dict[str, type[BaseModel]] = {
    "source": Source,
    "window": Window,
    "privacy": Privacy,
    "budget": Budget,
    "sink": Sink,
    "store": Store,
    "page": Page,
    "archive": Archive,
}


def _nearest(place: list[int | str], *, flat: bool) -> str:
    """The key that was probably meant, and all that there are in its place."""
    if len(place) > 1:
        known = list(_SECTIONS.get(str(place[-2]), Stream).model_fields)
    else:
        known = [*Stream.model_fields, *_SHARED] if flat else list(Config.model_fields)
    close = difflib.get_close_matches(str(place[-1]), known, n=1)
    return f"{close[0]!r}, or one of {', '.join(known)}" if close else f"one of {', '.join(known)}"
