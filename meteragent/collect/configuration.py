"""The configuration of `collect`: a TOML file that is read once. A refusal lists every error with its line.

The error messages are those of the agent's configuration (`domain.refusal`). The table `[source]` is in
`source_table`.
"""

import difflib
import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from meteragent.collect import source_table
from meteragent.collect.core import Limits
from meteragent.collect.partition import Length
from meteragent.collect.source_table import Source
from meteragent.collect.topic import Role, StreamTopic
from meteragent.config import read_password, read_secret
from meteragent.config.model import Section
from meteragent.config.value import Duration, Span, Template
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path as KeyPath
from meteragent.domain.refusal import key_text, locate, parse_toml, raise_all, text_of_file, value_refusal
from meteragent.domain.units import DAY_MS, MINUTE_MS

_POSTGRES = ("postgresql://", "postgres://")


class Stream(Section):
    """A stream of records."""

    name: str = Field("main", min_length=1, max_length=64)
    """The stream's name in the tables."""
    topic: Template
    """The topic of the stream's records; `{meter}` is the segment that names the meter."""


class Database(Section):
    """A PostgreSQL database in which records are stored."""

    url: str
    """The database's address: postgresql://user@host/name and any libpq parameters, but no password."""
    password_file: Path | None = None
    """A file that holds the password."""
    partition: Length = "month"
    """The length of the partitions of the table `record`: `month`, `day`, or `none` for a single table. The
    length cannot change once the tables exist.
    """


class Dataset(Section):
    """A folder of Parquet files, in which records are stored instead of in a database."""

    folder: Path
    """The folder, on a file system of this machine."""
    partition: Literal["month", "day", "hour"] = "day"
    """The period of a stream whose records share a file: `month`, `day` or `hour`. The period cannot change
    once the dataset exists.
    """
    delay: Span = 5 * MINUTE_MS
    """The time between two moves of staged records into files. Staged records are already durable."""


class Accept(Section):
    """The limits on accepted records."""

    meters_file: Path | None = None
    """A file with the public ids of accepted meters, one per line. Default: the first `max_meters` meters."""
    max_meters: int = Field(100_000, ge=1, le=10_000_000)
    """How many meters may announce terms, over all streams; this also bounds waiting records and memory."""
    max_per_day: int = Field(1_440, ge=1, le=86_400_000)
    """The largest number of values a day that a meter's terms may allow; 1440 allows slots of a minute."""
    wait: Span = 30 * DAY_MS
    """How long a record waits for its descriptor before it is refused."""
    oldest: Span = 400 * DAY_MS
    """The largest accepted age of a slot, counted from its start."""
    ahead: Duration = DAY_MS
    """How far ahead of this machine's clock a slot may start."""


class Health(Section):
    """Where the running collector answers questions about its state."""

    socket: Path
    """The socket to which `meteragent health` connects, in a folder that exists."""


class Settings(Section):
    """The settings in a configuration file."""

    source: Source = Source()
    """The broker from which records are received."""
    stream: tuple[Stream, ...] = Field(min_length=1)
    """The streams to collect."""
    database: Database | None = None
    """The database in which records are stored."""
    dataset: Dataset | None = None
    """The folder in which records are stored instead of in a database."""
    accept: Accept = Accept()
    """The limits on accepted records."""
    health: Health | None = None
    """Where the collector answers questions about its state; without this table, it answers none."""

    @property
    def topics(self) -> tuple[StreamTopic, ...]:
        """The topics of the streams."""
        return tuple(StreamTopic.parse(stream.name, stream.topic) for stream in self.stream)

    def read_limits(self) -> Limits:
        """Return the limits on accepted messages. Raises ConfigError as `read_meters` does."""
        accept = self.accept
        return Limits(accept.oldest, accept.ahead, self.read_meters(), accept.max_meters, accept.max_per_day)

    def read_password(self) -> str | None:
        """Return the database's password, if there is a file. Raises ConfigError if it cannot be read."""
        path = None if self.database is None else self.database.password_file
        return None if path is None else read_password("database.password_file", path)

    def read_meters(self) -> frozenset[str] | None:
        """Return the ids of accepted meters; None for all. Raises ConfigError if the file cannot be read."""
        path = self.accept.meters_file
        if path is None:
            return None
        try:
            text = read_secret("accept.meters_file", path).decode()
        except UnicodeDecodeError:
            raise ConfigError("accept.meters_file", f"{path}: not UTF-8", "public ids as text") from None
        return frozenset(filter(None, map(str.strip, text.splitlines())))


_TABLES: dict[str, type[BaseModel]] = {
    "source": Source,
    "stream": Stream,
    "database": Database,
    "dataset": Dataset,
    "accept": Accept,
    "health": Health,
}
_STAND_INS: dict[tuple[str, ...], Any] = {
    ("stream",): [{"topic": "stream/{meter}"}],
    ("stream", "name"): "stream {}",
    ("stream", "topic"): "stream/{}/{meter}",
    ("database", "url"): "postgresql:///x",
    ("dataset", "folder"): ".",
    ("health", "socket"): "health",
}
"""Valid values of keys without a usable default, which replace wrong values so that all errors are found."""
_OPTION = re.compile(r'query parameter: "([^"]*)"')
_EXPECTED = {
    "stream": "a [[stream]] table with a topic",
    "stream.topic": "where records arrive, such as 'private/{meter}/power'",
    "database.url": "a database, such as 'postgresql://collect@127.0.0.1/utility'",
    "dataset.folder": "a folder, such as '/var/lib/meteragent-collect/records'",
    "health.socket": "a path, such as '/run/meteragent-collect/health'",
}


