"""What `check` promises is found on real homes: how far numbers and means are off, and who can tell what.

Real half hours (METERAGENT_DATA) get the noise of the preset `appliance`, and `meteragent.consume` reads
them. ALARM is the chance that right software fails one assertion; there are fewer than 60, and seeds are
fixed, so a run repeats. Where something wrong is rejected, MISS bounds the chance that it is not.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent import config
from meteragent.consume import Estimate, collect, mean_value
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS
from meteragent.privacy import LInfLaplace, SeededBits, discrete_laplace
from meteragent.privacy.inference import success_bound
from meteragent.report.event import EVENTS, Event, window_distances
from meteragent.report.guarantee import MONTH_DAYS, REPETITIONS
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from simulators.traces.trace import load
from tests.support.configurations import written
from tests.support.guarantees import facts_of

ALARM = 1e-6
MISS = 1e-6
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STREAM = config.parse(written(privacy="preset = 'appliance'")).stream[0]
WORDING = describe_terms(config.terms(STREAM))
FACTS = facts_of(STREAM)
SLOT_MS = HOUR_MS // 2
A_DAY = DAY_MS // SLOT_MS
MONTHS = 3
HOMES, EVENING = 1000, slice(34, 46)
START_MS = 20_000 * DAY_MS


# Real homes ---------------------------------------------------------------------------------------


def minutes_w(data: Path, name: str) -> Floats:
    """A home's power by the minute, from a whole half hour on, shape (days, 1440)."""
    trace = load(data / "homes" / f"{name}.parquet")
    assert (np.diff(trace.times_ms) == MINUTE_MS).all()
    first = int(-trace.times_ms[0] % SLOT_MS) // MINUTE_MS
    watts = trace.watts[first:][: MONTHS * MONTH_DAYS * 1440]
    return np.asarray(watts.reshape(-1, 1440), np.float64)


