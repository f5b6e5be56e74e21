"""The records of meters over time, and estimates from them: a slot's value, an energy, a mean over homes.

The estimates refer to the slot values as the meter's agent computes them, with gaps filled and values
clamped, but without noise. An interval contains the quantity with the stated probability, computed from the
noise that the descriptor names (`privacy.totals`). Noise is independent between windows and meters, and
dependent within a window unless its metric is l1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from meteragent.consume.message import Descriptor, Message, Record, load_fields
from meteragent.domain.errors import RecordError
from meteragent.privacy.accuracy import sd
from meteragent.privacy.table import Columns
from meteragent.privacy.totals import Weighted, half_width_of_total, sd_of_total

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Cut = Literal["even"] | None
"""How to treat slots partly in the requested time: None refuses them, "even" assumes an even load."""
T = TypeVar("T", bound=NDArray[Any])


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate, the standard deviation of its noise, and the interval for the measured value."""

    value: float
    sd: float
    low: float
    high: float
    coverage: float
    unit: str


@dataclass(frozen=True)
class Series(Columns):
    """The records of one meter in time order, one per slot, and the descriptors that they name.

    All records have the same unit, and slots do not overlap; `gaps` lists the missing time. The records of a
    window's bands are in the order of the band names; each has the start and duration of the whole window.
    """

    meter: str
    records: tuple[Record, ...]
    descriptors: Mapping[str, Descriptor]

    @classmethod
    def of(cls, records: Iterable[Record], descriptors: Mapping[str, Descriptor]) -> Self:
        """Return the series of one meter from its records, in any order; repeated records are ignored.

        Raises RecordError if there is no record; records differ in meter or unit; two records of the same
        slot are different, or two slots overlap; or a descriptor is missing or does not match its record.
        """
        records_by_slot: dict[tuple[int, str], Record] = {}
        for record in records:
            terms = descriptors.get(record.descriptor)
            if terms is None:
                raise RecordError("a record whose descriptor is not among the given descriptors")
            terms.record_check.require_match(record)
            if records_by_slot.setdefault((record.time_ms, record.band or ""), record) != record:
                raise RecordError("two different records of one slot")
        sorted_records = tuple(records_by_slot[slot] for slot in sorted(records_by_slot))
        if len({(record.meter, record.unit) for record in sorted_records}) != 1:
            raise RecordError("a series needs records of exactly one meter, in one unit")
        if any(_overlaps(record, next_record) for record, next_record in pairwise(sorted_records)):
            raise RecordError("records whose slots overlap")
        ids = sorted({record.descriptor for record in sorted_records})
        series = cls(sorted_records[0].meter, sorted_records, {id_: descriptors[id_] for id_ in ids})
        series._require_full_windows()
        return series

    def _require_full_windows(self) -> None:
        if any(terms.timezone and terms.n > 1 for terms in self.descriptors.values()):
            ids = (record.descriptor for record in self.records)
            slots = Counter(zip(ids, self.window_ms.tolist(), strict=True))
            if any(count > self.descriptors[id_].n for (id_, _), count in slots.items()):
                raise RecordError("more records of a window than its descriptor states")

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return self.records[0].unit

    @cached_property
    def time_ms(self) -> Integers:
        """The starts of the slots, in milliseconds since the Unix epoch."""
        return freeze(np.array([record.time_ms for record in self.records], np.int64))

    @cached_property
    def end_ms(self) -> Integers:
        """The ends of the slots, in milliseconds since the Unix epoch."""
        return freeze(np.array([record.time_ms + record.step_ms for record in self.records], np.int64))

    @cached_property
    def values(self) -> Floats:
        """The private values, in `unit`; at low consumption they are often negative."""
        return freeze(np.array([float(record.value) for record in self.records]))

    @cached_property
    def window_ms(self) -> Integers:
        """The start of each slot's window, in milliseconds since the Unix epoch."""
        starts = [self.descriptor_of(record).window_of_slot_ms(record.time_ms) for record in self.records]
        return freeze(np.array(starts, np.int64))

    @cached_property
    def kwh_per_unit(self) -> Floats:
        """The energy in kWh per unit of each slot's value. Raises ValueError as `require_energy` does."""
        self.require_energy()
        return freeze(self._by_slot(lambda terms, band: float(terms.kwh_per_unit(band))))

    @cached_property
    def sds(self) -> Floats:
        """The standard deviation of the noise of each value, in `unit`."""
        return freeze(self._by_slot(lambda terms, _: sd(terms.mechanism, terms.rounding)))

    def _by_slot(self, compute: Callable[[Descriptor, str | None], float]) -> Floats:
        """Compute a number for each slot from its descriptor and band; equal pairs share one computation."""
        results: dict[tuple[str, str | None], float] = {}
        for record in self.records:
            key = record.descriptor, record.band
            if key not in results:
                results[key] = compute(self.descriptor_of(record), record.band)
        return np.array([results[record.descriptor, record.band] for record in self.records])

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The times without a record between the first and the last record, as pairs (start, end) in ms."""
        indices = np.flatnonzero(self.end_ms[:-1] < self.time_ms[1:])
        return tuple((int(self.end_ms[i]), int(self.time_ms[i + 1])) for i in indices)

    def require_energy(self) -> None:
        """Raise ValueError unless all values are energies or means of the load."""
        for terms in self.descriptors.values():
            terms.require_load()

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the records as columns of equal length, for `to_pandas()` and `to_arrow()`.

        `time` is in UTC, as datetime64[ms]; the tables of pandas and Arrow also state the zone. `duration_s`
        is in seconds. `band` is empty if slots are not bands.
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
        """Estimate the value of the slot that starts at `time_ms`, in `unit`. Raises as `mean_value` does."""
        return mean_value([self], time_ms, coverage, band)

    def energy(self, start_ms: int, end_ms: int, coverage: float = 0.95, cut: Cut = None) -> Estimate:
        """Estimate the energy from `start_ms` to `end_ms`, in kWh. Raises as `mean_energy` does."""
        return mean_energy([self], start_ms, end_ms, coverage, cut)

    def descriptor_of(self, record: Record) -> Descriptor:
        """Return the descriptor that `record` names."""
        return self.descriptors[record.descriptor]

    def between(self, start_ms: int, end_ms: int) -> Self:
        """Select the records of slots that fill the time exactly. Raises ValueError if there are none."""
        start, stop = np.searchsorted(self.time_ms, (start_ms, end_ms))
        series = replace(self, records=self.records[start:stop])
        is_filled = stop > start and series.time_ms[0] == start_ms and series.end_ms[-1] == end_ms
        if not is_filled or series.gaps or not _has_complete_bands(series):
            raise ValueError(f"no records of whole slots that fill the time from {start_ms} to {end_ms} ms")
        return series

    def around(self, start_ms: int, end_ms: int) -> Self:
        """Select the records of all slots that overlap the time. Raises ValueError if one is missing."""
        start = np.searchsorted(self.end_ms, start_ms, side="right")
        stop = np.searchsorted(self.time_ms, end_ms)
        if not start < stop:
            raise ValueError(f"no records of slots that fill the time from {start_ms} to {end_ms} ms")
        return self.between(min(start_ms, int(self.time_ms[start])), max(end_ms, int(self.end_ms[stop - 1])))

    def of_window(self, start_ms: int) -> Self:
        """Select the records of the window that starts at `start_ms`. Raises ValueError if it has none."""
        start, stop = np.searchsorted(self.window_ms, (start_ms, start_ms + 1))
        if start == stop:
            raise ValueError(f"no records of a window that starts at {start_ms} ms")
        return replace(self, records=self.records[start:stop])

    def slot(self, time_ms: int, band: str | None = None) -> Self:
        """Return the record of the slot, or of a window's band, at `time_ms`, or raise ValueError."""
        start, stop = np.searchsorted(self.time_ms, (time_ms, time_ms + 1))
        records = tuple(record for record in self.records[start:stop] if record.band == band)
        if not records:
            band_text = f" of the band {band!r}" if band else ""
            raise ValueError(f"no record of a slot{band_text} that starts at {time_ms} ms")
        return replace(self, records=records)


