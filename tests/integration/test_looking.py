"""`discover` and `tap` beside a running agent, on a real broker, in a real terminal."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from meteragent import config
from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Scenarios,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
    until_ms,
)
from tests.integration.terminal import terminal
from tests.support.broker import Broker
from tests.support.not_run import ROOT

SECRET = "73155"
"""A reading that nothing but a terminal may show."""
ENOUGH = 400
"""Readings; a slot lasts a second."""


async def discovered(*arguments: str, end_early: bool = False) -> "subprocess.CompletedProcess[str]":
    """`meteragent discover` to its end, or to Ctrl-C once it listens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "meteragent", "discover", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    if end_early:
        assert process.stderr is not None
        await process.stderr.readline()
        await asyncio.sleep(1.5)
        process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode or 0, out.decode(), err.decode())


def log_of(broker: Broker) -> str:
    """What a broker that tells all has told."""
    return (broker.folder / "log").read_text()


@pytest.fixture(scope="module")
def runs(interruptible: None, mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of it, side by side."""

    async def tap(folder: Path) -> tuple[int, str, str]:
        with mosquitto(settings=TELL_ALL) as broker:
            return await tapped(broker, folder)

    async def found(_: Path) -> tuple["subprocess.CompletedProcess[str]", str, str]:
        with mosquitto(settings=TELL_ALL) as broker:
            async with meters(broker) as line:
                await line.raw("shellies/em-1/emeter/0/power", f"{SECRET}.25", retain=True)
                await line.raw("cellar/temperature", "21.5", retain=True)
            done = await discovered("--url", broker.url, "--seconds", "600", end_early=True)
            return done, log_of(broker), broker.url

    async def nothing(folder: Path) -> list["subprocess.CompletedProcess[str]"]:
        with mosquitto(users={"reader": "secret"}) as broker:
            user = ("--url", broker.url, "--seconds", "1", "--username", "reader", "--password-file")
            for name in ("secret", "wrong"):
                (folder / name).write_text(f"{name}\n")
            return await asyncio.gather(
                *(discovered(*user, str(folder / name)) for name in ("secret", "wrong"))
            )

    scenarios = Scenarios(tmp_path_factory.mktemp("looking"), tap, found, nothing)
    asyncio.run(scenarios.run())
    return scenarios


async def tapped(broker: Broker, folder: Path) -> tuple[int, str, str]:
    """A tap beside an agent, until a whole slot has left: its exit code, what it showed, the broker's log."""
    with service(folder, stream(broker.url)) as agent:
        agent.start()
        with terminal("tap", str(agent.path)) as shown:
            await subscribed(broker)
            await until(lambda: len(re.findall("SUBACK to meteragent-tap", log_of(broker))) == 2)
            async with meters(broker) as line:
                while not shown.shows(r"m1 .*:\d\d +400 +400 ") and len(line.sent) < ENOUGH:
                    await line.send("m1", 400)
                    await until_ms(now_ms() + 50)
            shown.process.send_signal(signal.SIGINT)
            await until(lambda: shown.process.poll() is not None)
            await agent.stop()
            return shown.process.returncode, shown.text, log_of(broker)


def test_tap_shows_what_is_and_what_left(runs: Scenarios) -> None:
    """Each slot's raw mean and released value agree but for the noise; 80 columns; Ctrl-C ends with 0."""
    code, shown, _ = runs["tap"]
    assert re.search(r"m1 .*:\d\d +400 +400 ", shown), shown
    assert re.search(r"m1: 400 W; slot [\d:]+-[\d:]+: mean 400 since ", shown)
    assert code == 0
    assert all(len(text) <= 80 for text in re.split(r"[\r\n]+", shown))


def test_tap_leaves_no_session(runs: Scenarios) -> None:
    """Both its connections have ids of their own and begin and end clean."""
    _, _, log = runs["tap"]
    assert len(re.findall(r"as meteragent-tap-\w+ \(p5, c1,", log)) == 2
    assert len(set(re.findall(r"as (meteragent-\w+-\w+) ", log))) == 4


def test_discover_finds_the_meter(runs: Scenarios) -> None:
    """What is heard is proposed, after Ctrl-C too, as a configuration that is accepted; no value is told."""
    done, log, url = runs["found"]
    assert done.returncode == 0, done.stderr
    assert "only retained messages were received" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    proposed = done.stdout.partition("to start with:\n")[2].partition("\n\nHeard, ")[0]
    source = config.parse(proposed).stream[0].source
    assert (source.url, source.profile, source.phases) == (url, "shelly-gen1", ("0",))
    assert re.search(r"as meteragent-discover-\w+ \(p5, c1,", log)


def test_discover_says_why_it_heard_nothing(runs: Scenarios) -> None:
    """Without the right password, and where nothing is sent, it says so and ends with 1."""
    silent, refused = runs["nothing"]
    assert (refused.returncode, silent.returncode) == (1, 1)
    assert "not authorised" in refused.stderr
    assert "no message arrived in 1 s" in silent.stderr
    assert "secret" not in (refused.stderr + silent.stderr).replace("/secret", "")
