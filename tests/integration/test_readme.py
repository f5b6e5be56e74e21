"""The commands of README and of the pages for users, run as a user types them.

`make demo` is run by tests/integration/test_demo.py.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from meteragent.report import event
from meteragent.wire.descriptor import describe_terms
from simulators.commands.replay import connect
from tests.integration.service import LIMIT_S, end_tasks, until
from tests.integration.terminal import terminal
from tests.integration.wire import Receiver
from tests.support.broker import Broker
from tests.support.not_run import ROOT
from tests.support.readme import (
    HOME,
    LINES,
    PROGRAM,
    README,
    TRY,
    blocks,
    shortened,
    terms,
)


def started(line: str, folder: Path) -> "subprocess.Popen[str]":
    """A command of the README in a folder, with the package that is tested."""
    words = shlex.split(line)
    assert words[0] == PROGRAM
    return subprocess.Popen(
        [sys.executable, "-m", "meteragent", *words[1:]],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(line: str, folder: Path) -> str:
    """What a command prints, which must end with 0."""
    process = started(line, folder)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    return out


@contextmanager
def running(line: str, folder: Path) -> Iterator[None]:
    """A command that runs until it is told to stop, and then ends with 0."""
    process = started(line, folder)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.wait(LIMIT_S)


COMMAND_LINES = [line for line in LINES if line.startswith(PROGRAM)]


def test_the_commands_are_known() -> None:
    """The tests below run every command of these pages, in the order in which they are shown."""
    names = ["init", "run", "run", "tap", "check", "check", "run", "ledger", "export"]
    names += ["plan", "audit", "plan", "plan", "plan"]
    assert [shlex.split(line)[1] for line in COMMAND_LINES] == names


async def test_the_first_look_works(broker: Broker, tmp_path: Path) -> None:
    """From a Shelly's messages to a private number: init, a rehearsal, run and tap, as typed."""
    init, rehearsal, run, tap = COMMAND_LINES[:4]
    path = tmp_path / "home.toml"
    async with shelly(broker) as device:
        answers = f"{init.replace('mqtt://127.0.0.1', broker.url)} --seconds 5 --yes"
        shown = await asyncio.to_thread(printed, answers, tmp_path)
        assert f"{path} --rehearse" in shown
        source = tomllib.loads(path.read_text())["source"]
        assert (source["topic"], source["profile"]) == (device, "shelly-gen2-em")
        with terminal(*shlex.split(rehearsal)[1:], folder=tmp_path) as screen:
            await until(lambda: screen.shows(r"home +\d\d:\d\d:\d\d +512"))
        path.write_text(path.read_text().replace("[privacy]", '[window]\nlength = "1s"\n\n[privacy]'))
        with running(run, tmp_path), terminal(*shlex.split(tap)[1:], folder=tmp_path) as screen:
            async with asyncio.timeout(LIMIT_S), connect(broker.url) as client:
                await client.subscribe("private/+/power", qos=1)
                record = json.loads(bytes((await anext(aiter(client.messages))).payload))
            assert (record["meter"], record["for"]) == ("home", "PT1S")
            await until(lambda: screen.shows("home"))


@asynccontextmanager
async def shelly(broker: Broker) -> AsyncIterator[str]:
    """Send a status of the device that try.toml names, four times a second; yield its topic."""
    topic = tomllib.loads(TRY)["source"]["topic"]
    status = {"id": 0, "total_act_power": 512.3}

    async def send() -> None:
        async with connect(broker.url) as client:
            while True:
                params = {"ts": round(time.time(), 2), "em:0": status}
                message = {"src": topic.partition("/")[0], "method": "NotifyStatus", "params": params}
                await client.publish(topic, json.dumps(message), qos=1)
                await asyncio.sleep(0.25)

    sending = asyncio.create_task(send())
    try:
        yield topic
    finally:
        await end_tasks(sending)


async def test_the_commands_work_in_their_order(broker: Broker, tmp_path: Path) -> None:
    """With the configuration in home.toml, each command does what the page says, as a user types it."""
    plain, event_, run, ledger, export, plan, audit, cost, limited_cost, nested_plan = COMMAND_LINES[4:]
    (tmp_path / "home.toml").write_text(HOME)
    assert "factor of at most e^1 = 2.72" in " ".join(printed(plain, tmp_path).split())
    assert event.parse_event(shlex.split(event_)[-1]).name in printed(event_, tmp_path)
    assert "(hide a TV evening;" in printed(plan, tmp_path)
    assert "Possible (hide a kettle; share the cost of each month" in printed(cost, tmp_path)
    assert "one home within 0.05 EUR)" in " ".join(printed(limited_cost, tmp_path).split())
    assert "privacy.shares = {" in printed(nested_plan, tmp_path)
    assert "no evidence against the promise" in printed(audit, tmp_path)
    (tmp_path / "home.toml").write_text(shortened(HOME, broker.url))
    with running(run, tmp_path):
        record = await first_record(broker)
    assert_as_documented(record, await retained(broker, record["d"]))
    assert re.search(r"^m1 +\d{4}-\d\d-\d\d +main +[1-9]", printed(ledger, tmp_path), re.MULTILINE)
    rows = printed(export, tmp_path).splitlines()
    assert rows[1].split(",")[:2] == ["main", "m1"]
    assert record["t"] in rows[1]


async def first_record(broker: Broker) -> dict[str, Any]:
    """What comes of one reading, sent as the configuration expects it."""
    async with Receiver(broker) as receiver:
        await until(lambda: "meters/+/power" in (broker.folder / "log").read_text())
        async with connect(broker.url) as client:
            await client.publish("meters/m1/power", "512.3", qos=1)
        await receiver.more_than(0)
    return dict(json.loads(receiver.messages["private/m1/power"][0]))


async def retained(broker: Broker, id_: str) -> dict[str, Any]:
    """The descriptor as a later subscriber receives it, on both of its topics."""
    found = []
    for topic in ("private/m1/power/privacy", f"private/m1/power/privacy/{id_}"):
        async with asyncio.timeout(LIMIT_S), connect(broker.url) as client:
            await client.subscribe(topic, qos=1)
            message = await anext(aiter(client.messages))
            assert message.retain
            found.append(json.loads(bytes(message.payload)))
    assert found[0] == found[1]
    return dict(found[0])


def assert_as_documented(record: dict[str, Any], descriptor: dict[str, Any]) -> None:
    """The record has the fields shown, in that order, and names the descriptor, which agrees with `check`."""
    (shown,) = (json.loads(text) for text in blocks("json"))
    assert [(name, type(value)) for name, value in record.items()] == [
        (name, type(value)) for name, value in shown.items()
    ]
    assert (record["meter"], record["for"], record["unit"]) == ("m1", "PT1S", "W")
    promised = describe_terms(terms('window.length = "1s"\n'))
    assert record["d"] == descriptor["id"] == promised.id
    assert promised.facts.items() <= descriptor.items()
    assert "the retained message on `private/m1/power/privacy`" in README
