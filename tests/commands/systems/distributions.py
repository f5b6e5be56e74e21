"""The sdists and wheels of a revision, built twice, with the tools that the lock of the images names."""

import hashlib
import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.commands.lock import CONTAINER
from tests.commands.systems.debian import Failed, output
from tests.support.not_run import ROOT

PROJECTS: Final = (".", "simulators")
"""The folders of the two distributions."""
SURROUNDINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "first": {"umask": "022", "TZ": "UTC", "PYTHONHASHSEED": "1"},
    "second": {"umask": "077", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "2"},
}
"""What is different between the two builds, beside the folder and its times."""


def git(*words: str) -> str:
    """Run git in the repository and return its output. Raises Failed."""
    return output(["git", "-C", str(ROOT), *words]).strip()


def export(folder: Path) -> None:
    """Write the files of the last commit, and nothing else, to a new folder."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    git("archive", "--output", str(archive), "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()


def build(folder: Path, epoch_s: int) -> list[Path]:
    """Build both distributions twice, as sdists and wheels, and compare their bytes; return the files.

    The second wheels are built from the first sdists.

    Raises:
        Failed: The builds differ.

    """
    python = tools(folder / "tools")
    files: dict[str, Path] = {}
    for name in SURROUNDINGS:
        out = folder / name
        export(out / "source")
        for project in PROJECTS:
            hatchling(python, out / "source" / project, out / "dist", name, epoch_s, "sdist")
            tree = out / "source" / project if name == "first" else unpacked(files, project, out)
            hatchling(python, tree, out / "dist", name, epoch_s, "wheel")
            if name == "first":
                files |= {path.name: path for path in (out / "dist").iterdir()}
    second = {path.name: path for path in (folder / "second" / "dist").iterdir()}
    differ = [name for name in files.keys() | second.keys() if not is_same(files.get(name), second.get(name))]
    if differ:
        raise Failed(f"two builds differ: {sorted(differ)}")
    return sorted(files.values())


def tools(folder: Path) -> str:
    """Return the Python of a new environment with the locked tools."""
    venv.create(folder, with_pip=False)
    python = str(folder / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--require-hashes"]
    output([*install, "--requirement", str(CONTAINER / "build.lock.txt")])
    return python


def hatchling(python: str, project: Path, out: Path, name: str, epoch_s: int, target: str) -> None:
    """Build one distribution of a project. Raises Failed."""
    surroundings = dict(SURROUNDINGS[name])
    script = f'umask {surroundings.pop("umask")}; exec "$@"'
    command = [python, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    result = subprocess.run(
        ["sh", "-c", script, "sh", *command],
        cwd=project,
        env={"PATH": os.defpath, "SOURCE_DATE_EPOCH": str(epoch_s), **surroundings},
        check=False,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise Failed(f"{project.name}: {result.stderr[-2000:]}")


def unpacked(files: Mapping[str, Path], project: str, out: Path) -> Path:
    """Unpack the first sdist of a project; return its folder."""
    start = "meteragent-" if project == "." else f"meteragent_{project}-"
    (sdist,) = (path for name, path in files.items() if name.startswith(start) and name.endswith(".tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    return out / sdist.name.removesuffix(".tar.gz")


def is_same(first: Path | None, second: Path | None) -> bool:
    """Return whether both files exist and have the same bytes."""
    return first is not None and second is not None and digest(first) == digest(second)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
