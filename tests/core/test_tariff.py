"""Energies of bands: exact sums of what was used in each, one independent noise for each, one charge."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.noise import Noise
from meteragent.core.pipeline import Pipeline
from meteragent.core.window import RegisterUse, Window
from meteragent.domain.codec import encode
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import day_ms, parse_time
from meteragent.domain.metric import Metric
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import UNKNOWN_BAND, Bands
from meteragent.domain.units import HOUR_MS, MINUTE_MS
from meteragent.privacy import SeededBits
from meteragent.store.schema import decode_terms
from meteragent.wire.descriptor import describe_terms
from tests.support.configurations import written
from tests.support.world import BASE_MS, message, stream

BANDS = """
[[window.band]]
name = "day"
days = "mon-fri"
hours = ["07:00/23:00"]
[[window.band]]
name = "evening"
days = "sat,sun"
hours = ["18:00/22:00"]
"""
ZONE = ZoneInfo("Europe/Amsterdam")
QUIET = "level = 1000000000"
"""Noise that is zero but for a chance below e^-1000."""

REGISTER = "kind = 'register'\nunit = 'kWh'\nevery = '10s'\ndead_band = 0.001"


def schedule(source: str = "hold = '400d'", privacy: str = QUIET, length: str = "1mo") -> Schedule:
    """A tariff of three bands with a holiday, by the event clock."""
    window = (
        f"length = '{length}'\ntimezone = 'Europe/Amsterdam'\nclock = 'event'\nahead = '9999d'\n"
        "rest = 'night'\nholidays = [2026-12-25]"
    )
    text = written(privacy=f"preset = 'tariff'\n{privacy}", window=window, source=source) + BANDS
    return config.schedule(config.parse(text).stream[0])


def released(known: Schedule, readings: Iterable[tuple[int, object]]) -> list[dict[str, object]]:
    """The records that leave for readings (time in ms, value)."""
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    records = []
    for time_ms, value in readings:
        effects = pipeline.feed([message(time_ms - BASE_MS, value)], BASE_MS, BASE_MS)
        records += [json.loads(row.payload) for row in effects.commit.outgoing if not row.retain]
    return records


def band_of(time_ms: int) -> str:
    """The band that local clocks and the calendar show, worked out without the product."""
    local = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(ZONE)
    is_sunday = local.date().isoformat() == "2026-12-25" or local.weekday() == 6
    if is_sunday or local.weekday() == 5:
        return "evening" if 18 <= local.hour < 22 else "night"
    return "day" if 7 <= local.hour < 23 else "night"


def watts(time_ms: int) -> int:
    """A load that differs by hour and day."""
    hour = time_ms // HOUR_MS
    return 100 + 7 * (hour % 24) + hour // 24 % 5 * 100


@pytest.mark.parametrize("kind", ["power", "register", "interval_energy"])
@pytest.mark.parametrize("month", [12, 3, 10])
def test_each_band_has_its_energy_whatever_the_device_states(kind: str, month: int) -> None:
    """Of a month with a holiday, or a change of clocks: the sum of its hours' energies, and nothing else."""
    sources = {
        "power": "hold = '400d'",
        "register": "kind = 'register'\nunit = 'Wh'\nevery = '1h'\ndead_band = 1",
        "interval_energy": "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '1h'",
    }
    month_ms = parse_time(f"2026-{month:02}-01T00:00:00Z")
    times = range(month_ms - 24 * HOUR_MS, month_ms + 33 * 24 * HOUR_MS, HOUR_MS)
    register, readings = 5_000_000, []
    for time_ms in times:
        used = watts(time_ms)
        after_ms = time_ms + HOUR_MS
        if kind == "power":
            readings.append((time_ms, used))
        else:
            readings.append((after_ms, used if kind == "interval_energy" else register + used))
        register += used
    rows = released(schedule(sources[kind]), readings)
    first = {row["band"]: row for row in rows if row["t"] == rows[0]["t"]}
    start_ms = parse_time(str(rows[0]["t"]))
    end_ms = start_ms + int(str(rows[0]["for"])[2:-1]) * HOUR_MS
    expected = {"day": 0, "evening": 0, "night": 0} | ({UNKNOWN_BAND: 0} if kind == "register" else {})
    for time_ms in range(start_ms, end_ms, HOUR_MS):
        expected[band_of(time_ms)] += watts(time_ms)
    assert {band: row["value"] for band, row in first.items()} == expected
    assert {row["unit"] for row in rows} == {"Wh"}