def load(path: Path) -> Settings:
    """Read and check a file and those that it names. Raises ConfigError, with all errors and their lines."""
    return parse(text_of_file(path))


def parse(text: str) -> Settings:
    """Parse and check the text of a configuration file. Raises ConfigError as `load` does."""
    document = parse_toml(text)
    errors, refused = [*_repair_keys(document), *_sink_errors(document)], set[str]()
    settings: Settings | None = None
    with suppress(ValidationError):
        try:
            settings = Settings.model_validate(document)
        except ValidationError as error:
            details = _root_errors(error.errors(include_url=False))
            errors += [value_refusal(detail, _EXPECTED) for detail in details]
            refused = {key_text(detail["loc"]) for detail in details}
            _replace_values(document, details)  # so that the other checks find the remaining errors
            settings = Settings.model_validate(document)
    if settings is not None:
        errors += [error for error in _value_errors(settings) if error.key not in refused]
    locate(errors, text)
    raise_all(errors)
    assert settings is not None
    return settings


def _repair_keys(document: dict[str, Any]) -> Iterator[ConfigError]:
    """Yield a refusal for each unknown key; correct the key in `document` if it is misspelt, or delete it."""
    yield from _repair_table(document, Settings, ())
    for name, model in _TABLES.items():
        value = document.get(name)
        tables = value if isinstance(value, list) else [value]
        for index, table in enumerate(tables):
            if isinstance(table, dict):
                path = (name, index) if isinstance(value, list) else (name,)
                yield from _repair_table(table, model, path)


def _sink_errors(document: dict[str, Any]) -> Iterator[ConfigError]:
    names = [name for name in ("database", "dataset") if name in document]
    if len(names) != 1:
        expected = "either [database] with the url of a PostgreSQL database, or [dataset] with a folder"
        yield ConfigError(names[0] if names else "database", "both" if names else "nothing", expected)


def _repair_table(table: dict[str, Any], model: type[BaseModel], path: KeyPath) -> Iterator[ConfigError]:
    names = list(model.model_fields)
    for key in [key for key in table if key not in names]:
        meant = next(iter(difflib.get_close_matches(key, [n for n in names if n not in table], n=1)), None)
        expected = meant or f"one of {', '.join(names)}"
        yield ConfigError(key_text((*path, key)), "an unknown key", expected, meant=meant)
        value = table.pop(key)
        if meant is not None:
            table[meant] = value


def _root_errors(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors; leave out the lack of streams if an error within a stream caused it."""
    in_streams = any(detail["loc"][:1] == ("stream",) and len(detail["loc"]) > 1 for detail in details)
    return [detail for detail in details if not (in_streams and detail["loc"] == ("stream",))]


def _replace_values(document: dict[str, Any], details: Sequence[ErrorDetails]) -> None:
    """Replace wrong values by stand-ins, or delete them so that defaults apply."""
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


def _value_errors(settings: Settings) -> Iterator[ConfigError]:
    """Yield refusals of values that are well-formed but unusable."""
    broker_errors = list(
        source_table.source_refusals(settings.source, [stream.topic for stream in settings.stream])
    )
    yield from broker_errors
    database = settings.database
    if database is not None and (not database.url.startswith(_POSTGRES) or _has_password(database.url)):
        expected = "postgresql://user@host/name, and the password in database.password_file"
        yield ConfigError("database.url", "an address in a different form", expected)
    elif database is not None:
        yield from _option_errors(database.url)
    yield from _duplicate_errors(settings)
    for read in (
        settings.read_password,
        settings.read_meters,
        *([] if broker_errors else [settings.source.read_servers]),
    ):
        try:
            read()
        except ConfigError as error:
            yield ConfigError(error.key, error.found, error.expected.replace("the agent", "collect"))


def _option_errors(url: str) -> Iterator[ConfigError]:
    """Yield a refusal if libpq does not accept an address. Yield nothing if psycopg is not installed."""
    with suppress(ImportError):
        conninfo: Any = importlib.import_module("psycopg.conninfo")
        try:
            conninfo.conninfo_to_dict(url)
        except conninfo.e.ProgrammingError as error:
            option = _OPTION.search(str(error))
            text = f"the option {option[1]!r}" if option else "an address that cannot be read"
            expected = "an address and options that libpq knows"
            yield ConfigError("database.url", text, expected)


def _duplicate_errors(settings: Settings) -> Iterator[ConfigError]:
    """Yield refusals of streams that share a name, a topic or a topic of descriptors with another."""
    for index, stream in enumerate(settings.stream):
        for key in ("name", "topic"):
            value = getattr(stream, key)
            if value in [getattr(other_stream, key) for other_stream in settings.stream[:index]]:
                expected = f"a {key} that no other stream has"
                yield ConfigError(f"stream[{index}].{key}", repr(value), expected)
        places = [topic.place_of(stream.topic.replace("{meter}", "m")) for topic in settings.topics]
        if any(place is not None and place.role is Role.DESCRIPTOR for place in places):
            expected = "a topic on which no other stream has its descriptors"
            yield ConfigError(f"stream[{index}].topic", repr(stream.topic), expected)


def _has_password(url: str) -> bool:
    return ":" in url.partition("://")[2].partition("/")[0].rpartition("@")[0] or "password=" in url
