"""The files that `init` would create: which exist, and which folders can be written to."""

import os
from pathlib import Path

from meteragent.cli import draft


def existing(path: Path) -> Path | None:
    """Return the first existing file among a configuration, its password file and its store, or None."""
    paths = (path, draft.beside(path, ".password"), draft.beside(path, ".db"))
    return next((path for path in paths if os.path.lexists(path)), None)


def folder_fault(path: Path) -> str | None:
    """Return a description of a usable folder if a file cannot be created in a path's folder, else None."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"a folder that exists, not {folder}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"a folder that you may write to, not {folder}"


def file_objection(name: str) -> str | None:
    """Return the expected answer if the configuration cannot be created; None if it can."""
    return _objection(name, existing(Path(name)))


def unit_objection(name: str) -> str | None:
    """Return the expected answer if the unit's file cannot be created; None if it can."""
    return _objection(name, name if os.path.lexists(name) else None)


def _objection(name: str, file: Path | str | None) -> str | None:
    """Return the expected answer if a file exists, or if the folder cannot be written to."""
    if file is not None:
        return f"another name: {file} exists, and `init` never overwrites files"
    fault = folder_fault(Path(name))
    return None if fault is None else f"a file in {fault}"
