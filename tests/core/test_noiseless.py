"""What was used in each slot, as the page and `tap` get it (meteragent.core.noiseless)."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.factory import make_timeline
from meteragent.core.noiseless import SlotMean, SlotMeans
from meteragent.core.pending import Pending
from meteragent.core.timeline import Timeline, extend_standing
from meteragent.core.window import Value, Window
from meteragent.domain.units import HOUR_MS, MICRO, MINUTE_MS
from tests.support.configurations import written

START_MS = 1_795_200_000_000 // HOUR_MS * HOUR_MS
STEP_MS = 30 * MINUTE_MS
POWER = "hold = '10min'"
REGISTER = "kind = 'register'\nunit = 'kWh'\nmodulus = 100\nevery = '10min'"
INTERVALS = "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '15min'"


def stream(source: str = POWER, **sections: str) -> config.Stream:
    """A stream of half hours."""
    return config.parse(written(source=source, **sections)).stream[0]


def watched(known: config.Stream, *looked_at: SlotMeans) -> Timeline:
    """A meter's timeline without a window, whose spans are shown."""
    terms = config.terms(known)
    timeline = make_timeline(terms, START_MS)

    def observe(start_ms: int, end_ms: int, value: Value) -> None:
        for means in looked_at:
            means.add_stretch(start_ms, end_ms, value)

    timeline.observe = observe
    return timeline


def read(timeline: Timeline, *readings: tuple[float, float]) -> None:
    """Take in readings as (minutes after the start, value), and cover what they close."""
    for minutes, value in readings:
        time_ms = START_MS + round(minutes * MINUTE_MS)
        timeline.accept_reading(Pending(time_ms, round(value * MICRO), None))
        timeline.integrate_to_watermark(time_ms)


def complete(means: SlotMeans) -> list[float]:
    """Return the means of slots that were seen from start to end."""
    return [mean.power for mean in means.take_means() if mean.part == 1]


def test_a_power_stands_for_its_hold_and_is_clamped() -> None:
    """100 W for 10 min, 10 min of gap, and 50 kW, which count as 20 kW, for 10 min."""
    means = SlotMeans(config.schedule(stream()))
    read(watched(stream(), means), (0, 100), (20, 50_000), (30, 0), (31, 0))
    assert complete(means) == [pytest.approx((100 * 10 + 20_000 * 10) / 30)]


def test_a_register_that_rolls_over_goes_on() -> None:
    """From 99.9 to 0.4 kWh, of 100, is half a kilowatt-hour: 1 kW over half an hour."""
    known = stream(REGISTER, window="lateness = '0s'")
    means = SlotMeans(config.schedule(known))
    read(watched(known, means), (0, 99.9), (30, 0.4), (31, 0.4))
    assert complete(means) == [pytest.approx(1)]


def test_intervals_that_overlap_count_once() -> None:
    """Of an interval that begins before the last one ended, only the rest counts."""
    known = stream(INTERVALS, window="lateness = '0s'")
    means = SlotMeans(config.schedule(known))
    read(watched(known, means), (15, 100), (25, 60), (30, 60), (45, 0))
    used_wh = 100 + 60 * 10 / 15 + 60 * 5 / 15
    assert complete(means) == [pytest.approx(used_wh * 2)]


def test_a_slot_that_began_before_is_partial() -> None:
    """Its mean is that of what was seen, and `part` says how much that is; so is that of an open slot."""
    known = stream()
    means, timeline = SlotMeans(config.schedule(known)), watched(known)
    read(timeline, (0, 100), (10, 100))
    timeline.observe = means.add_stretch
    read(timeline, (20, 700), (30, 400), (33, 0))
    first, second = means.take_means()
    assert first == SlotMean(START_MS, START_MS + STEP_MS, "", first.power, 2 / 3)
    assert first.power == pytest.approx(400)
    assert (second.from_ms, second.power, second.part) == (START_MS + STEP_MS, 400, 0.1)


def test_a_peak_is_the_largest_of_the_parts_that_were_seen_whole() -> None:
    """A quarter of an hour of which the beginning was not seen does not count, nor does the open one."""
    known = stream(privacy="space = 'peak'\nradius = 100", window="length = '1d'\ntimezone = 'UTC'")
    means = SlotMeans(config.schedule(known))
    spans = ((7, 15, 9000), (15, 20, 100), (20, 30, 400), (30, 37, 7000))
    for start_min, end_min, value in spans:
        assert not means.take_means() or start_min == 30
        means.add_stretch(START_MS + start_min * MINUTE_MS, START_MS + end_min * MINUTE_MS, value * MICRO)
    [day] = means.take_means()
    assert day.power == pytest.approx((100 * 5 + 400 * 10) / 15)
    assert day.part == pytest.approx(22 / 1440)


def test_time_that_the_core_gives_up_is_not_seen() -> None:
    """If there is time between two stretches, the slot is partial."""
    means = SlotMeans(config.schedule(stream()))
    means.add_stretch(START_MS, START_MS + 5 * MINUTE_MS, 100 * MICRO)
    means.add_stretch(START_MS + 10 * MINUTE_MS, START_MS + STEP_MS, 200 * MICRO)
    [slot] = means.take_means()
    assert (slot.power, slot.part) == (200, 2 / 3)


def test_bands_of_a_month_have_a_mean_each() -> None:
    """Under a preset of another grid the same time counts: here the evening of a typical day."""
    other = stream(privacy="preset = 'typical-day'", window="timezone = 'UTC'")
    means = SlotMeans(config.schedule(other))
    read(watched(stream(), means), (0, 250), (9, 250), (18, 0))
    [band] = means.take_means()
    assert (band.power, 0 < band.part < 0.01) == (250, True)
    assert band.from_ms <= START_MS < band.to_ms


@given(
    st.lists(st.tuples(st.integers(1, 900), st.integers(-50, 30_000)), min_size=1, max_size=30),
    st.sampled_from([POWER, INTERVALS]),
)
def test_means_are_what_the_core_adds(steps: Sequence[tuple[int, int]], source: str) -> None:
    """A slot's mean is its accumulator without noise and dither, on both ways that a reading takes."""
    known = stream(source)
    terms, means = config.terms(known), SlotMeans(config.schedule(known))
    timeline = watched(known, means)
    time_ms, sums = START_MS, dict[int, int]()
    for after_s, watts in steps:
        time_ms += after_s * 1000
        while not timeline.windows or timeline.windows[-1].end_ms <= time_ms:
            start_ms = timeline.windows[-1].end_ms if timeline.windows else START_MS
            window = Window(start_ms, terms, terms.id, (), "", noise_bound=0)
            window.open_slot(0, start_ms, 0)
            timeline.windows.append(window)
        reading = Pending(time_ms, watts * MICRO, None)
        if extend_standing(timeline, reading, time_ms) is None:
            timeline.accept_reading(reading)
            timeline.integrate_to_watermark(time_ms)
        while timeline.windows and timeline.windows[0].end_ms <= timeline.integrated_until_ms:
            closed = timeline.windows.pop(0)
            sums[closed.start_ms] = closed.slots[0]
    unit_ms = STEP_MS if source is POWER else terms.readings.interval_ms * STEP_MS // HOUR_MS
    assert {mean.from_ms: mean.power for mean in means.take_means() if mean.part == 1} == {
        start_ms: pytest.approx(float(Fraction(total, unit_ms * MICRO))) for start_ms, total in sums.items()
    }
