"""What the simulators draw has the stated laws, and 10% off one is noticed.

A chi-square test over cells of the law. ALARM is the chance that a right simulator fails one test; there are
fewer than 20, and seeds are fixed, so a run repeats. A wrong law must be rejected: the chance of a miss is
computed from it first, and is below MISS; then counts drawn from it are rejected.
"""

from math import exp, lgamma, log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from simulators.homes.appliance import CATALOGUE, Appliance, Makes, Runs
from simulators.homes.chance import normal, poisson, uniforms
from simulators.homes.household import Households
from simulators.homes.signature import Signature
from simulators.homes.television import CHANNELS, viewings
from tests.statistical.chi_square import ALARM, MISS, miss, p_value

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
PEOPLE = Households.of(0, np.arange(16_000))
EVEN = np.ones(len(PEOPLE.homes))
HOURS = ((6, 9, 4), (9, 17, 1), (17, 23, 2))
KETTLE = Appliance(
    "test kettle", Signature.on(2000, 100), 6, HOURS, spread=0.4, is_attended=False, can_overlap=True
)


def check(cells: Integers, law: Floats, wrong: Floats) -> None:
    """Draws fit the law; as many from the wrong one do not."""
    drawn = np.bincount(cells, minlength=len(law)).astype(float)
    assert p_value(drawn, law) > ALARM
    assert miss(wrong, law, len(cells)) < MISS
    off = np.random.default_rng(0).multinomial(len(cells), wrong).astype(float)
    assert p_value(off, law) < ALARM


def runs_of(load: Appliance, people: Households = PEOPLE, day: int = 0) -> Runs:
    """A day's, where all homes are equally busy."""
    return load.runs(people, people.absences(day), EVEN, day)


def cells_of_normal(values: Floats, count: int = 20) -> Integers:
    """Which of `count` cells of equal probability under the standard normal law."""
    return np.asarray(np.floor(count * stats.norm.cdf(values)), np.int64)


def even_against_wide(count: int = 20) -> tuple[Floats, Floats]:
    """Even cells of a normal law, and their probabilities where its deviation is 10% larger."""
    bounds = stats.norm.ppf(np.arange(count + 1) / count)
    return np.full(count, 1 / count), np.diff(stats.norm.cdf(bounds / 1.1))


@pytest.mark.parametrize("neighbour", ["word", "index", "home", "day", "stream", "seed"])
def test_uniform_and_independent(neighbour: str) -> None:
    """Pairs of numbers for neighbouring purposes fill a square evenly; 10% more on one side is told."""
    index, home = np.arange(300)[:, None], np.arange(200)
    one = uniforms(0, "one", home, 0, index)
    other = {
        "word": lambda: one[[1, 2, 3, 0]],
        "index": lambda: uniforms(0, "one", home, 0, index + 1),
        "home": lambda: uniforms(0, "one", home + 1, 0, index),
        "day": lambda: uniforms(0, "one", home, 1, index),
        "stream": lambda: uniforms(0, "two", home, 0, index),
        "seed": lambda: uniforms(1, "one", home, 0, index),
    }[neighbour]()
    cells = np.floor(8 * one).astype(np.int64) * 8 + np.floor(8 * other).astype(np.int64)
    tilted = np.outer(np.ones(8), 1 + 0.1 * np.linspace(-1, 1, 8)).ravel() / 64
    check(cells[:2].ravel(), np.full(64, 1 / 64), tilted)


def test_normal_numbers() -> None:
    """Box and Muller's numbers are standard normal."""
    drawn = uniforms(3, "normal", np.arange(30_000))
    check(cells_of_normal(normal(drawn[0], drawn[1])), *even_against_wide())


def poisson_law(mean: float, count: int = 10) -> Floats:
    """P(0) .. and all beyond in the last cell."""
    law = np.array([exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count)])
    law[-1] += 1 - law.sum()
    return law


def test_poisson_counts() -> None:
    """Counts are Poisson."""
    uniform = uniforms(4, "poisson", np.arange(30_000))[0]
    check(poisson(uniform, np.full(30_000, 3.3)).clip(max=9), poisson_law(3.3), poisson_law(3.3 * 1.1))


def test_runs_a_day() -> None:
    """Where there is one, an appliance is started so often: Poisson with its mean."""
    count = np.bincount(runs_of(KETTLE).row, minlength=len(PEOPLE.homes))
    check(count.clip(max=14), poisson_law(6, 15), poisson_law(6.6, 15))


def hours_law(hours: tuple[tuple[int, int, float], ...]) -> Floats:
    """The probability of each hour that has some."""
    weights = np.zeros(24)
    for begin, end, weight in hours:
        weights[begin:end] += weight
    return np.asarray(weights[6:23] / weights.sum())


def test_hours_of_a_day() -> None:
    """Starts have the weights of their hours, and are even within an hour."""
    runs = runs_of(KETTLE)
    hour = (runs.start_s - PEOPLE.late_s[runs.row]) % 86_400 / 3600
    wrong = hours_law(((6, 9, 4.4), (9, 17, 1), (17, 23, 2)))
    check(np.floor(hour).astype(np.int64) - 6, hours_law(HOURS), wrong)
    tilted = (1 + 0.1 * np.linspace(-1, 1, 10)) / 10
    check(np.floor(hour % 1 * 10).astype(np.int64), np.full(10, 0.1), tilted)


def test_lengths_of_runs() -> None:
    """A run's length is log-normal around its home's, with the stated spread; so are the homes' lengths."""
    runs, length = runs_of(KETTLE), Makes.of(PEOPLE, KETTLE.name).length
    spread = np.log(runs.ends_s[:, -1] / (100 * length[runs.row])) / KETTLE.spread
    # Whole seconds and the limit of a factor of 4 blur the edges: cells of a twentieth do not see either.
    noise = uniforms(9, "within a second", runs.row, 0, runs.start_s)[0] - 0.5
    smooth = np.log((runs.ends_s[:, -1] + noise) / (100 * length[runs.row])) / KETTLE.spread
    assert np.abs(spread - smooth).max() < 0.1
    check(cells_of_normal(smooth), *even_against_wide())
    check(cells_of_normal(np.log(length) / 0.3), *even_against_wide())


def test_channels() -> None:
    """Channel c of six has the share sqrt((c + 1) / 6) - sqrt(c / 6) of the audience."""
    days = [viewings(PEOPLE, PEOPLE.absences(day), EVEN, day).channel for day in range(5)]
    law, wrong = (np.diff((np.arange(CHANNELS + 1) / CHANNELS) ** (1 / power)) for power in (2, 2 * 1.1))
    check(np.concatenate(days), law, wrong)


def test_thermostats_are_on_for_their_share() -> None:
    """Refrigerators run for their duty's mean, 27.5% of the time.

    Duties are uniform in .2 .. .35: their mean over 16,000 homes has a standard error of .00035. The limit is
    eight of them; 10% off is 79.
    """
    cold = next(load for load in CATALOGUE if load.name == "refrigerator")
    runs = cold.runs(PEOPLE, PEOPLE.absences(0), EVEN, 0)
    share = runs.ends_s[:, -1].sum() / (86_400 * len(PEOPLE.homes))
    assert share == pytest.approx(0.275, abs=8 * 0.00035)
