"""Images of a Docker engine, from a base that is made of Debian's packages, and what they contain."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.commands.system_parts import run
from tests.commands.systems import sbom
from tests.commands.systems.debian import Failed, make, output
from tests.commands.systems.engine import Engine
from tests.commands.systems.package import CACHE
from tests.support.not_run import ROOT


class Base(NamedTuple):
    """What images are made of: the image in which packages are installed, and the one that they run on."""

    build: str
    runtime: str


STAND_IN: Final = Base("base:python", "base:runtime")
"""Debian's Python in place of Python's image. The first has what this machine's pip needs as well."""
SERVICES: Final = "base:services"
"""The stand-in for images of mosquitto and Prometheus."""

AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")

RUNTIME_TEXT: Final = """
FROM base-runtime:raw
RUN ln -s python3 /usr/bin/python
"""
PYTHON_TEXT: Final = f"""
FROM {STAND_IN.runtime}
COPY ca.crt {AUTHORITIES}
COPY pip.conf /etc/pip.conf
"""
SERVICES_TEXT: Final = """
FROM base-services:raw
RUN install -d -o 1883 /mosquitto/data && install -d -o 65534 /prometheus
USER 1883
VOLUME /mosquitto/data
CMD ["mosquitto", "-c", "/mosquitto/config/mosquitto.conf"]
"""

BASES: Final = {
    "base-runtime.tar": ("ca-certificates", "python3", "python3-venv"),
    "base-services.tar": ("mosquitto", "mosquitto-clients", "prometheus"),
}
CLEAR: Final = 'rm -f "$1/etc/hostname" "$1/etc/resolv.conf" "$1/etc/apt/sources.list"'
"""Remove from a base what is this machine's."""
FRESH_S: Final = 86_400
"""The greatest age of a base that is used again; a new one has Debian's updates."""

DOCKERFILE: Final = Path("deploy", "container", "Dockerfile")
ADDON: Final = Path("deploy", "homeassistant", "addon", "meteragent")
TARGETS: Final = {
    "meteragent": "agent",
    "meteragent-simulator": "simulator",
    "meteragent-exporter": "exporter",
    "meteragent-crowd": "crowd",
    "meteragent-collect": "collect",
}
"""The image of each target of the Dockerfile; the add-on has a Dockerfile of its own."""

NAMES: Final = (*TARGETS, "meteragent-addon")

INTERPRETER: Final = "/opt/meteragent/bin/python"
KINDS: Final = {tarfile.REGTYPE: "-", tarfile.DIRTYPE: "d", tarfile.SYMTYPE: "l", tarfile.LNKTYPE: "h"}
"""The letters of regular files, folders, symbolic links and hard links."""
MEGABYTE: Final = 10**6


def bases(engine: Engine, folder: Path) -> None:
    """Make the bases. Raises Missing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(BASES)) as pool:
        list(pool.map(lambda name: imported(engine, name), BASES))
    surroundings = folder / "surroundings"
    surroundings.mkdir()
    shutil.copy(AUTHORITIES, surroundings / "ca.crt")
    (surroundings / "pip.conf").write_text(pip_settings())
    texts = {
        STAND_IN.runtime: RUNTIME_TEXT,
        STAND_IN.build: PYTHON_TEXT + environment(),
        SERVICES: SERVICES_TEXT,
    }
    for tag, text in texts.items():
        (surroundings / "Dockerfile").write_text(text)
        engine.build(tag, surroundings, "--network=none")


def imported(engine: Engine, name: str) -> None:
    """Import the archive of a base, which is made if there is none or it is old. Raises Missing."""
    archive = CACHE / name
    if not archive.exists() or time.time() - archive.stat().st_mtime > FRESH_S:
        archive.unlink(missing_ok=True)
        make(archive, BASES[name], hooks=[CLEAR])
    engine.run("import", archive, name.removesuffix(".tar") + ":raw")


def pip_settings() -> str:
    """Return a pip.conf with what this machine's pip is told of indexes and certificates."""
    lines = ["[global]", "disable-pip-version-check = true", f"cert = {AUTHORITIES}"]
    for line in run(sys.executable, "-m", "pip", "config", "list")[1].splitlines():
        name, _, value = line.partition("=")
        if name.rpartition(".")[2] in {"index-url", "trusted-host"}:
            lines.append(f"{name.rpartition('.')[2]} = {value.strip(chr(39))}")
    return "\n".join(lines) + "\n"


