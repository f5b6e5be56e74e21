"""Images of a Docker engine, from a base that is made of Debian's packages, and what they contain."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from tests.commands.system_parts import run
from tests.commands.systems.debian import Failed, make, output
from tests.commands.systems.engine import Engine
from tests.commands.systems.package import CACHE
from tests.support.not_run import ROOT

PYTHON: Final = "base:python"
"""The stand-in for Python's image: Debian's Python, and what this machine's pip needs to find packages."""
SERVICES: Final = "base:services"
"""The stand-in for images of mosquitto and Prometheus."""

AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")

PYTHON_TEXT: Final = f"""
FROM base-python:raw
COPY ca.crt {AUTHORITIES}
COPY pip.conf /etc/pip.conf
RUN ln -s python3 /usr/bin/python
"""
SERVICES_TEXT: Final = """
FROM base-services:raw
RUN install -d -o 1883 /mosquitto/data && install -d -o 65534 /prometheus
USER 1883
VOLUME /mosquitto/data
CMD ["mosquitto", "-c", "/mosquitto/config/mosquitto.conf"]
"""

BASES: Final = {
    "base-python.tar": ("ca-certificates", "python3", "python3-venv"),
    "base-services.tar": ("mosquitto", "mosquitto-clients", "prometheus"),
}
DOCKERFILE: Final = ROOT / "deploy" / "container" / "Dockerfile"
ADDON: Final = ROOT / "deploy" / "homeassistant" / "addon" / "meteragent"
TARGETS: Final = {
    "meteragent": "agent",
    "meteragent-simulator": "simulator",
    "meteragent-exporter": "exporter",
}
"""The image of each target of the Dockerfile; the add-on has a Dockerfile of its own."""

NAMES: Final = (*TARGETS, "meteragent-addon")

MEGABYTE: Final = 10**6


def bases(engine: Engine, folder: Path) -> None:
    """Make the two bases; raises Missing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for name, packages in BASES.items():
        archive = CACHE / name
        if not archive.exists():
            make(archive, packages)
        engine.run("import", archive, name.removesuffix(".tar") + ":raw")
    surroundings = folder / "surroundings"
    surroundings.mkdir()
    shutil.copy(AUTHORITIES, surroundings / "ca.crt")
    (surroundings / "pip.conf").write_text(pip_settings())
    for tag, text in ((PYTHON, PYTHON_TEXT + proxies()), (SERVICES, SERVICES_TEXT)):
        (surroundings / "Dockerfile").write_text(text)
        engine.build(tag, surroundings, "--network=none")


def pip_settings() -> str:
    """Return a pip.conf with what this machine's pip is told of indexes and certificates."""
    lines = ["[global]", "disable-pip-version-check = true", f"cert = {AUTHORITIES}"]
    for line in run(sys.executable, "-m", "pip", "config", "list")[1].splitlines():
        name, _, value = line.partition("=")
        if name.rpartition(".")[2] in {"index-url", "trusted-host"}:
            lines.append(f"{name.rpartition('.')[2]} = {value.strip(chr(39))}")
    return "\n".join(lines) + "\n"


def proxies() -> str:
    """Return the lines of a Dockerfile that set this machine's proxies."""
    names = [name for name in os.environ if name.lower() in {"http_proxy", "https_proxy", "no_proxy"}]
    return "".join(f'ENV {name}="{os.environ[name]}"\n' for name in names)


def build(engine: Engine, folder: Path, *options: str, suffix: str = "") -> None:
    """Build all four images, with a wheel of the repository for the add-on in a new folder; raises Failed."""
    common = ("--network=host", f"--build-arg=PYTHON={PYTHON}", *options)
    for tag, target in TARGETS.items():
        engine.build(tag + suffix, ROOT, f"--file={DOCKERFILE}", f"--target={target}", *common)
    shutil.copytree(ADDON, folder)
    wheel = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    output(wheel)
    engine.build(f"meteragent-addon{suffix}", folder, *common)


def listing(engine: Engine, image: str) -> dict[str, str]:
    """Return what each file of an image is: its mode, its owner, and its digest or its target."""
    engine.run("create", "--name", "listed", image, "true")
    files: dict[str, str] = {}
    with (
        subprocess.Popen(engine.command("export", "listed"), stdout=subprocess.PIPE) as exported,
        tarfile.open(fileobj=exported.stdout, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            digest = hashlib.sha256(content.read()).hexdigest() if content else member.linkname
            files[member.name] = f"{member.type!r} {member.mode:o} {member.uid}:{member.gid} {digest}"
    engine.run("rm", "listed")
    return files


def must_be_same(first: dict[str, str], second: dict[str, str], image: str) -> None:
    """Compare two listings; raises Failed with the files that differ."""
    differ = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if differ:
        raise Failed(f"{image}: {len(differ)} files differ between two builds, such as {differ[:5]}")


def added(engine: Engine, image: str) -> float:
    """Return how many megabytes an image has beyond its base."""
    return (int(engine.field(image, ".Size")) - int(engine.field(PYTHON, ".Size"))) / MEGABYTE
