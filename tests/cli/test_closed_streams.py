"""Commands whose standard input, output and error are closed, as a shell's `<&- >&- 2>&-` leaves them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.not_run import ROOT
from tests.support.stores import open_store, opening, persist

CONFIG = """
[source]
topic = "meters/{{meter}}/power"
kind = "power"
unit = "W"
[sink]
topic = "private/{{meter}}/power"
[store]
path = "{folder}/db"
"""

COMMANDS = {
    "--version": 0,
    "--help": 0,
    "check good": 0,
    "check good --json": 0,
    "check good --statement": 0,
    "check bad": 78,
    "check missing": 78,
    "ledger good": 0,
    "ledger good --json": 0,
    "ledger missing": 78,
    "export good": 0,
    "export good --json": 0,
    "health good": 1,
    "audit good --samples 200": 0,
    "plan --hide kettle --share half-hour": 0,
    "schema": 0,
    "tap good": 1,
    "redact payload": 0,
    "redact -": 0,
    "run bad": 78,
    "no-such-command": 2,
}
"""Commands and their codes; words name files of the folder where there are such."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a store, one that is refused, and a payload."""
    made = tmp_path_factory.mktemp("closed")
    (made / "good").write_text(CONFIG.format(folder=made))
    (made / "bad").write_text("[source]\nno_such_key = 1\n")
    (made / "payload").write_text('{"power": 100}')
    with open_store(made / "db") as store:
        persist(store, opening(1_000_000, "m1"))
    return made


def _run(folder: Path, command: str, redirections: str) -> int:
    words = [
        str(folder / word) if word in ("good", "bad", "missing", "payload") else word
        for word in command.split()
    ]
    shell = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "meteragent", *words]
    return subprocess.run(shell, cwd=ROOT, check=False, stdin=subprocess.DEVNULL).returncode


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_with_its_code(folder: Path, command: str) -> None:
    """With its output closed a command ends with the code that it always has."""
    assert _run(folder, command, ">&-") == COMMANDS[command]


@pytest.mark.parametrize("command", ["check good", "health good", "redact -", "run bad", "no-such-command"])
def test_no_stream_need_be_open(folder: Path, command: str) -> None:
    """The same with all three streams closed: for what prints, asks, reads, runs and is refused."""
    assert _run(folder, command, "<&- >&- 2>&-") == COMMANDS[command]


def test_errors_are_told_where_only_the_output_is_closed(folder: Path) -> None:
    """Output to standard error still appears, and is not an AttributeError."""
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "meteragent"]
    done = [
        subprocess.run([*shell, *words], cwd=ROOT, check=False, capture_output=True, text=True).stderr
        for words in (["check", str(folder / "bad")], ["check", str(folder / "good")])
    ]
    assert "source.topic" in done[0]
    assert done[1] == ""


def test_a_closed_streams_number_is_given_to_no_file(folder: Path) -> None:
    """The null device takes the numbers of closed streams: nothing that is printed can get into the store."""
    program = """if True:
        import json, os, sys
        from meteragent import cli
        from meteragent.cli import schema
        def look(_):
            out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
            os.write(out, json.dumps([os.readlink(f"/proc/self/fd/{n}") for n in range(3)] + [out]).encode())
            print("printed")
            return 0
        schema.run = look
        sys.exit(cli.main(["schema"]))
    """
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program, str(folder / "seen")]
    assert subprocess.run(shell, cwd=ROOT, check=False).returncode == 0
    *streams, number = json.loads((folder / "seen").read_text())
    assert streams == ["/dev/null"] * 3
    assert number > 2
