"""`meteragent collect` with a Parquet dataset, under kills of the process."""

import asyncio
import random
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.collecting import Chain, Collector, Kept, burst
from tests.integration.service import until
from tests.support.collecting import TEMPLATE, TableRow


def table_of(folder: Path) -> list[TableRow]:
    """Return the rows of all files, in order, in quanta of watts; each file is read whole."""
    tables = [pq.ParquetFile(path).read() for path in sorted(folder.glob("record/**/*.parquet"))]
    if not tables:
        return []
    table = pa.concat_tables(tables)
    times_ms = table["t"].cast(pa.int64()).to_pylist()
    columns = table["meter"].to_pylist(), times_ms, table["band"].to_pylist(), table["value"].to_pylist()
    return sorted(
        TableRow(meter, t, band, int(value)) for meter, t, band, value in zip(*columns, strict=True)
    )


def refusals(folder: Path) -> dict[str, int]:
    """Return the refusals by reason."""
    database = sqlite3.connect(folder / "collect.db")
    try:
        return dict(database.execute("SELECT reason, sum(count) FROM refused GROUP BY reason").fetchall())
    finally:
        database.close()


async def kill_with_files(*, chain: Chain, folder: Path, rounds: int, size: int, seed: int = 0) -> Kept:
    """Kill `collect` in each round, at a random moment of a burst or of what follows; then let it finish.

    It writes files ten times a second, so that many kills hit a file that is being written or replaced.
    """
    rng = random.Random(f"files{seed}")
    records = folder / "records"
    expected_rows: list[TableRow] = []
    lives = 0
    collector = Collector(folder, "", "postgresql:///unused")
    text = f'[source]\n{chain.source}\n[[stream]]\ntopic = "{TEMPLATE}"\n[dataset]\nfolder = "{records}"\n'
    collector.config.write_text(f'{text}delay = "100ms"\n[accept]\noldest = "36500d"\n')
    with collector:
        await until(collector.is_connected)
        for index in range(rounds):
            messages, expected = burst(rng, index, size)
            before = len(table_of(records))
            feeding = asyncio.ensure_future(chain.send(messages))
            if rng.random() < 0.5:
                await until(lambda before=before: len(table_of(records)) > before)  # type: ignore[misc]
            await asyncio.sleep(rng.uniform(0, 0.3))
            lives += len(table_of(records)) > before
            collector.kill()
            collector.start()
            await feeding
            expected_rows += expected
        await until(lambda: collector.is_connected() and set(table_of(records)) >= set(expected_rows))
        assert collector.stop() == 0
    return Kept(expected_rows, table_of(records), refusals(records), lives)
