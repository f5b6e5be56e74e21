"""The demo as it is run: a real broker, a real agent, real noise."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from simulators import __main__ as simulators
from simulators.commands.demo import SEED
from simulators.crowd import files as crowd_files
from simulators.demo import program, stage
from simulators.demo.outcome import Outcome
from simulators.demo.program import DemoError
from simulators.demo.stage import play
from simulators.homes.street import Street
from tests.support.not_run import ROOT

LIMIT_S = 240.0
HOMES = 12
HALF_HOUR_MS = 1_800_000


def nothing() -> None:
    """No progress to show."""


def test_command(tmp_path: Path) -> None:
    """The demonstration ends with 0, prints its screen, and leaves that text and a picture in its folder."""
    command = [sys.executable, "-m", "simulators", "demo", "--homes", "3", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert "867 readings went in, 144 private numbers came out" in done.stdout
    assert (tmp_path / "out" / "demo.txt").read_text() in done.stdout
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --crowd, totals are those of the readings but for noise, that of the operators and of every home.

    The operators hide 0.5 Wh here, so a total is off by more than 20 Wh once in 10^15 totals.
    """
    monkeypatch.setattr(crowd_files, "_GROUP", crowd_files._GROUP.replace("hide_wh = 110", 'hide_wh = "0.5"'))
    assert simulators.main(["demo", "--crowd", "--homes", "3", "--out", str(tmp_path)]) == 0
    shown = (tmp_path / "crowd.txt").read_text()
    assert "870 readings went in, 144 private numbers and 48 totals of the operators came out" in shown
    rows = [line.replace(",", "").split() for line in re.findall(r"^\d+:00 .*$", shown, re.MULTILINE)]
    alone_wh, crowd_wh = ([int(row[index]) for row in rows] for index in (3, 8))
    assert len(rows) == 12
    assert max(map(abs, crowd_wh)) <= 20
    assert max(map(abs, alone_wh)) > 20
    assert (tmp_path / "crowd.png").read_bytes().startswith(b"\x89PNG")


async def test_promises_kept(tmp_path: Path) -> None:
    """What is promised is measured: the typical error of a number, none on average, 95% within the band.

    576 Laplace numbers: the standard error of the typical error is 4.7%, of the mean error 13 W, of the
    share within the band 0.9%. The limits are five of each: true noise fails once in 10^5 runs, noise
    half as wide again passes once in 10^4.
    """
    street = Street.simulated(SEED, HOMES, 1)
    numbers = 0

    def progress() -> None:
        nonlocal numbers
        numbers += 1

    async with asyncio.timeout(LIMIT_S):
        outcome = Outcome.of(street, await play(street, HALF_HOUR_MS, tmp_path, progress))
    assert numbers == HOMES * 48
    spread, bias, covered = outcome.spread_w(), outcome.bias_w(), outcome.covered()
    assert spread.promised == 311.1
    assert spread.measured == pytest.approx(311.1, rel=5 * 0.047)
    assert bias.measured == pytest.approx(0, abs=5 * 13)
    assert covered.measured == pytest.approx(0.95, abs=5 * 0.0091)


async def test_noise_is_new(tmp_path: Path) -> None:
    """Two runs show the same homes and never the same noise."""
    street, found = Street.simulated(SEED, 2, 1), []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        async with asyncio.timeout(LIMIT_S):
            found.append(Outcome.of(street, await play(street, HALF_HOUR_MS, tmp_path / name, nothing)))
    assert (found[0].true_w == found[1].true_w).all()
    assert (found[0].private_w != found[1].private_w).mean() > 0.9


async def test_agent_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that cannot start ends the demo with its exit code and what it said."""
    monkeypatch.setattr(stage, "CONFIGURATION", stage.CONFIGURATION.replace("appliance", "nothing"))
    with pytest.raises(DemoError, match=r"(?s)the agent exited with 78.*privacy\.preset"):
        await play(Street.simulated(SEED, 2, 1), HALF_HOUR_MS, tmp_path, nothing)


async def test_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing comes any more the demo gives up and says so."""
    monkeypatch.setattr(program, "SILENCE_S", 5.0)
    monkeypatch.setattr(stage, "CONFIGURATION", stage.CONFIGURATION.replace('"private/', '"elsewhere/'))
    with pytest.raises(DemoError, match="no progress for 5 s"):
        await play(Street.simulated(SEED, 2, 1), HALF_HOUR_MS, tmp_path, nothing)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end the demo with 130, and no process of it stays."""
    command = [sys.executable, "-m", "simulators", "demo", "--homes", "200", "--out", str(tmp_path / "out")]
    scratch = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=scratch, stdout=PIPE, stderr=PIPE) as demo:
        limit_s = time.monotonic() + LIMIT_S
        while not list(tmp_path.glob("meteragent-demo-*/meteragent.db")):
            assert time.monotonic() < limit_s
            time.sleep(0.1)
        demo.send_signal(number)
        assert demo.wait(LIMIT_S) == 130
    assert not re.findall(rf"{tmp_path}.*meteragent\.toml", running())
    assert not list(tmp_path.glob("meteragent-demo-*"))


def running() -> str:
    """The command lines of all processes."""
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)
