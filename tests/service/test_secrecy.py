"""A process that holds readings is dumped by nobody, and works all the same, whoever runs it."""

import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from meteragent.agent import service as agent
from meteragent.domain.counters import PUBLIC
from meteragent.domain.errors import StoreError
from meteragent.service import health
from tests.support.agent_world import quick

NOBODY = 65_534
FORBID = "from meteragent.service.process import forbid_dumps; forbid_dumps()\n"
DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
ASK = f"""
import asyncio, concurrent.futures.thread, os  # the last may be unreadable for nobody
from pathlib import Path
from meteragent.service.health import ask_socket, bind_socket
from meteragent.service.process import forbid_dumps
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
forbid_dumps()
print(os.stat("/proc/self/fd").st_uid)
with bind_socket(Path("db.health")) as listening:
    async def answer(reader, writer):
        await reader.read()  # the question, which is empty
        writer.write(b"well")
        writer.close()
    async def serve():
        async with await asyncio.start_unix_server(answer, sock=listening):
            print(await asyncio.to_thread(ask_socket, Path("db.health")))
    asyncio.run(serve())
"""


def test_a_machine_without_proc_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The socket is bound through /proc, so the refusal names both."""
    monkeypatch.setattr(health, "_DESCRIPTORS", tmp_path / "proc")
    with pytest.raises(StoreError, match=r"db\.health: .* /proc is not mounted"):
        health.bind_socket(tmp_path / "db.health")


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a folder."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_no_dump_is_made(tmp_path: Path) -> None:
    """The process is marked as not dumpable in the kernel, even where cores are piped to a program."""
    assert python(DUMPABLE, tmp_path).stdout == "1\n"
    result = python(FORBID + DUMPABLE, tmp_path)
    assert (result.stdout, result.stderr) == ("0\n", "")
    died = python(FORBID + "import os; os.kill(os.getpid(), 11)", tmp_path)
    assert died.returncode == -signal.SIGSEGV
    assert not list(tmp_path.iterdir())


def test_health_is_answered_by_a_process_that_nobody_may_dump(tmp_path: Path) -> None:
    """Its socket is bound and asked through /proc/self/fd, which is root's then, by a user without rights."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/") and folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o111)
    tmp_path.chmod(0o777)
    result = python(ASK, tmp_path)
    assert (result.stdout, result.stderr) == ("0\nwell\n", "")


def test_where_the_system_knows_no_such_flag_the_limit_stands(tmp_path: Path) -> None:
    """It works on: the size of a core file is nothing in any case."""
    code = "import ctypes; ctypes.CDLL = lambda _: (_ for _ in ()).throw(OSError())\n" + FORBID
    result = python(code + "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))", tmp_path)
    assert (result.stdout, result.stderr) == ("(0, 0)\n", "")


async def test_hourly_totals_are_no_history_of_a_meter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the journal has of the time between starts follows from the schedule, the links and the store."""
    world = quick(tmp_path, monkeypatch)
    monkeypatch.setattr(agent, "TOTALS_S", 0.001)
    with caplog.at_level(logging.INFO, "meteragent"):
        async with world.running():
            world.sides["source"].send(100)
            await world.until(lambda: world.agent.counts["opened"] == 1)
            await world.until(lambda: "totals: opened=1" in caplog.text)
            hourly = [line for line in caplog.messages if line.startswith("totals: ")]
    named = {name for line in hourly for name in re.findall(r"(\w+)=", line)}
    assert "opened" in named <= PUBLIC
    assert world.agent.counts["received"] == 1
