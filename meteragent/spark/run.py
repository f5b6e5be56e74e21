"""`sanitise --engine spark`: the same run as with the local engine, except that Spark does the two passes.

Lock, run's id, ledger's rows and form of the manifest are the same. The parts differ: a hash of a window's
start and its meter's public name determines the part, and each part is sorted by start and name. So neither
the part of a window nor its position depends on the order of the input or on the meters' own names. Only
releases are shuffled. If a run is killed before its output is complete, the next run deletes the output's
parts and writes them again, with the same values. The driver lists and hashes the files, and workers read
them as the local engine does.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the usual name

from meteragent.archive import manifest
from meteragent.archive import preview as archive_preview
from meteragent.archive import run as archive
from meteragent.archive.admission import Admission, ProgressReporter, duplicate_error, misfit_error
from meteragent.archive.count import require_unclamped
from meteragent.archive.kernel import to_milliseconds
from meteragent.archive.key import Key
from meteragent.archive.ledger import Ledger
from meteragent.archive.number import Counts
from meteragent.archive.policy import Policy
from meteragent.archive.preview import Preview
from meteragent.archive.run import Local, PartCounts, RunResult
from meteragent.archive.source import Source
from meteragent.domain import errors
from meteragent.domain.errors import ArchiveError, MeteragentError
from meteragent.spark import frame, worker
from meteragent.spark.ledger import ledger_rows, taken_intervals
from meteragent.store.generation import sync_folder

_WORKER_TEXT = re.compile(r"WorkerError: (?:(\w+): )?(.*)")
_STAGING = "_made"
"""The folder, within the output, to which Spark writes parts before they get their final names."""


def sanitise_archive(
    policy: Policy, path: Path | str, out: Path, show: ProgressReporter, *, clamp: bool = False
) -> RunResult:
    """Release an archive on Spark, as `meteragent.archive.run.sanitise_archive` does in this process.

    The Spark session is the active one, or a new one with Spark's default settings. Raises MeteragentError as
    for `meteragent.archive.run.sanitise_archive`, or an ArchiveError that names an error of Spark.
    """
    with translate_errors():
        return archive.sanitise_archive(policy, path, out, show, _SparkEngine(_session()), clamp=clamp)


def preview(policy: Policy, path: Path | str, out: Path, show: ProgressReporter) -> Preview:
    """Return a preview of `sanitise_archive` with the same arguments, without writing anything."""
    with translate_errors():
        return archive_preview.preview(policy, path, out, show, _SparkEngine(_session()))


def _session() -> SparkSession:
    """Return the active session, or a new one, which logs nothing unless Spark's settings say what."""
    # Otherwise, workers would run the first python3 on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_new = SparkSession.getActiveSession() is None
    spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    if is_new and spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("OFF")  # stacks of Java
    return spark


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise a worker's error, in its class, or an ArchiveError, for Spark's, which quote plans and stacks."""
    try:
        yield
    except AnalysisException as error:  # raised before anything is read
        failure: MeteragentError = ArchiveError(f"Spark: {str(error).splitlines()[0]}")
    except PySparkException as error:
        match = _WORKER_TEXT.search(str(error))
        kind = getattr(errors, match[1] or "", ArchiveError) if match else ArchiveError
        failure = kind(match[2] if match else f"Spark: {error.getCondition() or type(error).__name__}")
    except Py4JError as error:
        cause = getattr(error, "java_exception", None)
        name = cause.getClass().getSimpleName() if cause is not None else type(error).__name__
        failure = ArchiveError(f"Spark: {name}; the logs of Spark have more")
    else:
        return
    raise failure


def _counts(figures: dict[str, Any], admission: Admission) -> Counts | None:
    """Return the counts of the input's numbers; None if a task that was repeated counted twice."""
    return frame.counts_of(figures) if figures["windows"] == admission.windows else None


