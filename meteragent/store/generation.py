"""The generation file, `<path>.gen`: which store may be used, how far it had got, and in which place.

It holds the store's generation; the number of commits with records, raised before any byte of such a commit
leaves; what its own inode is called; and the claim key, 32 random bytes that outlive a store which is set
aside. A copy of the file has another inode, or one of another age, and so is not the file that it names.
"""

import ctypes
import fcntl
import json
import os
import re
import struct
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Self

_GETVERSION = (2 << 30) | (struct.calcsize("l") << 16) | (ord("v") << 8) | 1
"""FS_IOC_GETVERSION: the number that a file system gives an inode whenever it hands it out anew."""
_EMPTY_PATH, _BIRTH, _BIRTH_AT = 0x1000, 0x800, 80
"""AT_EMPTY_PATH and STATX_BTIME of statx(2), and where in its answer the time of birth is."""

_NAME = re.compile(r"[0-9a-z]{1,64}")
_KEY = re.compile(r"[0-9a-f]{64}")


class Generation(NamedTuple):
    """What a generation file says; one of the first format is a name alone."""

    name: str
    claim_key: str
    releases: int | None = None
    inode: str | None = None

    @classmethod
    def begin(cls, name: str) -> Self:
        """Return that of a store which has none, with a new claim key."""
        return cls(name, os.urandom(32).hex(), 0)


UNREADABLE = "unreadable"


def read(path: Path) -> Generation | None:
    """Return what the file says; None if there is none. One that cannot be read names no generation."""
    try:
        text = Path(f"{path}.gen").read_text("ascii")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return Generation(UNREADABLE, "")
    if not text.startswith("{"):
        return Generation(text, "")
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        known = json.loads(text)
        found = Generation(known["generation"], known["claim_key"], known["releases"], known["inode"])
        if _NAME.fullmatch(found.name) and _KEY.fullmatch(found.claim_key) and type(found.releases) is int:
            return found
    return Generation(UNREADABLE, "")


class Writer:
    """Replaces a generation file by a new one, which any thread may write before it is needed.

    A file that was replaced stays open until the next is prepared: freeing its blocks takes a file system a
    millisecond, and nothing may leave before `put` has returned.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = Path(f"{path}.gen.new")
        self._lock = Lock()
        self._prepared: Generation | None = None
        self._open: list[int] = []

    def prepare(self, generation: Generation) -> None:
        """Write the file that `put` gives its name, on disk when this returns; it names its own inode."""
        with self._lock:
            if self._prepared != generation:
                self._prepare(generation)

    def _prepare(self, generation: Generation) -> None:
        self._let_go()
        self._new.unlink(missing_ok=True)
        descriptor = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._open.append(descriptor)
        known = {
            "generation": generation.name,
            "releases": generation.releases,
            "inode": inode_of(descriptor),
            "claim_key": generation.claim_key,
        }
        os.write(descriptor, json.dumps(known).encode("ascii"))
        os.fsync(descriptor)  # before the rename: a power cut must not leave an empty file under the name
        self._prepared = generation

    def put(self, generation: Generation) -> None:
        """Replace the file, on disk when this returns; what was prepared for another is written anew."""
        with self._lock:
            if self._prepared != generation or not self._new.exists():
                self._prepare(generation)
            self._prepared = None
            with suppress(FileNotFoundError):
                self._open.append(os.open(f"{self._path}.gen", os.O_RDONLY))
            self._new.replace(f"{self._path}.gen")
            sync_folder(self._path)

    def close(self) -> None:
        """Close what is open; what was prepared is not used any more."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        self._prepared = None
        while self._open:
            os.close(self._open.pop())


def write(path: Path, generation: Generation) -> None:
    """Replace the file, on disk when this returns."""
    writer = Writer(path)
    try:
        writer.put(generation)
    finally:
        writer.close()


def is_in_place(path: Path, generation: Generation) -> bool:
    """Whether the file is the one that it names, as far as the file system can tell."""
    descriptor = os.open(f"{path}.gen", os.O_RDONLY)
    try:
        return generation.inode == inode_of(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Have the names in a file's folder on disk."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def inode_of(descriptor: int) -> str:
    """Name an inode: its number and version, or else its time of birth; empty if there is neither.

    Where there is no version the number is left out: such a file system may number its files anew at each
    mount.
    """
    with suppress(OSError):
        version = fcntl.ioctl(descriptor, _GETVERSION, bytes(struct.calcsize("l")))
        return "{}:{}".format(os.fstat(descriptor).st_ino, *struct.unpack_from("I", version))
    with suppress(OSError, AttributeError):
        answer = ctypes.create_string_buffer(256)
        if not ctypes.CDLL(None).statx(descriptor, b"", _EMPTY_PATH, _BIRTH, answer):
            (mask,) = struct.unpack_from("I", answer)
            if mask & _BIRTH:
                return "born {}.{:09}".format(*struct.unpack_from("qI", answer, _BIRTH_AT))
    return ""
