"""The records of meters over time, and estimates from them: of a slot, of energy, of the mean of homes.

What is estimated is the slot values that the meter's agent had, after fill and clamp. An interval holds
that with the stated probability, by the law of the noise that the descriptor names (`privacy.totals`):
independent from window to window and from meter to meter, dependent within a window.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from meteragent.consume.message import Descriptor, Message, Record, load
from meteragent.domain.errors import RecordError
from meteragent.privacy.accuracy import sd
from meteragent.privacy.totals import Weighted, half_width_of_total, sd_of_total

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Cut = Literal["even"] | None
"""What to make of a slot of which a part is asked for: nothing, or as if the load were even."""
T = TypeVar("T", bound=NDArray[Any])


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the standard deviation of its noise, and an interval; all in `unit`.

    `low` .. `high` holds what was measured with probability `coverage`.
    """

    value: float
    sd: float
    low: float
    high: float
    coverage: float
    unit: str


@dataclass(frozen=True)
class Series:
    """The records of one meter in order of time, one per slot, and the descriptors they name.

    They have one kind and one unit; slots do not overlap; what is missing is in `gaps`. The bands of
    a mean day follow one another in the order of their names, each with the time of its whole window.
    """

    meter: str
    records: tuple[Record, ...]
    descriptors: Mapping[str, Descriptor]

    @classmethod
    def of(cls, records: Iterable[Record], descriptors: Mapping[str, Descriptor]) -> Self:
        """The series of one meter from its records, in any order, repeated or not.

        Raises:
            RecordError: there is none; two differ about one slot, overlap, or are of two meters or
                units; a descriptor is missing or does not fit.
        """
        by_slot: dict[tuple[int, str], Record] = {}
        for record in records:
            _check(record, descriptors)
            if by_slot.setdefault((record.time_ms, record.band or ""), record) != record:
                raise RecordError("two records of one slot that differ")
        ordered = tuple(by_slot[slot] for slot in sorted(by_slot))
        if len({(record.meter, record.unit) for record in ordered}) != 1:
            raise RecordError("records of no meter, of several, or in several units")
        if any(_overlap(one, other) for one, other in pairwise(ordered)):
            raise RecordError("records whose slots overlap")
        named = {record.descriptor for record in ordered}
        return cls(ordered[0].meter, ordered, {id_: descriptors[id_] for id_ in sorted(named)})

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return self.records[0].unit

    @cached_property
    def time_ms(self) -> Integers:
        """Where slots start, in milliseconds since the Unix epoch."""
        return frozen(np.array([record.time_ms for record in self.records], np.int64))

    @cached_property
    def end_ms(self) -> Integers:
        """Where slots end."""
        return frozen(np.array([record.time_ms + record.step_ms for record in self.records], np.int64))

    @cached_property
    def values(self) -> Floats:
        """The private values, in `unit`: right on average, and often negative where little is used."""
        return frozen(np.array([float(record.value) for record in self.records]))

    @cached_property
    def window_ms(self) -> Integers:
        """Where the windows start that the slots lie in."""
        found = [self.terms(record).window_ms(record.time_ms) for record in self.records]
        return frozen(np.array(found, np.int64))

    @cached_property
    def kwh_per_unit(self) -> Floats:
        """The energy of each slot, in kWh, per unit of its value."""
        return frozen(self._by_slot(lambda terms, band: float(terms.kwh_per_unit(band))))

    @cached_property
    def sds(self) -> Floats:
        """The standard deviation of the noise of each value, in `unit`."""
        return frozen(self._by_slot(lambda terms, _: sd(terms.mechanism, terms.rounding)))

    def _by_slot(self, tell: Callable[[Descriptor, str | None], float]) -> Floats:
        """What follows from the descriptor and the band, for each slot."""
        known: dict[tuple[str, str | None], float] = {}
        for record in self.records:
            key = record.descriptor, record.band
            if key not in known:
                known[key] = tell(self.terms(record), record.band)
        return np.array([known[record.descriptor, record.band] for record in self.records])

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The stretches between the first and the last record without one: (start, end) in ms."""
        holes = np.flatnonzero(self.end_ms[:-1] < self.time_ms[1:])
        return tuple((int(self.end_ms[i]), int(self.time_ms[i + 1])) for i in holes)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The records as columns of one length, for `pandas.DataFrame(..)` or `pyarrow.table(..)`.

        `time` (UTC) is datetime64[ms], `duration_s` of seconds; `band` is empty where slots are not bands.
        """
        return {
            "time": self.time_ms.astype("datetime64[ms]"),
            "duration_s": (self.end_ms - self.time_ms) / 1000,
            "value": self.values,
            "sd": self.sds,
            "unit": np.array([record.unit for record in self.records]),
            "band": np.array([record.band or "" for record in self.records]),
        }

    def value(self, time_ms: int, coverage: float = 0.95, band: str | None = None) -> Estimate:
        """The value of the slot that starts at `time_ms`, in `unit`; raises as `mean_value`."""
        return mean_value([self], time_ms, coverage, band)

    def energy(self, start_ms: int, end_ms: int, coverage: float = 0.95, cut: Cut = None) -> Estimate:
        """The energy from `start_ms` to `end_ms`, in kWh; raises as `mean_energy`."""
        return mean_energy([self], start_ms, end_ms, coverage, cut)

    def terms(self, record: Record) -> Descriptor:
        """The descriptor that a record names."""
        return self.descriptors[record.descriptor]

    def between(self, start_ms: int, end_ms: int) -> Self:
        """The records of the slots that fill the time from `start_ms` to `end_ms`.

        Raises:
            ValueError: there are none, one is missing, or a slot lies across an end.
        """
        first, last = np.searchsorted(self.time_ms, (start_ms, end_ms))
        found = replace(self, records=self.records[first:last])
        filled = last > first and found.time_ms[0] == start_ms and found.end_ms[-1] == end_ms
        if not filled or found.gaps or not _whole(found):
            raise ValueError(f"no records of whole slots that fill the time from {start_ms} to {end_ms} ms")
        return found

    def around(self, start_ms: int, end_ms: int) -> Self:
        """The records of the slots that fill the time from `start_ms` to `end_ms`, and what they go beyond.

        Raises:
            ValueError: there are none, or one is missing.
        """
        first = np.searchsorted(self.end_ms, start_ms, side="right")
        last = np.searchsorted(self.time_ms, end_ms)
        if not first < last:
            raise ValueError(f"no records of slots that fill the time from {start_ms} to {end_ms} ms")
        return self.between(min(start_ms, int(self.time_ms[first])), max(end_ms, int(self.end_ms[last - 1])))

    def of_window(self, start_ms: int) -> Self:
        """The records of the window that starts at `start_ms`.

        Raises:
            ValueError: there are none.
        """
        first, last = np.searchsorted(self.window_ms, (start_ms, start_ms + 1))
        if first == last:
            raise ValueError(f"no records of a window that starts at {start_ms} ms")
        return replace(self, records=self.records[first:last])

    def slot(self, time_ms: int, band: str | None = None) -> Self:
        """The record of the slot that starts at `time_ms`, alone; of the band, where slots are bands.

        Raises:
            ValueError: there is none.
        """
        first, last = np.searchsorted(self.time_ms, (time_ms, time_ms + 1))
        found = tuple(record for record in self.records[first:last] if record.band == band)
        if not found:
            of_band = f" of the band {band!r}" if band else ""
            raise ValueError(f"no record of a slot{of_band} that starts at {time_ms} ms")
        return replace(self, records=found)


