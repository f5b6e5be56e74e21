"""The Debian package, without a Debian system: its metadata, what is made for it, its trial's judge."""

import argparse
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import meteragent
from deploy.debian import generate
from meteragent import config
from meteragent.cli import usage
from tests.brokers.root import Missing
from tests.commands import deb
from tests.commands.systems import package, trial
from tests.commands.systems.debian import Failed
from tests.support.not_run import ROOT

DEBIAN = ROOT / "deploy" / "debian"
CONTROL = (DEBIAN / "control").read_text()
PAGES = generate.pages(generate.parser(), "2026-11-22")
MACROS = {".TH", ".SH", ".TP", ".PP"}


def dependencies(field: str) -> set[str]:
    """Return the packages of a field of debian/control."""
    (text,) = re.findall(rf"(?m)^{field}:\n((?: .*\n)+)", CONTROL)
    return {line.split()[0].rstrip(",") for line in text.splitlines()}


def recipe(target: str) -> list[str]:
    """Return the commands of a target of debian/rules."""
    (lines,) = re.findall(rf"(?m)^{target}:\n((?:\t.*\n)+)", (DEBIAN / "rules").read_text())
    return [line.strip() for line in lines.replace("\\\n", " ").splitlines()]


def test_the_version_is_the_program_s() -> None:
    """The changelog's newest entry is of this version."""
    first = (DEBIAN / "changelog").read_text().splitlines()[0]
    assert first.startswith(f"meteragent ({meteragent.__version__}-")


def test_what_the_program_needs_is_asked_for() -> None:
    """Each requirement of the distribution is a package that the build and the installation ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=]", requirement)[0] for requirement in project["dependencies"]} - {"tzdata"}
    assert {f"python3-{name}" for name in names} <= dependencies("Build-Depends")
    assert {"tzdata", "${python3:Depends}"} <= dependencies("Depends")
    page = {re.split(r"[<>=]", requirement)[0] for requirement in project["optional-dependencies"]["page"]}
    assert {f"python3-{name}" for name in page} == dependencies("Recommends")
    for name, least in (("numpy", "1:1.26"), ("pydantic", "2.7")):
        assert f"python3-{name} (>= {least})" in CONTROL
        assert f"{name}>={least.removeprefix('1:')}" in project["dependencies"]


def test_the_build_system_has_what_the_package_asks_for() -> None:
    """Virtual packages are replaced by those that provide them, and lintian is added."""
    packages = package.build_packages()
    assert {"debhelper", "dh-python", "python3-hatchling", "python3-shtab", "lintian"} <= set(packages)
    assert not [name for name in packages if name.startswith(("dh-sequence", "debhelper-"))]


def made(name: str, folder: Path) -> str:
    """Return a file that debian/rules makes with sed from one that is shipped."""
    (line,) = [
        line
        for line in recipe("execute_after_dh_auto_build")
        if re.fullmatch(rf"sed .*> \S*{re.escape(name)}", line)
    ]
    (folder / "debian" / "made").mkdir(parents=True)
    (folder / "deploy").symlink_to(ROOT / "deploy")
    subprocess.run(["sh", "-ec", line], check=True, cwd=folder)
    return (folder / line.rpartition(" ")[2]).read_text()


def test_the_unit_is_the_one_that_is_shipped(tmp_path: Path) -> None:
    """It differs in its program, in its user, which the package makes, and in the manual page it names."""
    shipped = (ROOT / "deploy" / "systemd" / "meteragent.service").read_text().splitlines()
    unit = made("meteragent.service", tmp_path).splitlines()
    assert set(unit) - set(shipped) == {
        "ExecStart=/usr/bin/meteragent run /etc/meteragent/meteragent.toml",
        "User=meteragent",
        "Documentation=man:meteragent(1)",
    }
    assert {line.partition("=")[0] for line in set(shipped) - set(unit)} == {"ExecStart", "DynamicUser"}
    assert "u     meteragent" in (DEBIAN / "meteragent.sysusers").read_text()


def test_the_configuration_names_the_store_for_all_folders(tmp_path: Path) -> None:
    """It is the reference configuration, and its store is in the state directory, wherever a command runs."""
    text = made("meteragent.toml", tmp_path)
    assert config.parse(text).store.path == Path("/var/lib/meteragent/meteragent.db")
    reference = (ROOT / "deploy" / "meteragent.toml").read_text().splitlines()
    assert len(set(text.splitlines()) - set(reference)) == 1


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its subcommands."""
    yield parser
    for action in generate.subparsers(parser):
        for child in action.choices.values():
            yield from parsers(child)