def collect(messages: Iterable[Message]) -> dict[str, Series]:
    """Return the series of each meter, by the meter's name, from the messages of one stream.

    The messages are records and descriptors, in any order. A record's descriptor is the one with its id that
    its meter has sent. If its meter has sent none, another meter's descriptor with this id is used, unless
    the other meters' differ. Raises RecordError if a message is neither a record nor a descriptor, or
    messages contradict each other (see `Series.of`).
    """
    records: dict[str, list[Record]] = defaultdict(list)
    descriptors: dict[str, dict[str, Descriptor]] = defaultdict(dict)
    shared: dict[str, Descriptor | None] = {}
    for message in messages:
        facts = load_fields(message, Decimal)
        if "id" in facts:
            descriptor = Descriptor.parse(message)
            own_descriptor = descriptors[descriptor.meter].setdefault(descriptor.id, descriptor)
            if own_descriptor.digest != descriptor.digest:
                raise RecordError("two descriptors of one meter with the same id")
            first_descriptor = shared.setdefault(descriptor.id, descriptor)
            if first_descriptor is not None and first_descriptor.digest != descriptor.digest:
                shared[descriptor.id] = None  # an id of 32 bits can be forged
        else:
            record = Record.parse(facts)
            records[record.meter].append(record)
    common = {id_: descriptor for id_, descriptor in shared.items() if descriptor is not None}
    return {meter: Series.of(records[meter], common | descriptors[meter]) for meter in sorted(records)}


def mean_value(
    meters: Iterable[Series], time_ms: int, coverage: float = 0.95, band: str | None = None
) -> Estimate:
    """Estimate the mean value, over meters, of the slot that starts at `time_ms`, in the records' unit.

    The estimate is unbiased. If slots are bands, `band` is required, and `time_ms` is the window's start.
    Raises ValueError if there is no meter; a meter has no record of that slot; records differ in kind, unit
    or duration; values are neither energies or means of the load nor amounts; or coverage is not between 0
    and 1, and TypeError if `meters` is a mapping.
    """
    slots = [series.slot(time_ms, band) for series in require_series(meters)]
    terms = [slot.descriptor_of(slot.records[0]) for slot in slots]
    if len({(descriptor.kind, descriptor.unit, descriptor.slot_ms(band)) for descriptor in terms}) != 1:
        raise ValueError(
            "a mean value needs at least one meter, and the same kind, unit and duration for all"
        )
    share = np.array([1 / len(slots)])
    return _weighted_sum(slots, [share] * len(slots), slots[0].unit, coverage)


