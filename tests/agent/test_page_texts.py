"""The page's files: texts in one place, nothing inline, nothing from elsewhere, and small."""

import re
from itertools import chain
from pathlib import Path

import pytest

from meteragent.texts import read_texts
from tests.support.not_run import ROOT

STATIC = ROOT / "meteragent" / "agent" / "page" / "static"
OURS = sorted(path for path in STATIC.glob("*") if path.suffix in {".html", ".js", ".css", ".svg"})
PAGES = sorted(STATIC.glob("*.html"))
TEXTS = read_texts("en")
SAYING = [
    *sorted((ROOT / "meteragent" / "report").rglob("*.py")),
    *(ROOT / "meteragent" / "agent" / "page" / f"{name}.py" for name in ("draft", "serialise")),
    *sorted((ROOT / "meteragent" / "cli").glob("*.py")),
]
REPORTS = "".join(path.read_text() for path in SAYING)
SCRIPT = "".join(path.read_text() for path in sorted(STATIC.glob("*.js")))


def asked() -> set[str]:
    """The names of texts that files ask for; of a name that is put together, all that fit."""
    plain = set(chain(*(re.findall(r"\{\{([\w.]+)\}\}", path.read_text()) for path in PAGES)))
    plain |= set(re.findall(r'say\("([\w.]+)"', SCRIPT)) | set(
        re.findall(r'"((?:health|line|now)\.\w+)"', SCRIPT)
    )
    plain |= set(re.findall(r'\? "([\w.]+\.\w+)" : ', SCRIPT)) | set(
        re.findall(r' : "([\w.]+\.\w+)"', SCRIPT)
    )
    made = set(re.findall(r"say\(`([\w.]+)\.\$\{", SCRIPT))
    return plain | {name for name in TEXTS if name.rpartition(".")[0] in made}


def asked_by_reports() -> set[str]:
    """The names of texts that commands and the statement ask for, or that they put together."""
    plain = set(re.findall(r"""["']([a-z_]+\.\w+)["']""", REPORTS)) | set(
        re.findall(r'say\("(\w+)"\)', REPORTS)
    )
    made = tuple(re.findall(r"""(?:say\(|= )f["'](\w+\.[\w.]*)\{""", REPORTS))
    return {name for name in TEXTS if name in plain or name.startswith(made)}


def test_texts_are_in_one_place() -> None:
    """Every text that a file or a report asks for is there, and there is none that nobody asks for."""
    given_by_the_server = {"lang", "login.wait", "login.wrong", "wrong"}
    assert (asked() - given_by_the_server) | asked_by_reports() == set(TEXTS) - given_by_the_server


def test_texts_are_texts() -> None:
    """No text is empty, and none holds markup."""
    assert all(text.strip() and not re.search(r"[<>&]", text) for text in TEXTS.values())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_have_no_words_of_their_own(path: Path) -> None:
    """What a person reads in a page comes from the texts."""
    text = path.read_text()
    words = re.sub(r"\{\{[\w.]+\}\}|<[^>]*>", "", text)
    assert words.strip() == ""
    assert not re.search(r'(?:aria-label|placeholder|title|alt)="(?!\{\{)', text)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_nothing_is_inline(path: Path) -> None:
    """Pages hold no script, style or handler: the policy would refuse them."""
    text = path.read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
    assert all(re.search(r'\ssrc="/static/', tag) for tag in re.findall(r"<script[^>]*>", text))
    assert not re.search(r"<script[^>]*>[^<]", text)
    assert re.search(r'<html lang="\{\{lang\}\}">', text)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    """No file names an address: all that the page loads is its own."""
    text = path.read_text()
    assert set(re.findall(r"[\w.+-]*:?//[^\s/*][^\s\"')]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\beval\(|innerHTML|insertAdjacentHTML|document\.write|new Function", text)


def test_the_page_is_small() -> None:
    """All files of the page but its texts have at most 110 kB."""
    assert sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file()) <= 110_000
