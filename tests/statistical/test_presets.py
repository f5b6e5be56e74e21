"""Every preset on homes: what `check` prints before is what is measured after, through the whole core.

Synthetic meters, each a real home (METERAGENT_DATA) or a simulated one from a minute of its own on, send
JSON readings to the core of the agent, by the event clock, with the noise of the preset; what leaves is
compared with the exact means of what was sent. By default each meter sends few readings, which stand long:
it is the noise that is measured. With METERAGENT_REAL=whole they send six times as many, and there are
twice as many of them.

ALARM is the chance that right software fails one assertion; there are fewer than 100, and seeds are fixed, so
a run repeats. MISS bounds the chance that noise of a scale 10% off passes (law.scale_passes: the sum of the
largest errors of windows, in units of 1 / epsilon, is Gamma; THEORY 2.1).
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO, MINUTE_MS
from meteragent.privacy import SeededBits
from simulators.homes.fleet import Fleet
from simulators.traces.trace import load
from tests.integration import law
from tests.support.configurations import written
from tests.support.guarantees import facts_of
from tests.support.not_run import data_folder
from tests.support.world import stream

pytestmark = pytest.mark.usefixtures("data")

WHOLE = os.environ.get("METERAGENT_REAL") == "whole"
ALARM = law.ALARM
MISS = 1e-4
SIMULATED = "the first home of seed 0, 60 days"
OFF_MS = 7 * MINUTE_MS
"""Readings come so long before the boundaries of the grid."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Run:
    """Windows of a preset from a time on, by groups of meters: how many meters, how many windows of each.

    Each meter sends a reading every `every_min`.
    """

    preset: str
    start: str
    every_min: int
    groups: tuple[tuple[int, int], ...]

    @property
    def stream(self) -> config.Stream:
        """Its configuration, by the event clock."""
        zone = "" if self.every_min == HALF_HOUR_MIN else "timezone = 'Europe/London'\n"
        window = f"{zone}clock = 'event'\nahead = '9999d'"
        return config.parse(
            written(privacy=f"preset = '{self.preset}'", window=window, source="hold = '40d'")
        ).stream[0]


HALF_HOUR_MIN = 30
HALF_HOURS = ((1000, 3), (4, 30 * 48))
RUNS = (
    Run("television", "2014-02-01T00:00:00Z", HALF_HOUR_MIN, HALF_HOURS),
    Run("appliance", "2014-02-01T00:00:00Z", HALF_HOUR_MIN, HALF_HOURS),
    Run("street", "2014-02-01T00:00:00Z", HALF_HOUR_MIN, HALF_HOURS),
    Run("day", "2014-02-01T00:00:00Z", 11 * 60, ((1000, 1), (260, 30))),
    Run("bill", "2014-03-31T23:00:00Z", 160 * 60, ((8500, 1),)),
    Run("typical-day", "2014-03-31T23:00:00Z", 42 * 60, ((2125, 1),)),
)
EACH = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.preset)


# Meters -------------------------------------------------------------------------------------------


@lru_cache
def minutes_w(name: str) -> Integers:
    """Whole mW of a real home, or of the simulated one, summed up by the minute."""
    if name == SIMULATED:
        watts = np.concatenate([day.watts[0] for day in Fleet(0, [0]).days(0, 60, 60)])
    else:
        trace = load(data_folder() / "homes" / f"{name}.parquet")
        assert (np.diff(trace.times_ms) == MINUTE_MS).all()
        watts = trace.watts
    return np.concatenate(([0], np.cumsum(np.rint(watts * 1000).astype(np.int64))))


def sent_mw(meters: int, readings: int, every_min: int) -> Integers:
    """What meters send: a home's means over the time between two readings; shape (meters, readings)."""
    homes = [minutes_w(name) for name in ("REFIT_House2", "UKDALE_House2", SIMULATED)]
    rng, found = np.random.default_rng(meters), np.empty((meters, readings), np.int64)
    for meter in range(meters):
        sums = homes[meter % len(homes)]
        edges = rng.integers(sums.size - 1) + np.arange(readings + 1) * every_min
        turns, at = np.divmod(edges, sums.size - 1)
        found[meter] = np.diff(sums[at] + turns * sums[-1]) // every_min
    return found


def messages(sent: Integers, times_ms: Integers) -> Iterator[Message]:
    """Each meter's readings, one meter after the other."""
    for meter, row in enumerate(sent.tolist()):
        for time_ms, value_mw in zip(times_ms.tolist(), row, strict=True):
            payload = f'{{"t":{time_ms},"power":{value_mw // 1000}.{value_mw % 1000:03}}}'
            yield Message(f"meters/m{meter}/power", payload.encode(), False, time_ms, None)


# What leaves --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What was printed before; the errors of each group in quanta, shape (meters, windows, slots)."""

    terms: Terms
    facts: dict[str, Any]
    errors: tuple[Integers, ...]


