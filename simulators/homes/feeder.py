"""Streets of simulated homes next to published figures: peaks, load factors, ramps, correlation, seasons.

Homes are simulated for some weeks of a year, in means over half hours. For M homes, the figures are means
over disjoint streets, with the standard error of that mean; for a single street, the error is a bootstrap's
over its homes. All powers are per home. Where no published figure was found, the table says NOT SHOWN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulators.homes.appliance import Load
from simulators.homes.car import Chargers
from simulators.homes.chance import Floats, uniforms
from simulators.homes.equipment import CAR, FLOW_HEATER, HEAT_PUMP, NIGHT_STORAGE, SOLAR
from simulators.homes.fleet import Fleet
from simulators.homes.heating import BackupHeaters, HeatPumps, NightStorage
from simulators.homes.household import Households
from simulators.homes.region import Region, date_of
from simulators.homes.signature import DAY_S
from simulators.homes.solar import Panels
from simulators.homes.water import FlowHeaters, Tanks

STEP_S = 1800
WEEKS = (0, 49, 105, 154, 210, 259, 315)
"""The first days of the simulated weeks: Mondays, evenly over a year. The peak of a year would be higher."""
SIZES = 1, 10, 100, 1000
NOT_SHOWN = "NOT SHOWN"
_RESAMPLES = 40
_OWNERS, _HOMES_PER_OWNER = 300, 100
"""The largest number of owners of an appliance to simulate, and the number of homes searched per owner."""


class Estimate(NamedTuple):
    """A figure and its standard error, which is NaN if none can be given."""

    value: float
    error: float

    def __str__(self) -> str:
        error = "" if np.isnan(self.error) else f" ± {self.error:.1g}"
        return f"{self.value:.2g}{error}" if abs(self.value) < 10 else f"{self.value:,.0f}{error}"


class _Both(NamedTuple):
    """The power of homes of today and of homes without a region, each (homes, half hours)."""

    today_w: Floats
    plain_w: Floats


class Line(NamedTuple):
    """A row of the table: figures of today's homes and of homes without a region, and published figures."""

    name: str
    today: Estimate
    plain: Estimate | None
    published: str

    def __str__(self) -> str:
        plain = "" if self.plain is None else str(self.plain)
        return f"| {self.name} | {self.today} | {plain} | {self.published} |"


def weeks_w(fleet: Fleet, weeks: Sequence[int]) -> Floats:
    """Return the mean power of each half hour of the weeks, shape (homes, half hours)."""
    parts = [day.watts for first in weeks for day in fleet.days(first, 7, STEP_S)]
    return np.concatenate(parts, axis=1).astype(np.float64)


# Statistics of one street or of many ---------------------------------------------------------------

_PER_DAY = DAY_S // STEP_S


def _peak_kw(street_w: Floats) -> Floats:
    """Return each street's after-diversity maximum demand in kW."""
    return np.asarray(street_w.max(axis=1) / 1000)


def _import_w(street_w: Floats) -> Floats:
    """Return each street's mean power from the grid; half hours in which it delivers power are taken as 0."""
    return np.asarray(np.maximum(street_w, 0).mean(axis=1))


def _load_factor(street_w: Floats) -> Floats:
    return np.asarray(_import_w(street_w) / street_w.max(axis=1))


def _variation(street_w: Floats) -> Floats:
    """Return the standard deviation of half hours, divided by the mean of their absolute values."""
    return np.asarray(street_w.std(axis=1) / np.abs(street_w).mean(axis=1))


def _ramp_kw(street_w: Floats) -> Floats:
    """Return the 99th percentile of changes from one half hour to the next, within a week."""
    weekly = street_w.reshape(len(street_w), -1, 7 * _PER_DAY)
    return np.asarray(np.percentile(np.abs(np.diff(weekly, axis=2)), 99, axis=(1, 2)) / 1000)


_STATISTICS: Mapping[str, Callable[[Floats], Floats]] = {
    "after-diversity maximum demand, kW": _peak_kw,
    "load factor": _load_factor,
    "deviation of half hours over mean": _variation,
    "ramp of half hours, 99th percentile, kW": _ramp_kw,
}


