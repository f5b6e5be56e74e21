"""What the running test uses, by Python's audit events: programs that it starts, sockets that it opens."""

import gc
import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from socket import socket
from weakref import WeakSet

import pytest

EVERYWHERE = frozenset({"bash", "cp", "git", "sh", "uname"})
"""Programs that are there wherever a clone is made; so is Python."""
_PYTHON, _PACKAGES = (sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib"))
_sockets: WeakSet[socket] = WeakSet()
_programs: list[str] = []
_running: list[pytest.Item] = []


def watch(item: pytest.Item) -> None:
    """Say which test runs from now on."""
    if not _running:
        sys.addaudithook(_hear)
    _running[:] = [item]


def assert_marked(mark: str, action: str) -> None:
    """Fail the running test if it has not the mark of what it does."""
    if _running and _running[0].get_closest_marker(mark) is None:
        pytest.fail(
            f"a test that {action} has the mark `{mark}`, by FOLDERS or FIXTURES of tests/conftest.py"
        )


def collect_leaks() -> None:
    """Collect the garbage of a test that has left a socket open or started a program.

    What it leaked in a cycle is a ResourceWarning then, which fails this test; later it would fail another.
    """
    if _programs or any(item.fileno() >= 0 for item in list(_sockets)):
        _programs.clear()
        gc.collect()


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    """Note what is opened; fail a test that starts a program of the system without saying so by its mark."""
    if event == "socket.__new__" and isinstance(arguments[0], socket):
        _sockets.add(arguments[0])
    elif event == "subprocess.Popen":
        program = Path(os.fsdecode(arguments[0]))  # type: ignore[arg-type]
        _programs.append(program.name)
        if not is_everywhere(program) and _is_started_by_us():
            assert_marked("parts", f"starts {program.name}")


def is_everywhere(program: Path) -> bool:
    """Return whether a program is there wherever tests run, or is made by the test."""
    is_made = program.is_relative_to(tempfile.gettempdir())
    return is_made or program.name in EVERYWHERE or program.name.startswith("python")


def _is_started_by_us() -> bool:
    """Return whether our code starts a program, not another package, which can do without it."""
    frame = sys._getframe(2)
    while frame.f_back and _is_of_python(frame.f_code.co_filename):
        frame = frame.f_back
    return not frame.f_code.co_filename.startswith(_PACKAGES)


def _is_of_python(file: str) -> bool:
    return file.startswith(_PYTHON) and not file.startswith(_PACKAGES)
