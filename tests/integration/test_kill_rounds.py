"""The tool that kills in earnest stops at a signal, goes on from its log, and counts what is broken."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest

from meteragent.domain.grid import iso_time
from meteragent.privacy import sampling
from meteragent.privacy.bits import SeededBits
from simulators.long_run import LongRun
from tests.commands import kill_rounds
from tests.integration import law
from tests.integration.kills import PLAN, invent
from tests.support.not_run import ROOT

LIMIT_S = 300.0


@pytest.mark.usefixtures("mosquitto")
def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """SIGTERM ends it with 143 and nothing that it started stays; started again it does what is missing.

    Every round is in the log once, and the totals are those of both starts.
    """
    path = tmp_path / "log"
    command = [sys.executable, "-m", "tests.commands.kill_rounds", "--rounds", "10", "--part", "5"]
    command += ["--log", str(path)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 2):
            pass
        while process.poll() is None and not list(tmp_path.glob("*/agent/db")):
            pass
        process.terminate()
        out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143, out
    assert "stopped: run the same command" in out
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ended.returncode == 0, ended.stdout
    parts = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert sorted((part["kind"], part["seed"]) for part in parts) == sorted(
        (kind, seed) for kind in kill_rounds.KINDS for seed in range(2)
    )
    for kind in kill_rounds.KINDS:
        assert f"kill -9 of {kind}: 10 rounds" in ended.stdout
    assert all(part["dither"][1] > 1 for part in parts)
    assert "the dither is unbiased" in ended.stdout


def received(meter: str, values: Mapping[int, Fraction | int]) -> dict[str, list[bytes]]:
    """Return a meter's messages, with both topics of its descriptor."""
    topic = PLAN.topic(meter)
    records = [
        json.dumps({"t": iso_time(start_ms), "value": floor(w)}).encode() for start_ms, w in values.items()
    ]
    return {topic: records, f"{topic}/privacy": [b"{}"], f"{topic}/privacy/1": [b"{}"]}


def test_what_is_broken_is_counted() -> None:
    """A slot that never came, one with two values and one with a wrong value are each counted."""
    fed, _ = invent(random.Random(1), 1, 100)
    truth = PLAN.truth(fed["m0"])
    messages = received("m0", truth)
    counts = {"readings": 100, "slots": len(truth), "missing": 0, "doubled": 0, "wrong": 0}
    assert kill_rounds.counted([PLAN], fed, messages) == counts
    first = min(truth)
    del messages[PLAN.topic("m0")][-1]
    other = received("m0", {first: truth[first] + 2})[PLAN.topic("m0")]
    messages[PLAN.topic("m0")].insert(1, other[0])
    assert kill_rounds.counted([PLAN], fed, messages) == counts | {
        "slots": len(truth) - 1,
        "missing": 1,
        "doubled": 1,
        "wrong": 1,
    }


@pytest.mark.parametrize(("level", "passes"), [(100, True), (83, False)])
def test_the_noise_of_all_parts_is_tested(
    level: int, passes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The noise of parts that are too small each is held against its law together.

    Noise a fifth too large passes 2,000 windows with a chance of less than 1e-9, right noise fails with 2e-6.
    """
    assert law.scale_miss(5 * 2000, 100 / 83) < 1e-9
    epsilon = PLAN.noisy.epsilon * Fraction(level, 100)
    windows = sampling.windows(PLAN.n, epsilon, 2000, SeededBits(level)).tolist()
    with LongRun(None, "kill_rounds", ()) as log:
        for at in range(0, 2000, 100):
            log.append({"kind": "the agent", "rounds": 1, "seconds": 1.0, "noise": windows[at : at + 100]})
        assert kill_rounds.totals(log) == passes
    assert ("FAILED" in capsys.readouterr().out) != passes


@pytest.mark.parametrize(("bias", "passes"), [(0, True), (0.05, False)])
def test_the_dither_of_all_parts_is_tested(bias: float, passes: bool) -> None:
    """Slots that are a quantum more by the chance of their remainder pass; 1 in 20 more often they fail.

    10,000 slots of all remainders: the right dither fails with 1e-6, one biased so with all but 1e-9.
    """
    remainders = np.linspace(0, 0.9, 10_000)
    d = np.random.default_rng(1).random(10_000) < remainders + bias
    parts = [
        {"dither": [part.sum(), variance.sum()]}
        for part, variance in zip(
            np.split(d - remainders, 10), np.split(remainders * (1 - remainders), 10), strict=True
        )
    ]
    with LongRun(None, "kill_rounds", ()) as log:
        for part in parts:
            log.append({"kind": "the agent", "rounds": 1, "seconds": 1.0} | part)
        assert kill_rounds.totals(log) == passes
