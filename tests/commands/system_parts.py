"""Find or install the programs that the tests need: ``python tests/commands/system_parts.py mosquitto``.

Three steps are tried in order. Find the program on the path or in /usr/sbin; install it from the system's
packages, as root or with ``sudo -n``; download its packages and unpack them into this Python environment.
If all fail, print NOT RUN and exit with 1, unless the environment variable MISSING_OK names the program.
The command needs only Python, and no terminal.
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
    "dockerd": ("docker.io",),
    "postgres": ("postgresql-15", "postgresql-17", "postgresql"),
    "systemd-analyze": ("systemd",),
    "java": ("openjdk-17-jre-headless", "openjdk-21-jre-headless"),
}
"""Packages of programs that have a different name; the first one that the system knows is used."""

JAVA_MIN = 17
"""The oldest Java that runs Spark's classes."""


def run(*command: str | Path, cwd: Path | None = None) -> tuple[int, str]:
    """Run a command; return its exit code, 127 if it cannot be run (as in a shell), and its output."""
    start = partial(subprocess.run, check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
    try:
        result = start(command, cwd=cwd, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return 127, ""
    return result.returncode, result.stdout


def starts(program: Path) -> bool:
    """Return whether a program starts; if a library is missing, the loader exits with 127."""
    if program.name == "java":
        version = re.match(r"\w+ (\d+)", run(program, "--version")[1])
        return version is not None and int(version[1]) >= JAVA_MIN
    return run(program, "-h")[0] not in {126, 127}


def find(name: str) -> Path | None:
    """Return the path of a program: on the path, in /usr/sbin, or unpacked earlier."""
    servers = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    places = [os.environ.get("PATH", os.defpath), "/usr/sbin", str(PREFIX / "bin"), *servers]
    folders = os.pathsep.join(places)
    program = shutil.which(name, path=folders)
    return Path(program) if program and starts(Path(program)) else None


def install(name: str) -> Path | None:
    """Install a program from the system's packages, as root or with sudo without a password."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    install_command = [*apt, "install", "--yes", "--no-install-recommends"]
    if run(*install_command, package(name))[0] != 0 and run(*apt, "update")[0] == 0:
        run(*install_command, package(name))
    return find(name)


def package(name: str, options: Sequence[str] = ()) -> str:
    """Return the first package of a program that the system knows."""
    names = PACKAGES.get(name, (name,))
    return next(
        (candidate for candidate in names if run("apt-cache", *options, "show", candidate)[0] == 0), names[0]
    )


def unpack(name: str) -> Path | None:
    """Download a program's packages and unpack them into this environment; this needs no privileges."""
    folder = PREFIX / "system"
    for part in ("lists/partial", "cache/archives/partial", "packages", "root"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    apt_options = [f"-oDir::State::Lists={folder / 'lists'}", f"-oDir::Cache={folder / 'cache'}"]
    run("apt-get", "-qq", *apt_options, "update")
    packages = folder / "packages"
    run(
        "apt-get",
        "-qq",
        *apt_options,
        "download",
        *missing_packages(package(name, apt_options), apt_options),
        cwd=packages,
    )
    for file in packages.glob("*.deb"):
        run("dpkg", "-x", file, folder / "root")
    relink(folder / "root")
    return wrap(name, folder / "root")


def relink(root: Path) -> None:
    """Redirect absolute links in the packages, such as Java's into /etc, to the unpacked tree."""
    for path in root.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute() and not path.exists():
            target = root / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(target)


def missing_packages(name: str, options: list[str]) -> list[str]:
    """Return a package and all its dependencies that are not installed."""
    relations = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
    _, tree = run(
        "apt-cache", *options, "depends", "--recurse", *(f"--no-{kind}" for kind in relations), name
    )
    _, installed = run("dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n")
    installed_packages = {line.split()[0] for line in installed.splitlines() if line.endswith(" installed")}
    dependencies = {line for line in tree.splitlines() if line[:1].isalnum() and ":" not in line}
    return sorted(dependencies - installed_packages | {name})


def wrap(name: str, root: Path) -> Path | None:
    """Write a starter into the environment's bin that sets the library path and keeps the process id."""
    # Debian's bin/chromium is a script that starts the installed program; the unpacked program is below lib.
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
    """Try each step for one program and print the result."""
    for step, description in ((find, "found"), (install, "installed"), (unpack, "unpacked")):
        program = step(name)
        if program:
            print(f"{name}: {program} ({description})")
            return True
    print(f"NOT RUN: the tests that need {name}: not on the path or in /usr/sbin, and the system's packages")
    print(f"         could neither be installed nor downloaded (MISSING_OK={name} accepts that)")
    return name in os.environ.get("MISSING_OK", "").replace(",", " ").split()


if __name__ == "__main__":
    ready = [ensure(name) for name in sys.argv[1:]]
    sys.exit(0 if all(ready) else 1)