def test_energy_of_an_outage_that_crosses_bands_is_unknown_and_none_is_lost() -> None:
    """What a register counted while it was silent is in no named band, unless all of that time is in one."""
    start_ms = parse_time("2026-11-30T23:00:00Z")  # midnight of December 1 in Amsterdam, a Tuesday

    def register_wh(time_ms: int) -> int:
        return (time_ms - start_ms) // (HOUR_MS // 100)

    silences = [(20 * HOUR_MS, 26 * HOUR_MS), (32 * HOUR_MS, 36 * HOUR_MS)]  # across bands, and within one
    times = [
        start_ms + after_ms
        for after_ms in range(-HOUR_MS, 32 * 24 * HOUR_MS, 10 * MINUTE_MS)
        if not any(from_ms < after_ms < to_ms for from_ms, to_ms in silences)
    ]
    source = "kind = 'register'\nunit = 'Wh'\nevery = '10s'\ndead_band = 0.01"
    rows = released(schedule(source), [(time_ms, 10**7 + register_wh(time_ms)) for time_ms in times])
    values = {str(row["band"]): int(str(row["value"])) for row in rows[:4]}
    assert values[UNKNOWN_BAND] == 600
    assert values["day"] == 100 * (16 * 22 - 3)  # 22 working days; from 20:00 to 23:00 is not known
    assert sum(values.values()) == 100 * 31 * 24


def test_a_day_charges_level_times_its_hours_over_hide() -> None:
    """A window is charged once, as if all its hours were one slot; half the level costs half."""
    for length, days in (("1d", 1), ("1w", 7), ("1mo", 31)):
        known = schedule(privacy="level = 0.5", length=length)
        terms = known.terms_at(known.first_start_ms(parse_time("2026-12-01T00:00:00Z") - HOUR_MS))
        hours = Fraction(terms.length_ms, HOUR_MS)
        assert hours == days * 24
        assert terms.epsilon_per_w == Fraction(1, 2) * hours / 1000
        assert terms.hides_wh == 1000
        assert (terms.n, terms.mechanism.n) == (2 if days == 1 else 3, 1)  # a Tuesday has no "evening"


def test_the_charge_of_a_profile_in_l1_is_that_of_all_its_bands() -> None:
    """Four bands of a mean day: four times the charge of one, for the same hidden energy."""
    text = "preset = 'typical-day'\nmetric = '{}'"
    window = "timezone = 'UTC'"
    one, both = (
        config.terms(config.parse(written(privacy=text.format(metric), window=window)).stream[0])
        for metric in ("linf", "l1")
    )
    assert both.epsilon_per_w == 4 * one.epsilon_per_w
    assert (one.hides_wh, one.mechanism.n, both.mechanism.n) == (both.hides_wh, 4, 1)
    assert both.sd < one.sd / 2


def test_the_descriptor_never_says_linf() -> None:
    """It states l1, that the energy is hidden in all, and the hours of each band."""
    known = schedule(REGISTER, privacy="")
    terms = known.terms_at(parse_time("2026-11-30T23:00:00Z"))
    facts = describe_terms(terms).facts
    assert (facts["metric"], facts["in_all"], facts["space"]) == ("l1", True, "bands")
    assert (facts["unit"], facts["epsilon_unit"], facts["epsilon"]) == ("kWh", "1/kWh", "1")
    assert facts["bands"] == {"night": "PT356H", "day": "PT352H", "evening": "PT36H", UNKNOWN_BAND: "PT0S"}


