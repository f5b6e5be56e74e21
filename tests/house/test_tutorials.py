"""The tutorials show what their commands print, and their examples run.

tests/integration/test_tutorials.py runs those that need a broker, and test_demo.py there `demo --crowd`.
"""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from meteragent import cli, config
from meteragent.cli.usage import make_parser
from meteragent.domain.grid import parse_time
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from simulators import __main__ as simulators
from simulators.homes.fleet import Fleet
from tests.support.not_run import ROOT
from tests.support.tutorial import Tutorial, assert_printed

RESEARCHER = Tutorial("docs/tutorials/researcher.md")
STREET = Tutorial("docs/tutorials/street.md")
ARCHIVE = Tutorial("docs/tutorials/archive.md")
HOME, HOME_DE = Tutorial("docs/tutorials/home.md"), Tutorial("docs/de/erster-wert.md")

PROGRAMS = {".venv/bin/meteragent ": cli.main, ".venv/bin/python -m simulators ": simulators.main}


def test_there_are_four_doors() -> None:
    """Each leads to a page to start with, and on to three to five more."""
    rows = re.findall(r"^\| \*\*.*$", (ROOT / "docs" / "index.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 4
    for row in rows:
        _, reader, start, then, _ = row.split("|")
        assert "](" not in reader
        assert 1 <= start.count("](") <= 2
        assert 3 <= then.count("](") <= 5


@pytest.mark.parametrize("text", RESEARCHER.blocks("python"))
def test_an_example_in_python_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in an empty folder, and what it asserts is true."""
    monkeypatch.chdir(tmp_path)
    exec(text, {})


def test_the_attack_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The table is that of the command above it, and the exit code that of a broken promise."""
    (command,) = RESEARCHER.commands(".venv/bin/python -m simulators ")
    (shown,) = RESEARCHER.blocks("text")
    assert simulators.main(shlex.split(command)) == 3
    assert capsys.readouterr().out == shown


def test_the_archive_is_released_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every block runs, in order, in one folder; each output shown is printed by the block above it.

    What Python prints depends on the noise, so only its form is compared.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    names: dict[str, object] = {}
    output, is_random = "", False
    for language, text in ARCHIVE.all_blocks[1:]:
        if language == "text":
            assert_printed(text, output, keeps_figures=not is_random)
            continue
        output, is_random = "", language == "python"
        if language == "toml":
            Path("archive.toml").write_text(text)
        elif language == "python":
            exec(text, names)
        else:
            for line in text.splitlines():
                output += typed(line) + "".join(capsys.readouterr())
        output += capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def typed(line: str) -> str:
    """Run a line of the shell, which must end with 0; return the output of programs that are not ours."""
    for program, main in PROGRAMS.items():
        if line.startswith(program):
            assert main(shlex.split(line.removeprefix(program))) == 0
            return ""
    return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout


def test_the_street_uses_what_the_page_says() -> None:
    """The energies given as the truth are those of the simulated homes, to the digit shown."""
    (day,) = Fleet(1, range(100)).days(0, 1, 300)
    north, south = (day.watts[homes].sum() / 12_000 for homes in (slice(0, 50), slice(50, 100)))
    assert f"{north:.1f} and {south:.1f} kWh" in STREET.text


@pytest.mark.parametrize("page", [HOME, HOME_DE, STREET], ids=["home", "home in German", "street"])
def test_every_command_is_known(page: Tutorial) -> None:
    """The agent accepts the words of each command, whether or not another test runs it."""
    commands = page.commands()
    assert len([*commands, *page.commands(".venv/bin/python -m simulators ")]) >= 4
    for command in commands:
        make_parser("0").parse_args(shlex.split(command))


def test_both_languages_type_the_same() -> None:
    """The German tutorial has the commands of the English one, in German, and one more."""
    english = [line.replace("check first.toml", "check first.toml --lang de") for line in HOME.lines]
    assert HOME_DE.lines == [*english, ".venv/bin/meteragent plan --hide kettle --share day --lang de"]
    assert HOME_DE.blocks("bash") == HOME.blocks("bash")
    assert set(HOME_DE.blocks("text")) <= set(HOME.blocks("text"))


@pytest.mark.parametrize(("page", "language"), [(HOME, "en"), (HOME_DE, "de")], ids=["en", "de"])
def test_check_says_what_is_quoted_at_home(
    page: Tutorial,
    language: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The headings and figures that the reader looks for are in what `check` prints, with one warning."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    Path("first.toml").write_text((ROOT / "deploy" / "try.toml").read_text() + "[page]\n")
    (check,) = (command for command in page.commands() if command.startswith("check "))
    assert cli.main(check.split()) == 0
    printed = capsys.readouterr().out
    headings = re.findall(r"^\* \*\*(.+?)\.\*\*", page.text, re.MULTILINE)
    assert len(headings) == 3
    decimal = {"en": "0.215 kWh", "de": "0,215 kWh"}[language]
    for text in [*headings, "4 Wh", "339 W", decimal]:
        assert text in printed
        assert text in page.text
    assert printed.count({"en": "\nWarning: ", "de": "\nWarnung: "}[language]) == 1


def test_the_first_number_is_as_shown() -> None:
    """The record shown is what the configuration sends, byte for byte, and its error is the one named."""
    (stream,) = config.parse((ROOT / "deploy" / "try.toml").read_text()).stream
    descriptor = describe_terms(config.terms(stream))
    (shown,) = (text for text in HOME.blocks("text") if text.startswith("try/"))
    topic, _, payload = shown.strip().partition(" ")
    record = json.loads(payload)
    sent = RecordFormat.of(descriptor).encode(record["meter"], parse_time(record["t"]), 0, record["value"])
    assert (topic, payload) == ("try/house/power", sent.decode())
    assert f"{record['value']} W" in HOME.text
    assert f"{record['value']} W" in HOME_DE.text