def environment() -> str:
    """Return the lines of a Dockerfile that set this machine's proxies."""
    return "".join(f'ENV {name}="{value}"\n' for name, value in proxies().items())


def proxies() -> dict[str, str]:
    """Return the variables that name this machine's proxies."""
    names = {"http_proxy", "https_proxy", "no_proxy"}
    return {name: value for name, value in os.environ.items() if name.lower() in names}


def adapt(root: Path) -> None:
    """Give a system below a folder what this machine's pip needs to find packages."""
    shutil.copy(AUTHORITIES, root / AUTHORITIES.relative_to("/"))
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    shutil.copy("/etc/hosts", root / "etc" / "hosts")
    (root / "etc" / "pip.conf").write_text(pip_settings())


class Recipe(NamedTuple):
    """What images are built of: a base, a source tree, and more options of the build."""

    base: Base
    source: Path = ROOT
    options: tuple[str, ...] = ()


def build(engine: Engine, folder: Path, recipe: Recipe, *, suffix: str = "") -> None:
    """Build all images, with a wheel of the tree for the add-on in a new folder. Raises Failed."""
    base, source, options = recipe
    common = ("--network=host", f"--build-arg=PYTHON={base.build}", f"--build-arg=RUNTIME={base.runtime}")
    for tag, target in TARGETS.items():
        file = f"--file={source / DOCKERFILE}"
        engine.build(tag + suffix, source, file, f"--target={target}", *common, *options)
    shutil.copytree(source / ADDON, folder)
    wheel = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    output(wheel)
    engine.build(f"meteragent-addon{suffix}", folder, *common, *options)


class Content(NamedTuple):
    """What an image contains, by the names of its files.

    `files` has the mode, the owner, and the digest or the target of each, `metadata` the bytes of those that
    say what is installed.
    """

    files: dict[str, str]
    metadata: dict[str, bytes]


def content(engine: Engine, image: str) -> Content:
    """Return what an image contains."""
    container = engine.run("create", image, "true").strip()
    files: dict[str, str] = {}
    metadata: dict[str, bytes] = {}
    with (
        subprocess.Popen(engine.command("export", container), stdout=subprocess.PIPE) as exported,
        tarfile.open(fileobj=exported.stdout, mode="r|") as archive,
    ):
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            data = stream.read() if stream else b""
            digest = hashlib.sha256(data).hexdigest() if stream else member.linkname
            mode = KINDS.get(member.type, "?") + stat.filemode(member.mode)[1:]
            files[member.name] = f"{mode} {member.uid}:{member.gid} {digest}"
            if stream and sbom.has_metadata(member.name):
                metadata[member.name] = data
    engine.run("rm", container)
    return Content(files, metadata)


def parts(engine: Engine, image: str, metadata: dict[str, bytes]) -> set[sbom.Part]:
    """Return the packages of an image, and its Python if no package of Debian has it."""
    installed = sbom.parts(metadata.items())
    if not any(part.kind == "deb" and part.name == "python3" for part in installed):
        code = "import platform; print(platform.python_version())"
        words = ("--rm", "--network=none", "--entrypoint", INTERPRETER, image, "-c", code)
        installed.add(sbom.Part("generic", "python", engine.run("run", *words).strip()))
    return installed


def must_be_same(first: dict[str, str], second: dict[str, str], image: str) -> None:
    """Compare two listings. Raises Failed with the files that differ."""
    differ = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if differ:
        raise Failed(f"{image}: {len(differ)} files differ between two builds, such as {differ[:5]}")


def save(engine: Engine, tags: Iterable[str], archive: Path) -> None:
    """Write images to a compressed archive, which `docker load` reads."""
    with (
        archive.open("wb") as file,
        subprocess.Popen(engine.command("save", *tags), stdout=subprocess.PIPE) as saved,
    ):
        subprocess.run(["gzip", "--fast", "--no-name"], stdin=saved.stdout, stdout=file, check=True)
    if saved.returncode != 0:
        raise Failed("the images cannot be saved")


def added(engine: Engine, image: str, base: Base) -> float:
    """Return how many megabytes an image has beyond its base."""
    return (int(engine.field(image, ".Size")) - int(engine.field(base.runtime, ".Size"))) / MEGABYTE