class _SparkEngine:
    """The engine that does each of the two passes as a Spark query."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def cut_at(self) -> list[Any]:
        """The values that determine how Spark divides releases into parts, as the manifest records them."""
        return ["spark", "by hash, with run", frame.PART_VALUES]

    def debit_windows(
        self, source: Source, ledger: Ledger, _key: Key, admission: Admission, show: ProgressReporter
    ) -> Iterator[pa.Table]:
        """Yield the run's rows for the ledger, in one table, and fill in `admission`."""
        policy = source.policy
        with show("admit", source.rows, "row") as progress:
            windows = frame.opened_windows(self._rows(source), source.layout, policy).persist()
            try:
                count, counts = _check_windows(windows, source)
                if not admission.clamp:
                    require_unclamped(counts, policy)
                admission.similar_meters = frame.count_similar(windows)
                intervals = taken_intervals(self._spark, ledger, admission.run)
                new_windows = frame.drop_taken(windows.select("meter", "start", "end"), intervals)
                for table in ledger_rows(new_windows, policy):
                    admission.released_windows += sum(table.column("windows").to_pylist())
                    admission.keys.update(table.column("key").to_pylist())
                    starts = to_milliseconds(table.column("start").combine_chunks()).tolist()
                    for id_, start_ms in zip(table.column("d").to_pylist(), starts, strict=True):
                        admission.descriptors[id_] = min(admission.descriptors.get(id_, start_ms), start_ms)
                    yield table
            finally:
                windows.unpersist()
            admission.refused_windows = count - admission.released_windows
            progress(source.rows)

    def numbers(self, source: Source, admission: Admission, show: ProgressReporter) -> Counts:
        """Count all numbers of an input."""
        with show("count", source.rows, "row") as progress:
            observation = Observation()
            windows = frame.count_numbers(self._windows(source), observation)
            windows.write.format("noop").mode("overwrite").save()
            progress(source.rows)
        return _counts(observation.get, admission) or Local().numbers(source, admission, show)

    @translate_errors()
    def release(
        self,
        source: Source,
        ledger: Ledger,
        _key: Key,
        admission: Admission,
        out: Path,
        show: ProgressReporter,
    ) -> PartCounts:
        """Write all parts."""
        for part in out.glob(f"part-{admission.run}-*.parquet"):
            part.unlink()
        with show("release", source.rows, "row") as progress:
            observation = Observation()
            if admission.refused_windows:
                windows = frame.count_numbers(self._windows(source), observation)
                intervals = taken_intervals(self._spark, ledger, admission.run)
                releases = frame.add_noise(frame.drop_taken(windows, intervals), source.policy)
            else:
                releases = frame.releases_of(self._rows(source), source.layout, source.policy)
                releases = frame.count_numbers(releases, observation)
            part_count = frame.part_count(admission.released_windows, source.policy)
            releases = frame.sort_into_parts(releases, part_count)
            if source.layout == "long":
                releases = frame.by_slots(releases, source.policy)
            row_count = Observation()
            releases = releases.observe(row_count, F.count(F.lit(1)).alias("rows"))
            frame.write(releases, out / _STAGING)
            source.check_unchanged()
            progress(source.rows)
        if not admission.released_windows:  # of no rows, Spark observes nothing
            return PartCounts(_rename_parts(out, admission.run, 0), 0, None)
        part_count = _rename_parts(out, admission.run, row_count.get["rows"])
        return PartCounts(part_count, 0, _counts(observation.get, admission))

    def _windows(self, source: Source) -> DataFrame:
        return frame.windows_of(self._rows(source), source.layout, source.policy)

    def _rows(self, source: Source) -> frame.Rows:
        """Return the rows of an input: workers read its files, as listed, with the archive's own reader."""
        groups, count = source.groups, 4 * self._spark.sparkContext.defaultParallelism
        indices = np.array_split(np.arange(len(groups)), min(len(groups), count))
        tasks = [[groups[index] for index in part.tolist()] for part in indices]
        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        return lambda work, schema: numbers.mapInArrow(worker.read_groups(source, tasks, work), schema)


def _check_windows(windows: DataFrame, source: Source) -> tuple[int, Counts]:
    """Return the numbers of windows and of numbers. Raises ArchiveError for wide rows that are no windows."""
    misfits = F.count_if(~F.col("fits")) if source.layout == "wide" else F.lit(0)
    sums = [F.sum(name) for name in worker.READ]
    count, misfit_count, *numbers = windows.agg(F.count(F.lit(1)), misfits, *sums).collect()[0]
    if misfit_count:
        raise misfit_error(misfit_count, source)
    if source.layout == "wide":
        require_unique(windows)
    return count, Counts(**dict(zip(worker.READ, numbers, strict=True)))


def require_unique(windows: DataFrame) -> None:
    """Raise ArchiveError if a window is there more than once."""
    repeats = windows.groupBy("meter", "start").count().where("count > 1")
    example = repeats.orderBy("meter", "start").first()
    if example is not None:
        copies = repeats.agg(F.sum("count") - F.count("count")).collect()[0][0]
        raise duplicate_error(copies, example["meter"], round(example["start"].timestamp() * 1000))


def _rename_parts(out: Path, run: str, rows: int) -> int:
    """Rename the parts that Spark wrote; return their number. Raises ArchiveError if rows lack."""
    parts = sorted((out / _STAGING).glob("part-*.parquet"))
    if (count := sum(pq.read_metadata(part).num_rows for part in parts)) != rows:
        raise ArchiveError(
            f"{out}: {count:,} of the {rows:,} rows that the workers wrote are here: driver and workers must"
            " see the folder under this path"
        )
    for index, part in enumerate(parts):
        part.rename(manifest.part_path(out, run, index))
    sync_folder(out)
    shutil.rmtree(out / _STAGING)
    return len(parts)
