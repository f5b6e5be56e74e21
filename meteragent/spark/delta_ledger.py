"""A ledger on the cluster's own storage: a Delta table with the rows of `archive.ledger`, each with its run.

The rules are those of the ledger in a folder, but no lock is needed:

1. Spark caches the windows. The windows' digest, the policy and the key determine the run's id. If the table
   already has files under this id, the releases in these files are returned.
2. Workers release the windows that overlap no interval in the table, and write them to files (`part`).
3. The driver registers the files of the successful tasks in one commit, which also adds one to the version of
   `APP_ID`. If two drivers commit to the same version of the table, one of them fails. The failed driver
   reads the other driver's files, and has its own windows released again if these files overlap them.
4. On a disk, files are flushed before the commit, and the log after it. Only then are releases returned, by
   reading the registered files. So a repeated run returns the same releases.

A failed task may leave files that are never registered or returned. Keep the folder as private as any ledger.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the usual name

from meteragent import extras
from meteragent.archive import kernel, manifest
from meteragent.archive.acceptance import Layout
from meteragent.archive.admission import duplicate_error
from meteragent.archive.checks import find_checks, require_no_checks
from meteragent.archive.files import path_in_errors
from meteragent.archive.key import Key
from meteragent.archive.ledger import SCHEMA, Ledger
from meteragent.archive.number import Counts
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.domain.grid import iso_time
from meteragent.spark import frame, part
from meteragent.spark.frame import INTERVALS
from meteragent.spark.ledger import merge_intervals
from meteragent.spark.run import translate_errors
from meteragent.spark.worker import KeyFingerprint, Reader
from meteragent.store.generation import sync_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

APP_ID = "meteragent"
"""The application id of every commit."""
_PROPERTIES = {"delta.appendOnly": "true", "delta.enableExpiredLogCleanup": "false"}
_PART_WINDOWS = 1 << 18
"""The largest number of windows whose rows of the ledger a worker holds in memory."""
_UNSAFE = "AWS_S3_ALLOW_UNSAFE_RENAME", "MOUNT_ALLOW_UNSAFE_RENAME"
"""Environment variables that would let two commits of the same version both succeed."""


@dataclass(frozen=True)
class FrameResult:
    """The releases of a frame, read from the ledger's files, with counts that only the operator may see.

    `releases` has the columns meter, start, end, values, d and key. `counts` covers all windows.
    """

    releases: DataFrame
    run: str
    released_windows: int
    refused_windows: int
    counts: Counts | None
    ledger: "DeltaLedger"

    def remove_releases(self) -> None:
        """Remove the files of the releases, after the caller has written the releases elsewhere.

        The run can then not be repeated, and its windows stay debited.
        """
        store = part.files_below(self.ledger.address)
        for file in _files(self.ledger.open(), pc.field("partition.run") == self.run):
            with path_in_errors(self.ledger.address):
                store.delete_file(part.releases_of(file)[0])


def sanitise_frame(
    readings: DataFrame, policy: Policy, ledger: Path | str, *, accepts_checks: bool = False
) -> FrameResult:
    """Release a frame of readings, each window once under a ledger that is a Delta table.

    Use it for a batch or, in the wide layout, in `foreachBatch`; use `stream` for streams in the long layout.
    `ledger` is the table's path or an address such as s3://bucket/ledger. For a new key, the table is created
    and its address is stored in the folder `policy.ledger`. With `accepts_checks`, `archive.checks`
    may find something. A second call with the same rows, policy and key returns the same releases. Other
    windows that overlap windows in the ledger are refused and counted.

    Raises ArchiveError, before anything is released, if a column or row is wrong, rows change while they are
    read, or the ledger cannot be used or is not the key's; ChecksRefused if something is probably wrong with
    the readings; KeyRefused if a window has no key.
    """
    layout, context = frame.layout_of(readings, policy), readings.sparkSession.sparkContext
    if layout == "long" and context.getLocalProperty("sql.streaming.queryId") is not None:
        raise ArchiveError(
            "a micro-batch has only some of a window's readings: use `stream` with this ledger"
        )
    with translate_errors():
        windows, table = frame.windows(readings, policy), DeltaLedger.of(ledger, policy)
        return table.release(windows, policy, needs_check=layout == "wide", accepts_checks=accepts_checks)


@dataclass(frozen=True)
class DeltaLedger:
    """The ledger in the Delta table at `address`."""

    address: str

    @classmethod
    def of(cls, address: Path | str, policy: Policy) -> Self:
        """Return the ledger of the policy's key; create it if the key has none. Raises ArchiveError."""
        if unsafe := [name for name in _UNSAFE if os.environ.get(name, "").lower() in {"1", "true"}]:
            raise ArchiveError(f"{address}: {unsafe[0]} would let two runs debit the same window: unset it")
        if extras.missing_module("tables") == "deltalake":
            raise ArchiveError(f"{address}: Delta tables need {extras.hint('tables')}")
        is_path = "://" not in str(address)
        if is_path and re.search(r"[%\\]", str(address)):  # `deltalake` would use another folder
            raise ArchiveError(f"{address}: choose a path without a percent sign or a backslash")
        ledger = cls(str(Path(address).absolute()) if is_path else str(address).rstrip("/"))
        folder = Ledger(policy.ledger)
        if folder.table != ledger.address:
            folder.bind(ledger.address, ledger._create)
        ledger.open()
        return ledger

    def _create(self) -> None:
        from deltalake import DeltaTable  # noqa: PLC0415  the extra may be missing
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        schema = SCHEMA.append(pa.field("run", pa.string()))
        try:
            with path_in_errors(self.address, "cannot be created"):
                if "://" not in self.address:
                    Path(self.address).mkdir(mode=0o700, parents=True, exist_ok=True)
                DeltaTable.create(self.address, schema, "ignore", "run", configuration=_PROPERTIES)
        except DeltaError:  # another driver may have created it
            pass
        self.open()
        self._flush(["_delta_log/*"])

    def open(self) -> "DeltaTable":
        """Return the table's newest version. Raises ArchiveError if there is none, or it is not a ledger."""
        from deltalake import DeltaTable  # noqa: PLC0415  the extra may be missing
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        try:
            with path_in_errors(self.address):
                table = DeltaTable(self.address)
        except DeltaError as error:
            raise ArchiveError(
                f"{self.address}: the key's ledger cannot be read ({type(error).__name__}): restore it"
            ) from None
        if [field.name for field in table.schema().fields] != [*SCHEMA.names, "run"]:
            raise ArchiveError(f"{self.address}: this Delta table is not a ledger: choose another address")
        return table

    def release(
        self, windows: DataFrame, policy: Policy, *, needs_check: bool = False, accepts_checks: bool = True
    ) -> FrameResult:
        """Release windows as `sanitise_frame` does. `needs_check` is True if a window may occur twice."""
        windows = windows.withColumn("hash", F.xxhash64("meter", "start", "end", "quanta")).persist()
        try:
            total = _Total.of(windows)
            if needs_check:
                _require_unique(windows)
            if not accepts_checks:
                layout: Layout = "wide" if needs_check else "long"
                require_no_checks(find_checks(policy, layout, total.counts, total.windows))
            run = total.run(policy) if total.windows else ""
            files = sorted(self._debit(windows, total, policy, run) if total.windows else ())
        finally:
            windows.unpersist()
        self._flush(["_delta_log/*"])
        releases = [part.releases_of(file) for file in files]
        count, reader = sum(count for _, count in releases), part.release_reader(self.address, policy)
        rows = self._read(
            windows.sparkSession, (file for file, _ in releases), reader, frame.release_ddl(policy)
        )
        # The order of the rows in the files would reveal the order of the meters' own names.
        ordered_rows = frame.sort_into_parts(rows, frame.part_count(count, policy))
        return FrameResult(ordered_rows, run, count, total.windows - count, total.counts, self)

    def _debit(self, windows: DataFrame, total: "_Total", policy: Policy, run: str) -> frozenset[str]:
        """Return a run's files; if the table has none of them, release the windows and register the files."""
        table, checked, reports = self.open(), frozenset[str](), list[dict[str, Any]]()
        while not (registered := _files(table, pc.field("partition.run") == run)):
            files = _files(table, total.is_near)
            if not reports or self._mark_taken(windows, files - checked).where("taken").head(1):
                reports = self._write(self._mark_taken(windows, files), total, policy, run)
                if not reports:
                    return frozenset()
            table, checked = self._commit(table, run, reports), files
        return registered

    def _mark_taken(self, windows: DataFrame, files: frozenset[str]) -> DataFrame:
        """Add the column `taken`: whether a window overlaps an interval in one of the ledger's `files`."""
        if not files:
            return windows.withColumn("taken", F.lit(False))
        reader, spark = part.interval_reader(self.address), windows.sparkSession
        return frame.mark_taken(windows, merge_intervals(self._read(spark, files, reader, INTERVALS)))

    def _read(self, spark: SparkSession, files: Iterable[str], reader: Reader, schema: str) -> DataFrame:
        names = spark.createDataFrame([(file,) for file in sorted(files)], "file string")
        return names.mapInArrow(reader, schema)

    def _write(self, windows: DataFrame, total: "_Total", policy: Policy, run: str) -> list[dict[str, Any]]:
        """Release the windows that are not taken; return the reports of tasks that released at least one."""
        fingerprint, columns = KeyFingerprint.of(Key.load(policy.key_file)), ("meter", "start", "quanta")
        count = max(frame.part_count(total.windows, policy), -(-total.windows // _PART_WINDOWS))
        by_meter = windows.repartition(count, "meter")
        rows = by_meter.sortWithinPartitions("meter", "start").select(*columns, "hash", "taken")
        writer = part.part_writer(policy, fingerprint, self.address, run)
        reports = [json.loads(row.report) for row in rows.mapInArrow(writer, "report string").collect()]
        if total[:2] != tuple(sum(report[name] for report in reports) for name in ("windows", "digest")):
            raise ArchiveError("rows changed while they were read (nothing was released): use a snapshot")
        return [report for report in reports if "file" in report]

    def _commit(self, table: "DeltaTable", run: str, reports: list[dict[str, Any]]) -> "DeltaTable":
        """Register files in the next version of `table` unless another driver has made it; return the newest.

        Raises ArchiveError if files are missing, or the table cannot be written.
        """
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction  # noqa: PLC0415
        from deltalake.exceptions import DeltaError  # noqa: PLC0415
        from deltalake.transaction import AddAction, RemoveAction  # noqa: PLC0415

        files = [report["file"] for report in reports]
        self._flush([*files, *(part.releases_of(file)[0] for file in files)])
        actions: list[AddAction | RemoveAction] = [
            AddAction(report["file"], report["size"], {"run": run}, 0, True, _statistics(report))
            for report in reports
        ]
        number = Transaction(APP_ID, (table.transaction_version(APP_ID) or 0) + 1)
        version, reason = table.version(), ""
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                ["run"],
                commit_properties=CommitProperties(max_commit_retries=0, app_transactions=[number]),
                post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
            )
        except (DeltaError, OSError) as error:  # another driver was faster, or the storage has failed
            reason = type(error).__name__
        newest = self.open()
        if reason and newest.version() == version:
            raise ArchiveError(f"{self.address}: cannot be written ({reason}): repeat the run")
        return newest

    def _flush(self, patterns: Iterable[str]) -> None:
        """Flush files and their folders if they are on a disk. Raises ArchiveError if a file is missing."""
        if "://" in self.address:
            return
        root, folders = Path(self.address), {Path(self.address), Path(self.address).parent}
        with path_in_errors(root, "cannot be written"):
            for pattern in patterns:
                for path in root.glob(pattern) if "*" in pattern else [root / pattern]:
                    sync_folder(path)  # flushes a file, too
                    folders |= {path.parent, path.parent.parent}
            for folder in folders:
                sync_folder(folder)


class _Total(NamedTuple):
    """The number, digest, times and counts of all windows, as the driver computes them."""

    windows: int
    digest: int
    first_ms: int
    end_ms: int
    counts: Counts | None

    @classmethod
    def of(cls, windows: DataFrame) -> Self:
        """Return the totals of windows, computed in the pass in which Spark caches the windows."""
        has_counts = "counts" in windows.columns
        row = windows.agg(
            F.sum(F.col("hash").cast("decimal(20, 0)")).alias("digest"),
            F.unix_millis(F.min("start")).alias("first_ms"),
            F.unix_millis(F.max("end")).alias("end_ms"),
            *(frame.count_columns() if has_counts else [F.count(F.lit(1)).alias("windows")]),
        ).collect()[0]
        counts = frame.counts_of(row.asDict()) if has_counts else None
        return cls(row.windows, int(row.digest or 0), row.first_ms, row.end_ms, counts)

    @property
    def is_near(self) -> pc.Expression:
        """A filter for files that may overlap the windows; files without statistics in the log pass, too."""
        start, end = pc.field("min.start"), pc.field("max.end")
        first_time, end_time = (pa.scalar(time_ms, kernel.TIME) for time_ms in (self.first_ms, self.end_ms))
        return (start < end_time) & (end > first_time) | start.is_null() | end.is_null()

    def run(self, policy: Policy) -> str:
        """Return the id of the run that releases these windows."""
        key = Key.load(policy.key_file).at(self.first_ms)
        return manifest.run_id(policy, [f"{self.windows} windows {self.digest}"], key)


def _files(table: "DeltaTable", is_wanted: pc.Expression) -> frozenset[str]:
    """Return the paths of those files of a version whose entries in the log pass a filter."""
    files = pa.table(table.get_add_actions(flatten=True))
    return frozenset(files.filter(is_wanted)["path"].to_pylist()) if len(files) else frozenset()


def _statistics(report: dict[str, Any]) -> str:
    first, last = ({name: iso_time(report[f"{name}_ms"])} for name in ("start", "end"))
    return json.dumps({"numRecords": report["rows"], "minValues": first, "maxValues": last})


def _require_unique(windows: DataFrame) -> None:
    """Raise ArchiveError if a window occurs more than once."""
    repeats = windows.groupBy("meter", "start").count().where("count > 1")
    example = repeats.orderBy("meter", "start").first()
    if example is not None:
        copies = repeats.agg(F.sum("count") - F.count("count")).collect()[0][0]
        raise duplicate_error(copies, example["meter"], round(example["start"].timestamp() * 1000))
