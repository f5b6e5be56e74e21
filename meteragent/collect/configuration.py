"""The configuration of `collect`: one TOML file, read once, or refused with every error and its line.

The texts of refusals are those of the agent's configuration (`domain.refusal`). The table of the source is in
`broker`.
"""

import difflib
import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from meteragent.collect import broker
from meteragent.collect.broker import Source
from meteragent.collect.partition import Length
from meteragent.collect.topic import Role, StreamTopic
from meteragent.config import read_secret
from meteragent.config.value import Duration, Span, Template
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path as KeyPath
from meteragent.domain.lines import line_of, lines, path_of
from meteragent.domain.refusal import expectation, key_text, parse_toml, raise_all, text_of_file, value_text
from meteragent.domain.units import DAY_MS, MINUTE_MS

_POSTGRES = ("postgresql://", "postgres://")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Stream(_Section):
    """One stream of records."""

    name: str = Field("main", min_length=1, max_length=64)
    """The stream's name in the tables."""
    topic: Template
    """The topic of its records; {meter} is the segment that names the meter."""


class Database(_Section):
    """Where records are kept."""

    url: str
    """The database: postgresql://user@host/name, with any of libpq's parameters, but without a password."""
    password_file: Path | None = None
    """A file that holds the password."""
    partition: Length = "month"
    """The length of a partition of `record`: month, day, or none. It cannot change once there are tables."""


class Dataset(_Section):
    """A folder of Parquet files, in which records are kept instead of a database."""

    folder: Path
    """The folder, on a file system of this machine."""
    partition: Literal["month", "day", "hour"] = "day"
    """What a file holds: a month, a day or an hour of a stream. It cannot change once there are files."""
    delay: Span = 5 * MINUTE_MS
    """How long a record may wait before it is in a file. It is durable before."""


class Accept(_Section):
    """Which records are accepted."""

    meters_file: Path | None = None
    """A file with the public id of each meter that is accepted, one a line. Default: all meters."""
    oldest: Span = 400 * DAY_MS
    """The age of the oldest slot that is accepted."""
    ahead: Duration = DAY_MS
    """How far ahead of this machine's clock a slot may begin."""


class Settings(_Section):
    """The whole file."""

    source: Source = Source()
    """Where records arrive."""
    stream: tuple[Stream, ...] = Field(min_length=1)
    """The streams to collect."""
    database: Database | None = None
    """The database in which records are kept."""
    dataset: Dataset | None = None
    """The folder in which records are kept, instead of a database."""
    accept: Accept = Accept()
    """Which records are accepted."""

    @property
    def topics(self) -> tuple[StreamTopic, ...]:
        """The topics of the streams."""
        return tuple(StreamTopic.parse(stream.name, stream.topic) for stream in self.stream)

    def password(self) -> str | None:
        """Return the database's password; raises ConfigError if its file cannot be read."""
        path = None if self.database is None else self.database.password_file
        return None if path is None else read_secret("database.password_file", path).decode(errors="replace")

    def meters(self) -> frozenset[str] | None:
        """Return the accepted meters, None for all; raises ConfigError if the file cannot be read."""
        path = self.accept.meters_file
        if path is None:
            return None
        text = read_secret("accept.meters_file", path).decode(errors="replace")
        return frozenset(filter(None, map(str.strip, text.splitlines())))


_TABLES: dict[str, type[BaseModel]] = {
    "source": Source,
    "stream": Stream,
    "database": Database,
    "dataset": Dataset,
    "accept": Accept,
}
_STAND_INS: dict[tuple[str, ...], Any] = {
    ("stream",): [{"topic": "stream/{meter}"}],
    ("stream", "name"): "stream {}",
    ("stream", "topic"): "stream/{}/{meter}",
    ("database", "url"): "postgresql:///x",
    ("dataset", "folder"): ".",
}
"""Values in place of wrong ones that have no default, so that the rest of the file is checked as well."""
_OPTION = re.compile(r'query parameter: "([^"]*)"')
_EXPECTED = {
    ("stream",): "a [[stream]] table with a topic",
    ("stream", "topic"): "where records arrive, such as 'private/{meter}/power'",
    ("database", "url"): "a database, such as 'postgresql://collect@127.0.0.1/utility'",
    ("dataset", "folder"): "a folder, such as '/var/lib/meteragent-collect/records'",
}


def load(path: Path) -> Settings:
    """Read and check a file and the files that it names.

    Raises:
        ConfigError: the file is refused; all errors at once, each with its line, the value found and the
            value expected.
    """
    return parse(text_of_file(path))


def parse(text: str) -> Settings:
    """Parse and check the text of a file; raises ConfigError as `load` does."""
    document = parse_toml(text)
    key_lines = lines(text)
    errors = [*_repaired(document), *_sinks(document)]
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(document)
    except ValidationError as error:
        details = _own(error.errors(include_url=False))
        errors += [_refusal(detail) for detail in details]
        errors += _further(document, details)
    else:
        errors += _wrong(settings)
    for problem in errors:
        problem.line = line_of(path_of(problem.key), key_lines)
    raise_all(errors)
    assert settings is not None  # noqa: S101 -- it is None only if there are errors
    return settings


