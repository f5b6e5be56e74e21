"""Write files atomically; read Parquet files without quoting their content in errors."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.domain.errors import ArchiveError
from meteragent.service.whole_file import whole_file

T = TypeVar("T")

READ_BYTES = 1 << 20
COMPRESSION = "zstd"
"""How releases are compressed, except their values (`writer_options`)."""
_PART = ".part"
WRITER = ""
"""A suffix that distinguishes this process's unfinished files from those of other processes."""


def attempt_read(path: Path | str, call: Callable[[], T]) -> T:
    """Return the result of `call`, which reads the file `path`.

    Raises ArchiveError if the file cannot be read, without Arrow's text, which may quote a value. This error
    is raised outside the handler, so that its context does not contain Arrow's error either.
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
def path_in_errors(path: Path | str, reason: str = "cannot be read") -> Iterator[None]:
    """Turn a system error into an ArchiveError with the file's name and the system's text, or `reason`."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else reason
    else:
        return
    raise ArchiveError(f"{path}: {reason}")


@contextmanager
def open_parquet(
    path: Path | str,
    meter: str | None = None,
    footer: pq.FileMetaData | None = None,
    opened: Callable[[], Any] | None = None,
) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; its 96-bit times, if any, are read in milliseconds.

    The column `meter`, if it holds strings, is read as a dictionary. `footer` is the file's footer if it was
    read before. `opened` returns a path or a file to read instead of `path`. Raises ArchiveError if the file
    is not readable Parquet.
    """
    options: dict[str, Any] = {"buffer_size": READ_BYTES, "pre_buffer": False}
    options |= {"coerce_int96_timestamp_unit": "ms", "read_dictionary": [meter] if meter else None}
    options |= {"metadata": footer}
    source = attempt_read(path, opened) if opened else path
    with ExitStack() as stack:
        if not isinstance(source, Path | str):
            stack.callback(source.close)
        yield stack.enter_context(attempt_read(path, lambda: pq.ParquetFile(source, **options)))


def write_file(path: Path, fill: Callable[[Any], object]) -> None:
    """Write a file, to which `fill` writes, atomically and durably. Raises ArchiveError if that fails."""
    part = path.with_name(f".{path.name}{WRITER}{_PART}")
    with path_in_errors(path, "cannot be written"), whole_file(path, part=part) as file:
        fill(file)


def is_part(path: Path) -> bool:
    """Return whether a file has the kind of name that `write_file` uses until a file is complete."""
    return path.name.startswith(".") and path.name.endswith(_PART)


def writer_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the writer's options: delta encoding for values, dictionaries for strings, and compression.

    Values are mostly noise. They are not compressed, which costs 2 to 3% more space and saves a quarter of
    the time. No statistics of values are written, because the extremes of noise are useless.
    """
    string_columns = [field.name for field in schema if pa.types.is_string(field.type)]
    number = "values.list.element" if "values" in schema.names else "value"
    other_names = [name for name in schema.names if name not in {"values", "value"}]
    return {
        "use_dictionary": string_columns,
        "write_statistics": other_names,
        "column_encoding": {number: "DELTA_BINARY_PACKED"},
        "compression": dict.fromkeys(other_names, COMPRESSION) | {number: "none"},
        "store_decimal_as_integer": True,
    }
