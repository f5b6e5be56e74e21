"""Tables on Spark: workers read a snapshot as the local engine does, without what was deleted."""

from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.manifest import FileFormat
from pyspark.sql import SparkSession

from meteragent.archive.policy import Policy
from tests.spark import homes
from tests.spark.test_engines import ENGINES, outcome
from tests.support import archives, tables


def test_engines_agree_on_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Both engines release the same rows of a table with deleted rows, and debit the same windows."""
    rows = tables.wide(3, 4)
    tables.mapped_delta(tmp_path / "delta", rows, "id", [0, 2])
    with tables.catalog(tmp_path / "lake") as lake:
        table = lake.create_table("n.homes", rows.schema)
        table.append(rows)
        (task,) = table.scan().plan_files()
        path = tables.position_deletes(tmp_path, {task.file.file_path: [11, 5]})
        tables.commit_deletes(table, path, FileFormat.PARQUET)
        metadata = lake.load_table("n.homes").metadata_location.removeprefix("file://")
    for address, windows in ((tmp_path / "delta", 6), (Path(metadata), 10)):
        outcomes = []
        for name, engine in ENGINES.items():
            folder = tmp_path / name / address.name
            folder.mkdir(parents=True)
            homes.write(folder / "archive.key", homes.KEY)
            policy: Policy = archives.policy(folder / "archive.key", window=archives.QUARTERS)
            outcomes.append(outcome(engine, policy, address, folder / "out"))
        assert outcomes[0] == outcomes[1]
        released = pq.read_table(tmp_path / "spark" / address.name / "out")
        assert outcomes[0][0].released_windows == released.num_rows == windows
    counts = released.column("meter").value_counts().field("counts").to_pylist()
    assert sorted(counts) == [3, 3, 4]
