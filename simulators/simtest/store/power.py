"""Power cuts: the possible states of files that the store writes with its own system calls.

Between two syncs the device may write any of the changed blocks, in any order. `Recorder` watches
`os.pwrite`, `os.write`, `os.fsync`, `os.fdatasync`, `os.open` and `os.replace` in one folder, and keeps the
moments between calls. All other changes are made by SQLite, which has synced them by the time its call
returns, except for the truncation of a file.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

Files = dict[str, bytes]

BLOCK_BYTES = 512
_CALLS = ("open", "pwrite", "write", "fsync", "fdatasync", "replace")


class Moment(NamedTuple):
    """A moment between two system calls.

    `names` maps names to inodes in two states of the folder: as synced, and as it is now. `synced` holds the
    contents of each inode as last synced, and `written` the contents after all writes.
    """

    names: tuple[dict[str, int], dict[str, int]]
    synced: dict[int, bytes]
    written: dict[int, bytes]

    def cut(self, random: Random) -> Files:
        """Return the files after a power cut, with a random selection of the unsynced blocks written.

        The names are, at random, those last synced or the current ones.
        """
        names = self.names[random.randrange(2)]
        share = random.choice((0.0, 0.02, 0.5, 0.98, 1.0))
        return {name: self._torn(inode, lambda _: random.random() < share) for name, inode in names.items()}

    def torn(self, is_written: Callable[[int], bool], names: int = 1) -> Files:
        """Return the files in which exactly the unsynced blocks selected by `is_written` are written.

        Blocks are numbered within each file, and block -1 is the file's size. `names` is 0 for the synced
        names and 1 for the current names.
        """
        return {name: self._torn(inode, is_written) for name, inode in self.names[names].items()}

    @property
    def blocks(self) -> int:
        """The number of blocks of the largest file that has unsynced blocks, or 0 if no file has."""
        sizes = [len(text) for inode, text in self.written.items() if text != self.synced.get(inode)]
        return -(-max(sizes, default=0) // BLOCK_BYTES)

    def _torn(self, inode: int, is_written: Callable[[int], bool]) -> bytes:
        synced_bytes, written_bytes = self.synced.get(inode, b""), self.written.get(inode, b"")
        if synced_bytes == written_bytes:
            return written_bytes
        size = len(written_bytes) if is_written(-1) else len(synced_bytes)
        content = bytearray(synced_bytes.ljust(size, b"\0")[:size])
        for block, start in enumerate(range(0, min(size, len(written_bytes)), BLOCK_BYTES)):
            if is_written(block):
                content[start : start + BLOCK_BYTES] = written_bytes[start : min(start + BLOCK_BYTES, size)]
        return bytes(content)


class Recorder:
    """A context that records the moments of one folder, in order."""

    def __init__(self, folder: Path) -> None:
        self.moments: list[Moment] = []
        self._folder = folder
        self._real = {name: getattr(os, name) for name in _CALLS}
        self._names, self._synced = self._read_folder()
        self._contents = dict(self._synced)
        self._synced_names = self._names

    def __enter__(self) -> Self:
        for name in _CALLS:
            setattr(os, name, self._watch(name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)
        self._absorb()
        self._keep()

    def _watch(self, name: str) -> Callable[..., Any]:
        function = self._real[name]

        def call(*arguments: Any, **keywords: Any) -> Any:
            """Call the function, keep the moment after the call, and return the result."""
            self._absorb()
            former_names = self._names
            result = function(*arguments, **keywords)
            self._names, self._contents = self._read_folder()
            if name == "open":
                for new_name in self._names.keys() - former_names.keys():
                    self._synced[self._names[new_name]] = b""
            elif name in ("fsync", "fdatasync"):
                self._sync(os.fstat(arguments[0]).st_ino)
            self._keep()
            return result

        return call

    def _absorb(self) -> None:
        """Treat changes since the last call as made and synced by SQLite, except for truncations."""
        names, contents = self._read_folder()
        for inode, content in contents.items():
            former = self._contents.get(inode)
            if content != former and not (former is not None and former.startswith(content)):
                self._synced[inode] = content
        if names != self._names:
            self._synced_names = names
        self._names, self._contents = names, contents

    def _sync(self, inode: int) -> None:
        if inode == self._folder.stat().st_ino:
            self._synced_names = self._names
        elif inode in self._contents:
            self._synced[inode] = self._contents[inode]

    def _keep(self) -> None:
        self.moments.append(
            Moment((self._synced_names, self._names), dict(self._synced), self._synced | self._contents)
        )

    def _read_folder(self) -> tuple[dict[str, int], dict[int, bytes]]:
        """Return the inode behind each name, and the contents of each inode; this drops SQLite's locks.

        Files whose names end with -shm or .lock are left out.
        """
        paths = [path for path in self._folder.iterdir() if not path.name.endswith(("-shm", ".lock"))]
        names = {path.name: path.stat().st_ino for path in paths if path.is_file()}
        return names, {inode: (self._folder / name).read_bytes() for name, inode in names.items()}
