"""The form of a configuration: every key that is unknown, missing or not what it should be, all at once.

Theory of operation
-------------------
pydantic reports all that it sees. But it does not look into a table whose name is misspelt, and no other
check can run on what does not validate. So the document is mended and read again until its form is right: a
misspelt key is renamed, an unknown one is dropped, a wrong value gives way to its default, or to a stand-in
where there is none. Each round mends all that the round before refused, and puts in only what is right, so
the rounds end.

The mended configuration never runs. It lets the other checks see what else is wrong, and `wrong` has the
paths on which they must not rely. A key that is missing because its name is misspelt is refused once, under
the name that it has in the file.
"""

import copy
import difflib
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from meteragent.config.lines import Path, line_of, lines, path_of
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
from meteragent.domain.errors import ConfigError

SHARED = ("store", "page", "archive")
"""The tables beside those of the streams."""

EXPLAINED_MAX = 100
"""The largest number of errors that are listed: a file with more is not a configuration."""

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

_SOURCE = {"topic": "{meter}", "kind": "power", "unit": "W"}
_STREAM = {"source": _SOURCE, "sink": {"topic": "{meter}"}}
_REQUIRED: dict[Path, tuple[Any, str]] = {
    (): (_STREAM, "a table"),
    ("source",): (_SOURCE, "a table with topic, kind and unit"),
    ("source", "topic"): ("{meter}", "where readings come, such as 'meters/{meter}/power'"),
    ("source", "kind"): ("power", "'power', 'interval_energy' or 'register', which is never guessed"),
    ("source", "unit"): ("W", "'W' or 'kW' for power, 'Wh' or 'kWh' for energies"),
    ("sink",): ({"topic": "{meter}"}, "a table with a topic"),
    ("sink", "topic"): ("{meter}", "where private records go, such as 'private/{meter}/power'"),
    ("privacy", "budget", "level"): (1, "the level that may be spent in a period"),
    ("privacy", "budget", "per"): ("1d", "the period, such as '24h'"),
    ("archive", "key_file"): ("archive.key", "the key's file, as `meteragent key new` makes it"),
}
"""For each required key, by its path in a stream or in the file: a stand-in, and what would be right."""

_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "model_type": "a table",
    "path_type": "a path, as a text",
    "string_type": "a text",
    "tuple_type": "a list",
}
"""Plain words for what pydantic says in terms of Python, by the type of its error."""

_QUOTED = re.compile(r"'([^']*)'")
_SECRET = re.compile(r"(?:^|_)(?:file|key|password|secret|token)(?:_|$)")
_KINDS: dict[type, str] = {bool: "a boolean", int: "a number", Decimal: "a number", list: "a list"}
_TEXT_MAX = 60
"""The largest number of a value's characters that an error repeats."""