@lru_cache
def found(run: Run) -> Found:
    """One run."""
    known = run.stream
    facts = facts_of(known)
    return Found(config.terms(known), facts, tuple(group(run, *numbers) for numbers in run.groups))


def group(run: Run, meters: int, windows: int) -> Integers:
    """The errors of some meters in a number of windows."""
    schedule = config.schedule(run.stream)
    meters, every_min = (2 * meters, max(run.every_min // 6, 30)) if WHOLE else (meters, run.every_min)
    starts_ms = [parse_time(run.start)]
    for _ in range(windows):
        starts_ms.append(schedule.grid.end_ms(starts_ms[-1]))
    assert schedule.first_start_ms(starts_ms[0]) == starts_ms[0]
    count = -(-(starts_ms[-1] - starts_ms[0] + OFF_MS) // (every_min * MINUTE_MS)) + 1
    times_ms = starts_ms[0] - OFF_MS + np.arange(count) * every_min * MINUTE_MS
    sent = sent_mw(meters, count, every_min)
    slots = [slot for start_ms in starts_ms[:-1] for slot in stretches(schedule.terms_at(start_ms), start_ms)]
    truth = rounded(sent, times_ms, slots, schedule.usual.quantum_u)
    core = Pipeline(
        stream(schedule, max_meters=10**6),
        Snapshot({}, {}, {}),
        Spending(),
        SeededBits(len(run.preset) + meters),
        Counts(),
    )
    effects = core.feed(list(messages(sent, times_ms)), int(times_ms[-1]), 0)
    rows = [
        json.loads(row.payload, parse_float=Fraction) for row in effects.commit.outgoing if not row.retain
    ]
    assert [row["meter"] for row in rows] == [f"m{m}" for m in range(meters) for _ in slots]
    value_quanta = [Fraction(row["value"]) * MICRO / schedule.usual.quantum_u for row in rows]
    released = np.array([int(value) for value in value_quanta])
    assert all(value.denominator == 1 for value in value_quanta)
    return (released.reshape(truth.shape) - truth).reshape(meters, windows, -1)


def stretches(terms: Terms, start_ms: int) -> list[Integers]:
    """Where the slots of a window lie, each of shape (stretches, 2), in the order in which they leave."""
    return [np.array(terms.stretches[place]) + start_ms for place in range(terms.n)]


def rounded(sent: Integers, times_ms: Integers, slots: list[Integers], quantum_u: int) -> Integers:
    """The slot values of what was sent in quanta, floor(mean / q + 1/2); shape (meters, slots)."""
    edges_ms = np.append(times_ms, times_ms[-1] + 40 * DAY_MS)[:, np.newaxis]
    passed_ms = [np.clip(edges_ms - part[:, 0], 0, part[:, 1] - part[:, 0]).sum(axis=1) for part in slots]
    weights = np.diff(np.array(passed_ms)).T
    lattice = weights.sum(axis=0) * quantum_u // 1000
    return np.asarray((2 * (sent @ weights) + lattice) // (2 * lattice))


# What is measured ---------------------------------------------------------------------------------


def estimates(run: Run, name: str) -> Floats:
    """The errors of what `check` names, in its unit."""
    it = found(run)
    numbers = [group * float(it.terms.quantum) for group in it.errors]
    if name == "number":
        return np.concatenate([group.ravel() for group in numbers])
    if name.startswith("mean_of_"):
        homes = int(name.removeprefix("mean_of_"))
        whole = [group[: len(group) // homes * homes] for group in numbers]
        means = [group.reshape(-1, homes, *group.shape[1:]).mean(axis=1) for group in whole if len(group)]
        return np.concatenate([group.ravel() for group in means])
    windows = together(run, name)
    kwh = [(group * it.terms.slot_ms(0) / HOUR_MS / 1000).sum(axis=-1) for group in numbers]
    whole = [group[:, : group.shape[1] // windows * windows] for group in kwh]
    return np.concatenate([group.reshape(-1, windows).sum(axis=-1) for group in whole])


def together(run: Run, name: str) -> int:
    """How many windows are in a day or a month."""
    return {"day_kwh": 1, "month_kwh": 30}[name] * DAY_MS // found(run).terms.length_ms


def spread(run: Run, name: str) -> float:
    """The variance of a squared error in parts of its mean's square.

    A window's noise is R u, with R Gamma(n + 1) and u uniform on the cube, so E z_i^2 = (n+1)(n+2)/3,
    E z_i^4 = (n+1)..(n+4)/5 and E z_i^2 z_j^2 = (n+1)..(n+4)/9.
    """
    n = found(run).terms.n
    square, fourth = (n + 1) * (n + 2) / 3, math.prod(range(n + 1, n + 5))
    if name.endswith("_kwh"):
        kurtosis = (n * fourth / 5 + 3 * n * (n - 1) * fourth / 9) / (n * square) ** 2
        return 2 + (kurtosis - 3) / together(run, name)
    homes = int(name.removeprefix("mean_of_")) if "mean" in name else 1
    others = (n - 1) * (fourth / 9 / square**2 - 1)  # slots of a window share its R
    return 2 + (fourth / 5 / square**2 - 3 + others) / homes


def passes(run: Run, name: str, errors: Floats) -> bool:
    """Whether the mean square is what is printed; it is like a chi-square of the same variance."""
    df = 2 * errors.size / spread(run, name)
    ratio = (errors**2).mean() / found(run).facts["errors"][name] ** 2
    return bool(stats.chi2.ppf(ALARM / 2, df) / df <= ratio <= stats.chi2.isf(ALARM / 2, df) / df)


NAMES = [
    (run, name)
    for run in RUNS
    for name in ("number", "day_kwh", "month_kwh", "mean_of_100", "mean_of_1000")
    if name != "day_kwh" or run.preset not in ("bill", "typical-day")
]


@pytest.mark.parametrize(("run", "name"), NAMES, ids=lambda value: getattr(value, "preset", value))
def test_errors_are_what_check_printed(run: Run, name: str) -> None:
    """Of a number, a day, a month and the mean of homes: as large as said, and right on average."""
    errors, said = estimates(run, name), found(run).facts["errors"][name]
    assert passes(run, name, errors)
    assert abs(errors.mean()) <= stats.norm.isf(ALARM / 2) * said / math.sqrt(errors.size)


@EACH
def test_nothing_is_printed_that_is_not_measured(run: Run) -> None:
    """`check` names the errors above and no others (and the interval of a number)."""
    names = {name for one, name in NAMES if one == run}
    assert found(run).facts["errors"].keys() == names | {"ci95"}


@EACH
def test_the_interval_of_a_number_holds_95_of_100(run: Run) -> None:
    """As many errors are within `ci95` as it says."""
    inside = np.abs(estimates(run, "number")) <= found(run).facts["errors"]["ci95"]
    n = found(run).terms.n  # slots of a window are not independent: count windows, at their mean
    hits = inside.reshape(-1, n).mean(axis=1)
    assert abs(hits.mean() - 0.95) <= stats.norm.isf(ALARM / 2) * 0.22 / math.sqrt(hits.size)


@EACH
def test_noise_has_its_scale_and_no_other(run: Run) -> None:
    """The right scale passes; one 10% too large or too small does not, but with a chance of MISS."""
    terms = found(run).terms
    windows = np.concatenate([group.reshape(-1, terms.n) for group in found(run).errors]).tolist()
    a = terms.epsilon * terms.quantum
    assert law.passes_scale_test(windows, a)
    for factor in (Fraction(11, 10), Fraction(10, 11)):
        assert law.scale_miss(len(windows) * terms.n, float(factor)) < MISS
        assert not law.passes_scale_test(windows, a * factor)


@EACH
def test_errors_that_do_not_cancel_are_seen(run: Run) -> None:
    """Were the noise of 100 homes all the same, or that of a month's windows, the totals would tell."""
    for name, count in (("mean_of_100", 100), ("month_kwh", together(run, "month_kwh"))):
        if count > 1:
            assert not passes(run, name, estimates(run, name) * math.sqrt(count))


# The figures of DESIGN 5 --------------------------------------------------------------------------

FIGURES = {
    "television": {"number": "57", "day_kwh": "0.20", "month_kwh": "1.1", "mean_of_1000": "1.8"},
    "appliance": {"number": "311", "day_kwh": "1.1", "month_kwh": "5.9", "mean_of_1000": "9.8"},
    "day": {"kwh": "0.42", "day_kwh": "0.42", "month_kwh": "2.3", "kwh_of_1000": "0.013"},
    "bill": {"kwh": "8.5", "month_kwh": "8.5", "kwh_of_1000": "0.27"},
    "typical-day": {"number": "26", "month_kwh": "9.5", "mean_of_1000": "0.8"},
    "street": {"number": "8.5e2", "day_kwh": "2.9", "month_kwh": "16", "mean_of_1000": "27"},
}
"""One standard deviation, in W and kWh, to as many digits as are written."""


@EACH
def test_presets_deliver_the_figures_of_the_design(run: Run) -> None:
    """One home's number, day and month, and the mean of 1,000 homes, are those of the table."""
    it = found(run)
    errors, hours = it.facts["errors"], it.terms.length_ms / HOUR_MS
    measured = {
        **errors,
        "kwh": errors["number"] * hours / 1000,
        "kwh_of_1000": errors["mean_of_1000"] * hours / 1000,
    }
    for name, figure in FIGURES[run.preset].items():
        digits = len(figure.partition("e")[0].replace(".", "").lstrip("0"))
        assert float(f"{measured[name]:.{digits}g}") == float(figure), name
