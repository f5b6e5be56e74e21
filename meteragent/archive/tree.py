"""An input's files, on a disk or in S3. A name always means itself, never a pattern."""

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from meteragent.archive.acceptance import require_no_table
from meteragent.archive.files import READ_BYTES, path_in_errors
from meteragent.domain.errors import ArchiveError

Stamp = tuple[int, int]
"""The size and the time of change of a file."""

_HIDDEN = re.compile("/[._]")


_S3 = {"s3", "s3a", "s3n"}


def _s3_endpoint() -> str:
    """Return the address of S3 if the environment names one."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _split_address(address: str) -> tuple[str, str]:
    """Return an address's scheme, "" for a path, and the path in that storage, taken literally."""
    scheme, mark, path = address.partition(":/")
    if not mark or "/" in scheme:
        return "", address
    return scheme, path[1:] if path.startswith("/") else f"/{path}"


@dataclass(frozen=True)
class Tree:
    """An input: the file or folder `root` of a file system. Every process of a run sees the same files."""

    root: str
    system: Any = field(compare=False)

    @classmethod
    def at(cls, address: Path | str) -> "Tree":
        """Return the tree at a path, file://, s3:// (as `AWS_…` variables say) or iceberg://.

        Raises ArchiveError if there is no such address.
        """
        scheme, _, name = address.partition("://") if isinstance(address, str) else ("", "", "")
        if scheme == "iceberg":
            from meteragent.archive.snapshot import metadata_address  # noqa: PLC0415  it imports this module

            scheme, name = _split_address(metadata_address(name))
            return cls.at(f"s3://{name}" if scheme in _S3 else Path(name))
        if scheme == "s3":
            endpoint = _s3_endpoint()
            with path_in_errors(address):
                region = None if endpoint else fs.resolve_s3_region(name.partition("/")[0])
                system = fs.S3FileSystem(endpoint_override=endpoint or None, region=region)
            return cls(name.rstrip("/"), system)
        if name and scheme != "file":
            raise ArchiveError(
                f"{address}: expected a path, file://, s3:// or iceberg:// (Spark reads others)"
            )
        return cls(str(Path(unquote(name) if name else address).absolute()), fs.LocalFileSystem())

    @property
    def path(self) -> Path | None:
        """The root's path on this machine; None if the root is elsewhere."""
        return Path(self.root) if isinstance(self.system, fs.LocalFileSystem) else None

    @property
    def address(self) -> tuple[str, dict[str, str]]:
        """The address for other libraries, and their options: the endpoint and the region of S3."""
        if self.path:
            return self.root, {}
        options = {"region": self.system.region} | ({"endpoint": _s3_endpoint()} if _s3_endpoint() else {})
        return f"s3://{self.root}", options

    def locate(self, address: str) -> str:
        """Return the path of a table's file in this file system. Raises ArchiveError if it is in another."""
        scheme, path = _split_address(address)
        if scheme not in ({"", "file"} if self.path else _S3):
            raise ArchiveError(
                f"{self.root}: its file {address} is in another kind of storage: not supported"
            )
        return path

    def entries(self, folder: str) -> list[str]:
        """Return the names in a folder of the tree; none if there is no such folder."""
        selector = fs.FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        with path_in_errors(self.root):
            return [entry.base_name for entry in self.system.get_file_info(selector)]

    def files(self, pattern: str = "*.parquet") -> list[str]:
        """Return the files' names, in order. Raises ArchiveError for tables, linked folders or no files."""
        with path_in_errors(self.root):
            is_folder = self.system.get_file_info(self.root).type == fs.FileType.Directory
            selector = fs.FileSelector(self.root, recursive=True)
            entries = self.system.get_file_info(selector) if is_folder else []
        require_no_table([self.root, *(entry.path for entry in entries), *self._signs_of_tables()], self.root)
        if not is_folder:
            return [self.root]
        entries = [entry for entry in entries if not _HIDDEN.search(entry.path, len(self.root))]
        for entry in entries if self.path else ():
            if entry.type == fs.FileType.Directory and (path := Path(entry.path)).is_symlink():
                raise ArchiveError(f"{path}: a link to a folder is not followed: put the folder itself there")
        files = [
            entry.path for entry in entries if entry.is_file and fnmatch(entry.base_name.lower(), pattern)
        ]
        if not files:
            raise ArchiveError(f"{self.root}: there are no {pattern} files in this folder")
        return sorted(files, key=lambda name: name.split("/"))

    def _signs_of_tables(self) -> Iterator[str]:
        """Yield the names, in folders above the root, that would show that the input is part of a table."""
        for folder in self.path.parents if self.path else ():
            signs = [folder / "_delta_log", folder / ".hoodie", *folder.glob("metadata/*.metadata.json")]
            yield from (str(sign) for sign in signs if os.path.lexists(sign))

    def stamp(self, file: str) -> Stamp:
        """Return values that change when a file is replaced. Raises ArchiveError for a missing file."""
        with path_in_errors(file):
            info = self.system.get_file_info(file)
            if info.type == fs.FileType.NotFound:
                raise FileNotFoundError(errno.ENOENT, "", file)
        return info.size, info.mtime_ns

    def open(self, file: str) -> pa.NativeFile:
        """Return the open file. Raises OSError."""
        return self.system.open_input_file(file)

    def digest(self, file: str, progress: Callable[[int], object]) -> str:
        """Return the SHA-256 of a file; report the number of bytes read. Raises ArchiveError."""
        digest = hashlib.sha256()
        with path_in_errors(file), self.open(file) as stream:
            while block := stream.read(READ_BYTES):
                digest.update(block)
                progress(len(block))
        return digest.hexdigest()
