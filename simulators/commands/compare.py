"""Compare simulated homes with real traces, statistic by statistic.

A statistic fits if every real value is between the 5th and the 95th percentile of the simulated values. The
real values come from the folder that --data names: two homes, and 47 days of single appliances. An appliance
runs while it draws more than a threshold. Short pauses do not end a run; short is less than 30 s for a hair
dryer, and less than an hour for a dishwasher. The table is Markdown; --into FILE replaces the text between
the marks in that file with the table.

With --region, the command compares streets of 1, 10, 100 and 1,000 homes of today, and appliances, with
published figures instead; each figure has its standard error. This takes some minutes.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulators.commands.arguments import BEGIN, END
from simulators.homes import feeder
from simulators.homes.chance import Floats
from simulators.homes.fleet import Day, Events, Fleet
from simulators.homes.region import REGIONS
from simulators.homes.signature import DAY_S
from simulators.homes.television import BASE_W, GAIN_W, LEVELS, Sets, library_w
from simulators.traces.trace import TraceError, load

HOMES, DAYS, STEP_S = 150, 14, 60
WINDOW, SLOT_S = 30, 10
_SETS = 60
_HOLD_S = 60
"""The longest time for which a trace's reading holds."""


class Row(NamedTuple):
    """The values of a statistic, from real traces and from simulations."""

    name: str
    real: Sequence[float]
    simulated: Sequence[float]

    @property
    def band(self) -> tuple[float, float]:
        """The interval from the 5th to the 95th percentile of the simulated values."""
        low, high = np.percentile(self.simulated, [5, 95])
        return float(low), float(high)

    @property
    def outside(self) -> int:
        """The number of real values outside the band."""
        low, high = self.band
        return sum(not low <= value <= high for value in self.real)

    def __str__(self) -> str:
        low, high = self.band
        real = ", ".join(_short(value) for value in self.real)
        verdict = "yes" if not self.outside else f"no: {self.outside} of {len(self.real)}"
        middle = _short(float(np.median(self.simulated)))
        return f"| {self.name} | {real} | {_short(low)} – {_short(high)} | {middle} | {verdict} |"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def table(rows: Sequence[Row]) -> str:
    """Format rows as Markdown."""
    head = "| | real | simulated, 5–95% | median | fits |\n|---|---|---|---|---|"
    return "\n".join([head, *map(str, rows)])


@cache
def _days() -> Sequence[Day]:
    """Simulate the homes once for all statistics, and only after the real traces have been found."""
    return list(Fleet(0, range(HOMES)).days(0, DAYS, STEP_S))


# Homes --------------------------------------------------------------------------------------------

HOME_FILES = ("REFIT_House2", "UKDALE_House2")


def home_rows(data: Path) -> Iterator[Row]:
    """Yield statistics of homes' power by the minute: level, peaks, autocorrelation, profile, daily means."""
    real = [_minutes(data / "homes" / f"{name}.parquet", "Aggregate") for name in HOME_FILES]
    homes = np.concatenate([day.watts for day in _days()], axis=1).astype(np.float64)
    for name, statistic in _HOME_STATISTICS.items():
        yield Row(f"home: {name}", [statistic(home) for home in real], [statistic(home) for home in homes])