def mean_energy(
    meters: Iterable[Series], start_ms: int, end_ms: int, coverage: float = 0.95, cut: Cut = None
) -> Estimate:
    """Estimate the mean over meters of the energy from `start_ms` to `end_ms`, in kWh.

    By default, the estimate is unbiased, and a slot must not straddle an end of that time, because records
    do not show how the load varied within a slot. With `cut="even"`, the fraction of such a slot's energy is
    used that lies within that time, as if its load were even. The interval is then for this fraction of the
    measured energy, and does not include the error of the assumption. Raises ValueError if there is no
    meter; a meter's records do not fill that time (with whole slots, unless `cut` allows parts); bands of a
    mean day are cut; no energy follows from the values; or coverage is not between 0 and 1, and TypeError if
    `meters` is a mapping.
    """
    select = Series.between if cut is None else Series.around
    homes = [select(series, start_ms, end_ms) for series in require_series(meters)]
    if not homes:
        raise ValueError("a mean energy needs at least one meter")
    shares = [_slot_shares(series, start_ms, end_ms) for series in homes]
    weights = [series.kwh_per_unit * share / len(homes) for series, share in zip(homes, shares, strict=True)]
    return _weighted_sum(homes, weights, "kWh", coverage)


def require_series(meters: Iterable[Series]) -> Iterable[Series]:
    """Return `meters`. Raises TypeError for a mapping, because iterating over it yields names, not series."""
    if isinstance(meters, Mapping):
        raise TypeError("expected series, not a mapping from names to series: pass homes.values()")
    return meters


def _slot_shares(series: Series, start_ms: int, end_ms: int) -> Floats:
    """Compute the fraction of each slot that lies in the time. Raises ValueError if a band is cut."""
    inside_ms = np.minimum(series.end_ms, end_ms) - np.maximum(series.time_ms, start_ms)
    shares = np.asarray(inside_ms / (series.end_ms - series.time_ms))
    if any(record.band and share < 1 for record, share in zip(series.records, shares, strict=True)):
        raise ValueError("the bands of a mean day cannot be cut: they do not describe single days")
    return shares


def _weighted_sum(
    meters: Sequence[Series], weights: Sequence[Floats], unit: str, coverage: float
) -> Estimate:
    """Estimate the sum of weighted values. Raises ValueError if they have no sum or coverage is wrong."""
    for terms in (terms for series in meters for terms in series.descriptors.values()):
        terms.require_load(may_be_amount=True)
    pairs = list(zip(meters, weights, strict=True))
    value = sum(float(weight @ series.values) for series, weight in pairs)
    parts = [part for series, weight in pairs for part in parts_of(series, weight)]
    half = half_width_of_total(parts, coverage)
    return Estimate(value, sd_of_total(parts), value - half, value + half, coverage, unit)


def parts_of(series: Series, weights: Floats) -> Iterator[Weighted]:
    """Split a weighted sum into parts: one per set of windows (in l1, slots) with equal terms and weights."""
    windows: defaultdict[tuple[str, int, str | None], list[float]] = defaultdict(list)
    rows = zip(series.records, series.window_ms.tolist(), weights.tolist(), strict=False)
    for record, window_ms, weight in rows:
        is_independent = series.descriptor_of(record).metric.is_sum
        windows[record.descriptor, window_ms, record.band if is_independent else None].append(weight)
    equal_windows = Counter(
        (id_, tuple(sorted(weights_of_window))) for (id_, *_), weights_of_window in windows.items()
    )
    for (id_, weights_of_window), count in equal_windows.items():
        terms = series.descriptors[id_]
        yield Weighted(terms.mechanism, weights_of_window, count, terms.rounding)


def _has_complete_bands(series: Series) -> bool:
    """Return whether, in each window of bands, no band is missing and the bands fill the window."""
    band_records = [record for record in series.records if record.band is not None]
    bands = Counter(record.time_ms for record in band_records)
    duration_ms: defaultdict[int, int] = defaultdict(int)
    for record in band_records:
        duration_ms[record.time_ms] += series.descriptor_of(record).slot_ms(record.band)
    return all(
        duration_ms[record.time_ms] == record.step_ms
        and bands[record.time_ms] == series.descriptor_of(record).n
        for record in band_records
    )


def _overlaps(record: Record, next_record: Record) -> bool:
    """Return whether two consecutive records overlap. Bands of the same window do not overlap."""
    are_bands = record.band is not None and next_record.band is not None
    is_same_window = (record.time_ms, record.step_ms) == (next_record.time_ms, next_record.step_ms)
    return record.time_ms + record.step_ms > next_record.time_ms and not (are_bands and is_same_window)


def freeze(array: T) -> T:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array
