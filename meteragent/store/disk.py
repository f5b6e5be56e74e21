"""The disk of a store: its free space, and its file system as listed by the kernel."""

import os
import re
from pathlib import Path
from typing import NamedTuple

DISK_FULL = "the disk is full: free some space"
"""The reason why nothing can be written to a full disk."""
FREE_BYTES_MIN = 2**20
"""The free space, in bytes, below which a disk is treated as full."""

MOUNT_TABLE = Path("/proc/self/mountinfo")

NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs"})
"""File systems on which flock locks byte ranges: a flock and SQLite's locks would exclude each other."""

COPYING_FILE_SYSTEMS = frozenset({"btrfs", "zfs", "bcachefs", "f2fs", "nilfs2", "overlay"})
"""File systems that write a changed block to another place, or may lie on a file system that does so."""


class Mount(NamedTuple):
    """A mounted file system: its type, and the options of the file system (not those of the mount)."""

    kind: str
    options: frozenset[str]


def has_room(path: Path) -> bool:
    """Return whether the disk of a store has room for some more commits; True if this is unknown."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return True
    return disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN


def block_keeping_file_system(path: Path) -> str | None:
    """Return a store's file system, with the option that matters, if it keeps overwritten blocks."""
    mount = mount_of(path) if path.exists() else None
    if mount is None or mount.kind in COPYING_FILE_SYSTEMS:
        return mount and mount.kind
    return f"{mount.kind} (data=journal)" if "data=journal" in mount.options else None


def mount_of(path: Path, table: Path = MOUNT_TABLE) -> Mount | None:
    """Return the mount that contains a path; None if the kernel does not list it."""
    try:
        lines = table.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    mount, mount_depth = None, -1
    for line in lines:
        mount_fields, _, device_fields = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount_fields.split()[4]))
        if path.resolve().is_relative_to(point) and len(point.parts) >= mount_depth:
            kind, _, options = device_fields.split(" ", 2)
            mount, mount_depth = Mount(kind, frozenset(options.split(","))), len(point.parts)
    return mount
