"""The releases of archives in outputs of `sanitise`: folders of Parquet files, each with a manifest.

The manifest is written twice, as `_manifest.parquet` and with the run's id in its name. It has no rows, but
the columns of the parts, so that the folder can be read as one Parquet table. Its facts are JSON in the
metadata of the file. In the folders that `meteragent.spark` writes from a stream, the facts are in
`_manifest.json`, and each micro-batch's facts are in its own folder.

Manifests list the parts with their rows and SHA-256, and `bad_parts` alone decides whether parts are as
listed. This module needs pyarrow. A manifest may come from anyone, so its size is bounded, the cost of
reading it is linear in its size, and the names in it cannot lead out of its folder.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from meteragent.consume.message import Descriptor, Record
from meteragent.consume.series import Series
from meteragent.domain.errors import RecordError

MANIFEST = "_manifest.parquet"
STREAM_MANIFEST = "_manifest.json"
MANIFEST_BYTES_MAX = 1 << 24
_FACTS = b"meteragent.manifest"
"""The key of the facts in the metadata of the manifest."""
_PART_NAME = re.compile(r"[\w-][\w.-]{0,199}\.parquet", re.ASCII)
_BATCH = re.compile(r"query=[^/]+/batch=(0|[1-9]\d{0,18})", re.ASCII)
_SHOWN = 3
"""The number of faulty parts that an error names."""


class Part(NamedTuple):
    """A part as a manifest lists it: its path in the folder, its rows, and its SHA-256 in hexadecimal."""

    name: str
    rows: int
    sha256: str


class Outputs(NamedTuple):
    """The parts of complete outputs, and their descriptors by id."""

    parts: list[Path]
    descriptors: dict[str, Descriptor]


def read_facts(path: Path) -> dict[str, Any]:
    """Return the facts of a manifest. Raises RecordError if it cannot be read by this version."""
    import pyarrow as pa  # noqa: PLC0415  only archives need it
    import pyarrow.parquet as pq  # noqa: PLC0415

    facts: Any = None
    with suppress(OSError, ValueError, KeyError, RecursionError, pa.ArrowException):
        if path.stat().st_size <= MANIFEST_BYTES_MAX:
            is_text = path.suffix == ".json"
            text = path.read_bytes() if is_text else (pq.read_metadata(path).metadata or {})[_FACTS]
            facts = json.loads(text)
    if not isinstance(facts, dict) or facts.get("v") != 1:
        raise RecordError(f"{path}: not an output's manifest that this version can read")
    return facts


def write_manifest(file: Any, text: bytes, schema: Any) -> None:
    """Write a manifest's facts, as JSON, to a Parquet file with the columns of `schema` and no rows."""
    import pyarrow.parquet as pq  # noqa: PLC0415  only archives need it

    with pq.ParquetWriter(file, schema.with_metadata(None)) as writer:
        writer.add_key_value_metadata({_FACTS: text})


def read_manifests(folder: Path) -> list[dict[str, Any]]:
    """Return each run's facts, marked incomplete if copies differ. Raises RecordError if there are none."""
    if not folder.exists():
        raise RecordError(f"{folder}: no such folder; expected the output folder of `meteragent sanitise`")
    facts_by_run: dict[str, dict[str, Any]] = {}
    for path in sorted([*folder.glob("_manifest*.parquet"), *folder.glob(STREAM_MANIFEST)]):
        facts = read_facts(path)
        first_facts = facts_by_run.setdefault(str(facts.get("run")), facts)
        if facts != first_facts:
            facts_by_run[str(facts.get("run"))] = first_facts | {"complete": False}
    if not facts_by_run:
        raise RecordError(f"{folder}: is not an output of `meteragent sanitise`: it has no manifest")
    return list(facts_by_run.values())


def describe_part(path: Path) -> dict[str, Any]:
    """Return a part's entry in a manifest. Raises OSError or ArrowException if the part cannot be read."""
    return Part(path.name, _count_rows(path), _digest(path))._asdict()


