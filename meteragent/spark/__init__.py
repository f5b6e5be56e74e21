"""Release archives and streams of readings on Apache Spark, with the archive's kernel, key and ledger.

    windows(readings, policy)             convert a frame of readings or windows to windows as whole quanta
    sanitise(readings, policy)            release windows, without the ledger
    sanitise_archive(policy, path, ..)    run `meteragent sanitise --engine spark`, with the ledger
    stream(readings, policy, sink, ..)    release a stream, each window once, with the ledger
    folder(out, policy)                   return a sink for `stream` that writes Parquet
    read_outputs(spark, folder, ..)       return the releases and descriptors of outputs
    descriptors(policy)                   return the descriptors of the releases
    by_feeder(releases, descriptors, ..)  compute totals and means over many meters, with their intervals

`worker` has the functions that run on Spark's workers, `frame` the data frames, `ledger` the ledger on Spark,
`run` the release of an archive, `stream` the release of a stream, and `feeder` the totals and means.
"""

from meteragent.spark.feeder import by_feeder
from meteragent.spark.frame import read_outputs, sanitise, windows
from meteragent.spark.run import sanitise_archive
from meteragent.spark.stream import descriptors, folder, stream

__all__ = [
    "by_feeder",
    "descriptors",
    "folder",
    "read_outputs",
    "sanitise",
    "sanitise_archive",
    "stream",
    "windows",
]
