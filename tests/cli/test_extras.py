"""Hints for extras: they name what exists, wherever this installation came from."""

import importlib.metadata
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from meteragent import __version__, config, extras
from meteragent.cli import main
from tests.support.configurations import written
from tests.support.not_run import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def without(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Let one module be as if it were not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else find(name))


def test_each_extra_of_the_distribution_is_known() -> None:
    """Extras are those of the distribution's own table, and install the distributions of their modules."""
    tables, owners = PROJECT["optional-dependencies"], importlib.metadata.packages_distributions()
    assert set(extras.MODULES) == set(tables)
    for extra, modules in extras.MODULES.items():
        packages = {re.split("[>[]", requirement)[0] for requirement in tables[extra]}
        assert {name for module in modules for name in owners[module]} <= packages


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        (
            '{"dir_info": {"editable": true}, "url": "file:///x"}',
            "pip install '.[page]' in a clone of the repository",
        ),
        (
            '{"archive_info": {}, "url": "file:///x.whl"}',
            "pip install '.[page]' in a clone of the repository",
        ),
        (None, f"pip install 'meteragent[page]=={__version__}'"),
    ],
)
def test_a_hint_is_for_where_the_installation_came_from(
    record: str | None, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From an index by name and version; from a clone or a wheel that was built there, in a clone."""
    folder = tmp_path / "meteragent-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: meteragent\nVersion: 0\n")
    if record is not None:
        (folder / "direct_url.json").write_text(record)
    monkeypatch.setattr(
        importlib.metadata, "distribution", lambda _: importlib.metadata.PathDistribution(folder)
    )
    assert extras.hint("page") == hint


def test_debian_s_package_names_debian_s_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Debian has is installed by apt; the rest needs a clone."""
    monkeypatch.setattr(extras, "__file__", "/usr/lib/python3/dist-packages/meteragent/extras.py")
    assert extras.hint("page") == "apt install python3-starlette python3-uvicorn"
    assert extras.hint("analysis") == "apt install python3-scipy"
    assert extras.hint("archive") == "pip install '.[archive]' in a clone of the repository"


def test_without_an_installation_a_hint_is_for_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs the code from a clone without having installed it has the clone."""

    def nothing(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", nothing)
    assert (
        extras.hint("sim", extras.SIMULATORS)
        == "pip install . './simulators[sim]' in a clone of the repository"
    )


@pytest.mark.parametrize("module", extras.MODULES["page"])
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_page_without_its_extra_is_refused_by_check_as_by_run(
    command: str,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both end with 78 and the same words, before anything runs."""
    path = tmp_path / "home.toml"
    path.write_text(written() + "[page]\n")
    without(monkeypatch, module)
    assert main([command, str(path)]) == 78
    line = path.read_text().splitlines().index("[page]") + 1
    told = f"{path}:{line}: page: found this table, but no {module}; expected the page's extra: "
    assert capsys.readouterr().err == f"{told}pip install '.[page]' in a clone of the repository\n"
    path.write_text(written())
    assert config.missing_extra_refusals(config.load(path)) == []
