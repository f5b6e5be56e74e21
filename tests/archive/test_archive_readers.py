"""The output of `sanitise` is one table to pyarrow, pandas, Polars and DuckDB, with no row too many."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.support.archives import LONG, WIDE, Place, long_rows, save, wide_rows

LONG_KEYS = {"window": "length = '1h'\nstep = '30min'"}
READERS: dict[str, Callable[[Path], int]] = {
    "pyarrow": lambda out: int(pq.read_table(out).num_rows),
    "pandas": lambda out: len(pd.read_parquet(out)),
    "polars": lambda out: pl.read_parquet(out).height,
    "a lazy frame of polars": lambda out: pl.scan_parquet(f"{out}/").collect().height,
    "DuckDB": lambda out: rows_of_duckdb(f"{out}/*.parquet"),
    "a folder in DuckDB": lambda out: rows_of_duckdb(f"{out}/"),
}


def rows_of_duckdb(path: str) -> int:
    """Return the number of rows that DuckDB sees."""
    [(count,)] = duckdb.connect().execute("SELECT count(*) FROM read_parquet(?)", [path]).fetchall()
    return int(count)


@pytest.fixture(params=["wide", "long"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An output of 2 meters, 3 days each."""
    is_long = request.param == "long"
    rows: list[dict[str, Any]] = long_rows(2, 3) if is_long else wide_rows(2, 3)
    place = Place.make(tmp_path / "place")
    path = save(tmp_path / "in.parquet", rows, LONG if is_long else WIDE)
    return Path(place.sanitise(path, **(LONG_KEYS if is_long else {})).out)


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_sees_one_table(reader: str, out: Path) -> None:
    """The folder as it is has exactly the rows of its parts, whoever reads it."""
    parts = sum(pq.read_metadata(part).num_rows for part in out.glob("part-*.parquet"))
    assert parts > 0
    assert READERS[reader](out) == parts
