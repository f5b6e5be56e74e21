"""Release archives and streams of readings on Apache Spark, with the archive's kernel, key and ledger.

`worker` has the functions that run on Spark's workers, `frame` the data frames, `ledger` the ledger on Spark,
`delta_ledger` the ledger in a Delta table, `run` the release of an archive, `stream` the release of a stream,
and `feeder` the totals and means.
"""

from meteragent.spark.delta_ledger import FrameResult, sanitise_frame
from meteragent.spark.feeder import by_feeder
from meteragent.spark.frame import read_outputs, sanitise, windows
from meteragent.spark.run import preview, sanitise_archive
from meteragent.spark.stream import descriptors, folder, stream

__all__ = ["FrameResult", "by_feeder", "descriptors", "folder", "preview", "read_outputs", "sanitise"]
__all__ += ["sanitise_archive", "sanitise_frame", "stream", "windows"]
