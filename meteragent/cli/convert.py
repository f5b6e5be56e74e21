"""The `convert` command: write private records in formats that utilities use, or readings for `sanitise`."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.cli import common, exit_codes
from meteragent.consume import Series, read_table
from meteragent.consume.archive import read_archive
from meteragent.domain.errors import ArchiveError, FormatError, RecordError
from meteragent.domain.figures import count_text
from meteragent.domain.grid import END_MS, FIRST_MS
from meteragent.formats import entry, green_button, meter_readings, readings, table
from meteragent.service import boot_clock
from meteragent.service.whole_file import whole_file

_REASONS = 20
"""The largest number of reasons that are printed for values that were left out."""
_WRITERS: dict[str, Callable[[list[entry.Entry], int], bytes]] = {
    "csv": lambda entries, _now_ms: table.write(entries),
    "csv-semicolon": lambda entries, _now_ms: table.write(entries, ";"),
    "green-button": green_button.write,
    "meter-readings": meter_readings.write,
}


def run(options: argparse.Namespace) -> int:
    """Convert a file or a folder; return 0, or 1 if reading, converting or writing fails."""
    left_out = Counter[str]()
    try:
        if options.config is not None:
            return _report(options, _write_mapped(options), left_out)
        entries = entry.drop_copies(_read_entries(options, left_out), left_out)
        facts: dict[str, Any] = {"values": len(entries), "meters": len({value.meter for value in entries})}
        if options.to == "readings":
            facts |= {"source": _write_readings(entries, options.output)}
        else:
            content = _WRITERS[options.to](entries, boot_clock.wall_ms())
            with whole_file(options.output, is_new=True) as file:
                file.write(content)
    except (FormatError, RecordError) as error:
        return exit_codes.fail(f"{options.input}: {error}")
    except ArchiveError as error:
        return exit_codes.fail(error)
    except FileExistsError as error:
        return exit_codes.fail(f"{error.filename}: file exists: choose another name, or delete it")
    except OSError as error:
        return exit_codes.fail(f"{error.filename}: {(error.strerror or 'failed').lower()}")
    return _report(options, facts, left_out)


def _report(options: argparse.Namespace, facts: Mapping[str, Any], left_out: Counter[str]) -> int:
    """Print what was written and left out, as text or as JSON; return 0."""
    if options.json:
        print(json.dumps({"output": str(options.output), **facts, "left_out": left_out}, indent=2))
        return 0
    if "source" in facts:
        print(f"[source]\n{facts['source']}")
    detail = f" of {count_text(facts['meters'], 'meter')}" if "meters" in facts else ""
    if "told_apart" in facts:
        detail = f", {facts['told_apart']:,} at local times that occur twice, told apart by order"
    print(f"{count_text(facts['values'], 'value')}{detail}: {options.output}", file=sys.stderr)
    for reason, count in left_out.most_common(_REASONS):
        print(f"  left out ({count:,}): {reason}", file=sys.stderr)
    if len(left_out) > _REASONS:
        print(f"  left out for {len(left_out) - _REASONS:,} other reasons", file=sys.stderr)
    return 0


def _read_entries(options: argparse.Namespace, left_out: Counter[str]) -> Iterable[entry.Entry]:
    """Return the values in a file or a folder; `left_out` counts those that are left out, by reason."""
    path = options.input
    content = b"" if path.is_dir() else path.read_bytes()
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return green_button.read(content, options.meter, left_out)
    if options.meter is not None:
        raise FormatError("--meter is for Green Button files only: other files have names of meters")
    if path.is_dir():
        return entry.entries_of(_read_series(path, options.stream).values())
    return table.read(content, left_out)


def _write_mapped(options: argparse.Namespace) -> dict[str, int]:
    """Convert CSV files, which [archive.csv] describes, to Parquet in batches; return counts of values."""
    _require_pyarrow("mapping")
    import pyarrow.parquet as pq  # noqa: PLC0415 -- only this format needs it

    from meteragent.archive.source import Source  # noqa: PLC0415 -- it needs pyarrow
    from meteragent.archive.tree import Tree  # noqa: PLC0415 -- it needs pyarrow

    policy = Policy.of(config.load(options.config))
    if policy.csv is None or options.to != "readings":
        raise FormatError("--config is for --to readings, and needs an [archive.csv] table")
    source = Source.open(Tree.at(options.input), policy)
    batches = source.read(source.groups, list(policy.columns), 1 << 18)
    if (first := next(batches, None)) is None:
        raise FormatError("there are no values")
    with whole_file(options.output, is_new=True) as file, pq.ParquetWriter(file, first.schema) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)
    return {"values": source.rows, "told_apart": source.ambiguous_readings}


def _read_series(folder: Path, stream: str) -> dict[str, Series]:
    """Return the series of an output of `sanitise`, or of one stream of a dataset of `collect`."""
    _require_pyarrow("reading")
    if (folder / "descriptor.parquet").exists():
        return read_table(folder, stream, FIRST_MS, END_MS)
    return read_archive(folder)


def _require_pyarrow(task: str) -> None:
    if common.report_missing_extra("collect-parquet", "convert"):
        raise FormatError(f"{task} Parquet files needs pyarrow")


def _write_readings(entries: list[entry.Entry], path: Path) -> str:
    """Write a Parquet file for `sanitise`; return the lines of `[source]` that describe its values."""
    _require_pyarrow("writing")
    import pyarrow.parquet as pq  # noqa: PLC0415 -- only this format needs it

    content = readings.arrow_table(entries)
    with whole_file(path, is_new=True) as file:
        pq.write_table(content, file)
    return readings.source_lines(entries)
