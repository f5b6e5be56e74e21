"""What dies with all its processes: two executors, a batch, then two streams that hang in their sinks.

    python -m tests.spark.job FOLDER

`FOLDER/keyed` and `FOLDER/control` are places with their key and the files that their streams read; the
latter's noise is drawn anew each time.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from meteragent.spark import frame
from meteragent.spark.stream import stream
from tests.spark import homes, taps
from tests.spark.homes import Place
from tests.spark.session import SEPARATE, session

PLACES = ("keyed", "control")


def hung(place: Place) -> Path:
    """A file that is there when a stream's sink has let out half of what a task had."""
    return place.folder / "hung"


@contextmanager
def tapped(spark: SparkSession, place: Place) -> Iterator[StreamingQuery]:
    """The stream of a place, as its tap sees it; it hangs once."""
    tap, accident = place.folder / "tap", taps.once(hung(place), taps.hangs)

    def sink(releases: DataFrame, batch: int) -> None:
        taps.tapped(releases, tap, accident).count()

    files = spark.readStream.schema("meter string, time timestamp, value bigint").option(
        "maxFilesPerTrigger", 1
    )
    readings, checkpoint = files.parquet(str(place.folder / "in")), str(place.folder / "checkpoint")
    with taps.control(), stream(readings, place.policy, sink, checkpoint, availableNow=True) as query:
        yield query


def main(folder: Path) -> None:
    """Run until killed."""
    logs = folder / "events"
    logs.mkdir()
    settings = {"spark_eventLog_enabled": "true", "spark_eventLog_compress": "false"}
    with (
        session(folder / "tmp", SEPARATE, spark_eventLog_dir=logs.as_uri(), **settings) as spark,
        ExitStack() as both,
    ):
        places = [Place.of(folder / name) for name in PLACES]
        rows = spark.createDataFrame(homes.wide(places[0].policy)).repartition(5)
        frame.sanitise(rows, places[0].policy).write.parquet(str(folder / "batch"))
        for query in [both.enter_context(tapped(spark, place)) for place in places]:
            query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