def listed_parts(facts: Mapping[str, Any], base: str = "") -> list[Part]:
    """Return the parts that a manifest in the folder `base` lists. Raises RecordError if it is malformed."""
    parts = facts.get("parts")
    for part in parts if isinstance(parts, list) else [None]:
        if not (
            isinstance(part, dict)
            and isinstance(part.get("name"), str)
            and _PART_NAME.fullmatch(part["name"])
            and type(part.get("rows")) is int
            and isinstance(part.get("sha256"), str)
        ):
            raise RecordError("a manifest whose list of parts is malformed")
    return [Part(base + part["name"], part["rows"], part["sha256"]) for part in parts or []]


def bad_parts(folder: Path, parts: Iterable[Part]) -> dict[str, str]:
    """Return what is wrong with the parts of a folder that are not as listed, by the name of the part."""
    import pyarrow as pa  # noqa: PLC0415  only archives need it

    texts: dict[str, str] = {}
    for part in parts:
        path, rows = folder / part.name, None
        with suppress(OSError, pa.ArrowException):
            rows = _count_rows(path)
        if not path.is_file():
            texts[part.name] = "is missing"
        elif rows is None:
            texts[part.name] = "is cut off or damaged"
        elif rows != part.rows:
            texts[part.name] = f"has {rows:,} rows, not {part.rows:,}"
        elif part.sha256 != _digest(path):
            texts[part.name] = "is not the file that was written"
    return texts


def _count_rows(path: Path) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415  only archives need it

    return int(pq.read_metadata(path).num_rows)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_outputs(folders: Path | Iterable[Path]) -> Outputs:
    """Return the parts and descriptors of outputs from which nothing is missing.

    A folder may hold the outputs of several runs. Raises RecordError as in `read_manifests`, or if an output
    is incomplete, a part is not as listed or not listed, a run is given twice, or a descriptor is refused or
    has other terms in another output.
    """
    outputs, runs = Outputs([], {}), set[str]()
    for folder in [folders] if isinstance(folders, Path) else folders:
        manifests = read_manifests(folder)
        for facts in manifests:
            run = str(facts.get("run", folder.resolve()))
            if facts.get("complete") is not True:
                raise RecordError(f"{folder}: incomplete; run `meteragent sanitise` again to finish it")
            if run in runs:
                raise RecordError(f"{folder}: run {run!r:.40} is given twice")
            runs.add(run)
            descriptors = facts.get("descriptors")
            for descriptor in map(Descriptor.parse, descriptors if isinstance(descriptors, list) else [None]):
                first = outputs.descriptors.setdefault(descriptor.id, descriptor)
                if first.digest != descriptor.digest:
                    raise RecordError(f"{folder}: descriptor {first.id} has other terms in another output")
        outputs.parts.extend(_require_parts(folder, manifests))
    return outputs


def _require_parts(folder: Path, manifests: list[dict[str, Any]]) -> list[Path]:
    """Return the parts of a folder. Raises RecordError unless its manifests list exactly these parts."""
    listed = [part for facts in manifests if "batches" not in facts for part in listed_parts(facts)]
    paths = (path.relative_to(folder) for path in folder.rglob("*.parquet") if path.is_file())
    names = {path.as_posix() for path in paths if not any(part[0] in "._" for part in path.parts)}
    for facts in manifests:
        if "batches" in facts:
            batches = _batch_parts(folder, facts["batches"])
            listed += [part for parts in batches.values() for part in parts]
            # A micro-batch without a manifest is still being written.
            names = {name for name in names if (m := _BATCH.match(name)) is None or m[0] in batches}
    unlisted = sorted(names - {part.name for part in listed})
    texts = bad_parts(folder, listed) | dict.fromkeys(
        unlisted, "is in no manifest: a copy, or another output's"
    )
    if texts:
        first = "; ".join(f"{name!r} {text}" for name, text in islice(texts.items(), _SHOWN))
        more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        raise RecordError(f"{folder}: {first}{more}: copy the whole output again")
    if not names:
        raise RecordError(f"{folder}: there are no parts")
    return [folder / name for name in sorted(names)]


