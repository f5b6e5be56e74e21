"""Find the programs that the tests need, or get them: ``python tests/commands/system_parts.py mosquitto``.

A ladder: on the path and in /usr/sbin; installed from the system's packages, as root or with
``sudo -n``; downloaded from there and unpacked into the environment that runs this. Where every rung
fails it says NOT RUN and exits 1, unless the environment variable MISSING_OK names the program.
It needs nothing but Python and works without a terminal.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

PREFIX = Path(sys.prefix)
SECONDS_MAX = 300
PACKAGES = {
    "systemd-analyze": ("systemd",),
    "java": ("openjdk-17-jre-headless", "openjdk-21-jre-headless"),
}
"""The packages of programs that are not named after theirs: the first that the system has."""

JAVA_MIN = 17
"""The oldest Java that Spark's classes are made for."""


def run(*command: str | Path, cwd: Path | None = None) -> tuple[int, str]:
    """How a command ended and what it printed; 127, as a shell says it, where it could not be run."""
    start = partial(subprocess.run, check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
    try:
        done = start(command, cwd=cwd, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return 127, ""
    return done.returncode, done.stdout


def starts(program: Path) -> bool:
    """Whether it is a program whose libraries are there (the loader ends with 127 otherwise)."""
    if program.name == "java":
        said = re.match(r"\w+ (\d+)", run(program, "--version")[1])
        return said is not None and int(said[1]) >= JAVA_MIN
    return run(program, "-h")[0] not in {126, 127}


def find(name: str) -> Path | None:
    """On the path, in /usr/sbin, or unpacked before."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", str(PREFIX / "bin")])
    found = shutil.which(name, path=folders)
    return Path(found) if found and starts(Path(found)) else None


def install(name: str) -> Path | None:
    """From the system's packages, as root or with sudo that asks nothing."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    wanted = [*apt, "install", "--yes", "--no-install-recommends"]
    if run(*wanted, package(name))[0] != 0 and run(*apt, "update")[0] == 0:
        run(*wanted, package(name))
    return find(name)


def package(name: str, options: Sequence[str] = ()) -> str:
    """The package that the system has of a program."""
    names = PACKAGES.get(name, (name,))
    return next((one for one in names if run("apt-cache", *options, "show", one)[0] == 0), names[0])


def unpack(name: str) -> Path | None:
    """Downloaded with what it needs and unpacked into this environment, which takes no rights."""
    folder = PREFIX / "system"
    for part in ("lists/partial", "cache/archives/partial", "packages", "root"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    own = [f"-oDir::State::Lists={folder / 'lists'}", f"-oDir::Cache={folder / 'cache'}"]
    run("apt-get", "-qq", *own, "update")
    packages = folder / "packages"
    run("apt-get", "-qq", *own, "download", *missing_packages(package(name, own), own), cwd=packages)
    for file in packages.glob("*.deb"):
        run("dpkg", "-x", file, folder / "root")
    relink(folder / "root")
    return wrap(name, folder / "root")


def relink(root: Path) -> None:
    """Links to what the packages would have put on the system, such as Java's in /etc, lead to it here."""
    for path in root.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute() and not path.exists():
            here = root / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(here)


def missing_packages(name: str, options: list[str]) -> list[str]:
    """The package and all it depends on, without what is installed."""
    only = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
    _, tree = run("apt-cache", *options, "depends", "--recurse", *(f"--no-{kind}" for kind in only), name)
    _, installed = run("dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n")
    there = {line.split()[0] for line in installed.splitlines() if line.endswith(" installed")}
    needed = {line for line in tree.splitlines() if line[:1].isalnum() and ":" not in line}
    return sorted(needed - there | {name})


def wrap(name: str, root: Path) -> Path | None:
    """A starter in the environment's bin that finds the unpacked libraries; it keeps the process id."""
    # What Debian's chromium has in its bin is a script that starts the system's: the program is below lib.
    places = (f"**/lib/{name}/{name}", f"**/*bin/{name}")
    program = next((path for place in places for path in root.glob(place) if path.is_file()), None)
    if program is None:
        return None
    libraries = os.pathsep.join(sorted({str(path.parent) for path in root.glob("**/*.so*")}))
    starter = PREFIX / "bin" / name
    starter.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{program}" "$@"\n')
    starter.chmod(0o755)
    return find(name)


def ensure(name: str) -> bool:
    """Climb the ladder for one program and say how it ended."""
    for rung, how in ((find, "found"), (install, "installed"), (unpack, "unpacked")):
        program = rung(name)
        if program:
            print(f"{name}: {program} ({how})")
            return True
    print(f"NOT RUN: the tests that need {name}: not on the path nor in /usr/sbin, and the system's packages")
    print(f"         could neither be installed nor downloaded (MISSING_OK={name} accepts that)")
    return name in os.environ.get("MISSING_OK", "").replace(",", " ").split()


if __name__ == "__main__":
    ready = [ensure(name) for name in sys.argv[1:]]
    sys.exit(0 if all(ready) else 1)
