"""What a gateway installs: `meteragent` alone. The simulators are a second distribution of the same version.

Both are built by hatchling as sdists and as wheels, from the tree and from the sdists, and installed into
environments of their own without a network: other packages are those of the environment that runs the tests.
"""

import os
import re
import site
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

import hatch_build
import meteragent
import simulators
from tests.support.budgets import assert_within
from tests.support.configurations import written
from tests.support.not_run import ROOT

FOLDERS = {"meteragent": ROOT, "simulators": ROOT / "simulators"}
PROJECTS = {
    name: tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    for name, folder in FOLDERS.items()
}
DOCUMENTS = {".md", ".png"}
"""Suffixes of files in `simulators` that are read in the repository only."""

ADDRESS = "https://example.org/meteragent"
FEW = 10
"""More lines than a text that was lost on its way."""

Installer = Callable[..., Path]


class Built(NamedTuple):
    """One distribution: its sdist, and its wheels by what they were built from."""

    sdist: Path
    wheels: dict[str, Path]


def done(*command: str | Path, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without this process's import path; it must end with the code."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended


def only(files: Iterable[Path]) -> Path:
    """Return the one file there is."""
    (file,) = files
    return file


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Both distributions, by import name."""
    found = {}
    for name, folder in FOLDERS.items():
        out = tmp_path_factory.mktemp(name)
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
        done(*build, out / "sdist", folder, folder=out)  # the wheel is built from the sdist
        done(*build, out / "tree", "--wheel", folder, folder=out)
        wheels = {origin: only((out / origin).glob("*.whl")) for origin in ("sdist", "tree")}
        found[name] = Built(only((out / "sdist").glob("*.tar.gz")), wheels)
    return found


@pytest.fixture
def install(tmp_path: Path) -> Installer:
    """Install into a new environment, whose programs are in the folder returned."""

    def installed(*what: str | Path) -> Path:
        venv.create(tmp_path / "venv", with_pip=False)
        programs = tmp_path / "venv" / "bin"
        # A path in a .pth file is no site folder: .pth files in it, as of editable ones, are not read.
        packages = only((tmp_path / "venv" / "lib").glob("python*/site-packages"))
        (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
        pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet")
        apart = ("--ignore-installed", "--no-index", "--no-deps", "--no-build-isolation")
        done(*pip, *apart, *what, folder=tmp_path)
        return programs

    return installed


# What is in them --------------------------------------------------------------------------------------


def members(wheel: Path) -> set[str]:
    """Return the files of a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def packaged(name: str) -> set[str]:
    """Return the files of a package in the tree that an installation needs."""
    files = (path for path in (ROOT / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    if name == "simulators":
        beside = {ROOT / name / "pyproject.toml", ROOT / name / "LICENSE"}
        files = (path for path in files if path.suffix not in DOCUMENTS and path not in beside)
    return {path.relative_to(ROOT).as_posix() for path in files}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_holds_its_package_and_nothing_else(built: dict[str, Built], name: str) -> None:
    """Each wheel has the files of one package, typed, the same from the tree and from the sdist."""
    files = members(built[name].wheels["tree"])
    assert files == members(built[name].wheels["sdist"]) == packaged(name)
    assert f"{name}/py.typed" in files
    assert {file.partition("/")[0] for file in files} == {name}


def test_the_first_sdist_has_no_simulators(built: dict[str, Built]) -> None:
    """Nor has it tests or benchmarks, which need them."""
    with tarfile.open(built["meteragent"].sdist) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if name.count("/") > 1}
    assert folders == {"meteragent", "deploy", "docs"}


def test_both_have_one_version_and_one_license(built: dict[str, Built]) -> None:
    """The second asks for the first in its own version, and brings the same license."""
    version = meteragent.__version__
    assert simulators.__version__ == version
    assert f"meteragent=={version}" in PROJECTS["simulators"]["dependencies"]
    licenses = set()
    for name, distribution in built.items():
        assert f"{PROJECTS[name]['name'].replace('-', '_')}-{version}" in distribution.sdist.name
        with zipfile.ZipFile(distribution.wheels["tree"]) as archive:
            licenses.add(archive.read(only(map(Path, filter(is_license, archive.namelist()))).as_posix()))
    assert licenses == {(ROOT / "LICENSE").read_bytes()}


@pytest.mark.parametrize("name", FOLDERS)
def test_an_index_shows_what_leads_somewhere(built: dict[str, Built], name: str) -> None:
    """The text of each distribution is Markdown without relative links, and both describe themselves."""
    for file in built[name].wheels.values():
        with zipfile.ZipFile(file) as archive:
            (member,) = (path for path in archive.namelist() if path.endswith(".dist-info/METADATA"))
            head, _, text = archive.read(member).decode().partition("\n\n")
        assert not re.findall(r"\]\((?!https://|#)", text)
        assert len(text.splitlines()) > FEW
        fields = {"Author", "Keywords", "Summary", "License-Expression", "Requires-Python"}
        assert fields <= {line.partition(":")[0] for line in head.splitlines()}
        assert "Description-Content-Type: text/markdown" in head


def test_an_address_makes_links_of_an_index_absolute() -> None:
    """Each leads to a file of the version's tag, pictures to their bytes; other links are as they were."""
    text = (ROOT / "README.md").read_text()
    shown = hatch_build.readme(text, ADDRESS, "v0")
    links = re.findall(rf"(!?)\[[^\]]*\]\({ADDRESS}/(blob|raw)/v0/([^)#]+)", shown)
    assert len(links) == len(re.findall(r"\]\((?!https:|#)", text))
    for picture, kind, path in links:
        assert (ROOT / path).is_file()
        assert kind == ("raw" if picture else "blob")
    assert re.sub(rf"{ADDRESS}/(blob|raw)/v0/", "", shown) == text
    for address in hatch_build.addresses(ADDRESS, "v0").values():
        path = address.removeprefix(ADDRESS).removeprefix("/blob/v0/")
        assert (ROOT / path).exists()


def test_without_an_address_a_link_names_its_file() -> None:
    """No link remains, each file is named once, and a picture goes with its lines."""
    text = "a\n\n![the page](docs/page.png)\n\n[b](c.md#d), [`e`](e), [f](https://g.org), [h](#i)"
    assert hatch_build.readme(text, "", "v0") == "a\n\nb (`c.md#d`), `e`, [f](https://g.org), [h](#i)"


def is_license(name: str) -> bool:
    """Tell whether a wheel's member is the text of the license."""
    return name.endswith(".dist-info/licenses/LICENSE")


def test_the_changelog_has_this_version() -> None:
    """Its newest version is that of the package, with a date, below a section for what comes next."""
    heads = re.findall(r"(?m)^## \[(.+)\](?: - (\d{4}-\d{2}-\d{2}))?$", (ROOT / "CHANGELOG.md").read_text())
    assert heads[0] == ("Unreleased", "")
    version, date = heads[1]
    assert version == meteragent.__version__
    assert date
    package = (ROOT / "deploy" / "debian" / "changelog").read_text()
    assert package.startswith(f"meteragent ({version}-")


def test_the_changelog_is_short() -> None:
    """It says what users get, in words that they read before an installation or an update."""
    words = len((ROOT / "CHANGELOG.md").read_text().split())
    assert_within("the limit in test_distributions.py (words of CHANGELOG.md)", words, 1_500)


def test_an_extra_is_of_others() -> None:
    """The first distribution asks for nothing of ours, with any extra."""
    asked = [*PROJECTS["meteragent"]["dependencies"]]
    asked += [one for extra in PROJECTS["meteragent"]["optional-dependencies"].values() for one in extra]
    assert asked
    assert not [one for one in asked if re.match(r"meteragent|simulators|\.|/", one)]


def test_an_extra_that_is_named_exists() -> None:
    """What texts, recipes and messages tell to install is an extra of the distribution that they name."""
    known = {project["name"]: set(project["optional-dependencies"]) for project in PROJECTS.values()}
    places = {"meteragent": "meteragent", "meteragent-simulators": "meteragent-simulators"}
    places |= {".": "meteragent", "./simulators": "meteragent-simulators"}
    named = re.compile(
        r"(?<=[' ])(meteragent(?:-simulators)?|\.|\./simulators)\[([a-z]+(?:,[a-z]+)*)\](?=['=)])"
    )
    files = [*ROOT.glob("*.md"), ROOT / "Makefile"]
    for folder in ("meteragent", "simulators", "deploy", "docs", "benchmarks"):
        files += [
            path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ""} if path.is_file()
        ]
    hits = [match.groups() for path in files for match in named.finditer(path.read_text(errors="replace"))]
    assert {name for name, _ in hits} == set(places)
    for name, extras in hits:
        assert set(extras.split(",")) <= known[places[name]], (name, extras)


# What they do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["tree", "sdist"])
def test_the_agent_runs_alone(
    built: dict[str, Built], install: Installer, tmp_path: Path, origin: str
) -> None:
    """With the first distribution alone the commands work."""
    programs = install(built["meteragent"].wheels[origin])
    missing = done(programs / "python", "-c", "import simulators", folder=tmp_path, code=1)
    assert "ModuleNotFoundError: No module named 'simulators'" in missing.stderr
    where = done(programs / "python", "-c", "import meteragent; print(meteragent.__file__)", folder=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(tmp_path)
    assert "usage: meteragent" in done(programs / "meteragent", "--help", folder=tmp_path).stdout
    (tmp_path / "home.toml").write_text(written())
    assert "epsilon" in done(programs / "meteragent", "check", "home.toml", folder=tmp_path).stdout


@pytest.mark.parametrize("origin", ["tree", "sdist"])
def test_the_simulators_run_beside_the_agent(
    built: dict[str, Built], install: Installer, tmp_path: Path, origin: str
) -> None:
    """With both, `python -m simulators` is there, and a simulation runs."""
    programs = install(*(distribution.wheels[origin] for distribution in built.values()))
    python = programs / "python"
    assert "generate" in done(python, "-m", "simulators", "--help", folder=tmp_path).stdout
    refused = done(python, "-m", "simulators", "demo", "--homes", "1", folder=tmp_path, code=2)
    assert "1 is not a number of homes, at least 2" in refused.stderr
    generate = ("-m", "simulators", "generate", "--seed", "1", "--homes", "1", "--days", "1")
    done(python, *generate, "--out", "home.csv", folder=tmp_path)
    assert len((tmp_path / "home.csv").read_text().splitlines()) == 1 + 24 * 4


def test_an_editable_installation_finds_both(install: Installer, tmp_path: Path) -> None:
    """Both packages are those of the clone, and modules inside `simulators` have no second name."""
    programs = install("--editable", FOLDERS["meteragent"], "--editable", FOLDERS["simulators"])
    code = "import meteragent, simulators; print(meteragent.__file__, simulators.__file__, sep='\\n')"
    found = done(programs / "python", "-c", code, folder=tmp_path).stdout.split()
    assert [Path(name) for name in found] == [ROOT / name / "__init__.py" for name in FOLDERS]
    second = done(programs / "python", "-c", "import fleet", folder=tmp_path, code=1)
    assert "No module named 'fleet'" in second.stderr
