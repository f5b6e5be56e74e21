"""Completion of the installed command by Tab, as the page says, in real shells."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands.system_parts import find
from tests.support.not_run import ROOT, not_run

PAGE = " ".join((ROOT / "docs" / "commands.md").read_text().split())
EVAL = 'eval "$(register-python-argcomplete meteragent)"'
FISH = "register-python-argcomplete --shell fish meteragent | source"
SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], EVAL),
    "zsh": (["-f", "-i"], f"autoload -U compinit; compinit -D; {EVAL}"),
}
LINES = {"meteragent led": "meteragent ledger ", "meteragent ledger home.toml --restored": "--restored-at"}
WAIT_S = 60


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a shell that finds the installed command, and no files of the user."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "HOME": str(folder), "TERM": "dumb", "COLUMNS": "200"}


def shell(name: str) -> str:
    """Return a shell's path."""
    program = find(name)
    return str(program) if program else not_run(name, f"{name} is not installed")


def shown(master: int, text: str) -> bool:
    """Return whether a terminal shows a text in time."""
    output, end_s = b"", time.monotonic() + WAIT_S
    while text.encode() not in output and time.monotonic() < end_s:
        if select.select([master], [], [], 0.2)[0]:
            output += os.read(master, 65_536)
    return text.encode() in output


@pytest.mark.parametrize("name", SHELLS)
def test_a_tab_completes_commands_and_options(name: str, tmp_path: Path) -> None:
    """After the page's line, Tab completes a command and an option on a terminal of the shell."""
    assert EVAL in PAGE
    options, setup = SHELLS[name]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [shell(name), *options],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=tmp_path,
        env=environment(tmp_path),
        start_new_session=True,
    )
    os.close(slave)
    try:
        os.write(master, f"{setup}; echo rea''dy\n".encode())
        assert shown(master, "ready")
        for line, completed in LINES.items():
            os.write(master, f"{line}\t".encode())
            assert shown(master, completed), line
            os.write(master, b"\x15")  # Ctrl-U: a new line
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_fish_completes_commands_and_options(tmp_path: Path) -> None:
    """After the page's line, fish offers commands and options, each with its purpose."""
    assert FISH in PAGE
    asked = "; ".join(f"complete -C '{line}'" for line in LINES)
    done = subprocess.run(
        [shell("fish"), "--no-config", "-c", f"{FISH}; {asked}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=WAIT_S,
        check=True,
    )
    offers = dict(line.split("\t") for line in done.stdout.splitlines())
    assert [*offers] == ["ledger", "--restored-at"]
    assert all(offers.values())
