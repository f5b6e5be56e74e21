"""What `sanitise` releases of small tables, in both layouts, under a fixed key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from meteragent import config
from meteragent.archive.key import create_ledger
from meteragent.archive.policy import Policy
from meteragent.archive.run import sanitise_archive
from meteragent.consume import read_archive
from meteragent.domain.errors import ConfigError
from meteragent.domain.units import HOUR_MS
from tests.support.archives import DAY_MS, KEY, LONG, SPRING_MS, TIME, manifest_of, save, silent
from tests.support.frozen import agent, layout, reports
from tests.support.frozen.cases import (
    ALL_READINGS,
    ENERGY,
    KINDS,
    LOCAL_DAY,
    POWER,
    QUARTER_MS,
    Readings,
    configuration,
)
from tests.support.stores import in_memory

KEEP_ARCHIVE = '[archive]\nkey_file = "FOLDER/archive.key"\n'
"""The table that makes a configuration one of an archive."""
WIDE = pa.schema([("meter", pa.string()), ("time", TIME), ("value", pa.list_(pa.float64()))])
_WINDOWS = {
    "linf": ('length = "6h"\nstep = "2h"\n', 'hide = "110Wh"\n', ""),
    "linf by local days": (LOCAL_DAY, 'hide = "110Wh"\n', ""),
    **{kind.name: (kind.window, kind.privacy, kind.tables) for kind in KINDS[1:]},
}


def contents() -> dict[str, str]:
    """Return the file of releases; manifests and descriptors are differences from the first."""
    released: dict[str, Any] = {}
    refused: dict[str, list[str]] = {}
    base, first = dict[str, Any](), dict[str, Any]()
    for name, readings, window, text in _cases():
        for form in ("wide", "long") if readings.wh == 1 else ("wide",):
            rows = list(_wide(readings, window) if form == "wide" else _long(readings))
            outcome = _release(text, rows, WIDE if form == "wide" else LONG)
            if isinstance(outcome, str):
                refused.setdefault(outcome, []).append(f"{name}, {form}")
                continue
            for id_, facts in outcome["descriptors"].items():
                base = base or facts
                outcome["descriptors"][id_] = facts if facts is base else layout.difference(base, facts)
            first = first or outcome["manifest"]
            if outcome["manifest"] is not first:
                outcome["manifest"] = layout.difference(first, outcome["manifest"])
            released[f"{name}, {form}"] = outcome
    return {"archive.json": layout.text(released | {"refused": refused})}


def _cases() -> Iterator[tuple[str, Readings, str, str]]:
    """Yield the name, the readings, the window and the text of each configuration."""
    for name, (window, privacy, tables) in _WINDOWS.items():
        for readings in ALL_READINGS if name == "linf" else (POWER, ENERGY):
            text = configuration(readings, window, privacy + readings.privacy, tables=tables)
            text = text.replace('interval = "15min"\n', 'interval = "15min"\nstamp = "end"\n')
            yield f"{name}, {readings.name}", readings, window, text + KEEP_ARCHIVE


def _release(text: str, rows: list[dict[str, Any]], schema: pa.Schema) -> dict[str, Any] | str:
    """Return the rows and the descriptors of a release, or the text of its refusal."""
    with in_memory() as folder:
        (folder / "archive.key").write_text(KEY.text())
        (folder / "archive.key").chmod(0o600)
        create_ledger(folder / "archive.key.ledger")
        source, out = save(folder / "in.parquet", rows, schema), folder / "out"
        with agent.few_years():
            try:
                policy = Policy.of(config.parse(text.replace("FOLDER", str(folder))))
            except ConfigError as refusal:
                return "\n".join(f"{error.key}: {error.found}; {error.expected}" for error in refusal.errors)
            sanitise_archive(policy, source, out, silent, accepts_checks=True)
        return _released(out)


def _released(out: Path) -> dict[str, Any]:
    """Return the content of an output: rows with numbers for ids, and what `consume` reads of it."""
    manifest = manifest_of(out)
    for name in ("run", "parts", "cut"):  # they follow from the bytes of the input and the version of pyarrow
        del manifest[name]
    numbers = {facts["id"]: f"d{place}" for place, facts in enumerate(manifest["descriptors"], 1)}
    manifest["policy"]["descriptors"] = [
        numbers.get(id_, "other") for id_ in manifest["policy"]["descriptors"]
    ]
    descriptors = {numbers[facts["id"]]: facts for facts in manifest.pop("descriptors")}
    rows = pq.read_table(out).sort_by([("meter", "ascending"), ("start", "ascending")]).to_pylist()
    homes = read_archive(out)
    home = homes[min(homes)]
    return {
        "descriptors": descriptors,
        "manifest": manifest,
        "rows": [_row(row, numbers) for row in rows],
        "consume": reports.answers(home),
    }


def _row(row: dict[str, Any], numbers: dict[str, str]) -> dict[str, Any]:
    """Return a row, with the number of its descriptor and its values exactly."""
    times = {name: f"{row[name]:%Y-%m-%dT%H:%M:%SZ}" for name in ("start", "end")}
    columns = {name: item for name, item in row.items() if name not in times and name != "d"}
    return {"d": numbers[row["d"]], **times, **reports.plain(columns)}


def _power_w(number: int, seed: int) -> float:
    """Return a load, of which some values are out of range."""
    return -40.0 if number == 9 else 50 * seed + number * 37 % 400 + 25_000.0 * (number == 30)


def _value(readings: Readings, number: int, seed: int) -> float | None:
    """Return the number of a quarter hour; some are missing."""
    if number in (13, 14, 15, 16, 60):
        return None
    hours = 1 if readings.kind == "power" else QUARTER_MS / 3_600_000
    return round(_power_w(number, seed) * hours / readings.wh, 6)


def _wide(readings: Readings, window: str) -> Iterator[dict[str, Any]]:
    """Yield windows of two meters: of local days, the first of which has 23 hours, or of a UTC day."""
    for seed in (1, 2):
        number = 0
        for start_ms, end_ms in _windows(window):
            count = (end_ms - start_ms) // QUARTER_MS
            values = [_value(readings, number + place, seed) for place in range(count)]
            number += count
            yield {"meter": f"m{seed}", "time": start_ms, "value": values}


def _windows(window: str) -> list[tuple[int, int]]:
    """Return the starts and ends of a few windows of a configuration."""
    if window.startswith(LOCAL_DAY):
        return [(SPRING_MS, SPRING_MS + 23 * HOUR_MS), (SPRING_MS + 23 * HOUR_MS, SPRING_MS + 47 * HOUR_MS)]
    hours = int(window.split('"')[1].removesuffix("h"))
    first_ms = SPRING_MS - SPRING_MS % DAY_MS
    return [
        (start_ms, start_ms + hours * HOUR_MS)
        for start_ms in range(first_ms, first_ms + DAY_MS + HOUR_MS, hours * HOUR_MS)
    ][:3]


def _long(readings: Readings) -> Iterator[dict[str, Any]]:
    """Yield readings of a meter, a quarter of an hour apart; those of power are not exactly on the grid."""
    for number in range(4 * 47):
        late_ms = 7000 * (number % 9) if readings.kind == "power" else 0
        time_ms = SPRING_MS + number * QUARTER_MS + late_ms
        yield {"meter": "m1", "time": time_ms, "value": _value(readings, number, 1)}
