"""The files that `init` would create: which exist, and which folders can be written to."""

import os
from pathlib import Path

from meteragent.cli import draft


def existing(path: Path) -> Path | None:
    """Return the first existing file among a configuration, its password file and its store, or None."""
    paths = (path, draft.password_path(path), draft.store_path(path))
    return next((path for path in paths if os.path.lexists(path)), None)


def folder_fault(path: Path) -> str | None:
    """Return a description of a usable folder if a file cannot be created in a path's folder, else None."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"a folder that exists, not {folder}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"a folder that you may write to, not {folder}"


def file_objection(name: str) -> str | None:
    """Return the expected answer if the file cannot be created; None if it can.

    A file whose password file or store exists is not created either.
    """
    if file := existing(Path(name)):
        return f"another name: {file} exists, and `init` never overwrites files"
    return _place_objection(name)


def _place_objection(name: str) -> str | None:
    fault = folder_fault(Path(name))
    return None if fault is None else f"a file in {fault}"


def unit_objection(name: str) -> str | None:
    """Return the expected answer if the unit's file cannot be created; None if it can."""
    if os.path.lexists(name):
        return f"another name: {name} exists, and `init` never overwrites files"
    return _place_objection(name)