def estimate(homes_w: Floats, size: int, statistic: Callable[[Floats], Floats]) -> Estimate:
    """Return a statistic of streets of `size` homes, and its standard error."""
    count = len(homes_w) // size
    streets = homes_w[: count * size].reshape(count, size, -1).mean(axis=1)
    values = statistic(streets)
    if count > 1:
        return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(count)))
    chance = uniforms(0, "bootstrap", np.arange(_RESAMPLES)[:, None], 0, np.arange(size))[0]
    picks = np.floor(size * chance).astype(np.int64)
    resampled = np.array([homes_w[pick].mean(axis=0) for pick in picks])
    return Estimate(float(values[0]), float(statistic(resampled).std(ddof=1)))


def correlation(homes_w: Floats) -> Estimate:
    """Return the mean correlation of two homes' half hours; the error is estimated from up to ten parts.

    With unit variances, the sum of n homes has the variance n + n (n - 1) r, so that r follows from it.
    """
    deviation = homes_w - homes_w.mean(axis=1, keepdims=True)
    unit = deviation / deviation.std(axis=1, keepdims=True)

    def mean_of(part: Floats) -> float:
        """Return the mean correlation of the pairs."""
        return float((part.sum(axis=0).var() - len(part)) / (len(part) * (len(part) - 1)))

    parts = [mean_of(part) for part in np.array_split(unit, min(10, len(unit) // 2))]
    return Estimate(mean_of(unit), float(np.std(parts, ddof=1) / np.sqrt(len(parts))))


def seasons(homes_w: Floats, weeks: Sequence[int]) -> tuple[Estimate, Estimate]:
    """Return the mean power in winter and in summer, each divided by that of all weeks.

    Winter is from 1 November to 20 March and summer from 15 May to 14 September, as in profile H0.
    """
    daily = homes_w.reshape(len(homes_w), -1, _PER_DAY).mean(axis=2)
    dates = [date_of(first + day) for first in weeks for day in range(7)]
    number = np.array([100 * when.month + when.day for when in dates])
    is_winter, is_summer = (number >= 1101) | (number <= 320), (number >= 515) & (number <= 914)

    def ratio(mask: NDArray[np.bool_]) -> Estimate:
        """Return the ratio for all homes, with a standard error computed from ten parts of the homes."""
        parts = [part[:, mask].mean() / part.mean() for part in np.array_split(daily, 10)]
        error = float(np.std(parts, ddof=1) / np.sqrt(10))
        return Estimate(float(daily[:, mask].mean() / daily.mean()), error)

    return ratio(is_winter), ratio(is_summer)


# Appliances ---------------------------------------------------------------------------------------


def _mean(values: Floats) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def owners_of(region: Region, name: str, count: int) -> list[int]:
    """Return up to `count` homes that own the appliance `name`, among the first homes of a region."""
    people = Households.of(0, np.arange(count * _HOMES_PER_OWNER), region)
    return [int(home) for home in np.flatnonzero(people.owns[name])[:count]]


def load_alone_w(region: Region, name: str, loads: Sequence[Load], weeks: Sequence[int]) -> Floats:
    """Return the power of `loads` alone in homes that own the appliance `name`, shape (homes, half hours)."""
    homes = owners_of(region, name, _OWNERS)
    with_loads = weeks_w(Fleet(0, homes, tuple(loads), region), weeks)
    return with_loads - weeks_w(Fleet(0, homes, (), region), weeks)


def appliance_lines(region: Region, weeks: Sequence[int]) -> Iterator[Line]:
    """Yield figures of appliances in homes that own them."""
    pumps_w = load_alone_w(
        region, HEAT_PUMP, [HeatPumps(region), BackupHeaters(region), Tanks(region)], weeks
    )
    aggregate = pumps_w.mean(axis=0).reshape(-1, _PER_DAY)
    peak = estimate(pumps_w, len(pumps_w), _peak_kw)
    yield Line(
        f"{len(pumps_w)} heat pumps: peak, kW each", peak, None, "1.7 (Love et al. 2017, 700 British ones)"
    )
    coldest = aggregate[aggregate.mean(axis=1).argmax()]
    night = Estimate(float(coldest[2:8].min() / coldest.max()), np.nan)
    yield Line("heat pumps: night over peak, coldest day", night, None, "about 0.4 (Love et al. 2017)")
    peak_hour = Estimate(float(coldest.argmax() / 2), np.nan)
    yield Line("heat pumps: hour of the peak", peak_hour, None, "morning (Love et al. 2017)")
    yearly_kwh = _mean(pumps_w.mean(axis=1) * 8.76)
    yield Line("heat pump: kWh a year, with hot water", yearly_kwh, None, NOT_SHOWN)
    cars = owners_of(region, CAR, _OWNERS)
    events = [
        day.events.of(CAR)
        for first in weeks
        for day in Fleet(0, cars, (Chargers(region),), region).days(first, 7, DAY_S)
    ]
    home = np.concatenate([part.home for part in events])
    a_week = np.array([(home == car).sum() for car in cars]) / len(weeks)
    yield Line("car: sessions a week", _mean(a_week), None, "3 (Electric Nation 2019)")
    kwh = np.concatenate([part.watts * (part.end_s - part.start_s) / 3.6e6 for part in events])
    yield Line("car: kWh a session", _mean(kwh), None, NOT_SHOWN)
    cars_w = load_alone_w(region, CAR, [Chargers(region)], weeks)
    yield Line(f"{len(cars)} cars: peak, kW each", estimate(cars_w, len(cars_w), _peak_kw), None, NOT_SHOWN)
    for name, load in (
        (NIGHT_STORAGE, NightStorage(region)),
        (FLOW_HEATER, FlowHeaters(region)),
        (SOLAR, Panels(region)),
    ):
        yearly = _mean(load_alone_w(region, name, [load], weeks).mean(axis=1) * 8.76)
        yield Line(f"{name}: kWh a year", yearly, None, NOT_SHOWN)


# The table ----------------------------------------------------------------------------------------

_H0 = "(profile H0, VDEW 1999)"
_PEAK, _FACTOR, _DEVIATION, _ = _STATISTICS
PUBLISHED: Mapping[str, Mapping[tuple[str, int], str]] = {
    "DE": {
        (_PEAK, 1000): "1.5 in planning (Mainova, in Frankfurter Allgemeine, March 2020)",
        (_FACTOR, 1000): f"0.43 {_H0}",
        (_DEVIATION, 1000): f"0.43 {_H0}",
        ("winter", 0): f"1.14 {_H0}",
        ("summer", 0): f"0.86 {_H0}",
    },
    "GB": {
        (_PEAK, 100): "0.54 to 1.78 by class of home (Konstantelos et al. 2014)",
        (_PEAK, 1000): "0.9 for design (Customer-Led Network Revolution 2015)",
    },
}
"""Published figures by statistic and number of homes (0: any number). Those of the dynamic profile H0, a
mean of many homes, are computed from the profile as `demandlib` 0.2.2 has it for 2025, in half hours."""


def lines(region: Region, homes: int = SIZES[-1], weeks: Sequence[int] = WEEKS) -> Iterator[Line]:
    """Yield all rows for a region."""
    streets = _Both(
        weeks_w(Fleet.of_today(0, range(homes), region), weeks), weeks_w(Fleet(0, range(homes)), weeks)
    )
    published = PUBLISHED[region.name]
    for name, statistic in _STATISTICS.items():
        for size in (size for size in SIZES if size <= homes):
            label = f"{size:,} home{'s' if size > 1 else ''}: {name}"
            today, plain = (estimate(homes_w, size, statistic) for homes_w in streets)
            yield Line(label, today, plain, published.get((name, size), NOT_SHOWN))
    today, plain = (correlation(homes_w) for homes_w in streets)
    in_words = "not much (Zhang and Kirschen 2010, 22 homes, no number)"
    yield Line("correlation of two homes, half hours", today, plain, in_words)
    today, plain = (correlation(homes_w.reshape(homes, -1, _PER_DAY).mean(axis=2)) for homes_w in streets)
    yield Line("correlation of two homes, days", today, plain, NOT_SHOWN)
    of_today, of_plain = (seasons(homes_w, weeks) for homes_w in streets)
    for name, today, plain in zip(("winter", "summer"), of_today, of_plain, strict=True):
        yield Line(f"{name} over year, mean power", today, plain, published.get((name, 0), NOT_SHOWN))
    yield from appliance_lines(region, weeks)


def table(rows: Iterator[Line]) -> str:
    """Format rows as Markdown."""
    head = "| | homes of today | homes without a region | published |\n|---|---|---|---|"
    return "\n".join([head, *map(str, rows)])
