"""Half hours, days and months of one meter, combined: complete sets only, unbiased, honest intervals.

Messages are made by `meteragent.wire.record`, under terms that `meteragent.config` makes.
"""

import functools
import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent import config
from meteragent.consume import Nested, Series, collect, nested
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy import SeededBits
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import written
from tests.support.messages import HALF_HOUR_MS, changed
from tests.support.world import BASE_MS, message
from tests.support.world import stream as core_of

Floats = NDArray[np.float64]
START = "2026-02-28T23:00:00Z"
START_MS, END_MS = parse_time(START), parse_time("2026-03-31T22:00:00Z")
"""March 2026 in Amsterdam, in which the clocks are put forward."""
LENGTHS = {"30min": "1", "1d": "0.02", "1mo": "0.0005"}
SHARES = {"30min": "0.7", "1d": "0.2", "1mo": "0.1"}


@functools.cache
def schedule(length: str, source: str = "", zone: str = "Europe/Amsterdam") -> Schedule:
    """Return the windows of one of the streams."""
    calendar = "" if length.endswith("min") else f"timezone = '{zone}'"
    text = written(
        source=source,
        privacy=f"level = {SHARES.get(length, '0.5')}\nhide = '110Wh'\nquantum = {LENGTHS.get(length, '1')}",
        window=f"length = '{length}'\n{calendar}",
    )
    return config.schedule(config.parse(text).stream[0])


def starts(length: str) -> list[int]:
    """Return the starts of the windows of the month."""
    windows, start_ms, result = schedule(length), START_MS, []
    while start_ms < END_MS:
        result.append(start_ms)
        start_ms = windows.grid.end_ms(start_ms)
    return result


def series(
    length: str,
    value_w: Callable[[int], float],
    without: Sequence[int] = (),
    meter: str = "m1",
    source: str = "",
) -> Series:
    """A series of the month: each slot's value in W, to a quantum; slots in `without` are missing."""
    windows, messages = schedule(length, source), []
    for index, start_ms in enumerate(starts(length)):
        terms = windows.terms_at(start_ms)
        shared = describe_terms(terms)
        messages.append(shared.encode_message(meter, start_ms))
        if index not in without:
            quanta = round(value_w(index) / float(terms.quantum))
            messages.append(RecordFormat.of(shared).encode(meter, start_ms, 0, quanta))
    return collect(messages)[meter]


@functools.cache
def noisy(length: str, without: tuple[int, ...] = ()) -> Series:
    """Return a series of unrelated values."""
    values = np.random.default_rng(len(length)).normal(300, 200, 2000)
    return series(length, lambda index: float(values[index]), without)


def least_squares(*streams: Series) -> list[Floats]:
    """The best estimates in kWh if all slots of all streams are in one tree: numpy's solution."""
    fine = streams[0]
    rows, kwh, deviations = [], [], []
    for stream in streams:
        for index in range(len(stream.records)):
            inside = (fine.time_ms >= stream.time_ms[index]) & (fine.end_ms <= stream.end_ms[index])
            rows.append(inside.astype(float))
            kwh.append(stream.values[index] * stream.kwh_per_unit[index])
            deviations.append(stream.sds[index] * stream.kwh_per_unit[index])
    x, y, s = np.array(rows), np.array(kwh), np.array(deviations)
    x_s, y_s = x / s[:, None], y / s
    beta = np.linalg.solve(x_s.T @ x_s, x_s.T @ y_s)  # the normal equations: lstsq takes 20 times as long
    ends = np.cumsum([len(stream.records) for stream in streams])
    return np.split(x @ beta, ends[:-1])


def kwh_of(result: Nested) -> Floats:
    """Return the energies of a result."""
    return result.values * (result.end_ms - result.time_ms) / HOUR_MS / 1000


def test_a_month_is_the_least_squares_solution() -> None:
    """Half hours, days (one of 23 hours) and the month are numpy's solution, and add up."""
    streams = [noisy(length) for length in SHARES]
    results = nested(*streams)
    assert [len(result.values) for result in results] == [1486, 31, 1]
    for result, expected, stream in zip(results, least_squares(*streams), streams, strict=True):
        assert np.allclose(kwh_of(result), expected, atol=1e-6)
        assert result.combined.all()
        assert result.time_ms.tolist() == stream.time_ms.tolist()
        assert np.all((result.low < result.values) & (result.values < result.high))
        assert (result.meter, result.unit, result.coverage) == ("m1", "W", 0.95)
    energies = [kwh_of(result) for result in results]
    assert energies[0].sum() == pytest.approx(energies[2][0])
    assert energies[1].sum() == pytest.approx(energies[2][0])
    assert energies[0][:48].sum() == pytest.approx(energies[1][0])


