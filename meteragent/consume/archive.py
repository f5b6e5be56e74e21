"""The releases of an archive as `sanitise` writes them: a folder of Parquet files and a manifest.

Needs pyarrow. An output that is not complete is refused: some of its windows would be missing.
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

MANIFEST = "_manifest.json"


def descriptors(path: Path) -> dict[str, Descriptor]:
    """The descriptors of an output, by id.

    Raises:
        RecordError: there is none, it has no manifest, is not complete, or a descriptor is refused.
    """
    if not path.is_dir():
        raise RecordError(f"{path}: no such folder: an output of `meteragent sanitise` is one")
    facts: Any = None
    with suppress(OSError, ValueError):
        facts = json.loads((path / MANIFEST).read_bytes())
    if not isinstance(facts, dict) or facts.get("v") != 1:
        raise RecordError(f"{path}: no output of `meteragent sanitise` that this version can read")
    if facts.get("complete") is not True:
        raise RecordError(f"{path}: not complete: run `meteragent sanitise` again, and it goes on")
    found = [Descriptor.parse(one) for one in facts["descriptors"]]
    return {one.id: one for one in found}


def read(path: Path, meters: Collection[str] | None = None) -> dict[str, Series]:
    """Each meter's series, of these meters or of all: what fits in memory, an object for each slot.

    For more than that see `Slots.released`, which takes a table.

    Raises:
        RecordError: as `descriptors`, or what is there does not agree with them.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415  who has no archives needs none

    known = descriptors(path)
    chosen = None if meters is None else [("meter", "in", set(meters))]
    found: dict[str, list[Record]] = {}
    for batch in pq.read_table(path, filters=chosen).to_batches():
        for row in batch.to_pylist():
            if row["d"] not in known:
                raise RecordError("a release whose descriptor is not in the manifest")
            found.setdefault(row["meter"], []).extend(_records(row, known[row["d"]]))
    return {meter: Series.of(found[meter], known) for meter in sorted(found)}


def _records(row: dict[str, Any], terms: Descriptor) -> Iterator[Record]:
    """The slots of a row: a window's, or one."""
    start_ms, end_ms = (_ms(row[name]) for name in ("start", "end"))
    if "value" in row:
        yield _record(row, terms, start_ms, end_ms - start_ms, row["value"], row.get("band"))
        return
    for place, value in enumerate(row["values"]):
        if terms.bands:
            yield _record(row, terms, start_ms, terms.length_ms, value, list(terms.bands)[place])
        else:
            yield _record(row, terms, start_ms + place * terms.step_ms, terms.step_ms, value)


def _record(
    row: dict[str, Any], terms: Descriptor, time_ms: int, step_ms: int, value: Any, band: str | None = None
) -> Record:
    deviation = float(terms.facts["sd"])
    return Record(row["meter"], time_ms, step_ms, Fraction(value), terms.unit, deviation, terms.id, band)


def _ms(time: Any) -> int:
    at_ms: int = round(time.timestamp() * 1000)
    return at_ms