def _batch_parts(folder: Path, stated: Any) -> dict[str, list[Part]]:
    """Return the parts of each micro-batch that has a manifest, by the folder of the micro-batch.

    `stated` names the first and the last micro-batch of each query. Raises RecordError if one of these, or
    one between them, is missing, or if a manifest belongs to another micro-batch.
    """
    parts: dict[str, list[Part]] = {}
    for path in sorted(folder.glob(f"query=*/batch=*/{STREAM_MANIFEST}")):
        name, facts = path.parent.relative_to(folder).as_posix(), read_facts(path)
        if facts.get("batch") != name:
            raise RecordError(f"{path}: the manifest of another micro-batch")
        parts[name] = listed_parts(facts, f"{name}/")
    try:
        ranges = [(query, range(first, last + 1)) for query, (first, last) in stated.items()]
    except (AttributeError, TypeError, ValueError):
        raise RecordError(f"{folder}: a manifest whose list of micro-batches is malformed") from None
    for query, numbers in ranges:
        for number in numbers:  # stop at the first missing one, however many are stated
            if f"query={query}/batch={number}" not in parts:
                raise RecordError(f"{folder}: a query's micro-batch {number} is missing: copy it again")
    return parts


def part_tables(outputs: Outputs, filters: Any = None) -> Iterator[Any]:
    """Yield the rows of each part that `filters` select, as in `pyarrow.parquet.read_table`."""
    import pyarrow.parquet as pq  # noqa: PLC0415  only archives need it

    for path in outputs.parts:
        yield pq.read_table(path, filters=filters, partitioning=None)


def read_archive(folders: Path | Iterable[Path], meters: Collection[str] | None = None) -> dict[str, Series]:
    """Read the series of each of `meters`, or of all meters if it is None, from one or several outputs.

    Each slot becomes an object in memory. For larger archives use `Slots.read`, which stores columns. Raises
    RecordError as in `open_outputs` and `Series.of`, or if a release names a descriptor in no manifest.
    """
    outputs = open_outputs(folders)
    filters = None if meters is None else [("meter", "in", set(meters))]
    records: dict[str, list[Record]] = {}
    for batch in (batch for table in part_tables(outputs, filters) for batch in table.to_batches()):
        for row in batch.to_pylist():
            if row["d"] not in outputs.descriptors:
                raise RecordError("a release names a descriptor that is not in the manifest")
            records.setdefault(row["meter"], []).extend(_records(row, outputs.descriptors[row["d"]]))
    return {meter: Series.of(records[meter], outputs.descriptors) for meter in sorted(records)}


def _records(row: dict[str, Any], terms: Descriptor) -> Iterator[Record]:
    """Yield the records of a row, which holds either all slots of a window or one slot."""
    start_ms, end_ms = (_ms(row[name]) for name in ("start", "end"))
    if "value" in row:
        yield _record(row, terms, start_ms, end_ms - start_ms, row["value"], row.get("band"))
        return
    for index, value in enumerate(row["values"]):
        from_ms, to_ms = terms.shape.extent_ms(index)
        band = terms.shape.names[index] if terms.shape.names else None
        yield _record(row, terms, start_ms + from_ms, to_ms - from_ms, value, band)


def _record(
    row: dict[str, Any], terms: Descriptor, time_ms: int, step_ms: int, value: Any, band: str | None = None
) -> Record:
    value, deviation = Fraction(value), terms.record_check.sd
    return Record(row["meter"], time_ms, step_ms, value, terms.unit, deviation, terms.id, band)


def _ms(time: Any) -> int:
    time_ms: int = round(time.timestamp() * 1000)
    return time_ms
