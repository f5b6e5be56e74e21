"""How CSV files map to the archive's form: the keys of [archive.csv], and the built-in layouts."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, Final, Self
from zoneinfo import available_timezones

from meteragent.config.model import Archive, Source
from meteragent.domain.errors import ConfigError
from meteragent.domain.grid import FIRST_MS
from meteragent.domain.readings import ReadingRules
from meteragent.domain.refusal import raise_all, similar

UNIX: Final = {"unix s": 1000, "unix ms": 1}  # the formats of Unix times, and their unit in ms
CER: Final = "cer"  # the day (1 is 2009-01-01), then two digits: the half hour
_FILE = files(__package__).joinpath("layouts.toml")
LAYOUTS: Final[dict[str, dict[str, Any]]] = tomllib.loads(_FILE.read_text("utf-8"))
_PATTERNS = dict.fromkeys("ymdHMS", r"(\d\d)")
_PATTERNS |= {"Y": r"(\d{4})", "f": r"(\d{1,9})", "z": r"(Z|[+-]\d\d:?\d\d)"}
_EXAMPLE = datetime(2026, 11, 20, 12, 30)  # noqa: DTZ001 -- formats may have no zone
_READ_AS_IS = ("format", "timezone", "separator", "decimal", "header", "files")


def _is_format(form: Any) -> bool:
    letters = re.findall("%(.)", form) if isinstance(form, str) else []
    is_whole = set("mdHM") <= set(letters) <= _PATTERNS.keys() and len({"Y", "y"} & set(letters)) == 1
    return form in (*UNIX, CER) or (is_whole and len(set(letters)) == len(letters))


def _are_texts(texts: Any) -> bool:
    return isinstance(texts, list) and bool(texts) and all(isinstance(text, str) for text in texts)


_KEYS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "layout": ([*LAYOUTS].__contains__, f"one of {', '.join(LAYOUTS)}"),
    "stamp": (("start", "end").__contains__, "'start' or 'end': where its time lies in what a value covers"),
    "meters": (("column", "path").__contains__, "'column', or 'path': each file is a meter"),
    "time": (_are_texts, "a list of columns, such as ['Date', 'Time']"),
    "format": (_is_format, "'unix s', 'unix ms', 'cer', or such as '%d.%m.%Y %H:%M' (also %y, %S, %f, %z)"),
    "timezone": (lambda value: value in available_timezones(), "a zone such as 'Europe/Berlin'"),
    "separator": (lambda value: isinstance(value, str) and len(value) == 1, "one character, such as ';'"),
    "decimal": ((".", ",").__contains__, "'.' or ','"),
    "null": (_are_texts, "a list of texts that mean a missing value, such as ['-999']"),
    "header": (range(1000).__contains__, "the number of the header's line; 0 if there is none"),
    "files": (lambda value: isinstance(value, str) and "/" not in value, "a pattern such as '*.csv'"),
}


@dataclass(frozen=True)
class Mapping:
    """How a CSV file's columns (`parts`) become meter, time and value; `shift_ms` is added to its times.

    Times before `first_ms` are refused, because they are probably in another unit.
    """

    parts: dict[str, tuple[str, ...]]
    shift_ms: int = 0
    format: str | None = None
    timezone: str | None = None
    separator: str | None = None
    decimal: str | None = None
    null: tuple[str, ...] = ()
    header: int = 1
    files: str = "*.csv"
    first_ms: int = FIRST_MS

    @classmethod
    def read_columns(
        cls, archive: Archive, source: Source, readings: ReadingRules
    ) -> tuple[tuple[str, str, str], Self | None]:
        """Return the names of the columns, and the mapping of [archive.csv], if any. Raises ConfigError."""
        columns = {name: getattr(archive, name) for name in ("meter", "time", "value")}
        if archive.csv is None:
            return (columns["meter"], columns["time"], columns["value"]), None
        layout = LAYOUTS.get(str(archive.csv.get("layout")), {})
        raise_all(_problems(archive.csv, layout, source))
        named = {name: column for name, column in columns.items() if name in archive.model_fields_set}
        keys = columns | layout | named | archive.csv
        shift_ms = readings.interval_ms if keys["stamp"] == "start" else -readings.hold_ms
        time = (keys["time"],) if isinstance(keys["time"], str) else tuple(keys["time"])
        parts = {"meter": (keys["meter"],), "time": time, "value": (keys["value"],)}
        if keys.get("meters") == "path":
            del parts["meter"]
        same = {name: keys[name] for name in _READ_AS_IS if name in keys}
        names = keys["meter"], time[0] if len(time) == 1 else archive.time, keys["value"]
        return names, cls(parts, shift_ms, null=tuple(keys.get("null", ())), **same)

    @property
    def example(self) -> str:
        """A description of the times that this mapping expects."""
        if self.format in UNIX:
            return f"{'milliseconds' if UNIX[self.format] == 1 else 'seconds'} since 1970, of 1990 to 2100"
        if self.format == CER:
            return (
                "a day and a half hour from 01 to 48 (remove days with 49 and 50: their order is not known)"
            )
        form = (self.format or "%Y-%m-%d %H:%M").replace("%z", "+0100")
        if self.timezone is not None:
            return f"a time such as {_EXAMPLE.strftime(form)} in {self.timezone}, without an offset"
        form = form if self.format else f"{form}+01:00"
        hint = "for local times write timezone = 'Europe/Berlin' (or 'UTC') under [archive.csv]"
        return f"a time with an offset, such as {_EXAMPLE.strftime(form)}; {hint}"


def iso_rewriting(form: str) -> tuple[str, str]:
    """Return a regular expression for times of a format, and its replacement by the ISO 8601 form."""
    texts = re.split("%(.)", form)
    pattern = "".join(_PATTERNS[text] if i % 2 else re.escape(text) for i, text in enumerate(texts))
    groups = {letter: f"\\{number}" for number, letter in enumerate(texts[1::2], 1)}
    groups.setdefault("Y", f"20{groups.get('y')}")
    more = "".join(
        mark + groups[letter] for letter, mark in zip("Sfz", (":", ".", ""), strict=True) if letter in groups
    )
    return f"^{pattern}$", "{Y}-{m}-{d} {H}:{M}".format_map(groups) + more


def _problems(keys: dict[str, Any], layout: dict[str, Any], source: Source) -> list[ConfigError]:
    """Return refusals of unknown, wrong and missing keys, and of a source that the layout contradicts."""
    problems = []
    for name, value in keys.items():
        if name not in _KEYS:
            meant = similar(name, list(_KEYS)) or ", ".join(_KEYS)
            problems.append(ConfigError(f"archive.csv.{name}", "an unknown key", meant, meant=meant))
        elif isinstance(value, dict) or not _KEYS[name][0](value):
            problems.append(ConfigError(f"archive.csv.{name}", repr(value), _KEYS[name][1]))
    if "stamp" not in layout | keys:
        problems.append(ConfigError("archive.csv.stamp", "nothing", f"{_KEYS['stamp'][1]} (never guessed)"))
    keys = layout | keys
    form, zone = keys.get("format"), keys.get("timezone")
    if form is not None and (form in UNIX or "%z" in str(form)) == (zone is not None):
        expected = (
            "the zone of these times, such as 'Europe/Berlin'"
            if zone is None
            else "no zone: these times have an offset, or are in UTC"
        )
        problems.append(ConfigError("archive.csv.timezone", repr(zone) if zone else "nothing", expected))
    for name in sorted({"kind", "unit"} & layout.keys()):
        if layout[name] != (stated := str(getattr(source, name))):
            expected = f"{layout[name]!r}, which {keys['layout']} holds"
            problems.append(ConfigError(f"source.{name}", repr(stated), expected))
    return problems
