"""`sanitise --engine spark`: the same run as with the local engine, except that Spark does the two passes.

The lock, the run's id, the ledger's rows and the form of the manifest are the same as with the local engine.
The division into parts differs: a hash of a window's start and its meter's public name determines the part,
and each part is sorted by start and name. So neither the part of a window nor its position depends on the
order of the input or on the meters' own names. Only releases are shuffled for this division. If a run is
killed before its output is complete, the next run deletes the output's parts and writes them again, with the
same values. Files, key and ledger must have the same paths on the driver and on the workers. While Spark
groups the readings of the long layout, they are in shuffle files (in `spark.local.dir`;
`spark.io.encryption.enabled` encrypts them).
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
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the usual name

from meteragent.archive import manifest
from meteragent.archive import run as archive
from meteragent.archive.account import Account, ProgressReporter, duplicate_error, misfit_error
from meteragent.archive.kernel import milliseconds
from meteragent.archive.key import Key
from meteragent.archive.ledger import Ledger
from meteragent.archive.number import TOTALS, Counts
from meteragent.archive.policy import Policy
from meteragent.archive.run import Parts, RunResult
from meteragent.archive.source import Source
from meteragent.domain import errors
from meteragent.domain.errors import ArchiveError, MeteragentError
from meteragent.spark import frame
from meteragent.spark.ledger import add_ids, ledger_rows, taken_intervals
from meteragent.store.generation import sync_folder

_WORKER_TEXT = re.compile(r"WorkerError: (?:(\w+): )?(.*)")
_STAGING = "_made"
"""The folder, within the output, to which Spark writes parts before they get their final names."""
_PART_VALUES = 1 << 22
"""The approximate number of values in a part."""


def sanitise_archive(
    policy: Policy, path: Path, out: Path, show: ProgressReporter, *, clamp: bool = False
) -> RunResult:
    """Release an archive on Spark, as `meteragent.archive.run.sanitise_archive` does in this process.

    The Spark session is the active one, or a new one with Spark's default settings. Raises MeteragentError as
    for `meteragent.archive.run.sanitise_archive`, or an ArchiveError that names an error of Spark.
    """
    # Otherwise, workers would run the first python3 on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    with _translate_errors():
        return archive.sanitise_archive(policy, path, out, show, _Spark(spark), clamp=clamp)


class _Spark:
    """The engine that does each of the two passes as a Spark query."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def cut(self) -> list[Any]:
        """The values that determine how Spark divides releases into parts, as the manifest records them."""
        return ["spark", "by hash, with run", _PART_VALUES]

    def debits(
        self, source: Source, ledger: Ledger, _key: Key, account: Account, show: ProgressReporter
    ) -> Iterator[pa.Table]:
        """Yield the run's rows for the ledger, in one table, and fill in `account`."""
        policy = source.policy
        with show("account", source.rows, "row") as progress:
            windows = frame.opened_windows(self._readings(source), policy).persist()
            try:
                count, account.similar_meters = _check_windows(windows, source), frame.count_similar(windows)
                new_windows = frame.drop_taken(
                    windows.drop("fits"), taken_intervals(self._spark, ledger, account.run)
                )
                table = ledger_rows(add_ids(new_windows, policy), policy)
            finally:
                windows.unpersist()
            progress(source.rows)
        account.released_windows = sum(table.column("windows").to_pylist())
        account.refused_windows = count - account.released_windows
        account.keys.update(table.column("key").to_pylist())
        starts = milliseconds(table.column("start").combine_chunks()).tolist()
        for id_, start_ms in zip(table.column("d").to_pylist(), starts, strict=True):
            account.descriptors[id_] = min(account.descriptors.get(id_, start_ms), start_ms)
        yield table

    def release(
        self, source: Source, ledger: Ledger, _key: Key, account: Account, out: Path, show: ProgressReporter
    ) -> Parts:
        """Write all parts."""
        for part in out.glob(f"part-{account.run}-*.parquet"):
            part.unlink()
        with show("release", source.rows, "row") as progress:
            observation = Observation()
            windows = frame.count_numbers(frame.windows(self._readings(source), source.policy), observation)
            new_windows = frame.drop_taken(windows, taken_intervals(self._spark, ledger, account.run))
            releases = frame.sort_into_parts(
                frame.add_noise(new_windows, source.policy), _part_count(account, source.policy)
            )
            if source.layout == "long":
                releases = frame.by_slots(releases, source.policy)
            frame.write(releases, str(out / _STAGING))
            source.check_unchanged()
            progress(source.rows)
        return Parts(_rename_parts(out, account.run), 0, _counts(observation.get, account))

    def _readings(self, source: Source) -> DataFrame:
        """Return a data frame of the input's files."""
        return frame.read(self._spark, (path for path, _ in source.stamps))


def _counts(figures: dict[str, Any], account: Account) -> Counts | None:
    """Return the counts of the input's numbers; None if a task that was repeated counted twice."""
    if figures["windows"] != account.windows:
        return None
    first = None if figures["meter"] is None else (figures["meter"], figures["time_ms"])
    return Counts(**{name: figures[name] or 0 for name in TOTALS}, first_conflict=first)


def _part_count(account: Account, policy: Policy) -> int:
    """Return the number of parts, which depends only on public facts: the policy and the window count."""
    return max(1, -(-account.released_windows * policy.usual.n // _PART_VALUES))


def _check_windows(windows: DataFrame, source: Source) -> int:
    """Return the number of windows. Raises ArchiveError if a wide row does not fit or a window is double."""
    if source.layout == "long":
        return windows.count()
    misfit_count = windows.where(~F.col("fits")).count()
    if misfit_count:
        raise misfit_error(misfit_count, source)
    repeats = windows.groupBy("meter", "start").count().where("count > 1")
    example = repeats.orderBy("meter", "start").first()
    if example is not None:
        copies = repeats.agg(F.sum("count") - F.count("count")).collect()[0][0]
        raise duplicate_error(copies, example["meter"], round(example["start"].timestamp() * 1000))
    return windows.count()


def _rename_parts(out: Path, run: str) -> int:
    """Give the parts that Spark has written their final names; return the number of parts."""
    parts = sorted((out / _STAGING).glob("part-*.parquet"))
    for index, part in enumerate(parts):
        part.rename(manifest.part_path(out, run, index))
    sync_folder(out)
    shutil.rmtree(out / _STAGING)
    return len(parts)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise a worker's error, in its class, or an ArchiveError, for Spark's, which quote plans and stacks."""
    try:
        yield
    except AnalysisException as error:  # raised before anything is read
        failure: MeteragentError = ArchiveError(f"Spark: {str(error).splitlines()[0]}")
    except PySparkException as error:
        match = _WORKER_TEXT.search(str(error))
        kind = getattr(errors, match[1] or "", ArchiveError) if match else ArchiveError
        failure = kind(match[2] if match else f"Spark: {error.getCondition() or type(error).__name__}")
    else:
        return
    raise failure