@pytest.mark.parametrize("parser", [*parsers(generate.parser())], ids=generate.page_name)
def test_a_page_says_what_help_says(parser: argparse.ArgumentParser) -> None:
    """Each command has a page with all its options and exit codes, of macros that man(7) knows."""
    page = PAGES[generate.page_name(parser)]
    text = page.replace("\\-", "-")
    assert f'.TH "{generate.page_name(parser).upper()}" 1 "2026-11-22"' in text
    headings = re.findall(r'(?m)^\.SH "?([A-Z ]+)"?$', page)
    assert headings[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert {"EXIT STATUS", "FILES", "SEE ALSO"} <= set(headings)
    options = {word for action in parser._actions for word in action.option_strings}
    assert options <= set(re.findall(r"--?[a-z][a-z-]*", text))
    for code in re.findall(r"(?m)^  (\d+) ", str(parser.epilog)):
        assert f".TP\n\\fB{code}\\fR\n" in page
    assert {line.split()[0] for line in page.splitlines() if line.startswith(".")} <= MACROS


def test_every_command_has_a_page() -> None:
    """The pages are those of the program, of its commands, and of the actions of commands that have some."""
    assert {"meteragent", *(f"meteragent-{name}" for name in usage.COMMANDS)} <= set(PAGES)
    assert set(PAGES) == {program.prog.replace(" ", "-") for program in parsers(generate.parser())}
    assert "meteragent-key-new" in PAGES


def test_roff_reads_a_text_as_it_stands() -> None:
    """Backslashes, hyphens, and a point at the beginning of a line do not act as commands."""
    assert generate.roff("a\\b --c") == "a\\eb \\-\\-c"
    assert generate.roff(".TH\n.x") == "\\&.TH\n\\&.x"
    assert generate.quoted('say "it"') == '"say \\(dqit\\(dq"'


def test_paths_complete_as_paths() -> None:
    """Arguments that are files or folders are marked for the shell, also those of subcommands."""
    parser = generate.parser()
    generate.mark(parser, "file", "folder")
    marks = {
        (program.prog, action.dest): action.complete
        for program in parsers(parser)
        for action in program._actions
        if hasattr(action, "complete")
    }
    assert marks["meteragent run", "config"] == marks["meteragent key new", "file"] == "file"
    assert marks["meteragent discover", "password_file"] == "file"
    assert ("meteragent redact", "profile") not in marks


# The trial --------------------------------------------------------------------------------------------


def record(start_s: int, value: int = trial.LOAD_W) -> str:
    """Return a record of the slot that begins `second` seconds after noon."""
    return json.dumps({"t": f"2026-11-22T12:00:{start_s:02}Z", "value": value})


def test_slots_in_a_row_are_accepted() -> None:
    """A record may come twice; its value is near what was fed."""
    seen = trial.starts([record(0), record(5, 103), record(5, 103), record(10, 98)])
    assert [start - seen[0] for start in seen] == [0, 5, 10]


@pytest.mark.parametrize(
    ("payloads", "reason"),
    [
        ([record(0, 99), record(0, 101)], "two|values"),
        ([record(0), record(10)], "no slot between"),
        ([record(0, 20)], "were fed"),
    ],
)
def test_a_slot_that_is_wrong_fails_the_trial(payloads: list[str], reason: str) -> None:
    """Two values of one slot, a slot that is missing, and a value far from what was fed are failures."""
    with pytest.raises(Failed, match=reason):
        trial.starts(payloads)


def test_the_trial_s_configuration_is_accepted() -> None:
    """It has slots of the length that the judge expects."""
    settings = config.parse(trial.configuration("/var/lib/meteragent/meteragent.db"))
    assert config.terms(settings.stream[0]).step_ms == 1000 * trial.SLOT_S


def test_what_cannot_be_made_is_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is printed and does not count as a failure, whereas an error does."""

    def refuse(error: Exception) -> None:
        raise error

    monkeypatch.setattr(deb, "must_be_possible", lambda: refuse(Missing("only root can")))
    assert deb.main([]) == 0
    assert capsys.readouterr().out == "NOT RUN: the Debian package: only root can\n"
    monkeypatch.setattr(deb, "must_be_possible", lambda: refuse(Failed("two builds differ")))
    assert deb.main([]) == 1
    assert "two builds differ" in capsys.readouterr().out
