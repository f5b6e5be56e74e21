"""The configuration: one TOML file, parsed once into frozen models, or refused with every error and its line.

Decimals are read exactly (never through a binary float), unknown keys are errors, and a setting
that cannot keep the promise is refused here, before anything runs. `model` lists the keys, `form` and
`refuse` find all errors of a file at once, `lines` finds the line of each key, and `terms` turns keys into
the parameters of the mechanism.
"""

import contextlib
import tomllib
from decimal import Decimal
from pathlib import Path

from meteragent.config.accept import missing_extras, refusals
from meteragent.config.accept import warnings as load_warnings
from meteragent.config.files import endpoint, exposed, read_secret, reason, sink_broker, unreadable
from meteragent.config.form import EXPLAINED_MAX, Form
from meteragent.config.model import Archive, Config, Page, Stream
from meteragent.config.nested import expanded
from meteragent.config.refuse import problems
from meteragent.config.schema import schema
from meteragent.config.source import (
    decoder,
    fleet_share,
    forget_ms,
    has_local_times,
    has_times,
    reports_on_change,
    topic_of,
)
from meteragent.config.tariff import Month, band_names, month, tariffs
from meteragent.config.terms import budget, others_per_day, schedule, shapes, sink_url, terms
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import line_of, lines, path_of
from meteragent.domain.refusal import not_toml, raise_all

__all__ = [
    "Archive",
    "Config",
    "Month",
    "Page",
    "Stream",
    "band_names",
    "budget",
    "decoder",
    "endpoint",
    "exposed",
    "fleet_share",
    "forget_ms",
    "has_local_times",
    "has_times",
    "load",
    "load_warnings",
    "locate",
    "missing_extras",
    "month",
    "others_per_day",
    "parse",
    "read_secret",
    "refusals",
    "reports_on_change",
    "schedule",
    "schema",
    "shapes",
    "sink_broker",
    "sink_url",
    "tariffs",
    "terms",
    "topic_of",
    "unreadable",
]


def load(path: Path) -> Config:
    """Read and check a configuration file.

    Raises ConfigError with all errors: each has its file, line and key, the value found and what is expected.
    """
    try:
        return parse(_text(path))
    except ConfigError as error:
        refusal = error
    raise locate(refusal, path) from None


def _text(path: Path) -> str:
    """Return the text of a file; raises ConfigError if its content is not text."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        refusal = ConfigError("", "a byte that is not UTF-8", "a text in UTF-8")
        refusal.line = error.object.count(b"\n", 0, error.start) + 1
        raise refusal from None
    except (OSError, ValueError) as error:
        raise ConfigError("", reason(error), "a TOML file that can be read") from None


def parse(text: str) -> Config:
    """Check a configuration given as text; raises ConfigError as `load` does, without a file."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:  # also for endless digits or brackets
        raise not_toml(error, text) from None
    form = Form(document, text)
    config = form.read()
    _raise([*form.errors, *map(form.locate, problems(config, flat=form.flat, wrong_paths=form.wrong_paths))])
    return expanded(config)


def locate(error: ConfigError, path: Path) -> ConfigError:
    """Set the file and line of an error, and of each error that it holds; return the error."""
    key_lines: dict[tuple[str | int, ...], int] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):  # errors then name only their keys
        text = path.read_text("utf-8")
        tomllib.loads(text)
        key_lines = lines(text)
    for problem in (error, *error.errors):
        problem.file = problem.file or str(path)
        problem.line = problem.line or line_of(path_of(problem.key), key_lines)
    return error


def _raise(errors: list[ConfigError]) -> None:
    """Raise all errors at once; beyond `EXPLAINED_MAX` errors, only their number is given."""
    if len(errors) > EXPLAINED_MAX:
        expected = "the errors above to be corrected first"
        summary = ConfigError("", f"{len(errors) - EXPLAINED_MAX} more errors", expected)
        errors = [*errors[:EXPLAINED_MAX], summary]
    raise_all(errors)
