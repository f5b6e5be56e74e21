"""Decide which streams may run: those that keep their promise for loads, are accepted, or have run before.

A stream that is already in the store continues with a warning, so that neither an update nor a damaged store
can stop it. What `run` reads must be readable, and the extras that it needs must be installed.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from meteragent import config
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.domain.grid import format_duration
from meteragent.domain.refusal import raise_all
from meteragent.store import ledger, read_only, stored_terms

_KEPT = (
    "{}: warning: stream '{}' keeps window.lateness = '{}', with which it has run; the default is '{}': state"
    " one of them"
)
_SEVERAL = "not stated, and the stream has run with {}: state one of them"


def stored_streams(path: Path) -> set[str]:
    """Return the streams in a store; none if this user can read no file. Raises StoreError."""
    if not os.access(path, os.R_OK):
        return set()
    with read_only(path) as connection:
        return ledger.marked_streams(connection)


def with_running_lateness(path: Path, settings: config.Config, out: TextIO) -> config.Config:
    """Return the configuration with the lateness of streams that have run, if the file at `path` states none.

    Write a warning for each whose lateness differs from that of a new stream. Raises ConfigError for streams
    that have run with several, because the store does not say which was the last.
    """
    stored = _stored_lateness_ms(settings.store.path)
    streams, refusals = [], []
    for number, stream in enumerate(settings.stream):
        usual_ms = config.terms(stream).lateness_ms
        known_ms = [usual_ms] if stream.window.lateness is not None else stored.get(stream.name, [usual_ms])
        if len(known_ms) > 1:
            text = _SEVERAL.format(" and ".join(f"'{format_duration(each_ms)}'" for each_ms in known_ms))
            error = ConfigError(f"stream[{number}].window.lateness", "none", "", text=text)
            refusals.append(config.locate_error(error, path))
        elif known_ms != [usual_ms]:
            print(_KEPT.format(path, stream.name, *map(format_duration, (*known_ms, usual_ms))), file=out)
            window = stream.window.model_copy(update={"lateness": known_ms[0]})
            stream = stream.model_copy(update={"window": window})  # noqa: PLW2901  the stream that runs
        streams.append(stream)
    raise_all(refusals)
    return settings.model_copy(update={"stream": tuple(streams)})


def _stored_lateness_ms(path: Path) -> dict[str, list[int]]:
    """Return what latenesses each stream in a store has run with, ascending; none if it cannot be read."""
    try:
        with read_only(path) as connection:
            terms_by_stream = stored_terms(connection)
        return {name: sorted({row.lateness_ms for row in rows}) for name, rows in terms_by_stream.items()}
    except (StoreError, OSError):
        return {}


def admission_refusals(settings: config.Config) -> tuple[list[ConfigError], list[ConfigError]]:
    """Return the refusals, and separately those of streams that have run before, which are only warnings."""
    file_errors = [*config.missing_extra_refusals(settings), *config.file_refusals(settings)]
    running = _started_streams(settings)
    new_streams = {stream.name for stream in settings.stream} - running
    return [*config.refusals(settings, running), *file_errors], config.refusals(settings, new_streams)


def report_refusals(
    path: Path, settings: config.Config, out: TextIO, *, more_refusals: Iterable[ConfigError] = ()
) -> bool:
    """Write the refusals, and warnings for streams that have run before; return whether there are any."""
    refusals, warnings = admission_refusals(settings)
    refusals += more_refusals
    for warning in warnings:
        place = config.locate_error(warning, path).location_text
        print(f"{place}warning (not refused, because the stream has run before): {warning.text}", file=out)
    for refusal in refusals:
        print(config.locate_error(refusal, path), file=out)
    return bool(refusals)


def _started_streams(settings: config.Config) -> set[str]:
    """Return the streams that have run, according to the store; all streams if the store cannot be read."""
    names, path = {stream.name for stream in settings.stream}, settings.store.path
    try:
        return stored_streams(path) & names if os.access(path, os.R_OK) or not path.exists() else names
    except StoreError:
        return names
