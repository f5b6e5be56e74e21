"""The generation file, `<path>.gen`, which identifies the store that may be used, its progress and its place.

Theory of operation
-------------------
A store restored from a backup would release a second time the intervals that were released after the backup.
An old copy looks like the store itself, so a small file next to it identifies the newest copy. It contains

- the name of the store's generation, drawn at random at each start and each clean stop;
- the number of commits with records, by which a copy from before the last record of this generation is
  refused;
- the name of this file's own inode. A copy has another inode, or one with another birth time, so a whole
  folder that was restored from a backup is refused, too;
- whether the store was stopped cleanly and not opened since: only such a store can have been moved
  (`commands.accept_moved`);
- the claim key (32 random bytes), which is kept here so that it outlives a store that is set aside.

The file is replaced, never changed: write `<path>.gen.new`, fsync it, rename it, fsync the folder. After a
power cut, `<path>.gen` is either the complete old file or the complete new file.

The store commits first, and the file is replaced afterwards; only then may records of that commit be sent.
After a crash between the two steps, the file names the store's previous generation, or counts one commit
fewer, and both are accepted (`file.accept_copy`). In the reverse order, a crash could leave the file ahead of
the store, and the agent would refuse its own store as an old copy.
"""

import ctypes
import fcntl
import json
import os
import struct
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Self

from meteragent.store.schema import seal, unseal

_GETVERSION = (2 << 30) | (struct.calcsize("l") << 16) | (ord("v") << 8) | 1
"""FS_IOC_GETVERSION, for the version of an inode, which changes each time the inode's number is reused."""
_EMPTY_PATH, _BIRTH, _BIRTH_AT = 0x1000, 0x800, 80
"""AT_EMPTY_PATH and STATX_BTIME of statx(2), and the offset of the birth time in the result."""


class Generation(NamedTuple):
    """The content of a generation file; `inode` is empty until the file has been written."""

    name: str
    claim_key: str
    releases: int
    inode: str = ""
    is_stopped: bool = False

    @classmethod
    def begin(cls, name: str) -> Self:
        """Return the first generation of a store, with a new claim key."""
        return cls(name, os.urandom(32).hex(), 0)


UNREADABLE = "unreadable"
"""The name of a generation that stands for a file with invalid content; no store has it."""


def read_generation(path: Path) -> Generation | None:
    """Return the content of the generation file (`UNREADABLE` if it is invalid); None if there is no file."""
    file = Path(f"{path}.gen")
    if not file.exists():
        return None
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        return Generation(**json.loads(unseal(file.read_text("ascii"))))
    return Generation.begin(UNREADABLE)


class GenerationWriter:
    """The writer of a generation file; any thread may prepare the next file, whose fsync takes time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = Path(f"{path}.gen.new")
        self._lock = Lock()
        self._prepared_generation: Generation | None = None
        self._open: list[int] = []

    def prepare(self, generation: Generation) -> None:
        """Write and fsync the file that `replace` will rename; the file names its own inode."""
        with self._lock:
            if self._prepared_generation != generation:
                self._prepare(generation)

    def _prepare(self, generation: Generation) -> None:
        self._close_all()
        self._new.unlink(missing_ok=True)
        descriptor = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._open.append(descriptor)
        fields = generation._replace(inode=inode_of(descriptor))._asdict()
        os.write(descriptor, seal(json.dumps(fields)).encode("ascii"))
        os.fsync(descriptor)  # before the rename, so that a power cut cannot leave an empty file in place
        self._prepared_generation = generation

    def replace(self, generation: Generation) -> None:
        """Replace the file and fsync the folder; write the file first unless it is prepared."""
        with self._lock:
            if self._prepared_generation != generation or not self._new.exists():
                self._prepare(generation)
            self._prepared_generation = None
            # Closing the replaced file frees its blocks, which takes a millisecond: records are sent first.
            with suppress(FileNotFoundError):
                self._open.append(os.open(f"{self._path}.gen", os.O_RDONLY))
            self._new.replace(f"{self._path}.gen")
            sync_folder(self._path.parent)

    def close(self) -> None:
        """Close all descriptors and forget a prepared file, which the next `prepare` replaces."""
        with self._lock:
            self._close_all()

    def _close_all(self) -> None:
        self._prepared_generation = None
        while self._open:
            os.close(self._open.pop())


def write_generation(path: Path, generation: Generation) -> None:
    """Replace the generation file; the new file is on disk when this function returns."""
    with closing(GenerationWriter(path)) as writer:
        writer.replace(generation)


def is_in_place(path: Path, generation: Generation) -> bool:
    """Return whether the file is in the inode that it names, as far as the file system identifies inodes."""
    with Path(f"{path}.gen").open("rb") as file:
        return generation.inode == inode_of(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, so that new names in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def inode_of(descriptor: int) -> str:
    """Return the name of an inode: its number and version, or its birth time if it has no version.

    The name is empty if version and birth time are unknown. Without a version the number is left out,
    because such a file system may number its files differently at each mount.
    """
    with suppress(OSError):
        version = fcntl.ioctl(descriptor, _GETVERSION, bytes(struct.calcsize("l")))
        return "{}:{}".format(os.fstat(descriptor).st_ino, *struct.unpack_from("I", version))
    with suppress(OSError, AttributeError):
        status = ctypes.create_string_buffer(256)
        if not ctypes.CDLL(None).statx(descriptor, b"", _EMPTY_PATH, _BIRTH, status):
            (mask,) = struct.unpack_from("I", status)
            if mask & _BIRTH:
                return "born {}.{:09}".format(*struct.unpack_from("qI", status, _BIRTH_AT))
    return ""
