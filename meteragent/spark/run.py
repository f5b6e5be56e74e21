"""`sanitise --engine spark`: the local engine's run, whose steps Spark's workers execute.

Lock, ledger, parts and bytes are those of the local engine, so an engine can continue a run of the other one.
Workers read the input's files, and write files that exist in full or not at all. The driver plans the steps,
holds the results of a few at a time, and enters them in the ledger.
"""

import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from meteragent.archive import preview as archive_preview
from meteragent.archive import run as archive
from meteragent.archive.admission import ProgressReporter
from meteragent.archive.key import Key
from meteragent.archive.policy import Policy
from meteragent.archive.preview import Preview
from meteragent.archive.run import Local, PartCounts, RunResult
from meteragent.archive.tree import Tree
from meteragent.domain import errors
from meteragent.domain.errors import ArchiveError, MeteragentError
from meteragent.spark import worker
from meteragent.spark.hadoop import HadoopTree
from meteragent.spark.worker import KeyFingerprint

T = TypeVar("T")
R = TypeVar("R")

_WORKER_TEXT = re.compile(r"WorkerError: (?:(\w+): )?(.*)")


def sanitise_archive(
    policy: Policy, path: Path | str, out: Path | str, show: ProgressReporter, *, accepts_checks: bool = False
) -> RunResult:
    """Release an archive on Spark, as `meteragent.archive.run.sanitise_archive` does in this process.

    The Spark session is the active one, or a new one with Spark's default settings. Raises MeteragentError as
    for `meteragent.archive.run.sanitise_archive`, or an ArchiveError that names an error of Spark.
    """
    with translate_errors():
        spark = _session()
        tree, place, target = _places(spark, policy, path, out)
        if target is not None:
            place.parent.mkdir(exist_ok=True)
        result = archive.sanitise_archive(
            policy, tree, place, show, _engine(spark, tree), accepts_checks=accepts_checks
        )
        if target is None:
            return result
        with archive.resumable(place):
            target.publish(place)
        return replace(result, out=out)


def preview(policy: Policy, path: Path | str, out: Path | str, show: ProgressReporter) -> Preview:
    """Return a preview of `sanitise_archive` with the same arguments, without writing anything."""
    with translate_errors():
        spark = _session()
        tree, place, _ = _places(spark, policy, path, out)
        return replace(archive_preview.preview(policy, tree, place, show, _engine(spark, tree)), out=out)


def _places(
    spark: SparkSession, policy: Policy, path: Path | str, out: Path | str
) -> tuple[Tree, Path, HadoopTree | None]:
    """Return the input, the folder in which the output is made, and where to copy it (None: nowhere)."""
    target = HadoopTree.find(spark, out)
    place = Path(out) if target is None else target.beside(policy.ledger)
    return HadoopTree.find(spark, path) or Tree.at(path), place, target


def _engine(spark: SparkSession, tree: Tree) -> Local:
    """Return the engine for an input: the local engine if only the driver can read it (through Java)."""
    return Local() if isinstance(tree, HadoopTree) else _SparkEngine(spark)


def _session() -> SparkSession:
    """Return the active session, or a new one that logs nothing unless Spark's settings have a log level."""
    # Otherwise, workers would run the first python3 on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_new = SparkSession.getActiveSession() is None
    spark = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    if is_new and spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("OFF")  # no stack traces of Java
    return spark


@contextmanager
def translate_errors() -> Iterator[None]:
    """Replace errors of Spark, which quote plans and stacks, by the worker's error or an ArchiveError."""
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


class _SparkEngine(Local):
    """The engine whose steps Spark's workers execute."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._spark, self.tasks = spark, 4 * spark.sparkContext.defaultParallelism

    def each(self, work: Callable[[T], Iterator[R]], items: Sequence[T]) -> Iterator[R]:
        """Yield the results of steps, in the order of `items`; the driver holds those of `tasks` steps."""
        for first in range(0, len(items), self.tasks):
            steps = items[first : first + self.tasks]
            numbers = self._spark.range(0, len(steps), 1, len(steps))
            results = numbers.mapInArrow(worker.step_taker(work, steps), "result binary")
            for row in results.collect():
                yield pickle.loads(row.result)  # noqa: S301 -- from a worker

    def key_loader(self, key: Key, policy: Policy) -> Callable[[], Key]:
        """Return a function that loads a worker's own key, and raises an error if it is not the driver's."""
        return partial(worker.key_of, policy.key_file, KeyFingerprint.of(key))

    @translate_errors()
    def release(self, *of: Any, **named: Any) -> PartCounts:
        """Write the parts of the output that are missing."""
        return super().release(*of, **named)
