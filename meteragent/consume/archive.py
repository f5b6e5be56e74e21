"""The releases of an archive in the output of `sanitise`: a folder of Parquet files with a manifest.

The manifest, `_manifest.parquet`, has no rows, but it has the columns of the other files, so readers of
Parquet can read the folder as one table. The manifest's facts are JSON in the metadata of that file. In the
partitioned folders that `meteragent.spark` writes from a stream, the facts are in `_manifest.json`.

This module needs pyarrow. An incomplete output is refused, because some of its windows would be missing.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from meteragent.consume.message import Descriptor, Record
from meteragent.consume.series import Series
from meteragent.domain.errors import RecordError

MANIFEST = "_manifest.parquet"
STREAM_MANIFEST = "_manifest.json"
_FACTS = b"meteragent.manifest"
"""The key of the facts in the metadata of the manifest."""


def manifest_text(path: Path) -> bytes | None:
    """Return the facts of an output as JSON, or None if the output has no readable manifest."""
    import pyarrow as pa  # noqa: PLC0415  only archives need it
    import pyarrow.parquet as pq  # noqa: PLC0415

    with suppress(OSError, pa.ArrowException):
        metadata: dict[bytes, bytes] = pq.read_metadata(path / MANIFEST).metadata or {}
        return metadata.get(_FACTS)
    with suppress(OSError):
        return (path / STREAM_MANIFEST).read_bytes()
    return None


def write_manifest(file: Any, text: bytes, schema: Any) -> None:
    """Write a manifest's facts, as JSON, to a Parquet file with the columns of `schema` and no rows."""
    import pyarrow.parquet as pq  # noqa: PLC0415  only archives need it

    with pq.ParquetWriter(file, schema.with_metadata(None)) as writer:
        writer.add_key_value_metadata({_FACTS: text})


def descriptors(path: Path) -> dict[str, Descriptor]:
    """Read the descriptors of an output, by id.

    Raises:
        RecordError: the folder does not exist, is incomplete or has no manifest that this version can read,
            or a descriptor is refused.
    """
    if not path.is_dir():
        raise RecordError(f"{path}: no such folder; expected the output folder of `meteragent sanitise`")
    facts: Any = None
    with suppress(ValueError):
        facts = json.loads(manifest_text(path) or b"null")
    if not isinstance(facts, dict) or facts.get("v") != 1:
        raise RecordError(f"{path}: not an output of `meteragent sanitise` that this version can read")
    if facts.get("complete") is not True:
        raise RecordError(f"{path}: incomplete; run `meteragent sanitise` again to finish it")
    parsed_descriptors = [Descriptor.parse(descriptor) for descriptor in facts["descriptors"]]
    return {descriptor.id: descriptor for descriptor in parsed_descriptors}


def read(path: Path, meters: Collection[str] | None = None) -> dict[str, Series]:
    """Read the series of each of `meters` from an output, or of all meters if `meters` is None.

    Each slot becomes an object in memory. For larger archives use `Slots.read`, which stores columns.

    Raises:
        RecordError: as in `descriptors` and `Series.of`, or a release names a descriptor that is not in the
            manifest.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415  only archives need it

    descriptors_by_id = descriptors(path)
    filters = None if meters is None else [("meter", "in", set(meters))]
    records: dict[str, list[Record]] = {}
    for batch in pq.read_table(path, filters=filters).to_batches():
        for row in batch.to_pylist():
            if row["d"] not in descriptors_by_id:
                raise RecordError("a release names a descriptor that is not in the manifest")
            records.setdefault(row["meter"], []).extend(_records(row, descriptors_by_id[row["d"]]))
    return {meter: Series.of(records[meter], descriptors_by_id) for meter in sorted(records)}


def _records(row: dict[str, Any], terms: Descriptor) -> Iterator[Record]:
    """Yield the records of a row, which holds either all slots of a window or one slot."""
    start_ms, end_ms = (_ms(row[name]) for name in ("start", "end"))
    if "value" in row:
        yield _record(row, terms, start_ms, end_ms - start_ms, row["value"], row.get("band"))
        return
    for index, value in enumerate(row["values"]):
        from_ms, to_ms = terms.shape.extent(index)
        band = terms.shape.names[index] if terms.shape.names else None
        yield _record(row, terms, start_ms + from_ms, to_ms - from_ms, value, band)


def _record(
    row: dict[str, Any], terms: Descriptor, time_ms: int, step_ms: int, value: Any, band: str | None = None
) -> Record:
    deviation = float(terms.facts["sd"])
    return Record(row["meter"], time_ms, step_ms, Fraction(value), terms.unit, deviation, terms.id, band)


def _ms(time: Any) -> int:
    time_ms: int = round(time.timestamp() * 1000)
    return time_ms
