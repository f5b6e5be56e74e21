"""Release archives and streams of readings on Apache Spark, with the archive's kernel, key and ledger.

    windows(readings, policy)            a frame of readings or windows -> windows as whole quanta
    sanitise(readings, policy)           -> releases, without the ledger
    sanitise_archive(policy, path, out)  `meteragent sanitise --engine spark`: account, then release
    stream(readings, policy, sink, ..)   Structured Streaming: each window once, through the ledger
    by_feeder(releases, descriptors, ..) totals and means over many meters, with intervals

`worker` runs on the workers, `frame` has the data frames, `ledger` the accounts; `run` and `stream` are the
two ways to release.
"""

from meteragent.spark.feeder import by_feeder
from meteragent.spark.frame import sanitise, windows
from meteragent.spark.run import sanitise_archive
from meteragent.spark.stream import descriptors, folder, stream

__all__ = ["by_feeder", "descriptors", "folder", "sanitise", "sanitise_archive", "stream", "windows"]