def test_every_number_is_better_than_it_was() -> None:
    """Deviations and intervals shrink: a day from 0.78 kWh to 0.68, a month from 1.56 to 1.44."""
    streams = [noisy(length) for length in SHARES]
    for result, stream in zip(nested(*streams), streams, strict=True):
        assert np.all(result.sd < stream.sds)
        widths = [estimate.high - estimate.low for estimate in map(stream.value, stream.time_ms.tolist()[:1])]
        assert result.high[0] - result.low[0] < widths[0]
    half_hours, days, months = nested(*streams)
    assert 0.024 * days.sd[0] == pytest.approx(0.684, abs=5e-3)
    assert months.sd[0] * (END_MS - START_MS) / HOUR_MS / 1000 == pytest.approx(1.445, abs=1e-2)
    assert half_hours.sd[0] == pytest.approx(441, abs=2)


def test_numbers_that_agree_are_not_changed() -> None:
    """Without noise nothing changes: the combination is unbiased."""
    streams = [series(length, lambda _: 250.0) for length in SHARES]
    for result in nested(*streams):
        assert np.allclose(result.values, 250)


def test_a_day_with_a_missing_half_hour_is_not_combined() -> None:
    """That day and its other half hours stay as they left; the month still takes the day as it is."""
    fine, days, months = noisy("30min", without=(5,)), noisy("1d"), noisy("1mo")
    results = nested(fine, days, months)
    assert not results[0].combined[:47].any()
    assert results[0].combined[47:].all()
    assert results[0].values[:47].tolist() == fine.values[:47].tolist()
    assert results[1].combined.all()
    alone = nested(fine, days)[1]
    assert alone.combined.tolist() == [False, *[True] * 30]
    assert alone.values[0] == days.values[0]
    assert alone.high[0] - alone.low[0] == pytest.approx(2 * _half_width(days, 0))


def _half_width(stream: Series, index: int) -> float:
    """Half the interval of a record as it left."""
    estimate = stream.value(int(stream.time_ms[index]))
    return (estimate.high - estimate.low) / 2


def test_half_hours_stand_in_for_a_missing_day() -> None:
    """A month without a record of its third day is combined with that day's half hours."""
    streams = noisy("30min"), noisy("1d", without=(2,)), noisy("1mo")
    results = nested(*streams)
    for result, expected in zip(results, least_squares(*streams), strict=True):
        assert result.combined.all()
        assert np.allclose(kwh_of(result), expected, atol=1e-6)
    assert results[0].sd[100] > results[0].sd[0]


def test_a_month_without_a_whole_day_is_as_it_left() -> None:
    """If a day and some of its half hours are missing, the month is not combined, but the days are."""
    fine, days, months = noisy("30min", without=(100,)), noisy("1d", without=(2,)), noisy("1mo")
    results = nested(fine, days, months)
    assert not results[2].combined.any()
    assert results[2].values.tolist() == months.values.tolist()
    assert results[1].combined.all()
    assert [result.values.tolist() for result in results[:2]] == [
        result.values.tolist() for result in nested(fine, days)
    ]


def test_slots_across_a_boundary_are_not_combined() -> None:
    """Days of another calendar do not fill the windows of this one: nothing is combined."""
    windows, messages = schedule("1d", zone="UTC"), []
    for index in range(31):
        start_ms = parse_time("2026-03-01T00:00:00Z") + index * DAY_MS
        shared = describe_terms(windows.terms_at(start_ms))
        messages.append(shared.encode_message("m1", start_ms))
        messages.append(changed(RecordFormat.of(shared).encode("m1", start_ms, 0, 5 * index)))
    days, months = collect(messages)["m1"], noisy("1mo")
    assert nested(noisy("30min"), days)[1].combined.tolist() == [*[True] * 30, False]
    epoch = collect(
        [changed(message, is_sealed=True, timezone=None) for message in messages[::2]]
        + [
            changed(message, d=json.loads(changed(first, is_sealed=True, timezone=None))["id"])
            for first, message in zip(messages[::2], messages[1::2], strict=True)
        ]
    )["m1"]
    results = nested(epoch, months)
    assert not any(result.combined.any() for result in results)
    assert results[0].values.tolist() == days.values.tolist()


def test_what_is_not_nested_is_refused() -> None:
    """One stream, two meters, several slots a window, another unit, other readings, the wrong order."""
    fine, days = noisy("30min"), noisy("1d")
    other = series("1d", lambda _: 1.0, meter="m2")
    with pytest.raises(ValueError, match="at least two"):
        nested(fine)
    with pytest.raises(ValueError, match="belong to one meter"):
        nested(fine, other)
    with pytest.raises(ValueError, match="fine to coarse"):
        nested(days, fine)
    with pytest.raises(ValueError, match="fine to coarse"):
        nested(fine, fine)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nested(fine, days, coverage=1)
    with pytest.raises(ValueError, match="same kind and unit"):
        nested(fine, series("1d", lambda _: 1.0, source="unit = 'kW'"))
    with pytest.raises(ValueError, match="read in the same way"):
        nested(fine, series("1d", lambda _: 1.0, source="every = '5s'"))