class Form:
    """A document that is mended until its form is right; `text` is what it was read from.

    `errors` and `wrong`, the paths that were mended, grow as it is read.
    """

    def __init__(self, document: dict[str, Any], text: str) -> None:
        self.errors: list[ConfigError] = []
        self.wrong: set[Path] = set()
        self._renamed: dict[Path, str] = {}
        self._text = text
        misspelt = None if "stream" in document else _streams_misspelt(document)
        if misspelt is not None:
            document["stream"] = document.pop(misspelt)
            self._renamed["stream",] = misspelt
        self.flat = "stream" not in document
        if self.flat:
            shared = {name: document.pop(name) for name in SHARED if name in document}
            document = {"stream": [{"name": "main", **document}], **shared}
        self.document = document
        if misspelt is not None:
            self._refuse(("stream",), "an unknown key", "stream", "stream")

    @cached_property
    def _lines(self) -> dict[Path, int]:
        """The lines of the file's keys, which only errors need."""
        return lines(self._text)

    def locate(self, error: ConfigError) -> ConfigError:
        """Give an error of the mended configuration the line of its key; return it."""
        path = path_of(error.key)
        if self.flat and path[:1] not in [(name,) for name in SHARED]:
            path = ("stream", 0, *path)
        error.line = line_of(self._as_written(path), self._lines)
        return error

    def read(self) -> Config:
        """Return the mended configuration."""
        while True:
            try:
                return Config.model_validate(self.document)
            except ValidationError as error:
                self._mend(error.errors(include_url=False))

    def _mend(self, details: Sequence[ErrorDetails]) -> None:
        """Note what is wrong in one round, and mend all of it."""
        unknown = [detail for detail in details if detail["type"] == "extra_forbidden"]
        renamed = {self._unknown(detail["loc"]) for detail in unknown}
        for detail in details:
            path = self._field(detail["loc"])
            if detail["type"] == "extra_forbidden" or path in renamed or _is_short_of_right_ones(detail):
                continue
            self._note(detail, path)
            self._replace(path)

    def _unknown(self, path: Path) -> Path | None:
        """Refuse an unknown key; if it is misspelt, rename it and return its new path."""
        *parent, name = path
        table = self._table(tuple(parent))
        value = table.pop(name)
        known = self._known(path)
        explained = len(self.errors) < EXPLAINED_MAX
        near = difflib.get_close_matches(str(name), known, n=1) if explained else []
        meant = near[0] if near else _elsewhere(str(name))
        expected = meant or f"one of {', '.join(known)}"
        self._refuse(path, "an unknown key", expected, meant)
        if not near:
            return None
        if self.flat and near[0] in SHARED:
            parent, table = [], self.document
        right = (*parent, near[0])
        if near[0] in table:
            return None
        table[near[0]] = value
        self._renamed[right] = str(name)
        return right

    def _known(self, path: Path) -> list[str]:
        """Return the keys that exist at the place of a path."""
        if self.flat and len(path) == len(("stream", 0, "key")):
            return [*Stream.model_fields, *SHARED]
        if len(path) == 1:
            return list(Config.model_fields)
        return list(_SECTIONS.get(str(path[-2]), Stream).model_fields)

    def _note(self, detail: ErrorDetails, path: Path) -> None:
        """Refuse a value, or the lack of one."""
        self.wrong.add(path)
        if detail["type"] == "missing":
            expected = _REQUIRED.get(_in_stream(path), (None, "a value"))[1]
            self._refuse(path, "nothing", f"{expected}: this key has no default")
            return
        meant = None
        expected = _EXPECTED.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
        if detail["type"] in ("literal_error", "enum"):
            expected = str(detail["ctx"]["expected"])
            meant = _nearest(detail["input"], _QUOTED.findall(expected))
        elif detail["type"] in ("too_long", "too_short"):
            limits = detail["ctx"]
            expected = (
                f"at most {limits['max_length']} values"
                if "max_length" in limits
                else f"at least {limits['min_length']} value"
            )
        expected = expected.replace("Input should be", "a value")
        self._refuse(detail["loc"], _found(path[-1], detail["input"]), expected, meant)

    def _replace(self, path: Path) -> None:
        """Put a stand-in in the place of a required value; leave any other to its default."""
        if path == ("stream",):
            self.document["stream"] = [copy.deepcopy(_STREAM)]
            return
        *parent, name = path
        table = self._table(tuple(parent))
        required = _REQUIRED.get(_in_stream(path))
        if required is not None:
            table[name] = copy.deepcopy(required[0])
        else:
            table.pop(name, None)

    def _table(self, path: Path) -> Any:
        """Return the table, or the list of streams, at a path."""
        table: Any = self.document
        for part in path:
            table = table[part]
        return table

    def _field(self, place: Path) -> Path:
        """Return the path of the key that a place belongs to: an element belongs to its list."""
        value: Any = self.document
        for depth, part in enumerate(place, start=1):
            is_stream = place[: depth - 1] == ("stream",)
            if is_stream and isinstance(value, list):
                value = value[int(part)]
            elif isinstance(value, dict) and part in value:
                value = value[part]
            else:
                return place[: depth if isinstance(value, dict) else depth - 1]
        return place

    def _refuse(self, path: Path, value: str, expected: str, meant: str | None = None) -> None:
        """Note an error of a key, under the name that it has in the file."""
        written = self._as_written(path)
        error = ConfigError(_key_of(written), value, expected, meant=meant)
        error.line = line_of(written, self._lines)
        self.errors.append(error)

    def _as_written(self, path: Path) -> Path:
        """Return a path as the file has it: by the names there, without the stream of the flat form."""
        names = [self._renamed.get(path[:depth], path[depth - 1]) for depth in range(1, len(path) + 1)]
        return tuple(names[2:] if self.flat and path[:1] == ("stream",) else names)


def _streams_misspelt(document: dict[str, Any]) -> str | None:
    """Return the key of a list of tables that is nearly called `stream`; None if there is no such key."""
    known = {*Stream.model_fields, *Config.model_fields}
    lists = [
        name
        for name, value in document.items()
        if name not in known and isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    return next(iter(difflib.get_close_matches("stream", lists, n=1)), None)


def _is_short_of_right_ones(detail: ErrorDetails) -> bool:
    """Return whether a list is refused as too short only because some of its values are wrong."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _key_of(path: Path) -> str:
    """Return a path as text, such as `stream[1].privacy.radius`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _in_stream(path: Path) -> Path:
    """Return a path as seen from its stream; of a shared table as it is."""
    return path[2:] if path[:1] == ("stream",) and len(path) > 1 else path


def _elsewhere(name: str) -> str | None:
    """Return the table that has a key of exactly this name, if there is only one."""
    places = [f"{table}.{name}" for table, model in _SECTIONS.items() if name in model.model_fields]
    if name in Stream.model_fields and name != "name":
        return f"stream.{name}"
    return places[0] if len(places) == 1 else None


def _nearest(value: Any, known: Sequence[str]) -> str | None:
    """Return the word that was probably meant, whatever its capitals."""
    if not isinstance(value, str):
        return None
    alike = [word for word in known if word.lower() == value.lower()]
    near = alike or difflib.get_close_matches(value, known, n=1)
    return repr(near[0]) if near else None


def _found(name: str | int, value: Any) -> str:
    """Return what was found, as text: no address, no secret, and nothing long.

    Somebody may have put a password into an address, or the secret itself where its file belongs.
    """
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list) and any(isinstance(element, list | dict) for element in value):
        return "a list of lists or tables"
    if _SECRET.search(str(name)):
        return _KINDS.get(type(value), "a value of another kind")
    text = str(value) if isinstance(value, Decimal) else repr(value)
    if "://" in text:
        return "an address"
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} .."
