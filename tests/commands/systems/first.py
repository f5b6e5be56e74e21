"""The first process of a system in separate name spaces: ``python first.py [ROOT]``.

Bring up the loopback interface, mount the file systems that programs expect, make ROOT the root directory,
write the process id as the machine sees it, and wait until standard input ends. When this process ends, so do
all others in its name space of processes. Without ROOT, the files are the machine's. It imports only Python's
standard library.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def main(*roots: str) -> None:
    """Prepare the system, and wait."""
    process_id = Path("/proc/self").readlink()  # /proc is still the machine's
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    for root in roots:
        enter(root)
    sys.stdout.write(f"{process_id}\n")
    sys.stdout.flush()
    sys.stdin.read()


def enter(root: str) -> None:
    """Mount what programs expect, and make a folder the root directory."""
    mounts = (
        ("--rbind", "/dev", f"{root}/dev"),
        ("-t", "proc", "proc", f"{root}/proc"),
        ("-t", "sysfs", "sysfs", f"{root}/sys"),
        ("-t", "tmpfs", "tmpfs", f"{root}/tmp"),
        ("-t", "tmpfs", "tmpfs", f"{root}/run"),
    )
    for mount in mounts:
        subprocess.run(["mount", *mount], check=True)
    os.chroot(root)
    os.chdir("/")


if __name__ == "__main__":
    main(*sys.argv[1:])
