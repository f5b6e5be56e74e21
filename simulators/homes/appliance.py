"""Appliances: how often and when each runs, how many homes have one, and the resulting runs.

A run belongs to the day on which it starts, even if it lasts past midnight. Its random numbers are keyed by
(seed, appliance, home, day, run number); the runs of a thermostat are numbered over all days instead. Times
are whole seconds and powers whole milliwatts, so that sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from simulators.homes.chance import Floats, Integers, normal, poisson, uniforms
from simulators.homes.household import Absences, Households
from simulators.homes.signature import DAY_S, Signature

STRETCH_MAX = 4
"""The largest ratio of a run's duration to the signature's duration; the smallest is the reciprocal."""
_RUN_SPREAD = 0.03
"""The largest relative deviation (uniform) of a run's power from the usual power of the home's appliance."""
_POWER_SPREAD, _LENGTH_SPREAD = 0.3, 0.3
"""Deviations of a home's appliance from the signature: the largest relative deviation (uniform) of its power,
and the standard deviation of the logarithm of its runs' typical duration."""
_JITTER = 0.2
"""For a thermostat: the range of the (uniform) deviation of starts, in periods, and also the largest relative
deviation (uniform) of a run's duration."""
_RUNS_MAX = 4096
"""The upper limit on the runs of one appliance per home and day, and on the steps of a signature. The limit
keeps the indices of random numbers distinct."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The runs of one appliance that start on one day, r of them with k steps each.

    `row` is the home's row, shape (r,); `start_s` counts from midnight; `ends_s` are the end times of the
    steps, in order, counted from the start, and `levels_mw` are their powers, both of shape (r, k).
    """

    row: Integers
    start_s: Integers
    ends_s: Integers
    levels_mw: Integers

    @property
    def stop_s(self) -> Integers:
        """The end of each run, counted from midnight of the day on which it starts."""
        return np.asarray(self.start_s + self.ends_s[:, -1])

    @property
    def mean_w(self) -> Floats:
        """The mean power of each run, in W."""
        lengths = np.diff(self.ends_s, axis=1, prepend=0)
        return np.asarray((lengths * self.levels_mw).sum(axis=1) / (1000 * self.ends_s[:, -1]))

    def where(self, mask: NDArray[np.bool_]) -> Runs:
        """Return the runs that the mask selects."""
        return Runs(self.row[mask], self.start_s[mask], self.ends_s[mask], self.levels_mw[mask])


