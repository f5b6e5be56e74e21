"""A store on a full file system whose blocks are smaller than a page: it ends with a reason, not a signal.

SQLite maps its `-shm` and allocates one block of each page. Where a page has several blocks the others are
allocated when they are written to, and on a full device that write is a SIGBUS.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.block_device import Device, ext4
from tests.support.not_run import ROOT

BLOCK_BYTES = 1024
FREE = range(0, 25, 8)
"""Blocks that are left."""

_WRITE = """
import sys
from itertools import count
from pathlib import Path
from meteragent.domain.errors import StoreError
from meteragent.store import file
from tests.support.stores import closing, open_store, opening, persist
from tests.integration.test_full_device import fill

if "unallocated" in sys.argv:
    file._allocate = lambda _: None
path = Path(sys.argv[1])
if "before" in sys.argv:
    open_store(path).close()
    fill(path.parent, int(sys.argv[2]))
try:
    with open_store(path) as store:
        for k in count():
            persist(store, opening(k, *(f"m{k}-{i}" for i in range(20))))
            fill(path.parent, int(sys.argv[2]))
except StoreError as error:
    sys.exit(str(error))
"""


def fill(folder: Path, free: int) -> None:
    """Fill a file system except for some blocks."""
    with (folder / "ballast").open("ab", buffering=0) as ballast:
        for size in (2**16, BLOCK_BYTES):
            with suppress(OSError):
                while True:
                    ballast.write(bytes(size))
        ballast.truncate(max(0, ballast.tell() // BLOCK_BYTES - free) * BLOCK_BYTES)
        os.fsync(ballast.fileno())


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    """A device with blocks of 1 KiB, none of them reserved."""
    with ext4(tmp_path, "-b", "1024", "-m", "0", size_bytes=8 * 2**20) as made:
        yield made


def run(device: Device, free: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Write to a store on the device until that is full but for some blocks."""
    for left in device.mount.glob("*"):
        if left.is_file():
            left.unlink()
    command = [sys.executable, "-c", _WRITE, str(device.mount / "db"), str(free), *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("when", ["before", "while it works"])
def test_a_full_device_is_named(when: str, device: Device) -> None:
    """Full before a start or while it works, whatever is left: the error says that the device is full."""
    for free in FREE:
        ended = run(device, free, when)
        assert ended.returncode == 1, (free, ended)
        assert "the disk is full: free some space" in ended.stderr, (free, ended)


def test_without_the_blocks_it_would_be_a_signal(device: Device) -> None:
    """Where the blocks of `-shm` are not allocated beforehand some of these starts are a SIGBUS."""
    assert -signal.SIGBUS in {run(device, free, "before", "unallocated").returncode for free in FREE}