@given(moved=st.lists(st.integers(0, 10**6), min_size=1, max_size=30), seed=st.integers(0, 2**32))
def test_what_is_kept_and_what_leaves_add_up(moved: list[int], seed: int) -> None:
    """Whatever the use and the noise: the accumulators of all bands hold the noise and all energy."""
    known = schedule(REGISTER, privacy="")
    start_ms = parse_time("2026-11-30T23:00:00Z")
    terms, noise = known.terms_at(start_ms), Noise(SeededBits(seed))
    window = Window(start_ms, terms, terms.id, (), "m1")
    window.open_first_slot(noise, start_ms)
    before = sum(window.slots.values())
    step_ms = terms.length_ms // len(moved)
    for number, units in enumerate(moved):
        since_ms = start_ms + number * step_ms
        window.add_value(since_ms, since_ms + step_ms, RegisterUse(since_ms, step_ms, units))
    assert sum(window.slots.values()) == before + sum(moved)
    assert window.noise_bound is None
    assert len(window.stored_state().slots) == terms.n


@settings(max_examples=20)
@given(value=st.integers(1, 10**9))
def test_terms_of_bands_survive_the_store(value: int) -> None:
    """Metric and bands are stored with the terms."""
    known = schedule(REGISTER, privacy=f"level = {value}")
    terms = known.terms_at(parse_time("2026-11-30T23:00:00Z"))
    assert decode_terms(encode(terms)) == terms
    assert terms.metric is Metric.L1
    assert isinstance(terms.shape, Bands)


def test_one_noise_for_each_band() -> None:
    """Noise of the bands of a window is uncorrelated: |r| < 4 / sqrt(N), beyond which it is once in 15,000.

    One noise that is shared by the bands, or one noise bound, has a correlation of sizes of 1, or above 0.2.
    """
    known = schedule(REGISTER, privacy="", length="1d")
    start_ms, count = parse_time("2026-12-04T23:00:00Z"), 4000
    noise, rows = Noise(SeededBits(11)), []
    terms = known.terms_at(start_ms)
    assert terms.n == 3
    for _ in range(count):
        window = Window(start_ms, terms, terms.id, (), "m1")
        window.open_first_slot(noise, start_ms)
        rows.append([window.close_slot(index) for index in range(terms.n)])
    sizes = [[abs(row[index]) for row in rows] for index in range(terms.n)]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert abs(correlation([row[first] for row in rows], [row[second] for row in rows])) < 4 / count**0.5
        assert abs(correlation(sizes[first], sizes[second])) < 4 / count**0.5


def correlation(x: list[int], y: list[int]) -> float:
    """The correlation of two samples."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    products = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return float(products / (sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)) ** 0.5)


def test_a_window_is_charged_and_drawn_in_one_commit() -> None:
    """All bands have their noise when the window opens, in the commit that charges it."""
    known = schedule(REGISTER, privacy="")
    start_ms = parse_time("2026-11-30T23:00:00Z")
    spending = Spending()
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), spending, SeededBits(1), Counts())
    pipeline.feed([message(start_ms - HOUR_MS - BASE_MS, 1000)], BASE_MS, BASE_MS)
    effects = pipeline.feed([message(start_ms - BASE_MS, 1000)], BASE_MS, BASE_MS)
    [state] = effects.commit.states.values()
    assert state is not None
    [window] = state.windows
    assert (window.draws, len(window.slots), window.noise_bound) == (4, 4, None)
    [(charge, meters)] = effects.commit.charges.items()
    assert (charge.day_ms, charge.epsilon_per_w) == (day_ms(start_ms), Fraction(744, 1000))
    assert meters == {"m1": 1}
