"""Write the locks of the images: ``python -m tests.commands.lock``.

A lock has the version and the hashes of each package that an image installs, for amd64 and arm64, and no
address: packages come from wherever pip is set up to look. The command resolves the requirements of the
distributions anew, so it is how versions in images become newer.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.not_run import ROOT

CONTAINER: Final = ROOT / "deploy" / "container"
ADDON: Final = ROOT / "deploy" / "homeassistant" / "addon" / "meteragent"
PLATFORMS: Final = {
    machine: [f"manylinux_2_28_{machine}", f"manylinux2014_{machine}"] for machine in ("x86_64", "aarch64")
}
"""The names that wheels have for each architecture of the images."""

Lock = Mapping[str, tuple[str, frozenset[str]]]
"""The version and the SHA-256 hashes of each package."""


def requirements() -> dict[Path, list[str]]:
    """Return the requirements of each lock, from the distributions."""
    first = tomllib.loads((ROOT / "pyproject.toml").read_text())
    second = tomllib.loads((ROOT / "simulators" / "pyproject.toml").read_text())["project"]
    agent, extras = first["project"]["dependencies"], first["project"]["optional-dependencies"]
    simulators = [text for text in second["dependencies"] if not text.startswith("meteragent==")]
    exporter = (ROOT / "deploy" / "exporter" / "requirements.txt").read_text().splitlines()
    return {
        CONTAINER / "build.lock.txt": first["build-system"]["requires"],
        CONTAINER / "agent.lock.txt": [*agent, *extras["page"]],
        CONTAINER / "simulator.lock.txt": [*agent, *simulators, *second["optional-dependencies"]["sim"]],
        CONTAINER / "exporter.lock.txt": [*agent, *(line for line in exporter if line[:1].isalnum())],
        ADDON / "requirements.lock.txt": agent,
    }


def python_version() -> str:
    """Return the version of Python that the images have."""
    (version,) = re.findall(r"(?m)^ARG PYTHON=python:(3\.\d+)", (CONTAINER / "Dockerfile").read_text())
    return str(version)


def resolve(wanted: Sequence[str], platform: Sequence[str]) -> Lock:
    """Return what pip would install for a platform."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", f"--python-version={python_version()}", f"--target={folder}"]
        command += [f"--platform={name}" for name in platform]
        subprocess.run([*command, f"--report={report}", *wanted], check=True)
        installed = json.loads(report.read_text())["install"]
    return {
        re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): (
            item["metadata"]["version"],
            frozenset({item["download_info"]["archive_info"]["hashes"]["sha256"]}),
        )
        for item in installed
    }


def lock(wanted: Sequence[str]) -> Lock:
    """Return the packages for all platforms, in the same versions."""
    first, *others = PLATFORMS.values()
    locked = dict(resolve(wanted, first))
    pins = [f"{name}=={version}" for name, (version, _) in locked.items()]
    for platform in others:
        for name, (version, hashes) in resolve(pins, platform).items():
            locked[name] = (version, locked[name][1] | hashes)
    return locked


def text(locked: Lock) -> str:
    """Return a lock as pip reads it with --require-hashes."""
    lines = ["# Written by `python -m tests.commands.lock`."]
    for name, (version, hashes) in sorted(locked.items()):
        lines += [
            " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in sorted(hashes))])
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path, wanted in requirements().items():
        path.write_text(text(lock(wanted)))
        print(path.relative_to(ROOT))
