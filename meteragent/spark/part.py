"""Files below a ledger's Delta table, as Spark's workers write and read them.

A task writes a file with ledger rows and, below `_releases`, a file with the releases that these rows debit.
Both files have the same name, which consists of the digests of their contents and the number of windows. So
a task that runs twice writes the same files, and a reader can compare a file's content with its digest.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import RecordBatch

from meteragent.archive import kernel
from meteragent.archive.files import COMPRESSION, path_in_errors
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.worker import KeyFingerprint, Reader, attempt, milliseconds

RELEASES = "_releases"
"""The folder of the releases; Delta ignores names that begin with an underscore."""
_PIECE_BYTES = 1 << 20
_NAME = re.compile(r"run=(.+/part-([0-9a-f]+)-[0-9a-f]+-(\d+)\.parquet)")


def part_writer(policy: Policy, fingerprint: KeyFingerprint, address: str, run: str) -> Reader:
    """Return a function that passes a task's windows to `write_part`, and yields its report as JSON."""

    def work_on_task(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Write the files of a task."""
        report = attempt(partial(write_part, batches, policy, fingerprint, address, run))
        yield RecordBatch.from_pydict({"report": [json.dumps(report)]})

    return work_on_task


def write_part(
    batches: Iterable[RecordBatch], policy: Policy, fingerprint: KeyFingerprint, address: str, run: str
) -> dict[str, Any]:
    """Release the windows that are not `taken`, and write both files if there are any.

    Return the count and the digest of all windows, and facts about the file with ledger rows: its path,
    size, number of rows, first start and last end.
    """
    make_rows = worker.row_maker(policy, fingerprint)
    count, windows, digest, tables, sink = 0, 0, 0, [], pa.BufferOutputStream()
    with pq.ParquetWriter(sink, kernel.release_schema(policy), compression=COMPRESSION) as writer:
        for batch in batches:
            windows += batch.num_rows
            digest += worker.exact_sum(batch.column("hash"))
            new_windows = batch.filter(pc.invert(batch.column("taken")))
            count += new_windows.num_rows
            writer.write_batch(worker.add_noise(new_windows, policy, fingerprint))
            tables.append(make_rows(new_windows))
    report: dict[str, Any] = {"windows": windows, "digest": digest}
    if not count:
        return report
    releases, rows, sink = sink.getvalue(), pa.Table.from_batches(tables), pa.BufferOutputStream()
    pq.write_table(rows, sink, compression=COMPRESSION)
    name = f"part-{_digest(releases)}-{_digest(content := sink.getvalue())}-{count}.parquet"
    for path, data in ((f"{RELEASES}/{run}/{name}", releases), (file := f"run={run}/{name}", content)):
        _write(address, path, data)
    start_ms, end_ms = int(milliseconds(rows["start"]).min()), int(milliseconds(rows["end"]).max())
    report |= {"file": file, "size": len(content), "rows": len(rows)}
    return report | {"start_ms": start_ms, "end_ms": end_ms}


def releases_of(file: str) -> tuple[str, int]:
    """Return the path of the releases that a file of the ledger debits, and their number."""
    match = _NAME.fullmatch(file)
    if match is None:
        raise ArchiveError(f"{file}: not a file that `sanitise_frame` has added to the ledger")
    return f"{RELEASES}/{match[1]}", int(match[3])


def interval_reader(address: str) -> Reader:
    """Return a function that reads meter, start and end of the rows in files of the ledger."""
    return worker.each(lambda files: _batches(address, files, {"columns": ["meter", "start", "end"]}))


def release_reader(address: str, policy: Policy) -> Reader:
    """Return a function that reads the rows of files of releases."""
    schema = kernel.release_schema(policy)
    return worker.each(lambda files: map(worker.for_spark, _batches(address, files, {"schema": schema})))


def _write(address: str, path: str, content: pa.Buffer) -> None:
    with (
        path_in_errors(f"{address}/{path}", "cannot be written"),
        files_below(address).open_output_stream(path, buffer_size=2 * _PIECE_BYTES) as stream,
    ):
        # Arrow passes pieces that fit into its buffer on as `bytes`; `deltalake` refuses other types.
        for start in range(0, len(content), _PIECE_BYTES):
            stream.write(content[start : start + _PIECE_BYTES])


def _batches(address: str, files: RecordBatch, options: dict[str, Any]) -> Iterator[RecordBatch]:
    """Yield the rows of files. Raises ArchiveError if a file is missing or its digest is not in its name."""
    for file in files.column("file").to_pylist():
        with (
            path_in_errors(f"{address}/{file}", "missing or cannot be read"),
            files_below(address).open_input_stream(file) as stream,
        ):
            content = stream.read_buffer()
        if f"-{_digest(content)}-" not in file:
            raise ArchiveError(f"{address}/{file}: not what was registered: restore it from its backup")
        rows = pq.read_table(pa.BufferReader(content), **options)
        yield from rows.to_batches(max_chunksize=worker.BATCH_ROWS)


@lru_cache(maxsize=4)
def files_below(address: str) -> Any:
    """Return an Arrow file system whose root is a table's path or address."""
    from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415  the extra may be missing
    from pyarrow.fs import PyFileSystem  # noqa: PLC0415

    return PyFileSystem(DeltaStorageHandler(address))


def _digest(content: pa.Buffer) -> str:
    """Return the first half of the content's SHA-256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()[:32]
