"""Fleets: the load of many homes, day by day, and the table of what ran.

Every run is a few edges, (home, second, milliwatts more or less). All edges of a day go into one sparse
array of differences and are summed up once. An edge inside a step counts with the part of the step that it
leaves, so that a value is the exact mean power over its step: coarse series are the means of fine ones.
Energies are whole milliwatt-seconds below 2⁵³ and their sums exact, in whatever order: a home's day has the
same bits in any batch, after any other day, in any process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulators.appliance import CATALOGUE, Load, Runs
from simulators.chance import Floats, Integers
from simulators.household import Households
from simulators.signature import DAY_S
from simulators.television import Viewings, brightness_sums, viewings

TELEVISION, AWAY = "television", "nobody home"
"""Names of events beside those of the catalogue; the second draws nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The ground truth: what ran, a row each, by home, then name as in `names`, then start.

    `home` is its number, `appliance` a place in `names`, `start_s` and `end_s` are since the midnight of
    day 0, `watts` is the mean power, `channel` what a television showed and -1 elsewhere.
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

    def of(self, name: str) -> "Events":
        """Those of one name."""
        return self.where(self.appliance == self.names.index(name))

    def where(self, chosen: NDArray[np.bool_]) -> "Events":
        """Some of them."""
        home, appliance, start_s, end_s, channel = (
            column[chosen] for column in (self.home, self.appliance, self.start_s, self.end_s, self.channel)
        )
        return Events(self.names, home, appliance, start_s, end_s, self.watts[chosen], channel)


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """A day of a fleet: `watts` are means over steps, shape (homes, 86400 / step); `events` start in it."""

    day: int
    watts: NDArray[np.float32]
    events: Events


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """Everything that starts on a day."""

    runs: Sequence[Runs]
    watched: Viewings


@dataclass(frozen=True)
class Fleet:
    """Homes by their numbers, from a seed.

    Raises ValueError for numbers that are not from 0 to 2³² - 1, or not distinct.
    """

    seed: int
    homes: Sequence[int]
    catalogue: tuple[Load, ...] = field(default=CATALOGUE, repr=False)

    def __post_init__(self) -> None:
        if len(set(self.homes)) != len(self.homes) or not all(0 <= home < 1 << 32 for home in self.homes):
            raise ValueError("homes have distinct numbers from 0 to 2**32 - 1")

    @cached_property
    def people(self) -> Households:
        """Who lives there."""
        return Households.of(self.seed, np.array(self.homes, np.int64))

    @property
    def names(self) -> tuple[str, ...]:
        """Of what there are events."""
        return (*(load.name for load in self.catalogue), TELEVISION, AWAY)

    def day(self, day: int, step_s: int = 1) -> Day:
        """One day, in means over steps.

        Raises:
            ValueError: the step does not divide a day.
        """
        return next(self.days(day, 1, step_s))

    def days(self, first: int, count: int, step_s: int = 1) -> Iterator[Day]:
        """So many days in turn, each the same as `day` gives.

        Raises:
            ValueError: the step does not divide a day.
        """
        if step_s < 1 or DAY_S % step_s:
            raise ValueError(f"a step is whole seconds that divide a day, not {step_s} s")
        before = self._drawn(first - 1)
        for day in range(first, first + count):
            drawn = self._drawn(day)
            yield Day(day, self._watts(day, before, drawn, step_s), self._events(day, drawn))
            before = drawn

    def _drawn(self, day: int) -> _Drawn:
        state = self.people, self.people.absences(day), self.people.activity(day), day
        return _Drawn([load.runs(*state) for load in self.catalogue], viewings(*state))

    def _watts(self, day: int, before: _Drawn, drawn: _Drawn, step_s: int) -> NDArray[np.float32]:
        edges = [*_edges(before, -DAY_S), *_edges(drawn, 0)]
        energy = _summed(edges, self.people.standby_mw, step_s)
        for watched, shift_s in ((before.watched, -DAY_S), (drawn.watched, 0)):
            self._add_content(energy, watched, shift_s, day, step_s)
        return (energy / (1000 * step_s)).astype(np.float32)

    def _add_content(self, energy: Floats, watched: Viewings, shift_s: int, day: int, step_s: int) -> None:
        """What the programmes add, in milliwatt-seconds."""
        columns = (
            watched.row,
            watched.start_s + shift_s,
            watched.stop_s + shift_s,
            watched.channel,
            watched.gain_mw,
        )
        for row, start, stop, channel, gain in zip(*(column.tolist() for column in columns), strict=True):
            begin, end = max(start, 0), min(stop, DAY_S)
            if begin >= end:
                continue
            cell, last = begin // step_s, (end - 1) // step_s
            bounds = np.arange(cell, last + 2) * step_s
            bounds[0], bounds[-1] = begin, end
            sums = brightness_sums(self.seed, channel, day)[bounds]
            energy[row, cell : last + 1] += gain * (sums[1:] - sums[:-1])

    def _events(self, day: int, drawn: _Drawn) -> Events:
        seen, absences = drawn.watched, self.people.absences(day)
        away = np.flatnonzero(absences.end_s > absences.begin_s)
        tables: list[tuple[Integers, Integers, Integers, Floats, Integers]] = [
            *((runs.row, runs.start_s, runs.stop_s, runs.mean_w, runs.row * 0 - 1) for runs in drawn.runs),
            (seen.row, seen.start_s, seen.stop_s, seen.mean_w(self.seed, day), seen.channel),
            (away, absences.begin_s[away], absences.end_s[away], np.zeros(len(away)), away * 0 - 1),
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
"""Rows, seconds and milliwatts more, flat."""


def _edges(drawn: _Drawn, shift_s: int) -> Iterator[_Edges]:
    """Of all that starts on a day and runs into the one that begins `shift_s` before: seconds of that one."""
    seen = drawn.watched
    base = Runs(seen.row, seen.start_s, (seen.stop_s - seen.start_s)[:, None], seen.base_mw[:, None])
    for runs in (*drawn.runs, base):
        kept = runs.where(runs.stop_s + shift_s > 0) if shift_s else runs
        start = kept.start_s[:, None] + shift_s
        seconds = np.concatenate([start, start + kept.ends_s], axis=1)
        more = np.diff(kept.levels_mw, axis=1, prepend=0, append=0)
        row = np.broadcast_to(kept.row[:, None], seconds.shape)
        yield row.ravel(), seconds.ravel(), more.ravel()


def _summed(edges: Sequence[_Edges], standby_mw: Integers, step_s: int) -> Floats:
    """Energies of steps in milliwatt-seconds, whole numbers, shape (homes, 86400 / step).

    What begins before the day stands at its first second; what happens after it is left out.
    """
    row, second, more = (np.concatenate(column) for column in zip(*edges, strict=True))
    inside = second < DAY_S
    row, second, more = row[inside], np.maximum(second[inside], 0), more[inside]
    count, steps = len(standby_mw), DAY_S // step_s
    cell = second // step_s
    late_s = second - cell * step_s
    # One column more than there are steps takes what an edge in the last one leaves to a next.
    at = row * (steps + 1) + cell
    split = late_s > 0
    places = np.concatenate([at, at[split] + 1])
    parts = np.concatenate([more * (step_s - late_s), (more * late_s)[split]])
    sums = np.bincount(places, parts, count * (steps + 1)).reshape(count, steps + 1)
    sums[:, 0] += standby_mw * step_s
    return np.asarray(np.cumsum(sums, axis=1, out=sums)[:, :steps])
