"""How long a slot of an energy waits for the reading that completes it, and what it loses if it does not."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.config.refuse.readings import LOST_MAX
from meteragent.decode.profiles import PROFILES
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind
from tests.support.configurations import energy, settled, written

REGISTER = "kind = 'register'\nunit = 'kWh'\n"
TIMED = f"{REGISTER}profile = 'json'\ntime = 't'\nevery = '10s'"


@pytest.mark.parametrize(
    ("source", "late_ms"),
    [
        (f"{REGISTER}every = '10s'", 20_000),
        (f"{REGISTER}every = '5min'", 330_000),
        (f"{REGISTER}every = '0s'", 10_000),
        (REGISTER, 0),
        (energy("Wh"), 990_000),
        (f"{energy('Wh')}\nevery = '1h'", 66 * MINUTE_MS),
        (f"{REGISTER}profile = 'amsreader'\nmeter = 'home'\ntopic = 'ams'", 66 * MINUTE_MS),
        (f"{REGISTER}profile = 'amsreader'\nmeter = 'home'\ntopic = 'ams'\nevery = '10s'", 20_000),
        (f"{REGISTER}profile = 'dsmr-p1'\nmeter = 'home'\ntopic = 'p1'", 20_000),
        ("kind = 'power'\nevery = '10s'", 0),
        ("profile = 'amsreader'\nmeter = 'home'\ntopic = 'ams'", 0),
    ],
)
def test_a_slot_waits_a_period_and_a_tenth(source: str, late_ms: int) -> None:
    """The period is stated, or the profile's; the tenth is at least 10 s. What is stated counts."""
    assert settled(source=source).lateness_ms == late_ms
    assert settled(source=source, window="lateness = '7s'").lateness_ms == 7_000


def test_by_the_event_clock_the_reading_after_a_slot_ends_it() -> None:
    """There nothing is lost; if the period is stated, a wrong reading at a slot's end is known in time."""
    text = written(source=TIMED.replace("every = '10s'", ""), window="clock = 'event'\nlateness = '0s'")
    settings = config.parse(text)
    assert config.largest_loss(settings.stream[0])[0] == 0
    assert [error.key for _, error in config.reading_refusals(settings)] == []
    assert settled(source=TIMED, window="clock = 'event'").lateness_ms == 10_000


@pytest.mark.parametrize("name", PROFILES)
def test_the_default_of_no_profile_loses_energy(name: str) -> None:
    """Each energy of each profile is waited for, as long as its own period."""
    profile = PROFILES[name]
    keys = f"unit = 'kWh'\nprofile = '{name}'\nmeter = 'm'\ntopic = 'x'\n"
    keys += "id = '1'\nscale = 0.01\n" if profile.needs_id else ""
    for kind in (Kind.REGISTER, Kind.INTERVAL_ENERGY):
        quantity = profile.find_quantity(kind, None)
        if quantity is not None:
            interval = "" if kind is Kind.REGISTER or quantity.interval_ms else "interval = '15min'\n"
            stream = _parsed(f"kind = '{kind}'\n{keys}{interval}").stream[0]
            assert config.largest_loss(stream)[0] == 0
            assert config.terms(stream).lateness_ms >= profile.usual_period_ms(quantity) + 10_000


def _parsed(source: str, window: str = "") -> config.Config:
    return config.parse(written(source=source, window=window))


@given(st.integers(1, 7200), st.integers(0, 7200))
def test_what_is_lost_is_what_comes_too_late(every_s: int, late_s: int) -> None:
    """Of a half hour, the time by which the period is longer than the lateness, at the limit of the range."""
    source = f"{REGISTER}every = '{every_s}s'\ndead_band = 0.001"
    settings = _parsed(source, f"lateness = '{late_s}s'")
    lost_ms = min(max(every_s - late_s, 0) * 1000, 30 * MINUTE_MS)
    share, lost_wh = config.largest_loss(settings.stream[0])
    assert share == Fraction(lost_ms, 30 * MINUTE_MS)
    assert lost_wh == 20_000 * Fraction(lost_ms, HOUR_MS)
    refused = [error.key for _, error in config.reading_refusals(settings)]
    assert ("window.lateness" in refused) is (share > LOST_MAX)
