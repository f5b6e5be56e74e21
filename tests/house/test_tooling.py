"""What editors and commits are told is what `make lint` and `make types` check."""

import configparser
import re
import tomllib

import yaml

from tests.house.test_architecture import name_of, tracked
from tests.support.not_run import ROOT

HOOKS = (ROOT / ".pre-commit-config.yaml").read_text()
EDITORS = configparser.ConfigParser()
EDITORS.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
AS_THEY_CAME = ("meteragent/agent/page/static/uplot/", "tests/fuzz/corpus/", "tests/data/payloads/")


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile."""
    (found,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in found.splitlines()]


def test_a_commit_is_checked_as_make_does() -> None:
    """Each hook is a command of `make lint` or `make types`, in that order, and none is left out."""
    (repository,) = yaml.safe_load(HOOKS)["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == [*recipe("lint"), *recipe("types")]
    assert all(hook["pass_filenames"] is False for hook in repository["hooks"])


def test_a_commit_downloads_nothing() -> None:
    """All hooks are local and use the environment that is there; no host is named."""
    (repository,) = yaml.safe_load(HOOKS)["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    assert "://" not in HOOKS


def test_editors_are_told_what_is_checked() -> None:
    """Lines of Python are as long as ruff lets them be; recipes of make begin with a tab."""
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert EDITORS.getint("*.{py,pyi}", "max_line_length") == ruff["line-length"]
    assert EDITORS["Makefile"]["indent_style"] == "tab"
    (kept,) = (name for name in EDITORS.sections() if EDITORS[name].get("charset") == "unset")
    assert kept == "{" + ",".join(name.rstrip("/") for name in AS_THEY_CAME) + "}/**"


def test_files_are_as_editors_are_told() -> None:
    """Every text of ours is UTF-8; its lines, the last one too, end with a line feed and without blanks."""
    told = {"charset": "utf-8", "end_of_line": "lf", "insert_final_newline": "true"}
    assert told.items() <= dict(EDITORS["*"]).items()
    assert EDITORS.getboolean("*", "trim_trailing_whitespace")
    texts = [
        path for path in tracked() if path.suffix != ".png" and not name_of(path).startswith(AS_THEY_CAME)
    ]
    assert len(texts) > 100
    for path in texts:
        text = path.read_bytes().decode()
        assert "\r" not in text, path
        assert not text or text.endswith("\n"), path
        assert not re.search(r"[ \t]$", text, re.MULTILINE), path


def test_the_site_has_a_first_page() -> None:
    """index.html at the top of the site leads to the page of docs/index.md; `make docs` names it."""
    text = (ROOT / "docs" / "site" / "index.html").read_text()
    assert re.findall(r"url=([\w/.]+)", text) == ["docs/index.html"]
    assert 'html_extra_path = ["site"]' in (ROOT / "docs" / "conf.py").read_text()
    assert recipe("docs")[-1] == '@echo "Open $(CURDIR)/build/docs/index.html"'


def test_checkpoints_of_notebooks_are_ignored() -> None:
    """Jupyter leaves copies beside the notebooks of the documentation."""
    assert ".ipynb_checkpoints/" in (ROOT / ".gitignore").read_text().splitlines()


def test_each_page_has_a_title_of_its_own() -> None:
    """The site's list of pages has no heading twice; its root, docs/index.md, is not in that list."""
    pages = [path for path in tracked() if path.suffix == ".md" and name_of(path) != "docs/index.md"]
    titles = [line for path in pages if (line := path.read_text().partition("\n")[0]).startswith("# ")]
    assert [title for title in set(titles) if titles.count(title) > 1] == []