def test_slots_of_one_window_are_refused() -> None:
    """Four quarters of a day share a noise bound: no nested numbers."""
    text = written(privacy="hide = '110Wh'", window="length = '1h'\nblocks = 4")
    terms = config.terms(config.parse(text).stream[0])
    shared = describe_terms(terms)
    messages = [shared.encode_message("m1", START_MS)]
    messages += [RecordFormat.of(shared).encode("m1", START_MS, i, 5) for i in range(4)]
    with pytest.raises(ValueError, match="windows of one slot"):
        nested(collect(messages)["m1"], noisy("1d"))


def test_two_calendars_are_refused() -> None:
    """Days of one zone and months of another are not one calendar."""
    windows = schedule("1mo", zone="Europe/London")
    start_ms = windows.first_start_ms(START_MS)
    shared = describe_terms(windows.terms_at(start_ms))
    months = collect(
        [shared.encode_message("m1", start_ms), RecordFormat.of(shared).encode("m1", start_ms, 0, 1)]
    )
    with pytest.raises(ValueError, match="one local calendar"):
        nested(noisy("1d"), months["m1"])


def test_columns_are_of_one_length() -> None:
    """They make a table; arrays are read-only."""
    days, months = nested(noisy("1d"), noisy("1mo"))
    columns = days.columns()
    assert {len(column) for column in columns.values()} == {31}
    assert list(columns) == ["time", "duration_s", "value", "sd", "low", "high", "combined"]
    assert columns["duration_s"][28] == 23 * 3600
    with pytest.raises(ValueError, match="read-only"):
        months.values[0] = 0


def test_energies_are_combined_like_means() -> None:
    """In kWh of a register the numbers are energies, and sums need no weights."""
    source = "kind = 'register'\nunit = 'kWh'\ndead_band = 0.001"
    hour = describe_terms(_energy("30min", source))
    day = describe_terms(_energy("1d", source))
    fine = [RecordFormat.of(hour).encode("m1", START_MS + i * HALF_HOUR_MS, 0, 10 * i) for i in range(48)]
    coarse = [RecordFormat.of(day).encode("m1", START_MS, 0, 12_000)]
    half_hours, days = nested(
        collect([hour.encode_message("m1", START_MS), *fine])["m1"],
        collect([day.encode_message("m1", START_MS), *coarse])["m1"],
    )
    assert days.unit == "kWh"
    assert half_hours.values.sum() == pytest.approx(days.values[0])
    sums = sum(json.loads(message)["value"] for message in fine), json.loads(coarse[0])["value"]
    assert min(sums) < days.values[0] < max(sums)


def _energy(length: str, source: str) -> Terms:
    """Terms of an energy on a lattice of 0.5 Wh."""
    calendar = "" if length.endswith("min") else "timezone = 'Europe/Amsterdam'"
    text = written(
        source=source,
        privacy=f"level = {SHARES[length]}\nhide = '110Wh'\nquantum = 0.0005",
        window=f"length = '{length}'\n{calendar}",
    )
    return config.terms(config.parse(text).stream[0])


@pytest.mark.parametrize(
    ("source", "field"), [("", 0), ("kind = 'register'\nunit = 'kWh'\ndead_band = 0.001", 1)]
)
def test_what_the_cores_of_one_table_send_adds_up(source: str, field: int) -> None:
    """From readings through the cores of three streams: with negligible noise the sums agree, clocks and all.

    A load of half an hour's reading, with gaps of some hours and values beyond the range; 70 days over the
    change of clocks. What is left are roundings below one quantum, which weigh least where streams are fine.
    """
    text = written(
        source=source,
        window="timezone = 'Europe/Amsterdam'\nclock = 'event'\nahead = '9999d'\nrange = [0, 2500]\ngap = 0",
        privacy=f"level = 1000000000\nshares = {{ {', '.join(f'{k!r} = {v}' for k, v in SHARES.items())} }}",
    )
    watts = np.random.default_rng(2).integers(0, 3000, 70 * 48)
    counted = np.round(np.cumsum(watts) / 2000, 3)
    streams: list[Series] = []
    for part in config.parse(text).stream:
        core = core_of(config.schedule(part))
        pipeline = Pipeline(core, Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
        payloads: list[bytes] = []
        for index, (power, register) in enumerate(zip(watts.tolist(), counted.tolist(), strict=True)):
            if index % 97 > 90:
                continue
            time_ms = parse_time("2026-02-27T00:00:00Z") - BASE_MS + index * HALF_HOUR_MS
            reading = message(time_ms, (power, register)[field])
            effects = pipeline.feed([reading], BASE_MS, BASE_MS)
            payloads += [row.payload for row in effects.commit.outgoing]
        streams += collect(payloads).values()
    results = nested(*streams)
    months, days = results[2], results[1]
    assert months.combined.all()
    assert days.combined.sum() >= 60
    for result, series_ in zip(results, streams, strict=True):
        quantum = float(next(iter(series_.descriptors.values())).mechanism.quantum)
        assert np.abs(result.values - series_.values).max() <= 2.5 * quantum
