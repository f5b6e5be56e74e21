"""What a receiver makes of curves, mean days and windows of the local calendar.

Messages are made by `meteragent.wire.record`, under terms that `meteragent.config` makes.
"""

import functools
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent import config
from meteragent.consume import Descriptor, Series, collect, curve, mean_day, mean_energy, mean_value, total
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import Curve, Profile
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy import SeededBits, sd
from meteragent.privacy.totals import Weighted, half_width_of_total, half_width_of_window
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import written
from tests.support.messages import changed
from tests.support.not_run import ROOT
from tests.support.world import BASE_MS, message, stream

BANDS = "bands = ['00-06', '06-17', '17-21', '21-24']"
PROFILE = "preset = 'typical-day'"
CURVE = "hide = '110Wh'\nspace = 'curve'"
ZONES = ("Europe/Amsterdam", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")


@functools.cache
def schedule(privacy: str, window: str = "", zone: str = "Europe/Amsterdam") -> Schedule:
    """The schedule of a configuration on a local calendar."""
    text = written(privacy=privacy, window=f"timezone = '{zone}'\n{window}")
    return config.schedule(config.parse(text).stream[0])


def sent(known: Schedule, start: str, quanta: Sequence[Sequence[int]], meter: str = "m1") -> list[bytes]:
    """All messages of consecutive windows from a local midnight on, `quanta` per window."""
    start_ms, messages = parse_time(start), []
    assert known.first_start_ms(start_ms) == start_ms
    for window in quanta:
        shared = describe_terms(known.terms_at(start_ms))
        assert len(window) == shared.terms.n
        messages.append(shared.encode_message(meter, start_ms))
        messages += [RecordFormat.of(shared).encode(meter, start_ms, i, z) for i, z in enumerate(window)]
        start_ms = known.grid.end_ms(start_ms)
    return messages


def received(known: Schedule, start: str, quanta: Sequence[Sequence[int]], meter: str = "m1") -> Series:
    """The series of a meter that sent them."""
    return collect(sent(known, start, quanta, meter))[meter]


# Mean days ----------------------------------------------------------------------------------------

QUIET = "level = 1000000000"
"""Noise that is zero but for a chance below e^-1000."""
JUNE, JULY = "2026-05-31T22:00:00Z", "2026-06-30T22:00:00Z"
JUNE_MS, JULY_MS = parse_time(JUNE), parse_time(JULY)


def test_a_mean_day_is_read_back() -> None:
    """Its space, zone and bands are in the descriptor; its records have the month's time and a band each."""
    home = received(schedule(PROFILE, BANDS), JUNE, [[10, 20, 40, 30]])
    (terms,) = home.descriptors.values()
    bands = (
        ("00:00/06:00", 180 * HOUR_MS),
        ("06:00/17:00", 330 * HOUR_MS),
        ("17:00/21:00", 120 * HOUR_MS),
        ("21:00/24:00", 90 * HOUR_MS),
    )
    assert (terms.shape, terms.timezone) == (Profile(30 * DAY_MS, bands), "Europe/Amsterdam")
    assert tuple(record.band for record in home.records) == terms.shape.names
    assert {(item.time_ms, item.step_ms) for item in home.records} == {(JUNE_MS, 30 * DAY_MS)}
    assert home.value(JUNE_MS, band="17:00/21:00").value == pytest.approx(0.4)
    assert home.gaps == ()


def test_the_energy_of_a_month_is_that_of_its_bands() -> None:
    """Each band counts by its own hours, and all share the month's radius."""
    home = received(schedule(PROFILE, BANDS), JUNE, [[10_000, 20_000, 40_000, 30_000]])
    actual = home.energy(JUNE_MS, JULY_MS)
    hours = np.array([180, 330, 120, 90])
    assert actual.value == pytest.approx(float(hours @ [100, 200, 400, 300]) / 1000)
    (terms,) = home.descriptors.values()
    assert actual.sd == pytest.approx(sd(terms.mechanism, "dithered") * float(np.linalg.norm(hours)) / 1000)
    half = half_width_of_total([Weighted(terms.mechanism, tuple(hours / 1000), 1, "dithered")])
    assert actual.high - actual.value == pytest.approx(half, rel=1e-9)


def test_two_months_add() -> None:
    """June and July of two meters: each month's hours, its own radius; the mean of the homes."""
    known = schedule(PROFILE, BANDS)
    homes = [received(known, JUNE, [[100] * 4, [300] * 4], f"m{i}") for i in range(2)]
    august_ms = parse_time("2026-07-31T22:00:00Z")
    actual = mean_energy(homes, JUNE_MS, august_ms)
    assert actual.value == pytest.approx(0.72 + 3 * 0.744)
    laws = [homes[0].descriptor_of(homes[0].records[i]).mechanism for i in (0, -1)]
    hours = np.array([[180, 330, 120, 90], [186, 341, 124, 93]]) / 2000
    parts = [Weighted(law, tuple(row), 2, "dithered") for law, row in zip(laws, hours, strict=True)]
    assert actual.high - actual.value == pytest.approx(half_width_of_total(parts), rel=1e-9)
    assert mean_value(homes, JULY_MS, band="00:00/06:00").value == pytest.approx(3)


def test_a_part_of_a_mean_day_has_no_energy() -> None:
    """A month of which a band is missing, or whose bands leave hours out, has no total; bands have values."""
    whole = sent(schedule(PROFILE, BANDS), JUNE, [[1, 2, 3, 4]])
    some = received(schedule(PROFILE, "bands = ['00-06', '17-21']"), JUNE, [[1, 2]])
    for home in (collect(whole[:-1])["m1"], some):
        with pytest.raises(ValueError, match="no records of whole slots"):
            home.energy(JUNE_MS, JULY_MS)
        assert home.value(JUNE_MS, band="17:00/21:00").sd > 0
    with pytest.raises(ValueError, match="no record of a slot that"):
        some.value(JUNE_MS)
    with pytest.raises(ValueError, match="of the band '06:00/17:00'"):
        some.value(JUNE_MS, band="06:00/17:00")


def test_a_band_is_its_descriptor_s() -> None:
    """A record without a band, or with one that the descriptor does not know, is refused."""
    messages = sent(schedule(PROFILE, BANDS), JUNE, [[1, 2, 3, 4]])
    for band in (None, "00:00/07:00"):
        with pytest.raises(RecordError, match=r"band is not one|unit or duration"):
            collect([*messages[:-1], changed(messages[-1], band=band)])
    plain = sent(schedule("preset = 'bill'"), JUNE, [[1]])
    with pytest.raises(RecordError, match="band is not one"):
        collect([plain[0], changed(plain[1], band="00:00/06:00")])
    with pytest.raises(RecordError, match="overlap"):
        collect([*messages, changed(messages[-1], t=iso_time(JUNE_MS + DAY_MS))])
    twice = changed(messages[-1], value=77)
    with pytest.raises(RecordError, match="differ"):
        collect([*messages, twice])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"bands": None}, "bands"),
        ({"bands": {"00:00/06:00": "PT186H"}}, "n"),
        ({"bands": 5}, "bands"),
        ({"bands": {"a": 5}}, "bands"),
        ({"timezone": None}, "timezone"),
        ({"timezone": "Europe/Nowhere"}, "timezone"),
        ({"timezone": "../etc/passwd"}, "timezone"),
        ({"step": "PT91H"}, "step"),
        ({"length": "PT719H"}, "length"),
        ({"space": "linf"}, "bands"),
        ({"space": "planar"}, "space"),
    ],
)
def test_a_mean_day_s_descriptor_agrees_with_itself(change: dict[str, object], name: str) -> None:
    """Bands, zone, step and length that cannot be a mean day's are refused by name, though the id fits."""
    first = sent(schedule(PROFILE, BANDS), JUNE, [[1, 2, 3, 4]])[0]
    with pytest.raises(RecordError, match=f"'{name}'"):
        Descriptor.parse(changed(first, is_sealed=True, **change))


