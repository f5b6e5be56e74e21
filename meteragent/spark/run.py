"""`sanitise --engine spark`: the local engine's run, its two passes made by Spark.

The lock, the run's id, the ledger's rows and the manifest are the local engine's. Parts are cut otherwise: a
window's part follows from a hash of its start and of the name under which it leaves, its place there from
both; what is shuffled for that has its noise. So neither follows from the input's order or from own names.
What a killed run left of its output is made again, the same. Files, key and ledger are where the driver and
the workers see them under the same names. While Spark gathers the long form, readings are in shuffle files
(`spark.local.dir`; `spark.io.encryption.enabled` encrypts them).
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.archive import manifest
from meteragent.archive import run as archive
from meteragent.archive.account import Account, misfits, twice
from meteragent.archive.files import sync
from meteragent.archive.kernel import milliseconds
from meteragent.archive.key import Key
from meteragent.archive.ledger import Ledger
from meteragent.archive.policy import Policy
from meteragent.archive.run import Done, Parts, Show
from meteragent.archive.source import Source
from meteragent.domain import errors
from meteragent.domain.errors import ArchiveError, MeteragentError
from meteragent.spark import frame
from meteragent.spark.ledger import named, others, rows

_SAID = re.compile(r"WorkerError: (?:(\w+): )?(.*)")
_MADE = "_made"
"""Where Spark writes below the output, before its parts get their names."""
_NUMBERS = 1 << 22
"""Numbers in a part, about."""


def sanitise_archive(policy: Policy, path: Path, out: Path, show: Show) -> Done:
    """Release an archive, as `meteragent.archive.run.sanitise_archive` does; it raises the same.

    The session is the active one, or one that is made with Spark's own settings.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever python3 there is
    spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    with _told():
        return archive.sanitise_archive(policy, path, out, show, _Spark(spark))


class _Spark:
    """Two passes by Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def cut(self) -> list[Any]:
        """As Spark cuts them: by a hash of name and start."""
        return ["spark", "by hash", _NUMBERS]

    def debits(
        self, source: Source, ledger: Ledger, _key: Key, found: Account, show: Show
    ) -> Iterator[pa.Table]:
        """The ledger's rows, in one piece."""
        policy = source.policy
        with show("account", source.rows, "row") as told:
            windows = frame.opened(self._readings(source), policy).persist()
            try:
                count = _checked(windows, source)
                fresh = frame.without(windows.drop("fits"), others(self._spark, ledger, found.run))
                table = rows(named(fresh, policy), policy)
            finally:
                windows.unpersist()
            told(source.rows)
        found.released = sum(table.column("windows").to_pylist())
        found.refused = count - found.released
        found.keys.update(table.column("key").to_pylist())
        starts = milliseconds(table.column("start").combine_chunks()).tolist()
        for one, start_ms in zip(table.column("d").to_pylist(), starts, strict=True):
            found.descriptors[one] = min(found.descriptors.get(one, start_ms), start_ms)
        yield table

    def release(
        self, source: Source, ledger: Ledger, _key: Key, found: Account, out: Path, show: Show
    ) -> Parts:
        """All parts, or none if they are there: the manifest says so."""
        parts = sorted(out.glob("part-*.parquet"))
        before = manifest.find(out, found.run, self.cut)
        if before is not None and before["complete"]:
            return Parts(0, len(parts), None)
        for part in parts:
            part.unlink()
        with show("release", source.rows, "row") as told:
            windows = frame.windows(self._readings(source), source.policy)
            fresh = frame.without(windows, others(self._spark, ledger, found.run))
            made = frame.in_order(frame.released(fresh, source.policy), _parts(found, source.policy))
            if source.form == "long":
                made = frame.by_slots(made, source.policy)
            frame.write(made, str(out / _MADE))
            source.check()
            told(source.rows)
        return Parts(_named_parts(out), 0, None)

    def _readings(self, source: Source) -> DataFrame:
        return self._spark.read.parquet(*(str(path.absolute()) for path, _ in source.seen))


def _parts(found: Account, policy: Policy) -> int:
    """How many parts there are: as many as the windows that leave need, which are public."""
    return max(1, -(-found.released * policy.usual.n // _NUMBERS))


def _checked(windows: DataFrame, source: Source) -> int:
    """How many windows there are.

    Raises:
        ArchiveError: in the wide form, rows that do not fit, or windows that are there twice.
    """
    if source.form == "long":
        return windows.count()
    wrong = windows.where(~F.col("fits")).count()
    if wrong:
        raise misfits(wrong, source)
    several = windows.groupBy("meter", "start").count().where("count > 1")
    one = several.orderBy("meter", "start").first()
    if one is not None:
        again = several.agg(F.sum("count") - F.count("count")).collect()[0][0]
        raise twice(again, one["meter"], round(one["start"].timestamp() * 1000))
    return windows.count()


def _named_parts(out: Path) -> int:
    """Give the parts that Spark has made their names; how many they are."""
    made = sorted((out / _MADE).glob("part-*.parquet"))
    for place, part in enumerate(made):
        part.rename(out / f"part-{place:05}.parquet")
    sync(out)
    shutil.rmtree(out / _MADE)
    return len(made)


@contextmanager
def _told() -> Iterator[None]:
    """What Spark says of a failure as our own error: it quotes plans and stacks, at length.

    Raises:
        MeteragentError: what a worker said, by its own class; else Spark's name of what went wrong.
    """
    try:
        yield
    except AnalysisException as error:  # of columns and types, when nothing has been read yet
        failed: MeteragentError = ArchiveError(f"Spark: {str(error).splitlines()[0]}")
    except PySparkException as error:
        said = _SAID.search(str(error))
        kind = getattr(errors, said[1] or "", ArchiveError) if said else ArchiveError
        failed = kind(said[2] if said else f"Spark: {error.getCondition() or type(error).__name__}")
    else:
        return
    raise failed
