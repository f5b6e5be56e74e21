"""One meter's history for the local page: energy by day, and closed windows of bands with their costs.

The history is derived from released records and their descriptors alone. Records without a descriptor, and
records that contradict the newest ones, are left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from meteragent.consume import (
    Descriptor,
    Estimate,
    Record,
    Series,
    band_energies,
    compare_tariffs,
    tariff_cost,
)
from meteragent.consume.message import load_fields
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import Calendar
from meteragent.domain.schedule import Schedule
from meteragent.domain.tariff import Tariff
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.wire.descriptor import describe_terms

DAYS_SHOWN = 30
"""The number of days to show."""
WINDOWS_MAX = 12
"""The largest number of closed windows of bands to show."""
_LONGEST_DAY_MS = 25 * HOUR_MS
Interval = tuple[float, float, float]
"""An estimate with the ends of its 95% interval."""


class Period(NamedTuple):
    """The energy of a day or of a longer slot or window, in kWh."""

    start_ms: int
    end_ms: int
    energy: Interval


class Costs(NamedTuple):
    """A window's costs by tariff, and the cheapest, with the confidence in it (None: only one tariff)."""

    currency: str
    tariffs: Mapping[str, Interval]
    cheapest: str
    sureness: float | None


class BandWindow(NamedTuple):
    """A closed window's energy by band, in kWh; no costs without tariffs of one currency."""

    start_ms: int
    end_ms: int
    bands: Mapping[str, Interval]
    costs: Costs | None = None


class History(NamedTuple):
    """One meter's released energies; periods and windows are in time order, and days are local to `zone`."""

    zone: str
    periods: Sequence[Period]
    windows: Sequence[BandWindow]


NO_HISTORY = History("UTC", (), ())


class TopicRecords(NamedTuple):
    """The records and descriptors that were released on a meter's topic, and the stream's current schedule.

    The store deletes earlier descriptors, so a missing one is rebuilt from the schedule. If the configuration
    has changed since, the rebuilt id differs from that in the records, and these records are left out.
    """

    records: Sequence[bytes]
    descriptors: Sequence[bytes]
    schedule: Schedule


def build_history(topic_records: TopicRecords, now_ms: int, tariffs: Sequence[Tariff] = ()) -> History:
    """Return a meter's history from the records and descriptors on its topic.

    A period is a local day or, for records that cover more than a day, the interval of one record. Periods
    with a missing record are left out. `tariffs` price the windows of bands.
    """
    series = _series(topic_records)
    if series is None:
        return NO_HISTORY
    zone = series.descriptor_of(series.records[-1]).timezone or "UTC"
    return History(zone, tuple(_periods(series, zone, now_ms)), tuple(_windows(series, tariffs)))


def _series(topic_records: TopicRecords) -> Series | None:
    """Return the series of the newest records that are consistent with each other; None if there is none."""
    records = [Record.parse(load_fields(payload)) for payload in topic_records.records]
    by_id = _descriptors(topic_records, records)
    known_records = [record for record in records if record.descriptor in by_id]
    if not known_records:
        return None
    newest = max(known_records, key=lambda record: record.time_ms)

    def is_alike(record: Record) -> bool:
        """Return whether a record has the unit and the kind of slots of the newest record."""
        terms, newest_terms = by_id[record.descriptor], by_id[newest.descriptor]
        return (record.unit, terms.shape.space) == (newest.unit, newest_terms.shape.space)

    with suppress(RecordError):
        return Series.of(filter(is_alike, known_records), by_id)
    with suppress(RecordError):  # slots of an earlier configuration may overlap with later ones
        return Series.of((r for r in known_records if r.descriptor == newest.descriptor), by_id)
    return None


def _descriptors(topic_records: TopicRecords, records: Iterable[Record]) -> dict[str, Descriptor]:
    """Return descriptors by id: those that were released, and those rebuilt for the remaining records."""
    by_id = {descriptor.id: descriptor for descriptor in map(Descriptor.parse, topic_records.descriptors)}
    schedule = topic_records.schedule
    missing_records = {r.descriptor: r for r in records if r.descriptor not in by_id}
    for record in missing_records.values():
        start_ms = schedule.grid.start_ms(record.time_ms)
        message = describe_terms(schedule.terms_at(start_ms)).encode_message(record.meter, start_ms)
        descriptor = Descriptor.parse(message)
        by_id[descriptor.id] = descriptor
    return by_id


def _periods(series: Series, zone: str, now_ms: int) -> Iterator[Period]:
    """Yield the energy of each complete period that ended in the last `DAYS_SHOWN` days."""
    days = Calendar(zone, "1d")

    def period(record: Record) -> tuple[int, int]:
        """Return the start and end of the period that contains a record."""
        if record.step_ms > _LONGEST_DAY_MS:
            return record.time_ms, record.time_ms + record.step_ms
        start_ms = days.start_ms(record.time_ms)
        return start_ms, days.end_ms(start_ms)

    for start_ms, end_ms in sorted(set(map(period, series.records))):
        if end_ms > now_ms - DAYS_SHOWN * DAY_MS:
            with suppress(ValueError):  # a record is missing
                yield Period(start_ms, end_ms, _interval(series.energy(start_ms, end_ms)))


def _windows(series: Series, tariffs: Sequence[Tariff]) -> Iterator[BandWindow]:
    """Yield, in time order, the complete windows among the last `WINDOWS_MAX` windows of bands."""
    bands = {r.time_ms: r.step_ms for r in series.records if r.band}
    for start_ms in sorted(bands)[-WINDOWS_MAX:]:
        with suppress(ValueError):  # a record is missing, or the window is a mean day
            energies = band_energies(series, start_ms)
            intervals = {name: _interval(energy) for name, energy in energies.items()}
            yield BandWindow(
                start_ms, start_ms + bands[start_ms], intervals, _costs(series, tariffs, start_ms)
            )


def _costs(series: Series, tariffs: Sequence[Tariff], start_ms: int) -> Costs | None:
    """Return a window's costs; None without tariffs, or if they cannot price the window in one currency."""
    if not tariffs:
        return None
    try:
        if len(tariffs) == 1:
            cost = tariff_cost(series, tariffs[0], start_ms)
            return Costs(cost.unit, {tariffs[0].name: _interval(cost)}, tariffs[0].name, None)
        choice = compare_tariffs(series, tariffs, start_ms)
    except ValueError:  # the window has bands of an earlier configuration, or the tariffs have two currencies
        return None
    costs = {name: _interval(cost) for name, cost in choice.costs.items()}
    return Costs(tariffs[0].currency, costs, choice.cheapest, choice.sureness)


def _interval(estimate: Estimate) -> Interval:
    return estimate.value, estimate.low, estimate.high
