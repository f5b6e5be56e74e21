"""Write the locks of the images: ``python -m tests.commands.lock [--bases]``.

A lock has the version and the hashes of each package that an image installs, for amd64 and arm64, and no
address: packages come from wherever pip is set up to look. The command resolves the requirements of the
distributions anew, so it is how versions in images become newer.

With --bases it writes the digests of base images instead, into the Dockerfiles and compose.yaml. It pulls
each image, so it needs what `make image` needs, and a registry. The tag beside a digest only says what was
pulled.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.brokers.root import Missing
from tests.commands.systems import debian, engine
from tests.support.not_run import ROOT

CONTAINER: Final = ROOT / "deploy" / "container"
ADDON: Final = ROOT / "deploy" / "homeassistant" / "addon" / "meteragent"
COMPOSES: Final = tuple(ROOT / "deploy" / name / "compose.yaml" for name in ("compose", "collect"))
BASED: Final = (CONTAINER / "Dockerfile", ADDON / "Dockerfile", *COMPOSES)
"""The files that name base images."""
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
        CONTAINER / "crowd.lock.txt": [*agent, *extras["crowd"]],
        CONTAINER / "collect.lock.txt": [*agent, *extras["collect"]],
        CONTAINER / "simulator.lock.txt": [*agent, *simulators, *second["optional-dependencies"]["sim"]],
        CONTAINER / "exporter.lock.txt": [*agent, *(line for line in exporter if line[:1].isalnum())],
        ADDON / "requirements.lock.txt": agent,
    }


def python_version() -> str:
    """Return the version of Python that the images have."""
    (version,) = re.findall(r"(?m)^ARG PYTHON=python:(3\.\d+)", (CONTAINER / "Dockerfile").read_text())
    return str(version)


def resolve(names: Sequence[str], platform: Sequence[str]) -> Lock:
    """Return what pip would install for a platform."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", f"--python-version={python_version()}", f"--target={folder}"]
        command += [f"--platform={name}" for name in platform]
        subprocess.run([*command, f"--report={report}", *names], check=True)
        installed = json.loads(report.read_text())["install"]
    return {
        re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): (
            item["metadata"]["version"],
            frozenset({item["download_info"]["archive_info"]["hashes"]["sha256"]}),
        )
        for item in installed
    }


def lock(names: Sequence[str]) -> Lock:
    """Return the packages for all platforms, in the same versions."""
    first, *other_platforms = PLATFORMS.values()
    locked = dict(resolve(names, first))
    pins = [f"{name}=={version}" for name, (version, _) in locked.items()]
    for platform in other_platforms:
        for name, (version, hashes) in resolve(pins, platform).items():
            locked[name] = (version, locked[name][1] | hashes)
    return locked


def text(locked: Lock) -> str:
    """Return a lock as pip reads it with --require-hashes."""
    lines = ["# Written by `python -m tests.commands.lock`."]
    for name, (version, hashes) in sorted(locked.items()):
        lines += [
            " \\\n    ".join(
                [f"{name}=={version}", *(f"--hash=sha256:{sha256}" for sha256 in sorted(hashes))]
            )
        ]
    return "\n".join(lines) + "\n"


_REFERENCE = re.compile(
    r"(?m)^(?P<before>ARG PYTHON=|\s+image: )(?P<tag>[^\s@]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?(?=\s|$)"
)


def pinned(document: str, digest: Callable[[str], str]) -> str:
    """Return a Dockerfile or compose file in which each base image has the digest that its tag has now."""
    return _REFERENCE.sub(lambda match: f"{match['before']}{match['tag']}@{digest(match['tag'])}", document)


def pin_bases() -> None:
    """Write the digests of all base images, or of none. Raises Missing."""
    debian.must_be_possible()
    engine.must_be_possible()
    with tempfile.TemporaryDirectory() as folder, engine.Engine(Path(folder)) as running:
        documents = {path: pinned(path.read_text(), running.digest) for path in BASED}
    for path, document in documents.items():
        path.write_text(document)
        print(path.relative_to(ROOT))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the locks or the digests; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bases", action="store_true", help="write the digests of base images")
    if parser.parse_args(arguments).bases:
        try:
            pin_bases()
        except Missing as error:
            print(f"nothing is written: {error}")
            return 1
        return 0
    for path, names in requirements().items():
        path.write_text(text(lock(names)))
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