def _minutes(path: Path, column: str) -> Floats:
    """Load a column by the minute, in W, on a grid of whole days.

    A value is NaN where nothing was measured or where the home's total is not above 0 W.
    """
    trace = load(path, "Time", column)
    index = (trace.times_ms - trace.times_ms[0] // (1000 * DAY_S) * (1000 * DAY_S)) // (1000 * STEP_S)
    day = DAY_S // STEP_S
    grid = np.full((int(index[-1]) // day + 1) * day, np.nan)
    grid[index] = np.where(trace.watts > 0, trace.watts, np.nan) if column == "Aggregate" else trace.watts
    return grid


def _memory(minutes: int) -> Callable[[Floats], float]:
    """Return a function that computes the autocorrelation of the measured values at a lag of `minutes`."""

    def statistic(watts: Floats) -> float:
        """Return the autocorrelation."""
        deviation = watts - np.nanmean(watts)
        return float(np.nanmean(deviation[:-minutes] * deviation[minutes:]) / np.nanmean(deviation**2))

    return statistic


def _hours(watts: Floats, begin: int, end: int) -> float:
    """Return the mean power from hour `begin` to hour `end` of the day, divided by the mean of all hours."""
    by_hour = np.nanmean(watts.reshape(-1, 24, 3600 // STEP_S), axis=(0, 2))
    return float(by_hour[begin:end].mean() / by_hour.mean())


def _peaks(watts: Floats) -> float:
    """Return how many times per day the load rises by more than 1 kW within a minute."""
    return float((np.diff(watts) > 1000).sum() / (np.isfinite(watts).sum() * STEP_S / DAY_S))


def _day_to_day(watts: Floats) -> float:
    """Return the standard deviation of daily means divided by their mean, for days over 90% complete."""
    days = watts.reshape(-1, DAY_S // STEP_S)
    means = np.nanmean(days[np.isfinite(days).mean(axis=1) > 0.9], axis=1)
    return float(means.std() / means.mean())


_HOME_STATISTICS: dict[str, Callable[[Floats], float]] = {
    "mean, W": lambda watts: float(np.nanmean(watts)),
    "5th percentile, W": lambda watts: float(np.nanpercentile(watts, 5)),
    "median, W": lambda watts: float(np.nanmedian(watts)),
    "99th percentile, W": lambda watts: float(np.nanpercentile(watts, 99)),
    "rises of more than 1 kW, a day": _peaks,
    "autocorrelation, 1 min": _memory(1),
    "autocorrelation, 15 min": _memory(15),
    "autocorrelation, 60 min": _memory(60),
    "night (0–6 h) over mean": lambda watts: _hours(watts, 0, 6),
    "morning (6–9 h) over mean": lambda watts: _hours(watts, 6, 9),
    "day (9–17 h) over mean": lambda watts: _hours(watts, 9, 17),
    "evening (17–22 h) over mean": lambda watts: _hours(watts, 17, 22),
    "deviation of days over mean": _day_to_day,
}


# Appliances ---------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A simulated appliance, the column and files of its real traces, and the rules that find its runs.

    A run draws more than `above_w`, has no pause of `pause_s` or longer, and lasts at least `shortest_s`.
    `column` is empty if the homes have no submeter for the appliance.
    """

    name: str
    column: str
    traces: str
    above_w: float
    pause_s: int
    shortest_s: int


KINDS = (
    Kind("kettle", "Kettle", "WaterKettle", 500, 60, 20),
    Kind("microwave", "Microwave", "MicrowaveOven", 100, 60, 20),
    Kind("washing machine", "WashingMachine", "Washingmachine", 10, 1800, 600),
    Kind("dishwasher", "Dishwasher", "Dishwasher", 10, 3600, 600),
    Kind("refrigerator", "", "Refrigerator", 30, 60, 120),
    Kind("freezer", "", "Freezer", 30, 60, 120),
    Kind("toaster", "", "Toaster", 300, 60, 20),
    Kind("hob", "", "Cookingstove", 300, 120, 60),
    Kind("tumble dryer", "", "LaundryDryer", 100, 600, 600),
    Kind("vacuum cleaner", "", "VacuumCleaner", 300, 60, 20),
    Kind("hair dryer", "", "HairDryer", 300, 30, 20),
    Kind("television", "", "TV-", 20, 600, 300),
)


class Runs(NamedTuple):
    """The runs of one appliance: the duration and mean power of each."""

    seconds: Floats
    watts: Floats


def runs_of(watts: Floats, step_s: int, kind: Kind) -> Runs:
    """Return the runs in a series of powers in W, one per `step_s`, by the kind's rules."""
    is_on = np.concatenate([[False], watts > kind.above_w, [False]])
    edges = np.flatnonzero(is_on[1:] != is_on[:-1])
    begin, end = edges[::2], edges[1::2]
    if not len(begin):
        return Runs(np.empty(0), np.empty(0))
    is_pause = (begin[1:] - end[:-1]) * step_s >= kind.pause_s
    begin, end = begin[np.concatenate([[True], is_pause])], end[np.concatenate([is_pause, [True]])]
    sums = np.concatenate([[0.0], np.cumsum(watts)])
    seconds, means = (end - begin) * step_s, (sums[end] - sums[begin]) / (end - begin)
    long_enough = seconds >= kind.shortest_s
    return Runs(seconds[long_enough].astype(np.float64), means[long_enough])


def appliance_rows(data: Path) -> Iterator[Row]:
    """Yield rows for each kind: its runs' median duration and power and, with a submeter, runs per day."""
    for kind in KINDS:
        simulated = [day.events.of(kind.name) for day in _days()]
        real = [runs for runs in _real_runs(data, kind) if len(runs.seconds)]
        lengths_s, watts = (
            _medians_by_home(simulated, lambda day: day.end_s - day.start_s),
            _medians_by_home(simulated, _watts),
        )
        yield Row(f"{kind.name}: run, s", [float(np.median(runs.seconds)) for runs in real], lengths_s)
        yield Row(f"{kind.name}: power, W", [float(np.median(runs.watts)) for runs in real], watts)
        if kind.column:
            homes = np.concatenate([day.home for day in simulated])
            counts = np.unique(homes, return_counts=True)[1] / DAYS
            real_counts = [_runs_a_day(data, name, kind) for name in HOME_FILES]
            yield Row(f"{kind.name}: runs a day", real_counts, counts.tolist())


def _watts(events: Events) -> Floats:
    return events.watts


def _medians_by_home(days: Sequence[Events], value: Callable[[Events], Any]) -> list[float]:
    """Return, for each home that has runs, the median of `value` over its runs."""
    home, values = (np.concatenate([column(day) for day in days]) for column in (lambda day: day.home, value))
    order = np.argsort(home, kind="stable")
    bounds = np.flatnonzero(np.diff(home[order])) + 1
    return [float(np.median(part)) for part in np.split(values[order], bounds)]


def _real_runs(data: Path, kind: Kind) -> Iterator[Runs]:
    """Yield the runs of each trace of a kind."""
    for path in sorted((data / "tracebase").glob(f"{kind.traces}*.parquet")):
        yield runs_of(_seconds(path), 1, kind)


def _seconds(path: Path) -> Floats:
    """Load a trace by the second, in W; the value is 0 where the latest reading is over a minute old."""
    trace = load(path)
    times_s = np.arange(trace.times_ms[0] // 1000, trace.times_ms[-1] // 1000)
    latest = np.searchsorted(trace.times_ms, 1000 * times_s, side="right") - 1
    fresh = 1000 * times_s - trace.times_ms[latest] <= 1000 * _HOLD_S
    return np.where(fresh, trace.watts[latest], 0).astype(np.float64)


def _runs_a_day(data: Path, name: str, kind: Kind) -> float:
    """Return the number of runs per measured day of a home's submeter."""
    watts = _minutes(data / "homes" / f"{name}.parquet", kind.column)
    measured = np.isfinite(watts).sum() * STEP_S / DAY_S
    return len(runs_of(np.nan_to_num(watts), STEP_S, kind).seconds) / float(measured)


# Television ---------------------------------------------------------------------------------------


def television_rows(data: Path) -> Iterator[Row]:
    """Yield statistics of 5-minute windows of 10 s means, for real sets and for simulated viewing."""
    real = [
        windows
        for path in sorted((data / "tracebase").glob("TV-*.parquet"))
        if len(windows := _windows(path)) > 3
    ]
    sets = Sets.of(Fleet(0, range(_SETS)).people)
    brightness = (library_w(0, _SETS, WINDOW * SLOT_S * 12, SLOT_S) - BASE_W) / GAIN_W * (LEVELS - 1)
    watts = (sets.base_mw[:, None] + sets.gain_mw[:, None] * brightness) / 1000
    simulated = list(watts.reshape(_SETS, -1, WINDOW))
    for name, statistic in _WINDOW_STATISTICS.items():
        yield Row(
            f"television: {name}", [statistic(set_) for set_ in real], [statistic(set_) for set_ in simulated]
        )


def _windows(path: Path) -> Floats:
    """Return the windows in which a set is on and shows moving pictures: means in W, (windows, 30).

    Windows with a large jump in power are left out.
    """
    watts = _seconds(path)
    means = watts[: len(watts) // SLOT_S * SLOT_S].reshape(-1, SLOT_S).mean(axis=1)
    windows = means[: len(means) // WINDOW * WINDOW].reshape(-1, WINDOW)
    low, jump = windows.min(axis=1), np.abs(np.diff(windows, axis=1)).max(axis=1)
    return np.asarray(windows[(low > 20) & (jump < 80) & (windows.std(axis=1) > 3)])


def _lag(windows: Floats) -> float:
    return float(np.mean([np.corrcoef(window[:-1], window[1:])[0, 1] for window in windows]))


def _distance(windows: Floats) -> float:
    pairs = np.triu_indices(len(windows), 1)
    distances: NDArray[np.float64] = np.abs(windows[:, None] - windows[None]).max(axis=2)
    return float(np.median(distances[pairs]))


_WINDOW_STATISTICS: dict[str, Callable[[Floats], float]] = {
    "mean, W": lambda windows: float(windows.mean()),
    "deviation in a window, W": lambda windows: float(windows.std(axis=1).mean()),
    "autocorrelation, 10 s": _lag,
    "greatest difference of two windows, W (median)": _distance,
}


# Command ------------------------------------------------------------------------------------------


def run(arguments: argparse.Namespace) -> int:
    """Print the table, or insert it into a file; return 2 if the traces or the file cannot be used."""
    if (arguments.region is None) == (arguments.data is None):
        print("compare: give either --data or --region", file=sys.stderr)
        return 2
    try:
        begin, end = (_mark(mark, arguments.region) for mark in (BEGIN, END))
        place = None if arguments.into is None else _Place.in_file(arguments.into, begin, end)
        text = (
            _compare_streets(arguments.region) if arguments.data is None else _compare_homes(arguments.data)
        )
        if place is None:
            print(text)
        else:
            arguments.into.write_text(f"{place.head}{begin}\n{text}\n{end}{place.tail}")
    except (TraceError, OSError, ValueError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    return 0


def _mark(mark: str, region: str | None) -> str:
    return mark if region is None else mark.replace("compared", f"compared {region}")


def _compare_homes(data: Path) -> str:
    return table([*home_rows(data), *appliance_rows(data), *television_rows(data)])


def _compare_streets(name: str) -> str:
    return feeder.table(feeder.lines(REGIONS[name]))


class _Place(NamedTuple):
    """A file's text before and after the table."""

    head: str
    tail: str

    @classmethod
    def in_file(cls, path: Path, begin: str, end: str) -> "_Place":
        """Return the text before and after the marks in a file. Raises ValueError if a mark is missing."""
        head, has_begin, text = path.read_text().partition(begin)
        _, has_end, tail = text.partition(end)
        if not (has_begin and has_end):
            raise ValueError(f"{path} has no {begin} with {end} after it")
        return cls(head, tail)
