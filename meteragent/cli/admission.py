"""Which streams may run: those whose promise holds for loads, those accepted, and those that have run before.

What a store knows goes on with a warning, so that neither an update nor a damaged store ends a stream.
"""

import os
import sqlite3
from pathlib import Path
from typing import TextIO

from meteragent import config
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.store import ledger, read_only


def channels(path: Path) -> set[str]:
    """Return the streams that a store knows; none when there is no store, or it is not ours to read."""
    if not os.access(path, os.R_OK):
        return set()
    with read_only(path) as connection:
        return ledger.channels(connection)


def admit(settings: config.Config) -> tuple[list[ConfigError], list[ConfigError]]:
    """Return what is refused, and what is not only because its stream has run before."""
    if not config.refusals(settings):
        return [], []
    running = _running(settings)
    others = {stream.name for stream in settings.stream} - running
    return config.refusals(settings, running), config.refusals(settings, others)


def refused(path: Path, settings: config.Config, out: TextIO) -> bool:
    """Write all that is refused at once, and what is not only because it has run; say whether any is refused.

    `path` is that of the configuration.
    """
    refusals, warnings = admit(settings)
    for line in (*(f"warning, since it has run before: {one}" for one in warnings), *refusals):
        print(f"{path}: {line}", file=out)
    return bool(refusals)


def _running(settings: config.Config) -> set[str]:
    """Return the streams that the store says have run; all of them where it cannot say."""
    names = {stream.name for stream in settings.stream}
    path = settings.store.path
    try:
        return channels(path) & names if os.access(path, os.R_OK) or not path.exists() else names
    except (StoreError, sqlite3.Error):
        return names
