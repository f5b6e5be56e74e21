"""Files that appear complete: they are written under another name, and renamed once they are on disk."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from meteragent.store.generation import sync_folder


@contextmanager
def whole_file(
    path: Path, *, is_new: bool = False, mode: int = 0o666, part: Path | None = None
) -> Iterator[BinaryIO]:
    """Yield a file that takes the name `path` when the block ends; it is then on disk.

    If the block raises, nothing remains. A process that is killed leaves only `part`, which the next call
    replaces. Raises OSError, and FileExistsError for a file that exists if `is_new`.
    """
    part = part or path.with_name(f".{path.name}.part")
    try:
        if is_new:
            _refuse_existing(path)
        part.unlink(missing_ok=True)
        with open(part, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            _refuse_existing(path)  # again, because the block may have taken hours
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        error.filename = str(path) if error.filename == str(part) else error.filename
        raise
    finally:
        part.unlink(missing_ok=True)


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
