"""Files that are there whole or not at all; and Parquet files, none of whose content gets into an error."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.domain.errors import ArchiveError

T = TypeVar("T")

READ_BYTES = 1 << 20
_PART = ".part"


def attempt(path: Path, call: Callable[[], T]) -> T:
    """What a call on a Parquet file gives; an error of Arrow's is told without its text.

    Raises ArchiveError, outside the handler: what Arrow says may hold a value.
    """
    reason = "not a Parquet file that can be read"
    try:
        return call()
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else reason
    except (pa.ArrowException, ValueError, TypeError):
        pass
    raise ArchiveError(f"{path}: {reason}")


@contextmanager
def parquet(
    path: Path, meter: str | None = None, footer: pq.FileMetaData | None = None
) -> Iterator[pq.ParquetFile]:
    """A Parquet file, open; times of 96 bits in milliseconds, meters as a dictionary.

    Raises ArchiveError when it is none.
    """
    options: dict[str, Any] = {"buffer_size": READ_BYTES, "pre_buffer": False}
    options |= {"coerce_int96_timestamp_unit": "ms", "read_dictionary": [meter] if meter else None}
    options |= {"metadata": footer}
    file = attempt(path, lambda: pq.ParquetFile(path, **options))
    with file:
        yield file


def write(path: Path, fill: Callable[[Any], object]) -> None:
    """A file that is there whole or not at all, and on disk when this returns; `fill` writes it.

    Raises ArchiveError when it cannot be written.
    """
    part = path.with_name(f".{path.name}{_PART}")
    try:
        with part.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync(path.parent)
    except OSError as error:
        raise ArchiveError(f"{path}: {(error.strerror or 'cannot be written').lower()}") from None
    finally:
        part.unlink(missing_ok=True)


def is_part(path: Path) -> bool:
    """Whether a file is one that was not finished."""
    return path.name.startswith(".") and path.name.endswith(_PART)


def sync(folder: Path) -> None:
    """What a folder holds is on disk when this returns."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
