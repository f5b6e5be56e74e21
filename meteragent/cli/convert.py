"""The `convert` command: write private records in formats that utilities use, or readings for `sanitise`."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from meteragent.cli import common
from meteragent.consume import Series, read_table
from meteragent.consume.archive import read
from meteragent.domain.errors import FormatError, RecordError
from meteragent.domain.figures import counted
from meteragent.formats import entry, green_button, meter_readings, readings, table

_END_MS = 253_402_300_799_000
"""The last second of the year 9999, in Unix ms."""
_WRITERS: dict[str, Callable[[list[entry.Entry], int], bytes]] = {
    "csv": lambda entries, _now_ms: table.write(entries),
    "csv-semicolon": lambda entries, _now_ms: table.write(entries, ";"),
    "green-button": green_button.write,
    "meter-readings": meter_readings.write,
}


def run(options: argparse.Namespace) -> int:
    """Convert a file or a folder; return 0, or 1 if reading, converting or writing fails."""
    try:
        entries = list(_entries(options.input, options.stream))
        if options.to == "readings":
            _write_readings(entries, options.output)
        else:
            content = _WRITERS[options.to](entries, common.now_ms())
            with options.output.open("xb") as file:
                file.write(content)
    except (FormatError, RecordError) as error:
        return common.fail(f"{options.input}: {error}")
    except FileExistsError as error:
        return common.fail(f"{error.filename}: file exists: choose another name, or delete it")
    except OSError as error:
        return common.fail(f"{error.filename}: {(error.strerror or 'failed').lower()}")
    meters = counted(len({value.meter for value in entries}), "meter")
    print(f"{counted(len(entries), 'value')} of {meters}: {options.output}", file=sys.stderr)
    return 0


def _entries(path: Path, stream: str) -> Iterator[entry.Entry]:
    """Yield the values in a file or a folder; `stream` names the stream to read from a dataset."""
    if path.is_dir():
        yield from entry.released(_series(path, stream).values())
        return
    content = path.read_bytes()
    is_xml = content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    yield from green_button.read(content) if is_xml else table.read(content)


def _series(folder: Path, stream: str) -> dict[str, Series]:
    """Return the series of an output of `sanitise`, or of one stream of a dataset of `collect`."""
    _require_pyarrow("reading")
    if (folder / "descriptor.parquet").exists():
        return read_table(folder, stream, 0, _END_MS)
    return read(folder)


def _require_pyarrow(task: str) -> None:
    if common.lacks("collect-parquet", "convert"):
        raise FormatError(f"{task} Parquet files needs pyarrow")


def _write_readings(entries: list[entry.Entry], path: Path) -> None:
    """Write a Parquet file for `sanitise`, and print the `[source]` table that describes its values."""
    _require_pyarrow("writing")
    import pyarrow.parquet as pq  # noqa: PLC0415 -- only this format needs it

    content = readings.table(entries)
    with path.open("xb") as file:
        pq.write_table(content, file)
    print(f"[source]\n{readings.source_lines(entries)}")