def _repaired(document: dict[str, Any]) -> Iterator[ConfigError]:
    """Yield a refusal for each unknown key; rename it if it is misspelt, else drop it.

    A misspelt table or required key is thus reported only once, and the table's content is still checked.
    """
    yield from _renamed(document, Settings, ())
    for name, model in _TABLES.items():
        value = document.get(name)
        tables = value if isinstance(value, list) else [value]
        for place, table in enumerate(tables):
            if isinstance(table, dict):
                path = (name, place) if isinstance(value, list) else (name,)
                yield from _renamed(table, model, path)


def _sinks(document: dict[str, Any]) -> Iterator[ConfigError]:
    """Yield a refusal unless there is exactly one place for records."""
    names = [name for name in ("database", "dataset") if name in document]
    if len(names) != 1:
        expected = "[database] with the url of a PostgreSQL database, or [dataset] with a folder: one of them"
        yield ConfigError(names[0] if names else "database", "both" if names else "nothing", expected)


def _renamed(table: dict[str, Any], model: type[BaseModel], path: KeyPath) -> Iterator[ConfigError]:
    names = list(model.model_fields)
    for key in [key for key in table if key not in names]:
        meant = next(iter(difflib.get_close_matches(key, [n for n in names if n not in table], n=1)), None)
        expected = meant or f"one of {', '.join(names)}"
        yield _error((*path, key), "an unknown key", expected, meant)
        value = table.pop(key)
        if meant is not None:
            table[meant] = value


def _own(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without those that only follow from others: wrong streams leave the list empty."""
    in_streams = any(detail["loc"][:1] == ("stream",) and len(detail["loc"]) > 1 for detail in details)
    return [detail for detail in details if not (in_streams and detail["loc"] == ("stream",))]


def _further(document: dict[str, Any], details: Sequence[ErrorDetails]) -> list[ConfigError]:
    """Return the errors of the second stage beside those of the first, whose values are replaced."""
    refused = {key_text(detail["loc"]) for detail in details}
    for detail in details:
        *path, key = detail["loc"]
        place: Any = document
        with suppress(KeyError, IndexError, TypeError):
            for step in path:
                place = place[step]
            names = tuple(part for part in detail["loc"] if isinstance(part, str))
            if names in _STAND_INS:
                text = _STAND_INS[names]
                place[key] = text.format(*path[1:], meter="{meter}") if isinstance(text, str) else text
            elif isinstance(place, dict):
                place.pop(key, None)
    try:
        settings = Settings.model_validate(document)
    except ValidationError:
        return []
    return [error for error in _wrong(settings) if error.key not in refused]


def _refusal(detail: ErrorDetails) -> ConfigError:
    """Return the refusal of a value that is wrong or missing."""
    path = detail["loc"]
    if detail["type"] == "missing":
        names = tuple(part for part in path if isinstance(part, str))
        return _error(path, "nothing", f"{_EXPECTED.get(names, 'a value')}: this key has no default", None)
    expected, meant = expectation(detail)
    if detail["type"] == "string_too_short":
        expected = "a text that is not empty"
    elif detail["type"] == "string_too_long":
        expected = f"at most {detail['ctx']['max_length']} characters"
    return _error(path, value_text(path[-1], detail["input"]), expected, meant)


def _wrong(settings: Settings) -> Iterator[ConfigError]:
    """Yield refusals of values that are well-formed but unusable."""
    wrong = list(broker.wrong(settings.source, [stream.topic for stream in settings.stream]))
    yield from wrong
    database = settings.database
    if database is not None and (not database.url.startswith(_POSTGRES) or _has_password(database.url)):
        expected = "postgresql://user@host/name, and the password in database.password_file"
        yield ConfigError("database.url", "an address of another form", expected)
    elif database is not None:
        yield from _unknown_option(database.url)
    yield from _repeated(settings)
    for read in (settings.password, settings.meters, *([] if wrong else [settings.source.servers])):
        try:
            read()
        except ConfigError as error:
            yield ConfigError(error.key, error.found, error.expected.replace("the agent", "collect"))


def _unknown_option(url: str) -> Iterator[ConfigError]:
    """Yield a refusal if libpq, where it is installed, does not know an option of an address."""
    with suppress(ImportError):
        conninfo: Any = importlib.import_module("psycopg.conninfo")
        try:
            conninfo.conninfo_to_dict(url)
        except conninfo.e.ProgrammingError as error:
            option = _OPTION.search(str(error))
            text = f"the option {option[1]!r}" if option else "an address that cannot be read"
            expected = "an address and options that libpq knows"
            yield ConfigError("database.url", text, expected)


def _repeated(settings: Settings) -> Iterator[ConfigError]:
    """Yield refusals of streams that share a name or topics with an earlier or another one."""
    for index, stream in enumerate(settings.stream):
        for key in ("name", "topic"):
            value = getattr(stream, key)
            if value in [getattr(other_stream, key) for other_stream in settings.stream[:index]]:
                expected = f"a {key} that no other stream has"
                yield _error(("stream", index, key), repr(value), expected, None)
        places = [topic.place(stream.topic.replace("{meter}", "m")) for topic in settings.topics]
        if any(place is not None and place.role is Role.DESCRIPTOR for place in places):
            expected = "a topic on which no other stream has its descriptors"
            yield _error(("stream", index, "topic"), repr(stream.topic), expected, None)


def _has_password(url: str) -> bool:
    return ":" in url.partition("://")[2].partition("/")[0].rpartition("@")[0] or "password=" in url


def _error(path: KeyPath, value: str, expected: str, meant: str | None) -> ConfigError:
    return ConfigError(key_text(path), value, expected, meant=meant)
