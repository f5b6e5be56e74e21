"""Archives: `sanitise` against a plain program that keeps no account, and Spark against one process.

`python -m benchmarks.archive [--full] [--out FILE]`; `--full` adds one round with archives of 10^7 and 10^8
readings, which takes minutes. Without pyarrow or cryptography, nothing is measured; without pyspark or Java,
nothing is measured on Spark. Missing packages and a missing Java are reported.
"""

import argparse
import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks import harness
from benchmarks.harness import Result, report
from tests.commands import system_parts

REQUIRED = ("pyarrow", "cryptography")
PACKAGES = ("numpy", *REQUIRED, "pyspark")


@contextlib.contextmanager
def spark() -> Iterator[Any]:
    """Start a Spark session on two cores, and yield `meteragent.spark.sanitise_archive`.

    Yield None if pyspark or Java is missing.
    """
    sql, java = harness.peer("pyspark.sql"), system_parts.find("java")
    if java is None:
        harness.report_missing("java", f"was not found; version {system_parts.JAVA_MIN} or newer is needed")
    if sql is None or java is None:
        yield None
        return
    os.environ["PATH"] = os.pathsep.join([str(java.parent), os.environ["PATH"]])
    os.environ.pop("JAVA_HOME", None)  # it would take precedence over the path
    os.environ |= {"PYTHONPATH": str(harness.ROOT), "PYSPARK_PYTHON": sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": folder,
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{folder}/tables",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        session = sql.SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        try:
            yield importlib.import_module("meteragent.spark").sanitise_archive
        finally:
            session.stop()


def rows(*, is_full: bool) -> list[Result]:
    """Measure all rows for which the packages are installed."""
    if None in [harness.peer(name) for name in REQUIRED]:
        return []
    results: list[Result] = importlib.import_module("benchmarks.archives").measure(spark, is_full=is_full)
    return results


def main() -> None:
    """Run the benchmark, and print its results."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--full", action="store_true")
    options, sys.argv[1:] = parser.parse_known_args()  # `report` parses the remaining arguments
    report(rows(is_full=options.full), PACKAGES)


if __name__ == "__main__":
    main()
