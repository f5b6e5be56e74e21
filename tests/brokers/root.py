"""Programs of any Debian release, unpacked into a folder that the system does not see.

`Root.make` downloads packages with all that they need and unpacks them below the environment that runs
this; nothing is installed and no script of a package is run. `Root.command` runs a program with that
folder as its file system, in name spaces of its own for mounts and processes: when its first process
ends, all that it started ends. The network is the machine's. That takes root, or a kernel that gives users
name spaces.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.commands.system_parts import run

CACHE: Final = Path(sys.prefix) / "brokers"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
BASE: Final = ("base-files", "coreutils", "dash", "grep", "libc-bin", "sed")
"""What the starters of the programs need beside what their packages name."""
DOWNLOAD_S: Final = 300
INSIDE: Final = "/broker"
"""Where a program finds its own folder."""

_ENTER = f"""
root=$1 folder=$2
shift 2
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind "$folder" "$root{INSIDE}"
for own in tmp run var/lib; do mount -t tmpfs tmpfs "$root/$own"; done
exec env -i PATH=/usr/sbin:/usr/bin HOME={INSIDE} LANG=C.UTF-8 chroot "$root" "$@"
"""


class Missing(Exception):
    """A program cannot be had here."""


@dataclass(frozen=True, slots=True)
class Root:
    """The unpacked packages of one Debian release, and their versions."""

    folder: Path
    versions: dict[str, str]

    @classmethod
    def make(cls, suite: str, packages: Sequence[str], *, name: str | None = None) -> Self:
        """Download and unpack packages of a release, unless that was done; raises Missing.

        `name` is that of the folder, the release's if it is not given.
        """
        place = CACHE / (name or suite)
        folder, stamp = place / "root", place / "versions.json"
        if stamp.exists():
            versions = json.loads(stamp.read_text())
            if versions.keys() >= {*packages}:
                return cls(folder, versions)
        shutil.rmtree(place, ignore_errors=True)
        archives = _download(place / "apt", suite, [*BASE, *packages])
        _unpack(archives, folder)
        versions = dict(_version(archive) for archive in archives)
        stamp.write_text(json.dumps(versions))
        shutil.rmtree(place / "apt")
        return cls(folder, versions)

    def version(self, package: str) -> str:
        """Return the version of the program in a package, without the packager's."""
        return self.versions[package].rpartition(":")[2].partition("-")[0]

    def command(self, folder: Path, *program: str) -> list[str]:
        """Return the command that runs a program, which finds `folder` under INSIDE."""
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        spaces = ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child"]
        return [*spaces, "sh", "-ec", _ENTER, "enter", str(self.folder), str(folder), *program]


def can_enter() -> bool:
    """Return whether name spaces can be made here."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    test = ("sh", "-ec", "mount -t tmpfs tmpfs /tmp")
    return run("unshare", *user, "--mount", "--pid", "--fork", "--kill-child", *test)[0] == 0


def mirror() -> str:
    """Return the address that the system's own Debian packages come from; raises Missing."""
    _, targets = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)")
    for target in targets.splitlines():
        address, _, component = target.rpartition(" ")
        if component == "main" and address.rstrip("/").endswith("/debian"):
            return address
    raise Missing("the system's packages are not Debian's")


def _download(folder: Path, suite: str, packages: Sequence[str]) -> list[Path]:
    """Return the archives of packages of a release and of all they depend on; raises Missing."""
    if not KEYRING.exists():
        raise Missing(f"{KEYRING} is not there: install debian-archive-keyring")
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
    places = {
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": folder / "none",
        "Dir::Etc::preferences": folder / "none",
        "Dir::Etc::preferencesparts": folder / "none",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "1",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in places.items())]
    options = ["--yes", "--no-install-recommends", "--download-only"]
    for arguments in (["update"], [*options, "install", *packages]):
        try:
            subprocess.run([*apt, *arguments], check=True, capture_output=True, timeout=DOWNLOAD_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(
                f"the packages of Debian {suite} cannot be downloaded ({type(error).__name__})"
            ) from None
    return sorted((folder / "cache" / "archives").glob("*.deb"))


def _unpack(archives: Sequence[Path], folder: Path) -> None:
    """Lay out a file system as the packages expect it, and unpack them into it."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / "usr" / name).mkdir(parents=True)
        (folder / name).symlink_to(f"usr/{name}")
    for archive in archives:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as tar:
            extract = ["tar", "-x", "--no-same-owner", "--keep-directory-symlink", "-C", str(folder)]
            subprocess.run(extract, stdin=tar.stdout, check=True)
    for name in ("dev", "proc", "tmp", "run", INSIDE[1:]):
        (folder / name).mkdir(exist_ok=True)
    (folder / "etc" / "hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
    (folder / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")


def _version(archive: Path) -> tuple[str, str]:
    """Return the name and the version of a package."""
    _, shown = run("dpkg-deb", "--show", "--showformat=${Package} ${Version}", archive)
    name, _, version = shown.partition(" ")
    return name, version
