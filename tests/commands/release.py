"""Build and try a release of the last commit: ``python -m tests.commands.release [--base REFERENCE]``.

The files go to `dist/release`: sdists and wheels, the Debian package, an archive of the images with a list of
the files in each, bills of materials (CycloneDX), and SHA256SUMS. sdists, wheels and package are built twice
and must have the same bytes, images the same files. Each is installed where nothing else is: sdist and wheel
with Python 3.11, 3.12 and 3.13, the package in new Debian systems, images in an engine. There the agent
must release private numbers through a kill -9. REFERENCE is the base of the images, as for `make image`. What
cannot be built or tried here is NOT RUN. The exit code is 1 if anything failed, else 0.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from meteragent import __version__
from tests.brokers.root import Missing
from tests.commands import deb, image, lock
from tests.commands.systems import debian, distributions, engine, environments, images, package, sbom
from tests.commands.systems.debian import Failed, output
from tests.support.not_run import ROOT

OUT: Final = ROOT / "dist" / "release"
SUMS: Final = "SHA256SUMS"
TOGETHER: Final = 4
"""The number of parts that run at the same time; they mostly wait."""


class Release(NamedTuple):
    """A release in the making: the commit, its time, its files, and those that are built of it."""

    revision: str
    epoch_s: int
    scratch: Path
    source: Path
    built: Sequence[Path]
    base: str

    def find(self, start: str, end: str) -> Path:
        """Return the one built file with a name that begins and ends so."""
        (path,) = (path for path in self.built if path.name.startswith(start) and path.name.endswith(end))
        return path

    def bill(self, subject: sbom.Subject, all_parts: Iterable[sbom.Part]) -> None:
        """Write the bill of materials of a subject; the subject is none of its own parts."""
        parts = {part for part in all_parts if f"{part.name}-{part.version}" != own(subject)}
        (OUT / f"{subject.name}.cdx.json").write_text(sbom.text(subject, parts, self.epoch_s))


def own(subject: sbom.Subject) -> str:
    """Return the name and version of the package that a file installs; none for an image."""
    if subject.is_image:
        return ""
    return f"{'meteragent-simulators' if 'simulators' in subject.name else 'meteragent'}-{subject.version}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and try a release; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", metavar="REFERENCE", default="", help="an image with Python, to be pulled")
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            release = begun(Path(folder), options.base)
        except Failed as error:
            print(f"the release: {error}")
            return 1
        with ThreadPoolExecutor(TOGETHER) as pool:
            codes = list(pool.map(lambda part: image.part(*part), parts(release)))
    write_sums()
    print(f"{OUT.relative_to(ROOT)}: {len([*OUT.iterdir()])} files ({time.monotonic() - began_s:.0f} s)")
    return max(codes)


def begun(scratch: Path, base: str) -> Release:
    """Build the distributions of the last commit, of which all else is built. Raises Failed."""
    if distributions.git("status", "--porcelain"):
        raise Failed("there are changes that are not committed: commit them, or put them aside")
    epoch_s = int(distributions.git("log", "-1", "--format=%ct"))
    built = distributions.build(scratch, epoch_s)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    for path in built:
        shutil.copy(path, OUT)
        print(f"{path.name}: {path.stat().st_size:,} bytes, the same twice", flush=True)
    source = scratch / "source"
    distributions.export(source)
    return Release(distributions.git("rev-parse", "HEAD"), epoch_s, scratch, source, built, base)


def parts(release: Release) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the parts of a release, longest first."""
    yield "images", partial(made_images, release)
    yield "Debian package", partial(made_package, release)
    for version in environments.VERSIONS:
        for end in (".whl", ".tar.gz"):
            yield f"Python {version}, {end.lstrip('.')}", partial(tried, release, version, end)


def tried(release: Release, version: str, end: str) -> str:
    """Try an sdist or a wheel on one Python, and write the bills of wheels. Raises Failed or Missing."""
    environments.must_be_possible()
    files = release.find("meteragent-", end), release.find("meteragent_simulators-", end)
    summary, installed = environments.attempt(version, *files)
    if (version, end) == (lock.python_version(), ".whl"):
        for path in files:
            subject = sbom.Subject(path.name, __version__, sha256=distributions.digest(path))
            release.bill(subject, installed[path.name])
    return summary


def made_package(release: Release) -> str:
    """Build the Debian package, try it, and write its bill. Raises Failed or Missing."""
    debian.must_be_possible()
    (release.scratch / "package").mkdir()
    built = package.build(release.scratch / "package", release.find("meteragent-", ".tar.gz"))
    package_file = Path(shutil.copy(built, OUT))
    first, *other_architectures = deb.native()
    status = release.scratch / "status"
    results = [f"{first}: {package.attempt(package_file, first, status)}"]
    results += [
        f"{architecture}: {if_possible(package_file, architecture)}" for architecture in other_architectures
    ]
    system = sbom.parts([(sbom.DPKG, status.read_bytes())])
    dependencies = {part for part in sbom.closure(system, "meteragent") if part.name != "meteragent"}
    version = package_file.name.split("_")[1]
    release.bill(
        sbom.Subject(package_file.name, version, sha256=distributions.digest(package_file)),
        dependencies,
    )
    return "; ".join(results)


def if_possible(built: Path, architecture: str) -> str:
    """Try the package on another architecture, if its programs run here; return a summary."""
    try:
        return package.attempt(built, architecture)
    except Missing as error:
        return f"NOT RUN: {error}"


def made_images(release: Release) -> str:
    """Build the images, try them, and write their files and bills. Raises Failed or Missing."""
    debian.must_be_possible()
    engine.must_be_possible()
    architecture = output(["dpkg", "--print-architecture"]).strip()
    labels = (f"--build-arg=VERSION={__version__}", f"--build-arg=REVISION={release.revision}")
    folder = release.scratch / "images"
    folder.mkdir()
    with engine.Engine(folder) as running:
        recipe = images.Recipe(image.prepared(running, folder, release.base), release.source, labels)
        if image.tried(running, folder, recipe, has_chain=True):
            raise Failed("a trial of the images failed")
        for name in images.NAMES:
            running.run("tag", name, f"{name}:{__version__}")
            content = images.content(running, name)
            stem = f"{name}-{__version__}-{architecture}.image"
            lines = [f"{description} {path}\n" for path, description in sorted(content.files.items())]
            (OUT / f"{stem}.files.txt").write_text("".join(lines))
            subject = sbom.Subject(stem, __version__, is_image=True)
            release.bill(subject, images.parts(running, name, content.metadata))
        archive = OUT / f"meteragent-{__version__}-{architecture}.images.tar.gz"
        images.save(running, [f"{name}:{__version__}" for name in images.NAMES], archive)
    return f"{len(images.NAMES)} images on {recipe.base.runtime}, {archive.stat().st_size / 10**6:.0f} MB"


def write_sums() -> None:
    """Write the digests of all files of the release, as sha256sum reads them."""
    lines = [f"{distributions.digest(path)}  {path.name}\n" for path in sorted(OUT.iterdir())]
    (OUT / SUMS).write_text("".join(lines))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the engine must not be left
    sys.exit(main())