def collect(messages: Iterable[Message]) -> dict[str, Series]:
    """Each meter's series, from all messages of one stream: records and descriptors, in any order.

    Raises:
        RecordError: a message is neither, or they do not agree (`Series.of`).
    """
    records: dict[str, list[Record]] = defaultdict(list)
    descriptors: dict[str, Descriptor] = {}
    for message in messages:
        facts = load(message, Decimal)
        if "id" in facts:
            descriptor = Descriptor.parse(message)
            descriptors[descriptor.id] = descriptor
        else:
            record = Record.parse(facts)
            records[record.meter].append(record)
    return {meter: Series.of(records[meter], descriptors) for meter in sorted(records)}


def mean_value(
    meters: Iterable[Series], time_ms: int, coverage: float = 0.95, band: str | None = None
) -> Estimate:
    """The mean over meters of the slot that starts at `time_ms`, in their unit; unbiased.

    Of a mean day the slot is a `band`, and `time_ms` where its window starts.

    Raises:
        ValueError: there is no meter, one has no record of that slot, or they differ in kind, unit or
            duration; or coverage is not between 0 and 1.
    """
    slots = [series.slot(time_ms, band) for series in meters]
    terms = [one.terms(one.records[0]) for one in slots]
    if len({(one.kind, one.unit, one.slot_ms(band)) for one in terms}) != 1:
        raise ValueError("no meters, or meters that differ in kind, unit or duration, have no mean value")
    share = np.array([1 / len(slots)])
    return _weighted(slots, [share] * len(slots), slots[0].unit, coverage)


