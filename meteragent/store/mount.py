"""What the kernel says of the file system that a store is on."""

import re
from pathlib import Path
from typing import NamedTuple

MOUNTS = Path("/proc/self/mountinfo")

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs"})
"""Where flock is a lock of bytes, as SQLite's own locks are: the two would exclude each other."""

WRITES_ELSEWHERE = frozenset({"btrfs", "zfs", "bcachefs", "f2fs", "nilfs2", "overlay"})
"""File systems that write a changed block to another place, or may stand on one that does."""


class Mount(NamedTuple):
    """A mounted file system: its type, and its own options."""

    kind: str
    options: frozenset[str]

    @property
    def keeps_old_blocks(self) -> bool:
        """Whether what is overwritten may stay on the device."""
        return self.kind in WRITES_ELSEWHERE or "data=journal" in self.options


def warning(path: Path) -> str | None:
    """Return what to say of a store that is there, if its file system keeps what is overwritten."""
    where = mount_of(path) if path.exists() else None
    if where is None or not where.keeps_old_blocks:
        return None
    return (
        f"the store is on {where.kind}, where what is overwritten may stay on the device, and with it earlier"
        " sums of open slots, which tell readings: encrypt the disk, or move the store to ext4 or xfs"
    )


def mount_of(path: Path, table: Path = MOUNTS) -> Mount | None:
    """Return what a path is on; None where the kernel does not say."""
    try:
        lines = table.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    found, longest = None, -1
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split()[4]))
        if path.resolve().is_relative_to(point) and len(point.parts) >= longest:
            kind, _, options = rest.split(" ", 2)
            found, longest = Mount(kind, frozenset(options.split(","))), len(point.parts)
    return found
