"""A block device of our own: ext4 in a file, mounted through the kernel's loop device.

What a file system frees stays on its device. Who searches files does not see it; whoever has the disk does.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.support.not_run import not_run

MIB = 2**20


class Device(NamedTuple):
    """A mounted file system: the file that is its device, and where it is mounted."""

    image: Path
    mount: Path

    def content(self) -> bytes:
        """Return every byte of the device, with all that was written on it."""
        subprocess.run(["sync", "-f", str(self.mount)], check=True)
        return self.image.read_bytes()


@contextmanager
def ext4(folder: Path, *options: str, size_bytes: int = 64 * MIB) -> Iterator[Device]:
    """Make and mount an ext4 file system; `options` are those of mkfs.ext4."""
    device = Device(folder / "image", folder / "mount")
    folder.mkdir(parents=True, exist_ok=True)
    with device.image.open("wb") as image:
        image.truncate(size_bytes)
    command = [_program("mkfs.ext4"), "-q", "-F", *options, str(device.image)]
    subprocess.run(command, check=True, capture_output=True)
    with mounted(device.image, device.mount):
        yield device


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """Mount the file system in an image on a new folder."""
    folder.mkdir(parents=True)
    command = [_program("mount"), "-o", "loop", str(image), str(folder)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        not_run("ext4", f"a loop device cannot be mounted here: {result.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run([_program("umount"), "-l", str(folder)], check=True, capture_output=True)


def _program(name: str) -> str:
    """Return the path of a program of the system."""
    folders = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    path = shutil.which(name, path=folders)
    if path is None:
        not_run("ext4", f"{name} is not on the path, nor in /usr/sbin")
    return path


class State(NamedTuple):
    """What one state of the store says of an open slot."""

    start_ms: int
    covered_ms: int
    radius: int | None
    accumulator: int


_PART = re.compile(rb'"integrated_until_ms":(\d+),|\{"start_ms":(\d+),([^{}]*)\}')
_RADIUS = re.compile(rb'"noise_bound":(\d+),')
_SLOT = re.compile(rb'\[\d+,"?(-?\d+)')


def states(content: bytes) -> set[State]:
    """Return the states that can be read anywhere in some bytes: of each open window the newest slot."""
    newest, covered_ms = set(), 0
    for match in _PART.finditer(content):
        if match[1]:
            covered_ms = int(match[1])
            continue
        radius, slots = _RADIUS.search(match[3]), _SLOT.findall(match[3])
        if slots:
            newest.add(State(int(match[2]), covered_ms, int(radius[1]) if radius else None, int(slots[-1])))
    return newest


def radii(content: bytes) -> set[int]:
    """Return every R of a state, also of one that is not whole."""
    return {int(text) for text in _RADIUS.findall(content)}


def readings(known_states: set[State]) -> set[tuple[int, int]]:
    """Return what two values of one accumulator tell: the time to which the power stood, and that in mW."""
    powers, ordered = set(), sorted(known_states)
    for first, then in pairwise(ordered):
        if first.start_ms == then.start_ms and first.covered_ms < then.covered_ms:
            span_ms = then.covered_ms - first.covered_ms
            powers.add((then.covered_ms, round((then.accumulator - first.accumulator) / span_ms / 1000)))
    return powers
