"""SIGTERM at the edges of a service's life: while its modules are loaded, and after its work has ended."""

import subprocess
import sys

import pytest

WHILE_LOADING = """
import importlib.abc, os, signal, sys

class Stopper(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "meteragent.cli":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Stopper())
from meteragent.__main__ import main
sys.exit(main())
"""
AFTER_ITS_WORK = """
import asyncio, os, signal
from meteragent.service.process import run_until_signalled

async def stopped_by_itself():
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()

asyncio.run(run_until_signalled(stopped_by_itself()))
os.kill(os.getpid(), signal.SIGTERM)
"""


def exit_code(program: str, *words: str) -> int:
    """Run a program with arguments; return its exit code."""
    return subprocess.run([sys.executable, "-c", program, *words], check=False, timeout=60).returncode


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "agent.toml"), 0),
        (("collect", "collect.toml"), 0),
        (("crowd", "leader", "leader.toml"), 0),
        (("collect", "--check", "collect.toml"), -15),
        (("check", "agent.toml"), -15),
    ],
)
def test_a_service_that_is_stopped_while_it_loads_ends_well(words: tuple[str, ...], code: int) -> None:
    """It ends with 0, as later; any other command ends as a signal ends it."""
    assert exit_code(WHILE_LOADING, *words) == code


def test_a_signal_that_comes_late_is_no_crash() -> None:
    """The first SIGTERM ends the work; one that comes while the process ends changes nothing."""
    assert exit_code(AFTER_ITS_WORK) == 0
