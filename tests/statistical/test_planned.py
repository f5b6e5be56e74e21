"""What `plan` prints before the run is what is measured: the configuration it prints, run on homes.

ALARM is the chance that right software fails one assertion; seeds are fixed, so a run repeats. A deviation
that is 10% off is rejected with at least the power that is stated.
"""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent import config
from meteragent.cli import main
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.units import HOUR_MS, MINUTE_MS
from meteragent.privacy import SeededBits
from meteragent.wire.descriptor import describe_terms
from simulators.traces.trace import load
from tests.support.world import BASE_MS, message, stream

ALARM, MISS, MISS_PIPELINE = 1e-6, 1e-6, 1e-4
HOMES, WINDOWS = 25, 4000
KURTOSIS = 6.0
"""Of the Laplace law, the largest of any number of slots; a mean over homes has less."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Planned:
    """What was printed, and what the noise of the printed configuration did to synthetic homes."""

    error_w: float
    error_of_one_home_w: float
    off_w: Floats
    """Private minus true slot means, shape (homes, windows, slots)."""


def planned(capsys: pytest.CaptureFixture[str], *asked: str) -> dict[str, Any]:
    """The setting that `plan` prints."""
    assert main(["plan", *asked, "--homes", str(HOMES), "--json"]) == 0
    setting: dict[str, Any] = json.loads(capsys.readouterr().out)["setting"]
    return setting


def run(capsys: pytest.CaptureFixture[str], *asked: str) -> Planned:
    """Plan, run the configuration as printed, and measure."""
    told = planned(capsys, *asked)
    shared = describe_terms(config.terms(config.parse(told["configuration"]).stream[0]))
    noise, quantum_w = shared.terms.mechanism, float(shared.terms.quantum)
    homes = np.random.default_rng(11)
    true_w = homes.gamma(1.0, 330.0, (HOMES, WINDOWS, noise.n))
    quanta = np.floor(true_w / quantum_w + 0.5).astype(np.int64)
    private_w = noise.release(quanta, bits=SeededBits(12)) * quantum_w
    return Planned(told["error_w"], told["error_of_one_home_w"], private_w - true_w)


def spread(off_w: Floats) -> tuple[float, float]:
    """The root mean square over windows (those of one slot), and its relative standard error."""
    windows = off_w.size
    return math.sqrt(float(np.mean(off_w**2))), math.sqrt((KURTOSIS - 1) / windows) / 2


@pytest.mark.parametrize("name", ["REFIT_House2", "UKDALE_House2"])
@pytest.mark.parametrize(
    ("event", "share", "minutes"), [("kettle", "half-hour", 30), ("tv evening", "15min", 15)]
)
def test_the_error_that_is_printed_is_that_of_real_homes(
    name: str, event: str, share: str, minutes: int, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real half hours and quarter hours leave with the error that was printed."""
    told = planned(capsys, "--hide", event, "--share", share)
    terms = config.terms(config.parse(told["configuration"]).stream[0])
    trace = load(data / "homes" / f"{name}.parquet")
    assert (np.diff(trace.times_ms) == MINUTE_MS).all()
    true_w = trace.watts[: trace.watts.size // minutes * minutes].reshape(-1, minutes).mean(axis=1)
    quanta = np.floor(true_w / float(terms.quantum) + 0.5).astype(np.int64)
    noise = terms.mechanism
    private_w = noise.release(quanta[:, None], bits=SeededBits(15))[:, 0] * float(terms.quantum)
    measured_w, error = spread(np.asarray(private_w - true_w))
    limit = float(stats.norm.isf(ALARM / 2))
    assert abs(measured_w / told["error_of_one_home_w"] - 1) < limit * error < 0.1


@pytest.mark.parametrize(
    "asked",
    [
        ("--hide", "kettle", "--share", "half-hour"),
        ("--hide", "away 8h", "--error", "10%"),
        ("--share", "typical-day", "--error", "5%"),
        ("--hide", "tv evening", "--share", "curve"),
    ],
    ids=" ".join,
)
def test_the_error_that_is_printed_is_measured(
    asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """One home's numbers and the mean of the homes are off by what was printed; 10% else is rejected."""
    found = run(capsys, *asked)
    limit = float(stats.norm.isf(ALARM / 2))
    for printed_w, off_w in (
        (found.error_of_one_home_w, found.off_w[0, :, 0]),
        (found.error_of_one_home_w, found.off_w[:, :, 0].ravel()),
        (found.error_w, found.off_w[:, :, -1].mean(axis=0)),
    ):
        measured_w, error = spread(off_w)
        assert abs(measured_w / printed_w - 1) < limit * error
    # The numbers of all homes: what is rejected, and how surely.
    _, error = spread(found.off_w[:, :, 0])
    assert stats.norm.sf((0.1 - limit * error) / error) < MISS


REPLAY = """
source.profile = "json"
source.time = "t"
source.hold = "1h"
window.clock = "event"
"""
HALF_HOURS = 400


def home_of(topic: str) -> int:
    """The home that a record is of."""
    return int(topic.split("/")[1].removeprefix("m"))


def test_the_error_that_is_printed_is_the_pipelines(capsys: pytest.CaptureFixture[str]) -> None:
    """Homes whose readings go through the printed configuration leave with the error that was printed."""
    told = planned(capsys, "--hide", "tv evening", "--share", "half-hour")
    (known,) = config.parse(told["configuration"] + REPLAY).stream
    pipeline = Pipeline(
        stream(config.schedule(known)), Snapshot({}, {}, {}), Spending(), SeededBits(13), Counts()
    )
    true_w = np.random.default_rng(14).integers(0, 3000, (HALF_HOURS + 2, HOMES))
    off_w = defaultdict[str, list[int]](list)
    for slot, watts in enumerate(true_w):
        at_ms = slot * HOUR_MS // 2
        sent = [message(at_ms, int(value), meter=f"m{home}") for home, value in enumerate(watts)]
        for row in pipeline.feed(sent, BASE_MS + at_ms, BASE_MS + at_ms).commit.outgoing:
            if not row.retain:
                off_w[row.topic].append(
                    json.loads(row.payload)["value"] - int(true_w[slot - 1][home_of(row.topic)])
                )
    numbers = np.array([off_w[f"private/m{home}/power"][:HALF_HOURS] for home in range(HOMES)], np.float64)
    limit = float(stats.norm.isf(ALARM / 2))
    for printed_w, off in (
        (told["error_of_one_home_w"], numbers.ravel()),
        (told["error_w"], numbers.mean(axis=0)),
    ):
        measured_w, error = spread(off)
        assert abs(measured_w / printed_w - 1) < limit * error
    assert numbers.shape == (HOMES, HALF_HOURS)
    _, error = spread(numbers)
    assert stats.norm.sf((0.1 - limit * error) / error) < MISS_PIPELINE
