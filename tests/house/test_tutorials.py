"""The tutorials show what their commands print, and their examples run."""

import re
from pathlib import Path

import pytest

from simulators import __main__ as simulators
from tests.support.not_run import ROOT

RESEARCHER = (ROOT / "docs" / "tutorials" / "researcher.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", RESEARCHER, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", blocks("python"))
def test_an_example_in_python_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in an empty folder, and what it asserts is true."""
    monkeypatch.chdir(tmp_path)
    exec(text, {})


def test_the_attack_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The table is that of the command above it, and the exit code that of a broken promise."""
    (command,) = re.findall(r"^\.venv/bin/python -m simulators (.*)$", RESEARCHER, re.MULTILINE)
    arguments = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', command)]
    (shown,) = blocks("text")
    assert simulators.main(arguments) == 3
    assert capsys.readouterr().out == shown
