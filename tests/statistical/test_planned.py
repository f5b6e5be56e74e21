"""What `plan` prints before the run is what is measured: the configuration it prints, run on homes.

ALARM is the chance that right software fails one assertion; seeds are fixed, so a run repeats. A deviation
that is 10 % off is rejected with at least the power that is stated.
"""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent import config, encode
from meteragent.cli import main
from meteragent.privacy import SeededBits

pytestmark = pytest.mark.statistical

ALARM, MISS = 1e-6, 1e-6
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


def run(capsys: pytest.CaptureFixture[str], *asked: str) -> Planned:
    """Plan, run the configuration as printed, and measure."""
    assert main(["plan", *asked, "--homes", str(HOMES), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["setting"]
    shared = encode.wording(config.terms(config.parse(told["configuration"]).stream[0]))
    noise, quantum_w = shared.mechanism, float(shared.terms.quantum)
    homes = np.random.default_rng(11)
    true_w = homes.gamma(1.0, 330.0, (HOMES, WINDOWS, noise.n))
    quanta = np.floor(true_w / quantum_w + 0.5).astype(np.int64)
    private_w = noise.release(quanta, bits=SeededBits(12)) * quantum_w
    return Planned(told["error_w"], told["error_of_one_home_w"], private_w - true_w)


def spread(off_w: Floats) -> tuple[float, float]:
    """The root mean square over windows (those of one slot), and its relative standard error."""
    windows = off_w.size
    return math.sqrt(float(np.mean(off_w**2))), math.sqrt((KURTOSIS - 1) / windows) / 2


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
    """One home's numbers and the mean of the homes are off by what was printed; 10 % else is rejected."""
    planned = run(capsys, *asked)
    limit = float(stats.norm.isf(ALARM / 2))
    for printed_w, off_w in (
        (planned.error_of_one_home_w, planned.off_w[0, :, 0]),
        (planned.error_of_one_home_w, planned.off_w[:, :, 0].ravel()),
        (planned.error_w, planned.off_w[:, :, -1].mean(axis=0)),
    ):
        measured_w, error = spread(off_w)
        assert abs(measured_w / printed_w - 1) < limit * error
    # The numbers of all homes: what is rejected, and how surely.
    _, error = spread(planned.off_w[:, :, 0])
    assert stats.norm.sf((0.1 - limit * error) / error) < MISS