def means_w(minutes: Floats) -> Floats:
    """The mean power of each half hour, shape (.., slots)."""
    return np.asarray(minutes.reshape(*minutes.shape[:-1], -1, SLOT_MS // MINUTE_MS).mean(axis=-1))


def quanta(means: Floats) -> Integers:
    """The slot values: whole watts, as the agent rounds."""
    return np.floor(means + 0.5).astype(np.int64)


@pytest.fixture(scope="module")
def homes_w(data: Path) -> Floats:
    """The two homes' half hours, shape (homes, days, slots)."""
    return np.array([means_w(minutes_w(data, name)) for name in ("REFIT_House2", "UKDALE_House2")])


# What was received --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Estimates of one kind, and how far each is from the truth."""

    estimates: list[Estimate]
    errors: Floats

    @classmethod
    def of(cls, pairs: Iterable[tuple[Estimate, float]]) -> "Found":
        """From estimates, each with the truth."""
        estimates, truths = zip(*pairs, strict=True)
        return cls(list(estimates), np.array([e.value for e in estimates]) - truths)

    @property
    def inside(self) -> int:
        """How often the truth was in the interval."""
        both = zip(self.estimates, self.errors.tolist(), strict=True)
        return sum(one.low <= one.value - error <= one.high for one, error in both)


def messages(truths_w: Floats, seed: int) -> list[bytes]:
    """All that is sent of homes m0, m1 .. from START_MS on; half hours have shape (homes, slots)."""
    noisy = WORDING.terms.mechanism.release(quanta(truths_w)[..., np.newaxis], bits=SeededBits(seed))[..., 0]
    sent = []
    for home, row in enumerate(noisy.tolist()):
        sent.append(WORDING.encode_message(f"m{home}", START_MS))
        sent += [
            RecordFormat.of(WORDING).encode(f"m{home}", START_MS + i * SLOT_MS, 0, z)
            for i, z in enumerate(row)
        ]
    return sent


@pytest.fixture(scope="module")
def found(homes_w: Floats) -> dict[str, Found]:
    """Estimates by what is estimated: of two homes in three months, and of a street in an evening."""
    two_w = homes_w.reshape(len(homes_w), -1)
    # A home of the street is one of the two on one of its days, with noise of its own.
    days = np.arange(HOMES) // len(homes_w) % homes_w.shape[1]
    street_w = homes_w[np.arange(HOMES) % len(homes_w), days, EVENING]
    months, evening = collect(messages(two_w, 1)), collect(messages(street_w, 2))

    def numbers() -> Iterable[tuple[Estimate, float]]:
        for received, truths_w in ((months, two_w), (evening, street_w)):
            for home, row in enumerate(truths_w.tolist()):
                series = received[f"m{home}"]
                yield from ((series.value(START_MS + i * SLOT_MS), w) for i, w in enumerate(row))

    def energies(days: int) -> Iterable[tuple[Estimate, float]]:
        length = days * A_DAY
        for home, row in enumerate(two_w):
            for first in range(0, row.size, length):
                start_ms = START_MS + first * SLOT_MS
                energy_kwh = float(row[first : first + length].sum() * SLOT_MS / HOUR_MS / 1000)
                yield months[f"m{home}"].energy(start_ms, start_ms + days * DAY_MS), energy_kwh

    def means(count: int) -> Iterable[tuple[Estimate, float]]:
        for first in range(0, HOMES, count):
            group = [evening[f"m{home}"] for home in range(first, first + count)]
            for i, truth_w in enumerate(street_w[first : first + count].mean(axis=0).tolist()):
                yield mean_value(group, START_MS + i * SLOT_MS), truth_w

    return {
        "number": Found.of(numbers()),
        "day_kwh": Found.of(energies(1)),
        "month_kwh": Found.of(energies(MONTH_DAYS)),
        "mean_of_100": Found.of(means(100)),
        "mean_of_1000": Found.of(means(1000)),
    }


# Errors -------------------------------------------------------------------------------------------

SUMMED = {
    "number": 1,
    "day_kwh": A_DAY,
    "month_kwh": MONTH_DAYS * A_DAY,
    "mean_of_100": 100,
    "mean_of_1000": 1000,
}
"""How many independent draws are in an estimate."""


def freedom(name: str, count: int) -> float:
    """Degrees of freedom of the chi-square that the sum of squared errors is like: that of its variance.

    The kurtosis of a sum of m Laplace draws is 3 + 3/m; for normal errors it is exact.
    """
    return 2 * count / (2 + 3 / SUMMED[name])


def limits(df: float) -> tuple[float, float]:
    """Between these is the mean square error, in parts of what is promised, but with a chance of ALARM."""
    return float(stats.chi2.ppf(ALARM / 2, df) / df), float(stats.chi2.isf(ALARM / 2, df) / df)


def miss(df: float, factor: float) -> float:
    """The chance that errors `factor` times as large pass."""
    low, high = (limit * df / factor**2 for limit in limits(df))
    return float(stats.chi2.cdf(high, df) - stats.chi2.cdf(low, df))


def passes(errors: Floats, name: str) -> bool:
    """Whether errors are as large as `check` promises."""
    low, high = limits(freedom(name, errors.size))
    return bool(low <= (errors**2).mean() / FACTS["errors"][name] ** 2 <= high)


@pytest.mark.parametrize("name", SUMMED)
def test_errors_are_as_large_as_promised(name: str, found: dict[str, Found]) -> None:
    """Numbers, days, months and means of homes are off by what `check` says, and right on average."""
    errors = found[name].errors
    assert passes(errors, name)
    bias_limit = stats.norm.isf(ALARM / 2) * FACTS["errors"][name] / math.sqrt(errors.size)
    assert abs(errors.mean()) <= bias_limit


@pytest.mark.parametrize("name", SUMMED)
def test_intervals_hold_the_truth(name: str, found: dict[str, Found]) -> None:
    """The interval of `consume` contains the truth 95 times in 100, and is no wider than `check` predicts."""
    estimates = found[name].estimates
    assert stats.binomtest(found[name].inside, len(estimates), 0.95).pvalue > ALARM
    half = {(round(one.sd, 9), round((one.high - one.low) / 2, 9)) for one in estimates}
    band = FACTS["errors"]["ci95"] if name == "number" else 1.96 * FACTS["errors"][name]
    for deviation, width in half:
        assert deviation == pytest.approx(FACTS["errors"][name], rel=1e-3)
        assert width == pytest.approx(band, rel=5e-3)


REJECTED = {"number": 1.1, "day_kwh": 2.0, "month_kwh": 38.0, "mean_of_100": 2.0, "mean_of_1000": 20.0}
"""How much too large errors may be, to be surely seen: a month's would be 38 times as large, and the mean of
1,000 homes' 32 times, if errors were always the same and did not cancel."""


@pytest.mark.parametrize("name", SUMMED)
def test_larger_errors_are_rejected(name: str, found: dict[str, Found]) -> None:
    """Noise 10% too large shows in the numbers, and errors that do not cancel in totals and means."""
    errors, factor = found[name].errors, REJECTED[name]
    assert miss(freedom(name, errors.size), factor) < MISS
    assert not passes(errors * factor, name)


@pytest.mark.parametrize("factor", [Fraction(11, 10), Fraction(10, 11)])
def test_noise_of_another_scale_is_rejected(factor: Fraction, found: dict[str, Found]) -> None:
    """As many numbers with noise drawn 10% too large or too small do not pass."""
    count = found["number"].errors.size
    assert miss(freedom("number", count), float(factor)) < MISS
    wrong = discrete_laplace(count, WORDING.terms.mechanism.a / factor, SeededBits(3))
    assert not passes(wrong.astype(np.float64), "number")


# Events -------------------------------------------------------------------------------------------

WINDOWS = 150_000
KETTLE, TV = (next(one for one in EVENTS if name in one.name) for name in ("kettle", "TV"))
EVENING_MIN = 18 * 60


def margin(times: int) -> float:
    """A rate is farther above its chance, or farther below, with a probability of ALARM (Hoeffding)."""
    return math.sqrt(math.log(1 / ALARM) / (2 * (WINDOWS // times)))


def shifts(minutes: Floats, event: Event, start: Integers) -> Integers:
    """By how many quanta an event moves each half hour of days by the minute, each from its own minute on."""
    at = np.arange(minutes.shape[1]) - start[:, np.newaxis]
    moved = minutes + event.power_w * ((at >= 0) & (at < event.duration_ms // MINUTE_MS))
    return quanta(means_w(moved)) - quanta(means_w(minutes))


def right_answers(shift: Integers, times: int, a: Fraction, seed: int) -> float:
    """How often the likelihood-ratio test is right whether `times` days in a row had the event.

    It knows both loads and sees all half hours that differ; half of the trials had the event. The noise of
    one slot a window is the discrete Laplace law (tests/statistical/test_law.py), `a` its parameter.
    """
    trials = WINDOWS // times
    differ = shift[:, shift.any(axis=0)]
    moved = differ[np.arange(trials * times) % len(differ)].reshape(trials, -1)
    noise = discrete_laplace(moved.size, a, SeededBits(seed)).reshape(moved.shape)
    happened = np.arange(trials) % 2 == 1
    seen = noise + moved * happened[:, np.newaxis]
    score = (np.abs(seen) - np.abs(seen - moved)).sum(axis=1)
    return float(np.where(score == 0, 0.5, (score > 0) == happened).mean())


@pytest.fixture(scope="module")
def minutes(data: Path) -> Floats:
    """Days of one home by the minute."""
    return minutes_w(data, "REFIT_House2")


def at_once(minutes: Floats) -> Integers:
    """The start of the same half hour on each day."""
    return np.full(len(minutes), EVENING_MIN)


@pytest.mark.parametrize("times", REPETITIONS)
@pytest.mark.parametrize("event", [KETTLE, TV], ids=["kettle", "TV"])
def test_nobody_is_right_more_often(event: Event, times: int, minutes: Floats) -> None:
    """On real days with or without an event, the optimal test is right no more often than `check` says.

    From the start of a slot on, it is right as often as said, so the bound is no larger than it must be.
    """
    (row,) = (row for row in FACTS["hidden"] if row["event"] == event.name)
    said, a = row["right_of_100"][str(times)] / 100, WORDING.terms.mechanism.a
    anywhere = np.random.default_rng(times).integers(EVENING_MIN - 120, EVENING_MIN + 120, len(minutes))
    assert right_answers(shifts(minutes, event, anywhere), times, a, 4) <= said + margin(times)
    rate = right_answers(shifts(minutes, event, at_once(minutes)), times, a, 5)
    assert said - 0.01 - margin(times) <= rate <= said + margin(times)


@pytest.mark.parametrize("event", [KETTLE, TV], ids=["kettle", "TV"])
def test_events_move_what_is_said(event: Event, minutes: Floats) -> None:
    """Wherever an event begins, it moves half hours of real days as `check` assumes, rounding added."""
    (way,) = window_distances(event, WORDING.terms)
    for start in range(SLOT_MS // MINUTE_MS):
        moved = shifts(minutes, event, at_once(minutes) + start)
        assert moved.max() <= max(way)
        assert moved.sum(axis=1).max() <= sum(way) + 1


def test_too_little_noise_is_beaten(minutes: Floats) -> None:
    """With noise 10% too small the optimal test beats what is said of a kettle; missed with MISS at most."""
    right = WORDING.terms.mechanism
    small = LInfLaplace(right.epsilon * Fraction(10, 9), right.quantum, right.n)
    (way,) = window_distances(KETTLE, WORDING.terms)
    said = success_bound(right, way)
    assert margin(1) == pytest.approx(math.sqrt(-math.log(MISS) / (2 * WINDOWS)))
    assert success_bound(small, way) > said + 2 * margin(1)
    assert right_answers(shifts(minutes, KETTLE, at_once(minutes)), 1, small.a, 6) > said + margin(1)
