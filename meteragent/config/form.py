"""The form of a configuration: all unknown keys, missing keys and wrong values are found at once.

pydantic ignores the contents of a table whose name is misspelt, and no other check can run on an invalid
document. So the document is repaired and read again until it is valid: a misspelt key is renamed, an unknown
key is dropped, and a wrong value is replaced by its default, or by a stand-in if there is no default.

The repaired configuration is never run. It only helps the other checks to find further errors, and they must
not rely on the paths in `wrong_paths`.
"""

import copy
import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from meteragent.config.model import Config, Stream
from meteragent.config.tables import NO_TOPIC
from meteragent.decode.profile import Profile
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, find_key_lines, line_of, path_of
from meteragent.domain.refusal import expectation, key_text, value_text

SHARED_TABLES = ("receiver", "store", "page", "tariff", "archive")
"""The tables that do not belong to a stream."""

EXPLAINED_MAX = 100
"""The largest number of errors to list; a file with more errors is hardly a configuration."""


def _tables(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the models of all tables within the table `model`, by name."""
    tables: dict[str, type[BaseModel]] = {}
    for name, field in model.model_fields.items():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                tables |= {name: part, **_tables(part)}
    return tables


_SECTIONS = _tables(Config)
_SOURCE = {"topic": "{meter}", "kind": "power", "unit": "W"}
_STREAM = {"source": _SOURCE, "sink": {"topic": "{meter}"}}
_REQUIRED: dict[Path, tuple[Any, str]] = {
    (): (_STREAM, "a table"),
    ("source",): (_SOURCE, "a table with topic, kind and unit"),
    ("source", "topic"): ("{meter}", "where readings arrive, such as 'meters/{meter}/power'"),
    ("source", "kind"): ("power", "'power', 'interval_energy' or 'register'; the kind is never guessed"),
    ("source", "unit"): ("W", "'W' or 'kW' for power, 'Wh' or 'kWh' for energies"),
    ("sink",): ({"topic": "{meter}"}, "a table with a topic"),
    ("sink", "topic"): ("{meter}", "where private records go, such as 'private/{meter}/power'"),
    ("sink", "crowd", "group"): ("group.toml", "the group's public file"),
    ("sink", "crowd", "id"): ("0" * 64, "the group's id, 64 hex digits"),
    ("privacy", "budget", "level"): (1, "the level that may be spent in a period"),
    ("privacy", "budget", "per"): ("1d", "the period, such as '24h'"),
    ("window", "band", "name"): (None, "the band's name, such as 'night'"),
    ("window", "band", "hours"): (None, "hours of the local day, such as ['23:00/07:00']"),
    ("tariff", "name"): (None, "the tariff's name"),
    ("tariff", "prices"): (None, "a price by band, such as { day = 0.34, night = 0.22 }"),
    ("window", "weights", "bound"): (1, "the largest price of a kWh, such as 0.5"),
    ("receiver", "name"): (None, "the receiver's name, such as 'utility'"),
    ("receiver", "topic"): (None, "where its records go, such as 'private/{meter}/power'"),
    ("archive", "key_file"): ("archive.key", "a key file, as written by `meteragent key new`"),
}
"""For each required key, by its path in a stream or in the file: a stand-in, and the expected value in words.
List elements other than streams have no stand-in, because a wrong element removes the whole list."""

_JUMPS = (
    "window.threshold, which releases the energy above it: the energy while the power is above a threshold"
    " jumps when the power crosses it, so no noise hides a small change"
)
_WHILE = re.compile(r"while|when")
"""Words in unknown keys and in `privacy.space` by which users ask for the energy *while* power is high."""

_KEY_OF_TABLE = "[key]"
"""The last element of pydantic's location of an error that concerns a key, not the key's value."""


class RepairedDocument:
    """A document, parsed from `text`, that is repaired until it is valid; `profiles` are those not built in.

    `read_config` fills `errors`, and adds the paths that it repairs to `wrong_paths`. `is_flat` is true if
    the file has no `[[stream]]` tables.
    """

    def __init__(self, document: dict[str, Any], text: str, profiles: Mapping[str, Profile]) -> None:
        self.errors: list[ConfigError] = []
        self.wrong_paths: set[Path] = set()
        self._renamed: dict[Path, str] = {}
        self._text, self._profiles = text, profiles
        misspelling = None if "stream" in document else _misspelt_streams(document)
        if misspelling is not None:
            document["stream"] = document.pop(misspelling)
            self._renamed["stream",] = misspelling
        self.is_flat = "stream" not in document
        if self.is_flat:
            shared = {name: document.pop(name) for name in SHARED_TABLES if name in document}
            sink = document.setdefault("sink", {}) if shared.get("receiver") else None
            if isinstance(sink, dict):
                sink.setdefault("topic", NO_TOPIC)
            document = {"stream": [{"name": "main", **document}], **shared}
        _set_stand_in_topics(document["stream"])
        self.document = document
        if misspelling is not None:
            self._record_refusal(("stream",), "an unknown key", "stream", "stream")

    @cached_property
    def _lines(self) -> dict[Path, int]:
        """The lines of the file's keys, computed only if there is an error."""
        return find_key_lines(self._text)

    def locate_error(self, error: ConfigError) -> ConfigError:
        """Set the line of an error that a later check finds in the repaired document; return the error."""
        path = path_of(error.key)
        if self.is_flat and path[:1] not in [(name,) for name in SHARED_TABLES]:
            path = ("stream", 0, *path)
        error.line = line_of(self._written_path(path), self._lines)
        return error

    def read_config(self) -> Config:
        """Return the repaired configuration."""
        while True:
            try:
                config = Config.model_validate(self.document, context=self._profiles)
                return config.with_streams(config.stream, [""]) if self.is_flat else config
            except ValidationError as error:
                self._repair(error.errors(include_url=False))

    def _repair(self, details: Sequence[ErrorDetails]) -> None:
        unknown_details = [detail for detail in details if detail["type"] == "extra_forbidden"]
        new_paths = {self._refuse_unknown(detail["loc"]) for detail in unknown_details}
        for detail in details:
            path = self._path_at(detail["loc"])
            is_renamed = path in new_paths or detail["loc"] in new_paths
            # A list may be too short only because some of its values are wrong.
            is_short = detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]
            if detail["type"] == "extra_forbidden" or is_renamed or is_short:
                continue
            self._refuse_value(detail, path)
            self._replace(path)

    def _refuse_unknown(self, path: Path) -> Path | None:
        """Refuse an unknown key. If the key can be renamed, return its new path, else None."""
        *parent, name = path
        table = self._table(tuple(parent))
        value = table.pop(name)
        key_names = self._key_names(path)
        is_explained = len(self.errors) < EXPLAINED_MAX
        matches = difflib.get_close_matches(str(name), key_names, n=1) if is_explained else []
        meant = matches[0] if matches else _path_in_other_table(str(name))
        expected = meant or f"one of {', '.join(key_names)}"
        if not matches and _WHILE.search(str(name)):
            meant, expected = None, _JUMPS
        self._record_refusal(path, "an unknown key", expected, meant)
        if not matches:
            return None
        if self.is_flat and matches[0] in SHARED_TABLES:
            parent, table = [], self.document
        new_path = (*parent, matches[0])
        if matches[0] in table:
            return None
        table[matches[0]] = value
        self._renamed[new_path] = str(name)
        return new_path

    def _key_names(self, path: Path) -> list[str]:
        """Return the keys that are allowed in the table that contains the key at `path`."""
        *table, _ = path
        if self.is_flat and table == ["stream", 0]:
            return [*Stream.model_fields, *SHARED_TABLES]
        if not table:
            return list(Config.model_fields)
        *_, section = _names(table)
        return list(_SECTIONS.get(section, Stream).model_fields)

    def _refuse_value(self, detail: ErrorDetails, path: Path) -> None:
        """Refuse a value that is wrong or missing."""
        self.wrong_paths.add(path)
        if detail["type"] == "missing":
            names = tuple(_names(_relative_path(detail["loc"])))
            expected = _REQUIRED.get(names, (None, "a value"))[1]
            self._record_refusal(detail["loc"], "nothing", f"{expected} (this key has no default)")
            return
        expected, meant = expectation(detail)
        if path[-2:] == ("privacy", "space") and _WHILE.search(str(detail["input"])):
            expected, meant = _JUMPS, None
        place = tuple(part for part in detail["loc"] if part != _KEY_OF_TABLE)
        self._record_refusal(place, value_text(path[-1], detail["input"]), expected, meant)

    def _replace(self, path: Path) -> None:
        """Replace a required value with its stand-in; remove an optional one, so that its default applies."""
        if path == ("stream",):
            self.document["stream"] = [copy.deepcopy(_STREAM)]
            return
        *parent, name = path
        table = self._table(tuple(parent))
        required = _REQUIRED.get(_relative_path(path))
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

    def _path_at(self, place: Path) -> Path:
        """Return the path of the key at one of pydantic's locations; for an element, that of its list."""
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

    def _record_refusal(self, path: Path, value: str, expected: str, meant: str | None = None) -> None:
        """Record an error under the key's name in the file."""
        file_path = self._written_path(path)
        error = ConfigError(key_text(file_path), value, expected, meant=meant)
        error.line = line_of(file_path, self._lines)
        self.errors.append(error)

    def _written_path(self, path: Path) -> Path:
        """Return a path as written in the file: with the original names, and without the stream if flat."""
        names = [self._renamed.get(path[:depth], path[depth - 1]) for depth in range(1, len(path) + 1)]
        return tuple(names[2:] if self.is_flat and path[:1] == ("stream",) else names)


