"""The tutorials that need a broker, run as a reader types them.

Different here: the broker's port, slots of a second, and `mosquitto_pub`, a small program of ours, because
mosquitto's clients are no part of the tests. test_readme.py runs `init` and the rehearsal, and
tests/house/test_tutorials.py runs `check`.
"""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from simulators.commands.replay import connect
from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.integration.service import LIMIT_S, until
from tests.integration.terminal import terminal
from tests.integration.wire import Receiver
from tests.support.broker import Broker, free_port
from tests.support.not_run import ROOT
from tests.support.tutorial import PROGRAM, Tutorial, assert_printed, write

HOME, STREET = Tutorial("docs/tutorials/home.md"), Tutorial("docs/tutorials/street.md")
FIXED = {"name", "written", "repeated", "utc", "feeder", "homes", "cells", "shown"}
"""The columns on which the noise has no influence."""
PROGRAMS = {
    ".venv/bin/meteragent": '#!/bin/sh\nexec {python} -m tests.integration.alone "$@"\n',
    "bin/mosquitto_pub": """#!{python}
import asyncio, sys
from simulators.commands.replay import connect

async def publish():
    async with connect("{url}") as client:
        for line in sys.stdin:
            await client.publish(sys.argv[-1], line.strip())

assert sys.argv[1:5] == ["-h", "127.0.0.1", "-l", "-t"]
asyncio.run(publish())
""",
}


class Shell:
    """A folder with the repository's `deploy`, where bash runs lines of a page."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self._folder = folder
        (folder / "deploy").symlink_to(ROOT / "deploy")
        for name, text in PROGRAMS.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write(folder, name, text.format(python=sys.executable, url=broker.url)).chmod(0o755)
        paths = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self._environment = os.environ | paths | {"LC_ALL": "C.UTF-8"}

    def start(self, text: str) -> "subprocess.Popen[str]":
        """Start bash, with a process group of its own."""
        return subprocess.Popen(
            ["bash", "-c", text],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def printed(self, text: str) -> str:
        """Return what lines print; the last must end with 0."""
        process = self.start(text)
        printed, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, printed
        return printed

    @contextmanager
    def running(self, text: str) -> Iterator[list[str]]:
        """Run a program, stop it and what it has started, and fill in what was printed."""
        process, printed = self.start(text), list[str]()
        try:
            yield printed
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            printed += process.communicate(timeout=LIMIT_S)


async def test_the_tutorial_at_home_works(broker: Broker, tmp_path: Path) -> None:
    """From a Shelly's messages to the first private number, the page, what has left, and what that cost."""
    shell, port = Shell(tmp_path, broker), free_port()
    discover, _, run, tap, export, ledger, *_ = HOME.commands()
    discovery, log, _, charges = HOME.blocks("text")
    changes = {"mqtt://127.0.0.1:1883": broker.url, "1min": "1s", "try/": "private/"}
    with shell.running(*HOME.blocks("bash")):
        await heard(broker)
        options = changed(discover, {"127.0.0.1": f"127.0.0.1:{broker.port}", "seconds 10": "seconds 4"})
        recognised, _, _ = discovery.partition("   heard")  # how often it sends depends on the machine
        assert_printed(recognised, shell.printed(f".venv/bin/meteragent {options}"))
        shell.printed("\n".join(line for line in HOME.lines if line.startswith(("cp ", "echo "))))
        path = tmp_path / "first.toml"
        path.write_text(changed(path.read_text(), changes) + f'listen = "127.0.0.1:{port}"\n')
        async with Receiver(broker) as receiver:
            with shell.running(f"exec .venv/bin/meteragent {run}") as printed:
                await receiver.more_than(0)
                with terminal(*shlex.split(tap), folder=tmp_path) as screen:
                    await until(lambda: screen.shows(r"house: 3\d\d W"))
                page = await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}")
                assert "what you see, what they see" in page.read().decode()
        assert_printed(changed(log, changes), printed[0])
        assert {topic for topic in receiver.messages if "privacy" not in topic} == {"private/house/power"}
    (released,) = re.findall(r"released=(\d+)", printed[0])
    assert shell.printed(f".venv/bin/meteragent {export}").count("\nmain,house,") == int(released)
    assert_printed(charges, shell.printed(f".venv/bin/meteragent {ledger}"))


async def test_the_tutorial_on_a_street_works(mosquitto: MakeBroker, table_url: str, tmp_path: Path) -> None:
    """From meters to totals in SQL, which are true: each is within four of its intervals, or 7.8 sd.

    The meters report every 15 minutes instead of every five.
    """
    with mosquitto(settings={**LOGS_SUBSCRIPTIONS, "max_queued_messages": 0}) as broker:
        shell = Shell(tmp_path, broker)
        changes = {"127.0.0.1:1884": f"127.0.0.1:{broker.port}"}
        collect_toml, agent_toml = STREET.blocks("toml")
        (tmp_path / "agent.toml").write_text(changed(agent_toml, changes))
        database = {"postgresql:///street": table_url}
        (tmp_path / "collect.toml").write_text(changed(collect_toml, changes | database))
        check, collect, run = (f"exec {PROGRAM}{command}" for command in STREET.commands())
        assert "accepted" in shell.printed(check)
        with shell.running(collect), shell.running(run):
            log = broker.folder / "log"
            await until(lambda: {"meters/+/power", "private/+/power"} <= set(log.read_text().split()))
            play, _ = STREET.commands(".venv/bin/python ")
            play = changed(play, changes | {"5min": "15min"})
            sent = await asyncio.to_thread(shell.printed, f"{sys.executable} {play}")
            assert sent.startswith("9,700 readings sent")
            with psycopg.connect(table_url, autocommit=True) as connection:
                count = "SELECT count(*) FROM meteragent.record"
                await until(lambda: connection.execute(count).fetchone() == (4800,))
                tables = [text for text in STREET.blocks("text") if " | " in text]
                answers = [connection.execute(text.encode()) for text in STREET.blocks("sql")]
                for table, answer in zip(tables, (a for a in answers if a.description), strict=True):
                    assert_answers(table, answer)


def assert_answers(table: str, answer: "psycopg.Cursor[Any]") -> None:
    """Check that an answer has the columns and rows of a table on the page, but for the noise."""
    head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in table.splitlines())
    assert answer.description is not None
    assert [column.name for column in answer.description] == head
    for row, values in zip(rows, answer.fetchall(), strict=True):
        for name, cell, value in zip(head, row, values, strict=True):
            assert cell == str(value) or name not in FIXED, (name, cell, value)
        if "kwh" in head:
            true_kwh = {"north": 393.3, "south": 377.8}[values[0]]
            assert f"{true_kwh}" in STREET.text
            assert abs(float(values[1]) - true_kwh) < 4 * float(values[2])


async def heard(broker: Broker) -> None:
    """Wait for a message of any topic."""
    async with asyncio.timeout(LIMIT_S), connect(broker.url) as client:
        await client.subscribe("#")
        await anext(aiter(client.messages))


def changed(text: str, changes: dict[str, str]) -> str:
    """Return a text with other words; each of them was in it."""
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    return text
