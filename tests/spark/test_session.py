"""The session that the tests with Spark use."""

import sys

import pyarrow as pa
from pyspark.sql import SparkSession


def test_same_python(spark: SparkSession) -> None:
    """Workers run the interpreter of the tests, and times are UTC."""

    def which(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

    actual = spark.range(2).mapInArrow(which, "python string").toArrow()
    assert actual.column("python").to_pylist() == [sys.executable] * 2
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