# Days and curves ----------------------------------------------------------------------------------


def test_days_of_23_and_25_hours_add() -> None:
    """A week over the change of the clock: each day's hours, each day's own noise."""
    home = received(schedule("preset = 'day'"), "2026-03-27T23:00:00Z", [[1000], [1000], [1000]])
    assert [record.step_ms // HOUR_MS for record in home.records] == [24, 23, 24]
    actual = home.energy(parse_time("2026-03-27T23:00:00Z"), parse_time("2026-03-30T22:00:00Z"))
    assert actual.value == pytest.approx(0.1 * 71)
    parts = [
        Weighted(home.descriptor_of(item).mechanism, (item.step_ms / HOUR_MS / 1000,), 1, "dithered")
        for item in home.records
    ]
    assert len(home.descriptors) == 2
    assert actual.high - actual.value == pytest.approx(half_width_of_total(parts), rel=1e-9)


@pytest.mark.parametrize("zone", ZONES)
def test_blocks_of_a_local_day_share_its_radius(zone: str) -> None:
    """Slots of local days are counted by those days, not by those of the epoch."""
    known = schedule(f"{CURVE}", "length = '1d'\nblocks = 4", zone)
    start_ms = known.first_start_ms(parse_time("2026-06-10T00:00:00Z"))
    start = iso_time(start_ms)
    home = received(known, start, [[1, 2, 3, 4], [5, 6, 7, 8]])
    (terms,) = home.descriptors.values()
    assert terms.shape == Curve(DAY_MS, 6 * HOUR_MS)
    actual = home.energy(start_ms + 12 * HOUR_MS, start_ms + 30 * HOUR_MS)
    parts = [Weighted(terms.mechanism, (0.006,) * slots, 1, "dithered") for slots in (2, 1)]
    assert actual.high - actual.value == pytest.approx(half_width_of_total(parts), rel=1e-9)
    assert [terms.window_ms(t) for t in home.time_ms.tolist()] == [start_ms] * 4 + [start_ms + DAY_MS] * 4


@settings(max_examples=40)
@given(
    zone=st.sampled_from(ZONES),
    unit=st.sampled_from(["1d", "1w", "1mo"]),
    day=st.integers(0, 5000),
    share=st.floats(0, 1, exclude_max=True),
)
def test_a_slot_s_window_is_the_one_it_was_released_in(zone: str, unit: str, day: int, share: float) -> None:
    """Of any time of a window, on any calendar, its start is found from the descriptor alone."""
    known = schedule("quantum = '0.1'\nradius = '50'", f"length = '{unit}'", zone)
    start_ms = known.first_start_ms(parse_time("2020-01-01T00:00:00Z") + day * DAY_MS)
    terms = known.terms_at(start_ms)
    actual = Descriptor.parse(describe_terms(terms).encode_message("m1", start_ms))
    assert actual.window_ms(start_ms + int(share * terms.length_ms)) == start_ms


# Windows as what they are -------------------------------------------------------------------------

JUNE_10_MS = parse_time("2026-06-09T22:00:00Z")
JUNE_10 = iso_time(JUNE_10_MS)


def test_a_curve_has_a_value_at_any_time() -> None:
    """Steps are a block's mean in it; hats go straight between middles; both with one band everywhere."""
    home = received(schedule(CURVE, "length = '1d'\nblocks = 4"), JUNE_10, [[1, 2, 3, 4], [100, 300, 200, 0]])
    actual = curve(home, JUNE_10_MS + DAY_MS)
    assert (actual.edges_ms - JUNE_10_MS).tolist() == [(24 + 6 * i) * HOUR_MS for i in range(5)]
    times_ms = JUNE_10_MS + DAY_MS + HOUR_MS * np.array([[0, 3, 5, 6], [9, 12, 18, 24]])
    values, low, high = actual.at(times_ms)
    assert values.tolist() == [[100, 100, 100, 300], [300, 200, 0, 0]]
    assert np.allclose(values - low, actual.half_width)
    assert np.allclose(high - values, actual.half_width)
    hats, *_ = actual.at(times_ms, "hats")
    assert np.allclose(hats, np.array([[100, 100, 100 + 200 / 3, 200], [300, 250, 100, 0]]))
    (terms,) = home.descriptors.values()
    assert actual.half_width == half_width_of_window(terms.mechanism, 0.95, "dithered")
    with pytest.raises(ValueError, match="times must lie in"):
        actual.at(JUNE_10_MS)


@pytest.mark.parametrize(("start", "hours"), [("2026-03-28T23:00:00Z", 23), ("2026-10-24T22:00:00Z", 25)])
def test_a_curve_s_day_can_have_23_or_25_hours(start: str, hours: int) -> None:
    """On the days of the change there are as many blocks, all of them of that day's window."""
    home = received(schedule(CURVE, "length = '1d'\nblocks = 24"), start, [[7] * 24])
    actual = curve(home, parse_time(start), 0.5)
    assert actual.edges_ms[-1] - actual.edges_ms[0] == hours * HOUR_MS
    assert len(actual.values) == 24
    assert set(home.window_ms.tolist()) == {parse_time(start)}


def test_a_receiver_needs_numpy_only() -> None:
    """No other package is loaded by `import meteragent.consume`."""
    program = (
        "import sys; before = {*sys.modules}; import meteragent.consume;"
        "print(*{name.split('.')[0] for name in {*sys.modules} - before})"
    )
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    others = {name for name in told.split() if not name.startswith("_")} - sys.stdlib_module_names
    assert others == {"meteragent", "numpy"}


def test_a_mean_day_is_an_array_with_a_band() -> None:
    """Bands in order, their hours, values in the unit, and how far they all are off at once."""
    home = received(schedule(PROFILE, BANDS), JUNE, [[10_000, 20_000, 40_000, 30_000], [1, 2, 3, 4]])
    actual = mean_day(home, JUNE_MS, 0.8)
    assert actual.bands == ("00:00/06:00", "06:00/17:00", "17:00/21:00", "21:00/24:00")
    assert actual.values.tolist() == [100, 200, 400, 300]
    assert (actual.duration_ms / HOUR_MS).tolist() == [180, 330, 120, 90]
    noise = home.descriptor_of(home.records[0]).mechanism
    assert actual.half_width == half_width_of_window(noise, 0.8, "dithered")
    assert mean_day(home, JULY_MS).values.tolist() == [0.01, 0.02, 0.03, 0.04]


def test_what_is_no_window_is_refused() -> None:
    """A window without one of its records, a time where none starts, and the wrong shape are refused."""
    blocks = sent(schedule(CURVE, "length = '1d'\nblocks = 4"), JUNE_10, [[1, 2, 3, 4]])
    bands = sent(schedule(PROFILE, BANDS), JUNE, [[1, 2, 3, 4]])
    with pytest.raises(ValueError, match="is missing"):
        curve(collect(blocks[:-1])["m1"], JUNE_10_MS)
    with pytest.raises(ValueError, match="is missing"):
        mean_day(collect(bands[:-1])["m1"], JUNE_MS)
    with pytest.raises(ValueError, match="no records of a window"):
        curve(collect(blocks)["m1"], JUNE_10_MS + 6 * HOUR_MS)
    with pytest.raises(ValueError, match="only windows with the space 'linf' or 'curve' have a curve"):
        curve(collect(bands)["m1"], JUNE_MS)
    with pytest.raises(ValueError, match="only windows with the space 'profile' have a mean day"):
        mean_day(collect(blocks)["m1"], JUNE_10_MS)
    with pytest.raises(ValueError, match="between 0 and 1"):
        curve(collect(blocks)["m1"], JUNE_10_MS, 0)


def test_a_mean_day_s_hours_are_not_cut() -> None:
    """A part of a month has no energy of its own, even for a load that is assumed constant."""
    home = received(schedule(PROFILE, BANDS), JUNE, [[1, 2, 3, 4]])
    with pytest.raises(ValueError, match="cannot be cut"):
        home.energy(JUNE_MS, JUNE_MS + DAY_MS, cut="even")
    assert home.energy(JUNE_MS, JULY_MS, cut="even") == home.energy(JUNE_MS, JULY_MS)


def test_a_register_of_mean_days_grows_by_months() -> None:
    """The running sum of bands is known when their window ends."""
    home = received(schedule(PROFILE, BANDS), JUNE, [[100] * 4, [300] * 4])
    actual = total(home)
    assert actual.time_ms.tolist() == [JULY_MS, parse_time("2026-07-31T22:00:00Z")]
    assert actual.kwh == pytest.approx([0.72, 0.72 + 3 * 0.744])


@pytest.mark.parametrize(("privacy", "window"), [("day", ""), ("bill", ""), ("typical-day", BANDS)])
def test_what_a_core_sends_is_what_was_measured(privacy: str, window: str) -> None:
    """From readings through the core to totals: with negligible noise a register shows the energy used.

    A reading stands for a quarter of its hour. The clocks change in between; all messages come from the
    core, descriptors included. What is left is the rounding, which the intervals hold: +- 20 Wh of 59
    days, each of which is off by half of 2.4 Wh at the worst load.
    """
    known = schedule(f"preset = '{privacy}'\n{QUIET}", f"{window}\nclock = 'event'\nahead = '9999d'")
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    from_ms, messages = parse_time("2026-02-27T00:00:00Z"), []
    watts = np.random.default_rng(1).integers(0, 3000, 70 * 24)
    for hour, power in enumerate(watts.tolist()):
        reading = message(from_ms - BASE_MS + hour * HOUR_MS, power)
        effects = pipeline.feed([reading], BASE_MS, BASE_MS)
        messages += [row.payload for row in effects.commit.outgoing]
    (home,) = collect(messages).values()
    actual = total(home)
    assert len(home.descriptors) > 1
    assert actual.time_ms[-1] - actual.start_ms > 30 * DAY_MS
    used_kwh = np.append(0, np.cumsum(watts)) / 4000
    first, *ends = (np.array([actual.start_ms, *actual.time_ms]) - from_ms) // HOUR_MS
    true_kwh = used_kwh[ends] - used_kwh[first]
    assert np.allclose(actual.kwh, true_kwh, atol=0.02)
    assert np.mean((actual.low <= true_kwh) & (true_kwh <= actual.high)) > 0.5
    assert (actual.high - actual.low < 0.042).all()


# Columns ------------------------------------------------------------------------------------------


def test_columns_are_what_arrow_takes() -> None:
    """Times, durations, values, deviations, units and bands as arrays of one length, types and all."""
    home = received(schedule(PROFILE, BANDS), JUNE, [[10_000, 20_000, 40_000, 30_000]])
    assert pa.table(home.columns()).schema.field("time").type == pa.timestamp("ms")
    table = home.to_arrow()
    assert table.column_names == ["time", "duration_s", "value", "sd", "unit", "band"]
    assert table.schema.field("time").type == pa.timestamp("ms", tz="UTC")
    rows = table.to_pylist()
    assert rows[2] == {
        "time": datetime.fromisoformat("2026-05-31T22:00:00Z"),
        "duration_s": 30 * 86400.0,
        "value": 400.0,
        "sd": pytest.approx(home.records[0].sd, rel=1e-3),
        "unit": "W",
        "band": "17:00/21:00",
    }
    day = received(schedule("preset = 'day'"), JUNE_10, [[1], [2]])
    assert pa.table(day.columns())["band"].to_pylist() == ["", ""]
