"""A Spark session as the tests need it: two cores, this Python, this tree, nothing on the network.

It is slow to start (ten seconds and more): what can, shares the one of the fixture `spark`.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.commands.system_parts import find
from tests.support.not_run import ROOT, not_run

LOCAL = "local[2,4]"
"""Two threads and four attempts of a task: plain ``local[2]`` never tries again."""

SEPARATE = "local-cluster[2,1,2048]"
"""Two executors in processes of their own, a core and 2 GB each."""

_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives a minute: half the processor time. What runs longer is slower with it."""

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": _SHORT,
    "spark.driver.memory": "1g",
    "spark.executor.extraJavaOptions": _SHORT,
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def java() -> Path:
    """Where Java is; ends the test as NOT RUN where there is none."""
    actual = find("java")
    if actual is None:
        not_run("java", "Java 17 or newer is not on the path")
    return actual


@contextmanager
def session(folder: Path, master: str = LOCAL, **settings: str) -> Iterator[SparkSession]:
    """A session whose files are in a folder; names in `settings` have _ for a dot.

    One at a time in a process.
    """
    os.environ["PATH"] = os.pathsep.join([str(java().parent), os.environ["PATH"]])
    os.environ.pop("JAVA_HOME", None)  # it would win over what was found
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers take whatever python3 there is
    builder = SparkSession.builder.master(master)
    os.environ["PYTHONPATH"] = str(ROOT)
    places = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "tables")}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    for name, value in {**SETTINGS, **places, **named}.items():
        builder = builder.config(name, value)
    running = builder.getOrCreate()
    try:
        yield running
    finally:
        running.stop()
