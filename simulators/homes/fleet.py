"""Fleets: the load of many homes, day by day, and the table of events.

Every run consists of a few edges: (home, second, change in milliwatts). All edges of a day are added to one
array of differences, whose cumulative sum is computed once. An edge inside a step affects the remainder of
that step, so a value is the mean power over its step, and the values of a coarse series are means of the
values of a fine one. Energies are whole milliwatt-seconds below 2⁵³, so their sums are exact in any order: a
home's day has the same bits in any batch, after any other day, and in any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulators.homes.appliance import CATALOGUE, Load, Runs
from simulators.homes.battery import STEP_S, Batteries, Flow, as_runs
from simulators.homes.chance import Floats, Integers
from simulators.homes.equipment import BATTERY
from simulators.homes.household import Households
from simulators.homes.region import Region
from simulators.homes.signature import DAY_S
from simulators.homes.television import Viewings, brightness_sums, viewings
from simulators.homes.today import catalogue as catalogue_of_today

TELEVISION, AWAY = "television", "nobody home"
"""Names of events that are not in the catalogue. An absence draws no power."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The ground truth: a row per event, sorted by home, by name and by start.

    Homes are in the order of the fleet, and names in the order of `names`. `home` is the home's number, and
    `appliance` an index into `names`. `start_s` and `end_s` count from the midnight of day 0. `watts` is the
    mean power, and `channel` the channel of a television, otherwise -1.
    """

    names: tuple[str, ...]
    home: Integers
    appliance: Integers
    start_s: Integers
    end_s: Integers
    watts: Floats
    channel: Integers

    def __len__(self) -> int:
        return len(self.home)

    def of(self, name: str) -> Events:
        """Return the events with the given name."""
        return self.where(self.appliance == self.names.index(name))

    def where(self, mask: NDArray[np.bool_]) -> Events:
        """Return the events that the mask selects."""
        home, appliance, start_s, end_s, channel = (
            column[mask] for column in (self.home, self.appliance, self.start_s, self.end_s, self.channel)
        )
        return Events(self.names, home, appliance, start_s, end_s, self.watts[mask], channel)


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """A day of a fleet: the mean power of each step in W, (homes, 86400 / step), and the events.

    The events are those that start on this day.
    """

    day: int
    watts: NDArray[np.float32]
    events: Events


@dataclass(frozen=True, slots=True, eq=False)
class _Starts:
    """The runs and viewings that start on one day."""

    runs: list[Runs]
    viewings: Viewings


@dataclass(frozen=True)
class Fleet:
    """The homes with the given numbers, simulated from a seed.

    Homes of a `region` share its weather, seasons and holidays; `of_today` also gives them cars, electric
    heating, solar panels and batteries, according to the region's shares. Then power is negative while a
    home delivers more than it uses.

    Raises ValueError if the numbers are not distinct, or not all from 0 to 2³² - 1.
    """

    seed: int
    homes: Sequence[int]
    catalogue: tuple[Load, ...] = field(default=CATALOGUE, repr=False)
    region: Region | None = field(default=None, repr=False)
    has_batteries: bool = field(default=False, repr=False)

    @classmethod
    def of_today(cls, seed: int, homes: Sequence[int], region: Region | None) -> Self:
        """Return homes as they are today in a region, or plain homes if there is none."""
        if region is None:
            return cls(seed, homes)
        return cls(seed, homes, catalogue_of_today(region), region, has_batteries=True)

    def __post_init__(self) -> None:
        if len(set(self.homes)) != len(self.homes) or not all(0 <= home < 1 << 32 for home in self.homes):
            raise ValueError("homes have distinct numbers from 0 to 2**32 - 1")

    @cached_property
    def people(self) -> Households:
        """The people who live in the homes, and their habits."""
        return Households.of(self.seed, np.array(self.homes, np.int64), self.region)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of events."""
        batteries = [BATTERY] if self.has_batteries else []
        return (*(load.name for load in self.catalogue), *batteries, TELEVISION, AWAY)

    def day(self, day: int, step_s: int = 1) -> Day:
        """Simulate one day, with the mean power over each step of `step_s` seconds.

        Raises ValueError if the step does not divide a day, or the seed is out of range.
        """
        return next(self.days(day, 1, step_s))

    def days(self, first: int, count: int, step_s: int = 1) -> Iterator[Day]:
        """Yield `count` consecutive days, each as `day` returns it.

        Raises ValueError if the step does not divide a day, or the seed is out of range.
        """
        if step_s < 1 or DAY_S % step_s:
            raise ValueError(f"a step must be a whole number of seconds that divides a day, not {step_s} s")
        starts_before = self._draw(first - 1)
        for day, batteries in zip(range(first, first + count), self._batteries(first, count), strict=False):
            starts = self._draw(day)
            if batteries is not None:
                starts.runs.append(batteries)
            yield Day(
                day, self._sum_watts(day, starts_before, starts, step_s), self._list_events(day, starts)
            )
            starts_before = starts

    def _batteries(self, first: int, count: int) -> Iterator[Runs | None]:
        """Yield the batteries' runs of each day; a battery follows the net power of other loads at home."""
        if not self.has_batteries:
            yield from repeat(None, count)
            return
        row = np.flatnonzero(self.people.owns[BATTERY])
        if not len(row):
            idle = Flow(np.zeros((0, DAY_S // STEP_S), np.int64), np.zeros((0, DAY_S // STEP_S), np.int64))
            yield from repeat(as_runs(row, idle), count)
            return
        homes = [self.homes[index] for index in row.tolist()]
        remainder = replace(self, homes=homes, has_batteries=False)
        batteries = Batteries.of(remainder.people)
        for flow in batteries.flows(remainder.minutes, first, count):
            yield as_runs(row, flow)

    def minutes(self, first: int, count: int) -> Iterator[NDArray[np.float32]]:
        """Yield the mean power of each minute of consecutive days, shape (homes, 1440)."""
        return (day.watts for day in self.days(first, count, STEP_S))

    def _draw(self, day: int) -> _Starts:
        state = self.people, self.people.absences(day), self.people.activity(day), day
        return _Starts([load.runs(*state) for load in self.catalogue], viewings(*state))

    def _sum_watts(
        self, day: int, starts_before: _Starts, starts: _Starts, step_s: int
    ) -> NDArray[np.float32]:
        # Runs that started on the day before may last into this one.
        edges = [*_edges(starts_before, -DAY_S), *_edges(starts, 0)]
        energy = _sum_edges(edges, self.people.standby_mw, step_s)
        for watching, shift_s in ((starts_before.viewings, -DAY_S), (starts.viewings, 0)):
            self._add_content(energy, watching, shift_s, day, step_s)
        return (energy / (1000 * step_s)).astype(np.float32)

    def _add_content(self, energy: Floats, watching: Viewings, shift_s: int, day: int, step_s: int) -> None:
        """Add the energy that depends on the programmes' brightness, in milliwatt-seconds."""
        columns = (
            watching.row,
            watching.start_s + shift_s,
            watching.stop_s + shift_s,
            watching.channel,
            watching.gain_mw,
        )
        for row, start, stop, channel, gain in zip(*(column.tolist() for column in columns), strict=True):
            begin, end = max(start, 0), min(stop, DAY_S)
            if begin >= end:
                continue
            cell, last_cell = begin // step_s, (end - 1) // step_s
            bounds = np.arange(cell, last_cell + 2) * step_s
            bounds[0], bounds[-1] = begin, end
            sums = brightness_sums(self.seed, channel, day)[bounds]
            energy[row, cell : last_cell + 1] += gain * (sums[1:] - sums[:-1])

    def _list_events(self, day: int, starts: _Starts) -> Events:
        shows, absences = starts.viewings, self.people.absences(day)
        absent_rows = np.flatnonzero(absences.end_s > absences.begin_s)
        tables: list[tuple[Integers, Integers, Integers, Floats, Integers]] = [
            *((runs.row, runs.start_s, runs.stop_s, runs.mean_w, runs.row * 0 - 1) for runs in starts.runs),
            (shows.row, shows.start_s, shows.stop_s, shows.mean_w(self.seed, day), shows.channel),
            (
                absent_rows,
                absences.begin_s[absent_rows],
                absences.end_s[absent_rows],
                np.zeros(len(absent_rows)),
                absent_rows * 0 - 1,
            ),
        ]
        kind = np.repeat(np.arange(len(tables)), [len(table[0]) for table in tables])
        row, start, stop, watts, channel = (np.concatenate(column) for column in zip(*tables, strict=True))
        order = np.lexsort((start, kind, row))
        return Events(
            self.names,
            self.people.homes[row[order]],
            kind[order],
            start[order] + day * DAY_S,
            stop[order] + day * DAY_S,
            watts[order],
            channel[order],
        )


_Edges = tuple[Integers, Integers, Integers]
"""Rows, seconds, and changes in milliwatts, as flat arrays."""


def _edges(starts: _Starts, shift_s: int) -> Iterator[_Edges]:
    """Yield the edges of a day's runs; `shift_s` is added to their times, to count from another midnight.

    Runs that end before that midnight are left out, and so is the power that depends on brightness.
    """
    shows = starts.viewings
    base = Runs(shows.row, shows.start_s, (shows.stop_s - shows.start_s)[:, None], shows.base_mw[:, None])
    for runs in (*starts.runs, base):
        ongoing_runs = runs.where(runs.stop_s + shift_s > 0) if shift_s else runs
        start = ongoing_runs.start_s[:, None] + shift_s
        seconds = np.concatenate([start, start + ongoing_runs.ends_s], axis=1)
        change = np.diff(ongoing_runs.levels_mw, axis=1, prepend=0, append=0)
        row = np.broadcast_to(ongoing_runs.row[:, None], seconds.shape)
        yield row.ravel(), seconds.ravel(), change.ravel()


def _sum_edges(edges: Sequence[_Edges], standby_mw: Integers, step_s: int) -> Floats:
    """Add up edges and standby power into the energy of each step, in whole mW s: (homes, 86400 / step).

    An edge before the day is moved to the day's first second; edges after the day are left out.
    """
    row, second, change = (np.concatenate(column) for column in zip(*edges, strict=True))
    is_in_day = second < DAY_S
    row, second, change = row[is_in_day], np.maximum(second[is_in_day], 0), change[is_in_day]
    count, steps = len(standby_mw), DAY_S // step_s
    cell = second // step_s
    late_s = second - cell * step_s
    # An edge inside a step contributes to this step and to the next. An additional column takes the
    # contributions of the last step's edges to the step after it.
    index = row * (steps + 1) + cell
    split = late_s > 0
    indices = np.concatenate([index, index[split] + 1])
    parts = np.concatenate([change * (step_s - late_s), (change * late_s)[split]])
    sums = np.bincount(indices, parts, count * (steps + 1)).reshape(count, steps + 1)
    sums[:, 0] += standby_mw * step_s
    return np.asarray(np.cumsum(sums, axis=1, out=sums)[:, :steps])
