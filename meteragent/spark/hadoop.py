"""Inputs and outputs in any file system whose URL scheme Hadoop supports, through the JVM of Spark's driver.

Workers have no JVM, so the driver alone reads such an input with the archive's own reader. An output is made
next to the ledger, on the disk that driver and workers share, and then copied. Addresses are literal.
"""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.sql import SparkSession

from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError


@contextmanager
def _java(address: str) -> Iterator[None]:
    """Raise an ArchiveError that names the address instead of an error of Java."""
    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getSimpleName()
    else:
        return
    raise ArchiveError(f"{address}: {kind}; the logs of Spark have more")


class _Stream(io.RawIOBase):
    """A Python file object over an input stream of Java."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self._size = stream, size

    def readable(self) -> bool:  # names: as in `io`
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        return bytes(self._stream.readNBytes(size if size >= 0 else self._size - self.tell()))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position; return it."""
        self._stream.seek((0, self.tell(), self._size)[whence] + offset)
        return self.tell()

    def tell(self) -> int:
        """Return the position."""
        return int(self._stream.getPos())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


class _System:
    """A file system of Hadoop, with the methods that a `Tree` calls."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self.path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]  # noqa: SLF001
        with _java(address):
            configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
            self.java = self.path(address).getFileSystem(configuration)
            self.root = self.java.makeQualified(self.path(address)).toString()

    def get_file_info(self, where: str | fs.FileSelector) -> Any:
        """Return Arrow's facts about the file or folder at a path, or about all files below a folder."""
        address = where if isinstance(where, str) else where.base_dir
        with _java(address):
            place = self.path(address)
            exists, infos = self.java.exists(place), list[fs.FileInfo]()
            if isinstance(where, str):
                no_info = fs.FileInfo(where, fs.FileType.NotFound)
                return _info(self.java.getFileStatus(place)) if exists else no_info
            statuses = self.java.listFiles(place, True) if exists else None
            while statuses is not None and statuses.hasNext():
                infos.append(_info(statuses.next()))
            return infos

    def open_input_file(self, file: str) -> pa.PythonFile:
        """Return the open file."""
        size = self.get_file_info(file).size
        with _java(file):
            return pa.PythonFile(_Stream(self.java.open(self.path(file)), size), "r")


def _info(status: Any) -> fs.FileInfo:
    kind = fs.FileType.Directory if status.isDirectory() else fs.FileType.File
    time_ns = status.getModificationTime() * 1_000_000
    return fs.FileInfo(status.getPath().toString(), kind, mtime_ns=time_ns, size=status.getLen())


@dataclass(frozen=True)
class HadoopTree(Tree):
    """An input or an output in a file system of Hadoop."""

    spark: SparkSession

    @classmethod
    def find(cls, spark: SparkSession, address: Path | str) -> "HadoopTree | None":
        """Return the tree at an address, or None if Hadoop is not needed to reach it. Raises ArchiveError."""
        scheme, mark, _ = str(address).partition("://")
        if not mark or "/" in scheme or scheme in {"file", "s3", "iceberg"}:
            return None
        system = _System(spark, str(address).rstrip("/"))
        return cls(system.root, system, spark)

    @property
    def address(self) -> tuple[str, dict[str, str]]:
        """Raise ArchiveError, because the readers of tables do not support this file system."""
        raise ArchiveError(f"{self.root}: a table in a file system of Hadoop: release its data frame instead")

    def beside(self, ledger: Path) -> Path:
        """Return the folder where the output is made. Raises ArchiveError if this address has other files."""
        digest = hashlib.sha256(self.root.encode()).hexdigest()
        out = ledger.with_name(f"{ledger.name}.outputs") / f"{digest[:16]}.parquet"
        names = [info.base_name for info in self.system.get_file_info(fs.FileSelector(self.root))]
        if any(not name.startswith(".") and not (out / name).exists() for name in names):
            raise ArchiveError(f"{self.root}: is not empty: choose an address that does not exist yet")
        return out

    def publish(self, out: Path) -> None:
        """Copy an output to this address, each file atomically, the manifests last. Raises ArchiveError."""
        for file in sorted(out.iterdir(), key=lambda file: (file.name.startswith("_"), file.name)):
            final, part_address = (f"{self.root}/{name}" for name in (file.name, f".{file.name}.part"))
            info, path = self.system.get_file_info(final), self.system.path
            if file.name.startswith("_") or info.size != file.stat().st_size:
                with _java(final):
                    self.system.java.copyFromLocalFile(
                        False, True, path(f"file://{file}"), path(part_address)
                    )
                    self.system.java.delete(path(final), False)
                    if not self.system.java.rename(path(part_address), path(final)):
                        raise ArchiveError(f"{final}: cannot be written")
