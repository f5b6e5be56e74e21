"""What several commands share: the words that start this program."""

import shlex
import sys
from pathlib import Path

import pytest

from meteragent.cli import common, main
from tests.support.not_run import ROOT


@pytest.mark.parametrize(
    ("script", "on_path", "words"),
    [
        ("/usr/bin/meteragent", "/usr/bin/meteragent", "meteragent"),
        (".venv/bin/meteragent", None, ".venv/bin/meteragent"),
        (".venv/bin/meteragent", "/usr/bin/meteragent", ".venv/bin/meteragent"),
        ("/my homes/meteragent", None, "'/my homes/meteragent'"),
        ("/lib/meteragent/__main__.py", "/usr/bin/meteragent", ".venv/bin/python -m meteragent"),
        ("/lib/other/__main__.py", None, "meteragent"),
    ],
)
def test_a_printed_command_starts_the_program_that_printed_it(
    script: str, on_path: str | None, words: str
) -> None:
    """The word `meteragent` is printed only if it starts this program; a module is started as a module."""
    assert common.program_words(script, ".venv/bin/python", on_path) == words


def test_a_link_on_the_path_starts_the_program_it_points_to(tmp_path: Path) -> None:
    """An installer may link the program into a folder of the path."""
    script, link = tmp_path / "meteragent", tmp_path / "link"
    script.write_text("")
    link.symlink_to(script)
    assert common.program_words(str(script), "python", str(link)) == "meteragent"


def test_check_prints_the_program_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next command can be copied where `meteragent` is not on the path."""
    path = str(ROOT / "deploy/try.toml")
    monkeypatch.setattr(sys, "argv", ["bin/meteragent", "check", path])
    monkeypatch.setenv("PATH", "")
    assert main(["check", path]) == 0
    assert f"\nNext: bin/meteragent run {shlex.quote(path)}\n" in capsys.readouterr().out
