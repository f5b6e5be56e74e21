"""Decide which streams may run: those that keep their promise for loads, have `privacy.accept`, or have run.

A stream that is already in the store continues with a warning, so that neither an update nor a damaged store
can stop it. The files that `run` needs must be readable, and its extras installed.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from meteragent import config
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.domain.grid import format_duration
from meteragent.domain.refusal import raise_all
from meteragent.store import grants, ledger, read_only, stored_terms
from meteragent.store.grants import Action

_KEPT = (
    "stream '{}' keeps window.lateness = '{}', with which it has run; the default is '{}': state one of them"
)
_SEVERAL = "not stated, and the stream has run with {}: state one of them"
_STARTED = "(not refused, because the stream has run before): "


def load_admitted(path: Path, out: TextIO, *, needs_folder: bool = False) -> config.Config:
    """Return the configuration in a file if all its streams may run; those that have run keep their lateness.

    Write a warning for each stream that continues only because it has run before. Raises ConfigError with
    all refusals. If `needs_folder`, a store in a folder that does not exist is refused, too.
    """
    settings, refusals = _with_running_lateness(path, load_acted(path, out), out)
    running = _started_streams(settings)
    for stream, refusal in config.reading_refusals(settings):
        if stream.name in running:
            place = config.locate_error(refusal, path).location_text
            print(f"{place}warning {_STARTED}{refusal.text}", file=out)
        else:
            refusals.append(refusal)
    refusals += config.missing_extra_refusals(settings) + config.file_refusals(settings)
    refusals += config.store_folder_refusals(settings) if needs_folder else []
    raise_all(config.locate_error(refusal, path) for refusal in refusals)
    return settings


def load_acted(path: Path, out: TextIO) -> config.Config:
    """Return the configuration in a file after the actions in its store."""
    settings = config.load(path)
    return config.with_actions(settings, stored_actions(settings, out))


def stored_streams(path: Path) -> set[str]:
    """Return the streams in a store; none if this user cannot read the file. Raises StoreError."""
    if not os.access(path, os.R_OK):
        return set()
    with read_only(path) as connection:
        return ledger.marked_streams(connection)


def stored_actions(settings: config.Config, out: TextIO) -> Mapping[str, Action]:
    """Return the last action on each receiver, as the store states it; warn if the store cannot be read."""
    path = settings.store.path
    try:
        if not settings.receiver or not path.exists():
            return {}
        with read_only(path) as connection:
            return grants.last_actions(connection)
    except (StoreError, OSError):
        print(f"{path}: warning: not readable, so it is unknown who is paused or has ended", file=out)
        return {}


def _with_running_lateness(
    path: Path, settings: config.Config, out: TextIO
) -> tuple[config.Config, list[ConfigError]]:
    """Return the configuration; a stream that states no lateness gets the one with which it has run.

    Write a warning for each stream whose lateness differs from that of a new stream. Also return the refusals
    of streams that have run with several latenesses, because the store does not say which was the last.
    """
    stored = _stored_lateness_ms(settings.store.path)
    streams, refusals = [], []
    for stream, prefix in settings.prefixed_streams:
        usual_ms = config.terms(stream).lateness_ms
        known_ms = [usual_ms] if stream.window.lateness is not None else stored.get(stream.name, [usual_ms])
        if len(known_ms) > 1:
            text = _SEVERAL.format(" and ".join(f"'{format_duration(each_ms)}'" for each_ms in known_ms))
            refusals.append(ConfigError(f"{prefix}window.lateness", "none", "", text=text))
        elif known_ms != [usual_ms]:
            warning = _KEPT.format(stream.name, *map(format_duration, (*known_ms, usual_ms)))
            print(f"{path}: warning: {warning}", file=out)
            stream = stream.with_changes(window={"lateness": known_ms[0]})  # noqa: PLW2901  the stream that runs
        streams.append(stream)
    return settings.model_copy(update={"stream": tuple(streams)}), refusals


def _stored_lateness_ms(path: Path) -> dict[str, list[int]]:
    """Return the latenesses of each stream in a store, ascending; empty if the store cannot be read."""
    try:
        with read_only(path) as connection:
            terms_by_stream = stored_terms(connection)
        return {name: sorted({row.lateness_ms for row in rows}) for name, rows in terms_by_stream.items()}
    except (StoreError, OSError):
        return {}


def _started_streams(settings: config.Config) -> set[str]:
    """Return the streams that have run, according to the store; all streams if the store cannot be read."""
    names, path = {stream.name for stream in settings.stream}, settings.store.path
    try:
        return stored_streams(path) & names if os.access(path, os.R_OK) or not path.exists() else names
    except StoreError:
        return names
