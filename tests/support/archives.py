"""Archives for tests: configurations as users write them, keys, and readings as columns."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent import config
from meteragent.archive.key import Key, create_ledger
from meteragent.archive.policy import Policy
from meteragent.archive.readings import Readings
from meteragent.archive.run import RunResult, sanitise_archive
from meteragent.consume.archive import read_manifests, write_manifest
from tests.support.configurations import written

KEY = Key("test", "month", 0, bytes(range(32)))
TIME = pa.timestamp("ms", tz="UTC")
DAY_MS = 86_400_000
SPRING_MS = 1_774_738_800_000  # start of 2026-03-29 in Amsterdam, a day of 23 hours
AUTUMN_MS = 1_792_879_200_000  # start of 2026-10-25 in Amsterdam, a day of 25 hours
"""Local days on which the clocks change."""

AMSTERDAM = "timezone = 'Europe/Amsterdam'"
HALF_HOUR = "length = '30min'"
QUARTERS = "length = '1d'\nstep = '15min'"
LOCAL_DAY = f"length = '1d'\n{AMSTERDAM}"
BANDS = f"length = '1mo'\n{AMSTERDAM}\nbands = ['00-07', '07:30-22']"
ENERGY = "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '15min'\nstamp = 'end'"


def text(path: Path = Path("archive.key"), *, archive: str = "", **sections: str) -> str:
    """Return a configuration with an [archive] section."""
    return f"{written(**sections)}\n[archive]\nkey_file = '{path}'\n{archive}\n"


def policy(path: Path = Path("archive.key"), *, archive: str = "", **sections: str) -> Policy:
    """Return the policy of the configuration that `text` returns."""
    return Policy.of(config.parse(text(path, archive=archive, **sections)))


def readings(rows: list[tuple[int, int, int | None]]) -> Readings:
    """Return readings from (meter, time in ms, value in millionths or None)."""
    meter, time_ms, values = ([row[column] for row in rows] for column in range(3))
    valid = np.array([value is not None for value in values], np.bool_)
    values_u = np.array([value or 0 for value in values], np.int64)
    return Readings(np.array(meter, np.int64), np.array(time_ms, np.int64), values_u, valid)


WIDE = pa.schema([("meter", pa.string()), ("time", TIME), ("value", pa.list_(pa.int32()))])
LONG = pa.schema([("meter", pa.string()), ("time", TIME), ("value", pa.float64())])


def wide_rows(
    homes: int, days: int, *, n: int = 96, seed: int = 0, first_ms: int = SPRING_MS
) -> list[dict[str, Any]]:
    """Return rows of the wide form: days in UTC of each home, ordered by home and day."""
    rng, day_ms = np.random.default_rng(seed), first_ms - first_ms % DAY_MS
    return [
        {"meter": f"m{home}", "time": day_ms + day * DAY_MS, "value": rng.integers(0, 5000, n).tolist()}
        for home in range(homes)
        for day in range(days)
    ]


def long_rows(homes: int, days: int, *, seed: int = 0, first_ms: int = SPRING_MS) -> list[dict[str, Any]]:
    """Return rows of the long form: readings about every ten minutes, a tenth of them missing."""
    rng, rows = np.random.default_rng(seed), []
    for home in range(homes):
        for step in range(144 * days):
            time_ms = first_ms + step * 600_000 + int(rng.integers(0, 500_000))
            value = None if rng.random() < 0.1 else round(float(rng.random() * 3000), 1)
            rows.append({"meter": f"m{home}", "time": time_ms, "value": value})
    return rows


def save(path: Path, rows: list[dict[str, Any]], schema: pa.Schema = WIDE, *, group: int = 1000) -> Path:
    """Write rows to a Parquet file, with `group` rows in each row group, and return its path."""
    columns = {name: [row[name] for row in rows] for name in schema.names}
    pq.write_table(pa.table(columns, schema=schema), path, row_group_size=group)
    return path


@dataclass(frozen=True)
class Place:
    """A folder with a key and a configuration, to which archives are released."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Place":
        """Create the folder with a fixed key."""
        folder.mkdir(exist_ok=True)
        (folder / "archive.key").write_text(KEY.text())
        (folder / "archive.key").chmod(0o600)
        create_ledger(folder / "archive.key.ledger")
        return cls(folder)

    def policy(self, **keys: str) -> Policy:
        """Return a policy with this folder's key, for days in quarter hours unless `window` is given."""
        return policy(self.folder / "archive.key", **{"window": QUARTERS} | keys)

    def sanitise(self, path: Path, out: str = "out.parquet", **keys: str) -> RunResult:
        """Release a file, whatever there is to check."""
        return sanitise_archive(self.policy(**keys), path, self.folder / out, silent, accepts_checks=True)

    def released(self, out: str = "out.parquet") -> pa.Table:
        """Return the rows of an output, sorted by meter and start."""
        keys = [("meter", "ascending"), ("start", "ascending")]
        return pq.read_table(self.folder / out).sort_by(keys)

    def ledger(self) -> list[dict[str, Any]]:
        """Return the rows of the key's ledger."""
        rows: list[dict[str, Any]] = []
        for path in sorted(self.folder.glob("archive.key.ledger/run=*/*.parquet")):
            rows += pq.ParquetFile(path).read().to_pylist()
        return rows

    def files(self) -> dict[str, bytes]:
        """Return the contents of every file below the folder, except the lock."""
        paths = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.name != ".lock")
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}


@contextmanager
def silent(name: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """Show no progress."""
    yield lambda _: None


def manifest_of(out: Path) -> dict[str, Any]:
    """Return the facts of an output's manifest."""
    (facts,) = read_manifests(out)
    return facts


def alter_manifest(out: Path, **changes: Any) -> None:
    """Change facts in both manifests of an output; None removes a fact."""
    facts = {name: fact for name, fact in (manifest_of(out) | changes).items() if fact is not None}
    for path in out.glob("_manifest*"):
        schema = pq.read_schema(path)
        with path.open("wb") as file:
            write_manifest(file, json.dumps(facts).encode(), schema)


def make_incomplete(out: Path) -> None:
    """Alter the manifest of an output to that of a run which has not ended."""
    alter_manifest(out, complete=False, parts=[])
