"""Debian systems in folders, made with mmdebstrap from the mirror of this machine's packages.

`make` creates one. `Place` runs programs in one, in separate name spaces for mounts, processes and the
network, which has only the loopback interface. Both need root.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.brokers.root import KEYRING, Missing, can_enter, mirror
from tests.commands import system_parts

SUITE: Final = "trixie"
MAKE_S: Final = 900
END_S: Final = 30
FIRST: Final = Path(__file__).with_name("first.py")


class Failed(Exception):
    """An error: a step failed. The text is the end of its program's output."""


def must_be_possible() -> None:
    """Raise Missing with the reason if no system can be made here."""
    if os.geteuid() != 0:
        raise Missing("only root can make a system and its users: run it with sudo")
    if not can_enter():
        raise Missing("the kernel does not allow name spaces")
    if not KEYRING.exists():
        raise Missing(f"{KEYRING} is missing: install debian-archive-keyring")
    mirror()
    for name in ("mmdebstrap", "arch-test"):
        if not (system_parts.find(name) or system_parts.install(name)):
            raise Missing(f"the package {name} cannot be installed")


def make(
    target: Path,
    packages: Iterable[str],
    *,
    architecture: str | None = None,
    variant: str = "minbase",
    components: str = "main",
    hooks: Iterable[str] = (),
    suite: str = SUITE,
) -> None:
    """Create a system with packages in a folder, or in an archive if the name ends in .tar.

    Hooks are commands of the shell that run at the end with the system's folder as "$1".

    Raises:
        Missing: The packages cannot be downloaded, or programs of the architecture do not run here.

    """
    program = system_parts.find("mmdebstrap")
    if program is None:
        raise Missing("mmdebstrap is missing")
    words = [str(program), "--quiet", f"--variant={variant}", f"--include={','.join(packages)}"]
    words += [f"--components={components}", f"--architectures={architecture}"] if architecture else []
    words += [f"--customize-hook={hook}" for hook in hooks]
    words += [f"--keyring={KEYRING.parent}", suite, str(target), mirror()]
    result = subprocess.run(words, check=False, capture_output=True, text=True, timeout=MAKE_S)
    if result.returncode != 0:
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
        raise Missing(f"mmdebstrap failed: {' '.join(result.stderr[-1000:].split())}")


class Closing:
    """Something that `with` closes."""

    def close(self) -> None:
        """Close it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Place(Closing):
    """A running system, whose file system is a folder and whose network is a separate loopback interface.

    If `is_online`, it has the machine's network instead.
    """

    def __init__(self, root: Path, *, is_online: bool = False) -> None:
        self.root = root
        self._spaces = ["--mount", "--pid", "--ipc", "--uts", *([] if is_online else ["--net"])]
        self._first = subprocess.Popen(
            ["unshare", *self._spaces, "--fork", "--kill-child", sys.executable, str(FIRST), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._first.stdout is not None
        self._pid = self._first.stdout.readline().strip()
        if not self._pid:
            raise Failed("the first process of the system ended")

    def command(self, *words: str | Path, environment: Mapping[str, str] | None = None) -> list[str]:
        """Return the machine's command that runs a program in this system, as its root."""
        names = {
            "PATH": "/usr/local/bin:/usr/sbin:/usr/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            **(environment or {}),
        }
        enter = ["nsenter", f"--target={self._pid}", *self._spaces]
        enter += [f"--root=/proc/{self._pid}/root", "--wdns=/"]
        return [*enter, "env", "-i", *(f"{key}={value}" for key, value in names.items()), *map(str, words)]

    def run(self, *words: str | Path, environment: Mapping[str, str] | None = None) -> str:
        """Run a program in this system and return its output. Raises Failed unless it ends with 0."""
        return output(self.command(*words, environment=environment))

    def path(self, inside: str) -> Path:
        """Return the machine's path of a file that has an absolute path in this system."""
        return Path(f"/proc/{self._pid}/root{inside}")

    def close(self) -> None:
        """End all programs of this system."""
        assert self._first.stdin is not None
        self._first.stdin.close()
        self._first.wait(END_S)


def copy(archive: Path, root: Path) -> None:
    """Unpack the archive of a system into a new folder."""
    root.mkdir()
    output(["tar", "--numeric-owner", "-xf", str(archive), "-C", str(root)])


def install(root: Path, package: Path) -> None:
    """Install a package file, with its dependencies from the mirror. Raises Failed."""
    shutil.copy(package, root / package.name)
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    environment = {"DEBIAN_FRONTEND": "noninteractive", **proxies}
    _, proxy = system_parts.run("apt-config", "shell", "address", "Acquire::http::Proxy")
    if proxy:
        environment["http_proxy"] = proxy.partition("=")[2].strip().strip("'")
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    with Place(root, is_online=True) as place:
        place.run("apt-get", "-qq", "update", environment=environment)
        words = ("apt-get", "-qq", "--yes", "--no-install-recommends", "install", f"/{package.name}")
        place.run(*words, environment=environment)
    (root / package.name).unlink()


def output(words: Sequence[str], *, seconds: float = MAKE_S) -> str:
    """Run a program of this machine and return its output. Raises Failed unless it ends with 0."""
    result = subprocess.run(
        words,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    if result.returncode != 0:
        raise Failed(f"{' '.join(words[-6:])}: exit code {result.returncode}\n{result.stdout[-4000:]}")
    return result.stdout
