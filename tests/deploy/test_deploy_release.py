"""A release, without a network: bills of materials, what is refused, digests of base images."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.brokers.root import Missing
from tests.commands import lock, release
from tests.commands.systems import distributions, environments, sbom
from tests.support.not_run import ROOT

NUMPY = b"""Metadata-Version: 2.4
Name: NumPy
Version: 2.5.5
License-Expression: BSD-3-Clause AND MIT

Requires-Dist: not-a-field
"""
AGENT = b"""Metadata-Version: 2.4
Name: meteragent
Version: 0.1.0
License: Apache License 2.0
Requires-Dist: numpy>=1.26
Requires-Dist: pydantic_core (>=2); extra == "page"

"""
STATUS = b"""Package: python3-numpy
Status: install ok installed
Architecture: amd64
Version: 1:2.2.4
Depends: libc6 (>= 2.38), python3 (<< 3.14) | python3:any
Provides: python3-numpy-abi9
Description: numbers
 Depends: nothing

Package: meteragent
Status: install ok installed
Architecture: all
Version: 0.1.0-1
Depends: python3-numpy-abi9, tzdata

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41

Package: tzdata
Status: deinstall ok config-files
Architecture: all
Version: 2026a

Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2
"""
FILES = {
    "opt/lib/numpy-2.5.5.dist-info/METADATA": NUMPY,
    "opt/lib/meteragent-0.1.0.dist-info/METADATA": AGENT,
    sbom.DPKG: STATUS,
}
SUBJECT = sbom.Subject("meteragent-0.1.0-amd64.image", "0.1.0", is_image=True)


def bill(found: set[sbom.Part]) -> dict[str, object]:
    """Return the bill of an image with the given parts."""
    return json.loads(sbom.text(SUBJECT, found, 1_700_000_000))  # type: ignore[no-any-return]


def test_a_bill_lists_what_is_installed() -> None:
    """Distributions of Python, and installed packages of Debian, with their licenses."""
    actual = bill(sbom.parts(FILES.items()))
    components = {row["purl"]: row.get("licenses") for row in actual["components"]}  # type: ignore[attr-defined]
    assert components == {
        "pkg:deb/debian/bash@5.2?arch=amd64": None,
        "pkg:deb/debian/libc6@2.41?arch=amd64": None,
        "pkg:deb/debian/meteragent@0.1.0-1?arch=all": None,
        "pkg:deb/debian/python3-numpy@1:2.2.4?arch=amd64": None,
        "pkg:pypi/meteragent@0.1.0": [{"license": {"name": "Apache License 2.0"}}],
        "pkg:pypi/numpy@2.5.5": [{"expression": "BSD-3-Clause AND MIT"}],
    }
    assert actual["specVersion"] == "1.6"
    assert actual["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"  # type: ignore[index]


def test_a_bill_states_what_needs_what() -> None:
    """Names of packages and what packages provide are followed; the subject needs what nothing else needs."""
    rows = bill(sbom.parts(FILES.items()))["dependencies"]
    needs = {row["ref"]: set(row.get("dependsOn", ())) for row in rows}  # type: ignore[attr-defined]
    assert needs["pkg:pypi/meteragent@0.1.0"] == {"pkg:pypi/numpy@2.5.5"}
    numpy = "pkg:deb/debian/python3-numpy@1:2.2.4?arch=amd64"
    assert needs["pkg:deb/debian/meteragent@0.1.0-1?arch=all"] == {numpy}
    assert needs[numpy] == {"pkg:deb/debian/libc6@2.41?arch=amd64"}
    assert needs["subject"] == {
        "pkg:deb/debian/bash@5.2?arch=amd64",
        "pkg:deb/debian/meteragent@0.1.0-1?arch=all",
        "pkg:pypi/meteragent@0.1.0",
    }


def test_a_bill_is_the_same_in_any_order() -> None:
    """The same parts give the same bytes, and another part gives another serial number."""
    files = list(FILES.items())
    first = sbom.text(SUBJECT, sbom.parts(files), 1_700_000_000)
    assert sbom.text(SUBJECT, sbom.parts(files[::-1]), 1_700_000_000) == first
    other = sbom.text(SUBJECT, sbom.parts(files[1:]), 1_700_000_000)
    assert json.loads(other)["serialNumber"] != json.loads(first)["serialNumber"]


def test_a_package_s_bill_has_what_it_needs_and_nothing_else() -> None:
    """Of a Debian system, the packages that one needs, directly or not."""
    needed = sbom.closure(sbom.parts(FILES.items()), "meteragent")
    assert {part.name for part in needed} == {"meteragent", "python3-numpy", "libc6"}


def test_metadata_of_debian_s_python_is_dpkg_s() -> None:
    """A distribution that a package of Debian contains is listed once."""
    assert sbom.has_metadata("usr/local/lib/python3.13/site-packages/pip-25.2.dist-info/METADATA")
    assert not sbom.has_metadata("usr/lib/python3/dist-packages/numpy-2.2.4.dist-info/METADATA")


def test_the_subject_is_no_part_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bill of a wheel lists what comes with it; the bill of an image has the agent as well."""
    monkeypatch.setattr(release, "OUT", tmp_path)
    made = release.Release("", 1_700_000_000, tmp_path, tmp_path, (), "")
    found = sbom.parts(FILES.items())
    for subject in (SUBJECT, sbom.Subject("meteragent-0.1.0-py3-none-any.whl", "0.1.0")):
        made.bill(subject, found)
        written = (tmp_path / f"{subject.name}.cdx.json").read_text()
        assert ("pkg:pypi/meteragent@0.1.0" in written) == subject.is_image


