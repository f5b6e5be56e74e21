"""The memory of `sanitise`: bounded, whatever the input."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.archive_victim import Victims
from tests.support.archives import LONG, SPRING_MS, TIME, WIDE, Place

HALF_MS = 1_800_000
KEYS = {"window": "length = '30min'"}
HOMES = 100
MORE_KB = 40_000
"""How much more a run may take for ten times the rows: less than a tenth of what they would."""


def write(path: Path, form: str, rows: int) -> Path:
    """So many half hours of 100 homes, by time."""
    at = np.arange(rows)
    values = pa.array(at % 3000)
    lists = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), values.cast(pa.int32()))
    columns = [
        pa.array([f"home {home}" for home in range(HOMES)]).take(pa.array(at % HOMES)),
        pa.array(SPRING_MS + HALF_MS * (at // HOMES)).cast(TIME),
        lists if form == "wide" else values.cast(pa.float64()),
    ]
    schema = WIDE if form == "wide" else LONG
    pq.write_table(pa.table(columns, schema=schema), path, row_group_size=10_000)
    return path


@pytest.mark.parametrize("form", ["wide", "long"])
def test_memory_does_not_grow_with_the_input(form: str, tmp_path: Path) -> None:
    """Ten times the windows: about as much memory."""
    victims, found = Victims(), []
    for rows in (30_000, 300_000):
        place = Place.make(tmp_path / str(rows))
        path = write(place.folder / "in.parquet", form, rows)
        found.append(victims.peak_kb(place.folder, path, KEYS))
        assert pq.read_table(place.folder / "out.parquet", columns=["meter"]).num_rows == rows
    assert found[1] < found[0] + MORE_KB, found
