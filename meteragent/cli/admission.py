"""Decide which streams may run: those that keep their promise for loads, are accepted, or have run before.

All files with secrets or certificates that `run` reads must be readable, and the extras that the
configuration needs must be installed.

A stream that is already in the store continues with a warning, so that neither an update nor a damaged store
can stop it.
"""

import os
import sqlite3
from pathlib import Path
from typing import TextIO

from meteragent import config
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.store import ledger, read_only


def stored_streams(path: Path) -> set[str]:
    """Return the names of the streams in a store; none if there is no file that this user can read.

    Raises StoreError if the file is not a usable store.
    """
    if not os.access(path, os.R_OK):
        return set()
    with read_only(path) as connection:
        return ledger.streams(connection)


def admit(settings: config.Config) -> tuple[list[ConfigError], list[ConfigError]]:
    """Return the refusals, and separately those of streams that have run before, which are only warnings."""
    file_errors = [*config.missing_extras(settings), *config.unreadable(settings)]
    if not config.refusals(settings):
        return file_errors, []
    running = _running(settings)
    new_streams = {stream.name for stream in settings.stream} - running
    return [*config.refusals(settings, running), *file_errors], config.refusals(settings, new_streams)


def refused(path: Path, settings: config.Config, out: TextIO) -> bool:
    """Write all refusals, and warnings for streams that have run before; return whether anything is refused.

    `path` is the path of the configuration.
    """
    refusals, warnings = admit(settings)
    for warning in warnings:
        place = config.locate(warning, path).place
        print(f"{place}warning (not refused, because the stream has run before): {warning.text}", file=out)
    for refusal in refusals:
        print(config.locate(refusal, path), file=out)
    return bool(refusals)


def _running(settings: config.Config) -> set[str]:
    """Return the streams that have run, according to the store; all streams if the store cannot be read."""
    names = {stream.name for stream in settings.stream}
    path = settings.store.path
    try:
        return stored_streams(path) & names if os.access(path, os.R_OK) or not path.exists() else names
    except (StoreError, sqlite3.Error):
        return names