class Load(Protocol):
    """Anything that draws power in a home."""

    @property
    def name(self) -> str:
        """The name in tables of events."""

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the runs that start on the given day."""


@dataclass(frozen=True, slots=True)
class Appliance:
    """An appliance that people start at `hours`, on average `starts_per_day` times in homes that have one.

    `hours` holds tuples (from, to, weight of each hour between); `owners` is the share of homes that have
    one; `spread` is the standard deviation of the logarithm of a run's duration, around the home's typical
    duration. Nobody starts an attended appliance while everybody is out; such runs are dropped, not moved. An
    appliance that is not `can_overlap` does not start before its previous run of that day has ended. The
    average includes the runs that are dropped for either reason.

    Raises ValueError if a run could last longer than a day, or if the signature has too many steps.
    """

    name: str
    signature: Signature
    starts_per_day: float
    hours: tuple[tuple[int, int, float], ...]
    owners: float = 1.0
    spread: float = 0.15
    is_attended: bool = True
    can_overlap: bool = False

    def __post_init__(self) -> None:
        if self.signature.duration_s * STRETCH_MAX > DAY_S or len(self.signature.watts) > _RUNS_MAX:
            raise ValueError(
                f"{self.name}: a signature has at most {_RUNS_MAX} steps and {DAY_S // STRETCH_MAX} s"
            )

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Draw each home's runs that start on the given day."""
        row, number, start_s, chance = self._draw_starts(people, activity, day)
        make = Makes.of(people, self.name)
        stretch = make.length[row] * np.exp(self.spread * normal(chance[2], chance[3]))
        stretch = stretch.clip(1 / STRETCH_MAX, STRETCH_MAX)
        ends_s = np.floor(np.cumsum(self.signature.seconds) * stretch[:, None] + 0.5).astype(np.int64)
        ends_s[:, -1] = np.maximum(ends_s[:, -1], 1)
        factor = make.power[row] * (1 + _RUN_SPREAD * (2 * chance[1] - 1))
        levels = np.asarray(self.signature.watts) * factor[:, None]
        if self.signature.swing:
            levels *= self._draw_swings(people, row, number, day)
        runs = Runs(row, start_s, ends_s, np.rint(1000 * levels).astype(np.int64))
        valid = np.ones(len(row), np.bool_) if self.can_overlap else starts_when_free(runs)
        if self.is_attended:
            valid &= ~absences.cover(row, start_s)
        return runs.where(valid)

    def _draw_starts(
        self, people: Households, activity: Floats, day: int
    ) -> tuple[Integers, Integers, Integers, Floats]:
        """Draw each start's row, number within the home, second after midnight, and four uniform numbers."""
        owned = uniforms(people.seed, f"{self.name}: owned", people.homes)[0] < self.owners
        count = poisson(
            uniforms(people.seed, f"{self.name}: count", people.homes, day)[0],
            self.starts_per_day * activity * owned,
        )
        row = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        chance = uniforms(people.seed, self.name, people.homes[row], day, number)
        second = np.floor(np.interp(chance[0], self._cumulative_hours(), np.arange(25)) * 3600).astype(
            np.int64
        )
        return row, number, (second + people.late_s[row]) % DAY_S, chance

    def _cumulative_hours(self) -> Floats:
        """Return, for each hour from 0 to 24, the probability that a start is before it."""
        weights = np.zeros(25)
        for begin, end, weight in self.hours:
            weights[begin + 1 : end + 1] += weight
        return np.asarray(np.cumsum(weights) / weights.sum())

    def _draw_swings(self, people: Households, row: Integers, number: Integers, day: int) -> Floats:
        """Draw a factor for each step of each run, shape (runs, steps)."""
        steps = len(self.signature.watts)
        index = number[:, None] * _RUNS_MAX + np.arange(-(-steps // 4))
        chance = uniforms(people.seed, f"{self.name}: steps", people.homes[row][:, None], day, index)
        by_step = np.moveaxis(chance, 0, -1).reshape(len(row), 4 * index.shape[1])[:, :steps]
        return np.asarray(1 + self.signature.swing * (2 * by_step - 1))


@dataclass(frozen=True, slots=True)
class Thermostat:
    """An appliance that switches itself on around the clock: run k starts about k periods after a phase.

    `period_s` and `duty` (the share of time on) each hold the smallest and the largest value over all homes.
    """

    name: str
    signature: Signature
    period_s: tuple[float, float]
    duty: tuple[float, float]
    owners: float = 1.0

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Draw the runs that start on the given day; what people do does not change them."""
        del absences, activity
        trait = uniforms(people.seed, f"{self.name}: trait", people.homes)
        period = self.period_s[0] + (self.period_s[1] - self.period_s[0]) * trait[0]
        on_s = period * (self.duty[0] + (self.duty[1] - self.duty[0]) * trait[1])
        first_number = np.floor(day * DAY_S / period - trait[2]).astype(np.int64) - 1
        number = first_number[:, None] + np.arange(int(DAY_S / self.period_s[0]) + 4)
        chance = uniforms(people.seed, self.name, people.homes[:, None], 0, number)
        start = (number + trait[2][:, None] + _JITTER * (chance[0] - 0.5)) * period[:, None]
        start_s = np.floor(start).astype(np.int64) - day * DAY_S
        owned = trait[3] < self.owners
        row, column = np.nonzero((start_s >= 0) & (start_s < DAY_S) & owned[:, None])
        durations_s = on_s[row] * (1 + _JITTER * (2 * chance[1][row, column] - 1))
        ends_s = np.floor(
            np.cumsum(self.signature.seconds) * (durations_s / self.signature.duration_s)[:, None] + 0.5
        )
        levels = np.asarray(self.signature.watts) * Makes.of(people, self.name).power[row][:, None]
        return Runs(
            row, start_s[row, column], ends_s.astype(np.int64), np.rint(1000 * levels).astype(np.int64)
        )


class Makes(NamedTuple):
    """The factors by which each home's appliance differs from the signature, shape (homes,)."""

    power: Floats
    length: Floats

    @classmethod
    def of(cls, people: Households, name: str) -> Self:
        """Draw the factors of each home's appliance."""
        chance = uniforms(people.seed, f"{name}: make", people.homes)
        length = np.exp(_LENGTH_SPREAD * normal(chance[1], chance[2]))
        return cls(1 + _POWER_SPREAD * (2 * chance[0] - 1), length)


def starts_when_free(runs: Runs) -> NDArray[np.bool_]:
    """Return whether each run starts after all earlier runs of its home, even dropped ones, have ended."""
    order = np.lexsort((runs.start_s, runs.row))
    # Put all homes on one time axis, so far apart that no run reaches into the next home.
    begin_s = runs.row[order] * 4 * DAY_S
    latest_s = np.maximum.accumulate(begin_s + runs.stop_s[order])
    free = np.ones(len(order), np.bool_)
    free[order[1:]] = (begin_s + runs.start_s[order])[1:] >= latest_s[:-1]
    return free


_MEALS = (6, 9, 1.5), (11, 14, 2.0), (17, 20, 3.5)
_EVENING = (17, 23, 5.0)
_TUMBLING = ((180.0, 15), (20.0, 10)) * 140
WASHING = Signature.cycle((120, 180), (2050, 900), *_TUMBLING, (350, 240), (60, 60), (500, 480))
DISHES = Signature.cycle((70, 240), (2100, 1200), (70, 1500), (2100, 1300), (60, 400))
BAKING = Signature.cycle((2300, 600), *((2300, 50), (30, 100)) * 12)
FRYING = Signature.cycle((1800, 180), *((1800, 30), (0, 30)) * 7)
DEFROSTING = Signature.cycle((1350, 60), *((1350, 12), (60, 6)) * 2)


class _Catalogue(tuple[Load, ...]):
    """A tuple with a short repr, because `help` shows the repr of a parameter's default."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "CATALOGUE"


CATALOGUE: tuple[Load, ...] = _Catalogue(
    (
        Thermostat("refrigerator", Signature.settling(600, 100, 1, 1000), (2400, 4200), (0.2, 0.35)),
        Thermostat("freezer", Signature.settling(900, 150, 1, 500), (2000, 3600), (0.1, 0.2), owners=0.5),
        Appliance("kettle", Signature.on(2150, 140), 6, ((6, 9, 4), (9, 17, 1), (17, 23, 2)), spread=0.5),
        Appliance("microwave", DEFROSTING, 2.3, ((7, 9, 2), (12, 14, 2), (18, 21, 2)), spread=0.5),
        Appliance("toaster", Signature.on(750, 170), 0.8, ((6, 10, 1),)),
        Appliance("hob", FRYING, 3, _MEALS, owners=0.8, spread=0.4),
        Appliance("oven", BAKING, 0.9, ((11, 13, 1), (17, 20, 2)), spread=0.2),
        Appliance("washing machine", WASHING, 0.8, ((8, 20, 1),), spread=0.1),
        Appliance(
            "tumble dryer",
            Signature.settling(2300, 2000, 600, 3300),
            0.8,
            ((10, 21, 1),),
            owners=0.4,
            spread=0.3,
        ),
        Appliance("dishwasher", DISHES, 0.8, ((8, 10, 1), (12, 14, 1), _EVENING), owners=0.6, spread=0.1),
        Appliance("vacuum cleaner", Signature.settling(1800, 1150, 2, 700), 0.25, ((9, 18, 1),), spread=0.4),
        Appliance(
            "hair dryer", Signature.varying(1300, 0.3, 20, 100), 0.4, ((6, 9, 2), (19, 22, 1)), owners=0.6
        ),
        Appliance(
            "lights",
            Signature.settling(60, 85, 60, 7200),
            6,
            ((6, 9, 2), (9, 17, 1), _EVENING),
            spread=0.5,
            can_overlap=True,
        ),
        Appliance("computer", Signature.varying(80, 0.5, 90, 7200), 3, ((8, 22, 1),), spread=0.6),
    )
)
"""The appliances in homes, except the television."""
