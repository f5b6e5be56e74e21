"""Debian systems that boot: systemd is their first process, in name spaces and a control group of its own.

A system has only the loopback interface. It cannot set the machine's clock, load modules or change the
kernel's settings. Control groups are those of version 2, which systemd needs, even if the machine's
controllers are still in hierarchies of version 1; their limits are then not enforced.
"""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.brokers.root import Missing
from tests.commands.systems.debian import END_S, Failed, Place, copy, make, output
from tests.commands.systems.images import AUTHORITIES, pip_settings
from tests.commands.systems.package import CACHE
from tests.commands.waiting import wait_until
from tests.support.not_run import ROOT

BOOT_S: Final = 60
SPACES: Final = ("--mount", "--pid", "--ipc", "--uts", "--net")

_GROUP: Final = 'echo 0 > "$2/cgroup.procs"; exec unshare --cgroup sh -ec "$3" boot "$1"'
"""The first process enters its control group, which then is the root of those that it sees."""

_FIRST: Final = """
read -r process_id _ < /proc/self/stat
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
echo "$process_id"
exec setpriv --bounding-set=-sys_time,-sys_module,-sys_rawio --inh-caps=-sys_time,-sys_module,-sys_rawio \
    env -i container=other PATH=/usr/sbin:/usr/bin /usr/lib/systemd/systemd </dev/null >/dev/null 2>&1
"""


PACKAGES: Final = (
    *("ca-certificates", "dbus-user-session", "jq", "libpam-systemd", "mosquitto", "mosquitto-clients"),
    *("postgresql", "procps", "python3-jmespath", "python3-numpy", "python3-pydantic", "python3-venv"),
    *("systemd", "systemd-sysv", "tzdata"),
    *("catatonit", "conmon", "crun", "netavark", "nftables", "podman"),
)
"""What the systems have: systemd, a broker, podman, and what ways to install the agent need of Debian."""

LOCKS: Final = tuple(
    ROOT / "deploy" / "container" / f"{name}.lock.txt" for name in ("agent", "build", "collect", "crowd")
)
WHEELS: Final = "/opt/wheels"
OFFLINE: Final = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS}
"""How pip finds the wheels of the locks in a system without a network."""


def base() -> Path:
    """Return the archive of a system with wheels of what the agent requires; it is made once.

    Raises:
        Missing: The packages cannot be downloaded.

    """
    archive, stamp = CACHE / "boot.tar", CACHE / "boot.content"
    content = "\n".join([*PACKAGES, *(lock.read_text() for lock in LOCKS)])
    if archive.exists() and stamp.exists() and stamp.read_text() == content:
        return archive
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        raw, root = Path(folder) / "raw.tar", Path(folder) / "root"
        make(raw, PACKAGES)
        copy(raw, root)
        try:
            download(root)
        except Failed as error:
            raise Missing(f"the wheels cannot be downloaded: {error}") from None
        file = Path(folder) / archive.name
        output(["tar", "--numeric-owner", "-cf", str(file), "-C", str(root), "."])
        file.replace(archive)
    stamp.write_text(content)
    return archive


def download(root: Path) -> None:
    """Download the wheels of the locks in a system, with its own Python. Raises Failed."""
    shutil.copy(AUTHORITIES, root / AUTHORITIES.relative_to("/"))
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    (root / "etc" / "pip.conf").write_text(pip_settings())
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    with Place(root, is_online=True) as place:
        place.run("python3", "-m", "venv", "/tmp/pip")
        for lock in LOCKS:
            shutil.copy(lock, place.path("/tmp/lock.txt"))
            words = ("--require-hashes", "-r", "/tmp/lock.txt")
            place.run("/tmp/pip/bin/pip", "download", "--dest", WHEELS, *words, environment=proxies)
    (root / "etc" / "pip.conf").unlink()
    (root / "etc" / "resolv.conf").unlink()


def group() -> Path:
    """Create a control group of version 2 and return its folder. Raises Missing."""
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, *_ = mount.split()
        if kind == "cgroup2" and os.access(folder, os.W_OK):
            place = Path(folder, f"meteragent-{os.getpid()}-{time.monotonic_ns()}")
            with suppress(OSError):
                place.mkdir()
                return place
    raise Missing("no control group of version 2 can be made")


class Booted(Place):
    """A booted system, whose file system is a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._spaces = [*SPACES, "--cgroup"]
        self._group = group()
        words = ["unshare", *SPACES, "--fork", "--kill-child", "sh", "-ec", _GROUP, "boot"]
        self._first = subprocess.Popen(
            [*words, str(root), str(self._group), _FIRST],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._first.stdout is not None
        assert self._first.stderr is not None
        self._pid = self._first.stdout.readline().strip()
        if not self._pid:
            reason = self._first.stderr.read().strip()
            self.close()
            raise Missing(f"the kernel does not allow a system to boot: {reason}")
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        """Wait until all services have started. Raises Failed with the names of those that failed."""
        wait_until(lambda: self._has_ended() or self.state() in {"running", "degraded"}, BOOT_S)
        state = "" if self._has_ended() else self.state()
        if state not in {"running", "degraded"}:
            raise Failed("the system does not boot")
        if state != "running":
            raise Failed(f"the system boots without {self.run('systemctl', '--failed', '--no-legend')}")

    def _has_ended(self) -> bool:
        """Return whether systemd has ended."""
        return self._first.poll() is not None

    def state(self) -> str:
        """Return the state of systemd: `running` after the boot."""
        return self.ended("systemctl", "is-system-running")[1].strip()

    def ended(self, *words: str) -> tuple[int, str]:
        """Run a program in this system; return its exit code, and its output or else its errors."""
        result = subprocess.run(self.command(*words), check=False, capture_output=True, text=True)
        return result.returncode, result.stdout or result.stderr

    def close(self) -> None:
        """End all programs of this system at once, and remove its control group."""
        self._first.kill()
        self._first.wait(END_S)
        wait_until(self._is_removed, END_S)  # processes leave a group shortly after their end

    def _is_removed(self) -> bool:
        """Remove the control groups that are empty, and return whether none is left."""
        for folder, _, _ in os.walk(self._group, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        return not self._group.exists()