def test_changes_that_are_not_committed_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release is of a commit."""
    monkeypatch.setattr(distributions, "git", lambda *_: " M README.md")
    assert release.main([]) == 1
    assert "not committed" in capsys.readouterr().out


def test_every_python_that_is_declared_is_tried() -> None:
    """The classifiers of both distributions name the versions that are tried, from the oldest one on."""
    for path in (ROOT / "pyproject.toml", ROOT / "simulators" / "pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        declared = [text.rpartition(" ")[2] for text in project["classifiers"] if ":: Python :: 3." in text]
        assert tuple(declared) == environments.VERSIONS
        assert project["requires-python"] == f">={environments.VERSIONS[0]}"
    assert lock.python_version() in environments.VERSIONS


def test_a_python_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the path nor pyenv nor a release of Debian has it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(Missing, match=r"no python3\.12"):
        environments.find("3.12")


def test_the_sums_are_of_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a file, as sha256sum reads it."""
    monkeypatch.setattr(release, "OUT", tmp_path)
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "a").write_bytes(b"")
    release.write_sums()
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert (tmp_path / release.SUMS).read_text() == f"{empty}  a\n{empty}  b\n"


# Digests of bases -------------------------------------------------------------------------------------


def test_bases_get_the_digests_of_their_tags() -> None:
    """Each reference of a base gets a digest, an older one is replaced, and our own images have none."""
    old, new = f"sha256:{'0' * 64}", f"sha256:{'1' * 64}"
    text = "ARG PYTHON=python:3.13-slim\n    image: broker:5000/prom:v3 # its own\n    image: meteragent\n"
    pinned = lock.pinned(text, lambda _: old)
    assert pinned == (
        f"ARG PYTHON=python:3.13-slim@{old}\n    image: broker:5000/prom:v3@{old} # its own\n"
        "    image: meteragent\n"
    )
    tags: list[str] = []

    def digest(tag: str) -> str:
        tags.append(tag)
        return new

    assert lock.pinned(pinned, digest) == pinned.replace(old, new)
    assert tags == ["python:3.13-slim", "broker:5000/prom:v3"]


@pytest.mark.parametrize("path", lock.BASED, ids=lambda path: path.name)
def test_files_with_bases_have_some(path: Path) -> None:
    """Each has references that would get a digest."""
    digest = f"sha256:{'0' * 64}"
    assert f"@{digest}" in lock.pinned(path.read_text(), lambda _: digest)
