"""What left of one meter, for the local page: energy by day, and closed windows of bands.

Everything follows from released records and their descriptors, so nothing raw is read. Records whose
descriptor is not kept, or that contradict the newest ones, are left out.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from meteragent.agent.page.view import BandWindow, History, Interval, Period
from meteragent.consume import Descriptor, Estimate, Record, Series, band_energies
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import Calendar
from meteragent.domain.shape import Space
from meteragent.domain.units import DAY_MS, HOUR_MS

DAYS = 30
"""How many days are shown."""
WINDOWS = 12
"""How many closed windows of bands are shown."""
_LONGEST_DAY_MS = 25 * HOUR_MS


def of(records: Iterable[bytes], descriptors: Iterable[bytes], now_ms: int) -> History:
    """Return a meter's history from the records and descriptors that were released on its topic.

    A period is a local day, or a window whose slots are longer than a day. Days and windows with a missing
    record are left out.
    """
    series = _series(records, descriptors)
    if series is None:
        return History("UTC", (), ())
    zone = series.terms(series.records[-1]).timezone or "UTC"
    return History(zone, tuple(_periods(series, zone, now_ms)), tuple(_windows(series)))


def _series(records: Iterable[bytes], descriptors: Iterable[bytes]) -> Series | None:
    """Return the series of the newest records that agree with each other; None if there are none."""
    by_id = {descriptor.id: descriptor for descriptor in _descriptors(descriptors)}
    known_records = [record for record in map(Record.parse, records) if record.descriptor in by_id]
    if not known_records:
        return None
    newest = max(known_records, key=lambda record: record.time_ms)

    def is_alike(record: Record) -> bool:
        """Return whether a record has the unit and the kind of slots of the newest."""
        terms, newest_terms = by_id[record.descriptor], by_id[newest.descriptor]
        return (record.unit, terms.space) == (newest.unit, newest_terms.space)

    with suppress(RecordError):
        return Series.of(filter(is_alike, known_records), by_id)
    with suppress(RecordError):  # slots of an earlier configuration may overlap with later ones
        return Series.of((r for r in known_records if r.descriptor == newest.descriptor), by_id)
    return None


def _descriptors(payloads: Iterable[bytes]) -> Iterator[Descriptor]:
    for payload in payloads:
        with suppress(RecordError):
            yield Descriptor.parse(payload)


def _periods(series: Series, zone: str, now_ms: int) -> Iterator[Period]:
    """Yield the energies of complete days, or of windows, that end within the last 30 days."""
    days = Calendar(zone, "1d")

    def period(record: Record) -> tuple[int, int]:
        """Return the start and end of the period in which a record lies."""
        if record.step_ms > _LONGEST_DAY_MS:
            return record.time_ms, record.time_ms + record.step_ms
        start_ms = days.start_ms(record.time_ms)
        return start_ms, days.end_ms(start_ms)

    for start_ms, end_ms in sorted(set(map(period, series.records))):
        if end_ms > now_ms - DAYS * DAY_MS:
            with suppress(ValueError):  # a record is missing
                yield Period(start_ms, end_ms, _interval(series.energy(start_ms, end_ms)))


def _windows(series: Series) -> Iterator[BandWindow]:
    """Yield the last complete windows of bands, in order."""
    bands = {r.time_ms: r.step_ms for r in series.records if series.terms(r).space is Space.BANDS}
    for start_ms in sorted(bands)[-WINDOWS:]:
        with suppress(ValueError):  # a record is missing
            energies = band_energies(series, start_ms)
            intervals = {name: _interval(energy) for name, energy in energies.items()}
            yield BandWindow(start_ms, start_ms + bands[start_ms], intervals)


def _interval(estimate: Estimate) -> Interval:
    return Interval(estimate.value, estimate.low, estimate.high)
