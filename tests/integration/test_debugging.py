"""Debugging in docs/commands.md is executed: its commands in their order, beside an agent and a broker."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.integration.service import LIMIT_S, TELL_ALL, meters, stream, subscribed, until
from tests.integration.terminal import terminal
from tests.support.broker import Broker
from tests.support.not_run import ROOT

PAGE = (ROOT / "docs" / "commands.md").read_text().partition("\n## Debugging\n")[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
TAP, DEBUGGER = (text.strip() for language, text in BLOCKS if language == "console")
(RUN,) = [line for line in COMMANDS if line.startswith("meteragent run")]
READING = 73_155
PAYLOAD = f'{{"power": {READING}, "serial": "E0012345", "t": 1772450000}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the page's commands run: with the two programs that they start."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in {"python": "", "meteragent": " -m meteragent"}.items():
        (programs / name).write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable}{arguments} "$@"\n')
        (programs / name).chmod(0o755)
    (tmp_path / "payload.json").write_text(PAYLOAD)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    """Find the programs of a folder first."""
    return os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def printed(line: str, folder: Path, typed: str = "") -> str:
    """Run a line of the page in a shell; it must end with 0. Return what it prints."""
    done = subprocess.run(
        ["/bin/sh", "-ec", line],
        cwd=folder,
        env=environment(folder),
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def running(folder: Path) -> Iterator[Path]:
    """Run the agent as the page does; yield its log."""
    log = folder / "log"
    with log.open("wb") as file:
        agent = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {RUN}"], cwd=folder, env=environment(folder), stderr=file
        )
        try:
            yield log
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(LIMIT_S) == 0, log.read_text()
        finally:
            agent.kill()
            agent.wait()


def test_every_block_is_run_or_compared() -> None:
    """The tests below cover every block."""
    assert PAGE.count("\n```") == 2 * len(BLOCKS)
    assert {language for language, _ in BLOCKS} == {"sh", "console", "ini"}
    assert TAP.startswith("meteragent tap ")
    assert " -m pdb " in DEBUGGER


async def test_the_commands_work_beside_an_agent(mosquitto: MakeBroker, folder: Path) -> None:
    """Each ends with 0; the tap shows the reading; neither a report nor the log at `debug` holds it."""
    asking = [line for line in COMMANDS if line.startswith("meteragent") and line != RUN]
    names = ["health", "health", "--version", "check", "health", "redact"]
    assert [line.split()[1] for line in asking] == names
    with mosquitto(settings=TELL_ALL) as broker:
        text = stream(broker.url, window="range = [0, 100000]")  # readings that are all clamped are a problem
        (folder / "home.toml").write_text(f'{text}\n[store]\npath = "home.db"\n')
        with running(folder) as log:
            await subscribed(broker)
            await tapped(folder, broker)
            reports = [await asyncio.to_thread(printed, line, folder) for line in asking]
    assert all(reports[:-1])
    redacted = (folder / "redacted.json").read_text()
    assert '"power":' in redacted
    logged = log.read_text()
    assert "connected with MQTT" in logged
    assert re.search(r"^INFO totals: received=\d+ ", logged, re.MULTILINE)
    for text in (*reports, redacted, logged):
        assert str(READING) not in text
        assert "E0012345" not in text


async def tapped(folder: Path, broker: Broker) -> None:
    """Run the page's tap in a terminal, until it has shown a reading."""
    words = [str(folder / word) if word == "home.toml" else word for word in TAP.split()[1:]]
    with terminal(*words) as shown:
        async with asyncio.timeout(LIMIT_S), meters(broker) as line:
            while not shown.shows(rf"m1: {READING}"):
                await line.send("m1", READING)
                await asyncio.sleep(0.1)
        shown.process.send_signal(signal.SIGINT)
        await until(lambda: shown.process.poll() is not None)
        assert shown.process.returncode == 0


def test_a_seed_is_replayed(folder: Path) -> None:
    """What a seed prints goes to a file, which does the same again, in a debugger too."""
    seed, kept, replayed = (line for line in COMMANDS if line.startswith("python"))
    first = printed(seed, folder)
    assert printed(kept, folder) == ""
    schedule = (folder / "plan.txt").read_text()
    assert first.startswith(schedule)
    assert schedule.count("\n") > 2
    again = printed(replayed, folder)
    assert first == f"{schedule}\n{again}"
    assert again in printed(DEBUGGER, folder, "continue\nquit\n")


def test_the_unit_s_override_is_the_unit_s_command() -> None:
    """What `systemctl edit` takes is the command of the unit with a level."""
    (shown,) = (text for language, text in BLOCKS if language == "ini")
    unit = (ROOT / "deploy" / "systemd" / "meteragent.service").read_text()
    (command,) = re.findall(r"^ExecStart=.*$", unit, re.MULTILINE)
    assert shown.splitlines() == ["[Service]", "ExecStart=", f"{command} --log-level debug"]