def mean_energy(
    meters: Iterable[Series], start_ms: int, end_ms: int, coverage: float = 0.95, cut: Cut = None
) -> Estimate:
    """The mean over meters of the energy from `start_ms` to `end_ms`, in kWh; unbiased.

    The records say nothing of how a load goes within a slot, so a time that cuts one has no total. With
    `cut="even"` the part of a slot that lies inside counts with its share, as if the load were even
    there: then the interval holds that share of the slot's measured energy, and how uneven the load
    was is not in it.

    Raises:
        ValueError: there is no meter, or the records of one do not fill that time, with whole slots
            unless `cut` says otherwise; bands of a mean day are cut; or coverage is not between 0 and 1.
    """
    find = Series.between if cut is None else Series.around
    stretches = [find(series, start_ms, end_ms) for series in meters]
    if not stretches:
        raise ValueError("no meters have no mean energy")
    shares = [_shares(series, start_ms, end_ms) for series in stretches]
    weights = [
        series.kwh_per_unit * share / len(stretches) for series, share in zip(stretches, shares, strict=True)
    ]
    return _weighted(stretches, weights, "kWh", coverage)


def _shares(series: Series, start_ms: int, end_ms: int) -> Floats:
    """Which part of each slot lies within a time."""
    inside = np.minimum(series.end_ms, end_ms) - np.maximum(series.time_ms, start_ms)
    shares = np.asarray(inside / (series.end_ms - series.time_ms))
    if any(record.band and share < 1 for record, share in zip(series.records, shares, strict=True)):
        raise ValueError("the bands of a mean day cannot be cut: they say nothing of single days")
    return shares


def _weighted(meters: Sequence[Series], weights: Sequence[Floats], unit: str, coverage: float) -> Estimate:
    """The sum over meters of the weighted sum of their values."""
    both = list(zip(meters, weights, strict=True))
    value = sum(float(weight @ series.values) for series, weight in both)
    parts = [part for series, weight in both for part in parts_of(series, weight)]
    half = half_width_of_total(parts, coverage)
    return Estimate(value, sd_of_total(parts), value - half, value + half, coverage, unit)


def parts_of(series: Series, weights: Floats) -> Iterator[Weighted]:
    """A weighted sum of a series' first records, as parts: slots by their windows, like windows together."""
    windows: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    first = zip(series.records, series.window_ms.tolist(), weights.tolist(), strict=False)
    for record, window_ms, weight in first:
        windows[record.descriptor, window_ms].append(weight)
    alike = Counter((id_, tuple(sorted(found))) for (id_, _), found in windows.items())
    for (id_, found), count in alike.items():
        terms = series.descriptors[id_]
        yield Weighted(terms.mechanism, found, count, terms.rounding)


def _whole(series: Series) -> bool:
    """Whether the bands of each window are all there, and all of its time."""
    lasting: defaultdict[int, int] = defaultdict(int)
    for record in series.records:
        lasting[record.time_ms] += series.terms(record).slot_ms(record.band)
    return all(lasting[record.time_ms] == record.step_ms for record in series.records)


def _overlap(one: Record, other: Record) -> bool:
    """Whether two records that follow one another speak for the same time: bands of one window do not."""
    bands = one.band is not None and other.band is not None
    same = (one.time_ms, one.step_ms) == (other.time_ms, other.step_ms)
    return one.time_ms + one.step_ms > other.time_ms and not (bands and same)


def _check(record: Record, descriptors: Mapping[str, Descriptor]) -> None:
    terms = descriptors.get(record.descriptor)
    if terms is None:
        raise RecordError("a record whose descriptor is not among those received")
    duration_ms = terms.step_ms if record.band is None else terms.length_ms
    if (record.unit, record.step_ms) != (terms.unit, duration_ms):
        raise RecordError("a record whose unit or duration is not its descriptor's")
    if (record.band is None) != (not terms.bands) or record.band not in {None, *terms.bands}:
        raise RecordError("a record whose band is not one of its descriptor's")
    if record.value % terms.mechanism.quantum or not math.isclose(record.sd, terms.facts["sd"], rel_tol=1e-3):
        raise RecordError("a record whose value or sd cannot be its descriptor's")


def frozen(array: T) -> T:
    """The same array, fixed."""
    array.setflags(write=False)
    return array