def _set_stand_in_topics(streams: Any) -> None:
    """Set a stand-in for the topic of each sink with a crowd, whose group determines the topic."""
    for stream in streams if isinstance(streams, list) else ():
        sink = stream.get("sink") if isinstance(stream, dict) else None
        if isinstance(sink, dict) and "crowd" in sink:
            sink.setdefault("topic", NO_TOPIC)


def _misspelt_streams(document: dict[str, Any]) -> str | None:
    """Return the name of a list of tables that resembles `stream`; None if there is none."""
    key_names = {*Stream.model_fields, *Config.model_fields}
    lists = [
        name
        for name, value in document.items()
        if name not in key_names and isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    return next(iter(difflib.get_close_matches("stream", lists, n=1)), None)


def _names(path: Sequence[str | int]) -> list[str]:
    return [part for part in path if isinstance(part, str)]


def _relative_path(path: Path) -> Path:
    """Return a path relative to its stream; a path of a shared table is returned unchanged."""
    return path[2:] if path[:1] == ("stream",) and len(path) > 1 else path


def _path_in_other_table(name: str) -> str | None:
    """Return the path of a stream's table with this name, or of the only key with this name; else None."""
    places = [f"{table}.{name}" for table, model in _SECTIONS.items() if name in model.model_fields]
    if name in Stream.model_fields and name != "name":
        return f"stream.{name}"
    return places[0] if len(places) == 1 else None
