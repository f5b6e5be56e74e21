"""A test does alone what it does among all others, and answers for what it uses."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from _pytest.outcomes import Failed

from tests.support.not_run import ROOT, data_folder

DRAWN = """
import sys
import tests.support.hypothesis_profiles
from hypothesis import given, settings, strategies as st

@settings(max_examples=200)
@given(st.integers(), st.text())
def draw(number, text):
    print(number, ascii(text))

draw()
"""
"""Prints the examples that it draws."""


def drawn(before: str = "") -> str:
    """Return the examples that are drawn after some code, as in `make test`."""
    command = [sys.executable, "-c", before + DRAWN]
    env = os.environ | {"HYPOTHESIS_PROFILE": "ci"}
    return subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout


def test_examples_do_not_depend_on_what_is_imported() -> None:
    """`make test` draws the same examples for a test whichever modules other tests have imported."""
    alone = drawn()
    assert len(alone.splitlines()) == 200
    assert drawn("import meteragent.config") == alone


def test_a_program_of_the_system_needs_a_mark() -> None:
    """A test that is not marked `parts` cannot start one, so that `make quick` runs in a bare clone.

    Packages may look for programs that they can do without.
    """
    with pytest.raises(Failed, match="starts true has the mark `parts`"):
        subprocess.run(["true"], check=True)
    code = compile("subprocess.run(['true'])", f"{sysconfig.get_path('purelib')}/package.py", "exec")
    exec(code, {"subprocess": subprocess})


def test_real_traces_need_a_mark() -> None:
    """A test that is not marked `data` cannot read them."""
    with pytest.raises(Failed, match="reads real load traces has the mark `data`"):
        data_folder()


LEAKS = """
import asyncio
import socket
import pytest

def in_a_cycle(thing):
    cycle = [thing]
    cycle.append(cycle)

@pytest.fixture(scope="module")
def server():
    yield
    in_a_cycle(socket.socket())

def test_socket():
    in_a_cycle(socket.socket())

async def test_connection():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1")
    in_a_cycle(await asyncio.open_connection(*server.sockets[0].getsockname()))
    server.close()

def test_innocent():
    pass

def test_last(server):
    pass
"""
"""Tests that leave something open, and one that does not."""


def test_who_leaks_a_socket_fails(tmp_path: Path) -> None:
    """The test that leaves a socket or a connection open fails, or its module's last; no other test does."""
    (tmp_path / "test_leaks.py").write_text(LEAKS)
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    errors = re.findall(r"^(ERROR|FAILED) .*::(test_\w+)", result.stdout, re.MULTILINE)
    assert errors == [("ERROR", f"test_{name}") for name in ("socket", "connection", "last")], result.stdout
