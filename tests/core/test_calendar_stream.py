"""Streams on the local calendar: months, days of 23 and 25 hours, mean days, and changes of zone."""

import functools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import BandRule, Calendar, parse_time
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy import SeededBits
from meteragent.wire.descriptor import describe_terms
from tests.support.configurations import written
from tests.support.terms import terms_with
from tests.support.world import BASE_MS, MemoryDisk, World, message, stream

ZONES = ("Europe/Amsterdam", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "UTC")
QUIET = "level = 1000000000"
"""Noise that is zero but for a chance below e^-1000."""


FAR_MS = 10**13


@functools.cache
def schedule(privacy: str, window: str = "", zone: str = "Europe/Amsterdam") -> Schedule:
    """The schedule of a configuration on a calendar, by the event clock, with readings that stand long."""
    clock = f"timezone = '{zone}'\nclock = 'event'\nahead = '9999d'\n{window}"
    text = written(privacy=privacy, window=clock, source="hold = '400d'")
    return config.schedule(config.parse(text).stream[0])


def released(known: Schedule, start: str, days: int, watts: int = 100) -> list[dict[str, object]]:
    """The records of a meter that says the same every hour from a time on."""
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    from_ms = parse_time(start) - BASE_MS
    rows = []
    for hour in range(days * 24):
        effects = pipeline.feed([message(from_ms + hour * HOUR_MS, watts)], BASE_MS, BASE_MS)
        rows += [json.loads(row.payload) for row in effects.commit.outgoing if not row.retain]
    return rows


def test_days_of_23_and_25_hours_are_one_window_each() -> None:
    """Each local day is released once, with its length; the mean of a flat load is that load."""
    rows = released(schedule(f"preset = 'day'\n{QUIET}"), "2026-03-26T12:00:00Z", 5)
    assert [(row["t"], row["for"]) for row in rows] == [
        ("2026-03-26T23:00:00Z", "PT24H"),
        ("2026-03-27T23:00:00Z", "PT24H"),
        ("2026-03-28T23:00:00Z", "PT23H"),
        ("2026-03-29T22:00:00Z", "PT24H"),
    ]
    assert {row["value"] for row in rows} == {100}
    (autumn, *_) = released(schedule(f"preset = 'day'\n{QUIET}"), "2026-10-24T12:00:00Z", 3)
    assert (autumn["t"], autumn["for"]) == ("2026-10-24T22:00:00Z", "PT25H")


def test_months_are_as_long_as_they_are() -> None:
    """A leap year's months leave as twelve numbers that tile the year."""
    rows = released(schedule(f"preset = 'bill'\n{QUIET}"), "2027-12-15T00:00:00Z", 400)
    hours = [int(str(row["for"])[2:-1]) for row in rows[:12]]
    assert hours == [744, 696, 743, 720, 744, 720, 744, 744, 720, 745, 720, 744]
    assert rows[0]["t"] == "2027-12-31T23:00:00Z"
    assert {row["value"] for row in rows} == {100}


def test_a_typical_day_has_one_number_a_band() -> None:
    """A month's mean day leaves as one record a band, each the band's mean power."""
    known = schedule(f"preset = 'typical-day'\n{QUIET}", "bands = ['00-07', '07-17', '17-21', '21-24']")
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    rows, noon = [], datetime(2026, 2, 28, 12, tzinfo=UTC)
    for hour in range(33 * 24):
        at = noon + timedelta(hours=hour)
        watts = 500 if 17 <= at.astimezone(ZoneInfo("Europe/Amsterdam")).hour < 21 else 80
        sent = message(parse_time(at.isoformat()) - BASE_MS, watts)
        rows += [row for row in pipeline.feed([sent], BASE_MS, BASE_MS).commit.outgoing if not row.retain]
    found = [json.loads(row.payload) for row in rows]
    assert {(row["t"], row["for"]) for row in found} == {("2026-02-28T23:00:00Z", "PT743H")}
    values = {row["band"]: row["value"] for row in found}
    assert values == {"00:00/07:00": 80, "07:00/17:00": 80, "17:00/21:00": 500, "21:00/24:00": 80}
    assert len(found) == 4


@pytest.mark.parametrize("preset", ["day", "bill", "typical-day"])
def test_every_window_hides_what_the_preset_says(preset: str) -> None:
    """Whatever a window's length: at least the energy is hidden, by less than a quantum more."""
    wh = {"day": 300, "bill": 6000, "typical-day": 1500}[preset]
    text = written(privacy=f"preset = '{preset}'", window="timezone = 'Europe/Amsterdam'")
    (known,) = config.parse(text).stream
    shapes = config.distinct_terms(known)
    lengths = {"day": {23, 24, 25}}.get(preset, {672, 696, 720, 743, 744, 745})
    assert {terms.length_ms // HOUR_MS for terms in shapes} == lengths
    for terms in shapes:
        assert wh <= terms.hides_wh < wh + terms.quantum * terms.step_ms / HOUR_MS
        assert terms.epsilon == 1 / terms.radius
        facts = describe_terms(terms).facts
        assert Fraction(facts["hides_wh"]) == terms.hides_wh
        assert facts["timezone"] == "Europe/Amsterdam"
        assert facts["preset"] == preset


def test_a_budget_of_one_level_a_month_is_enough_for_every_month() -> None:
    """Months differ in epsilon; a budget of level 1 for each passes none of them."""
    budget = "budget = { level = 2, per = '31d' }"
    text = written(privacy=f"preset = 'bill'\n{budget}", window="timezone = 'Europe/Amsterdam'")
    (known,) = config.parse(text).stream
    limit = config.budget(known)
    assert limit is not None
    assert all(2 * terms.epsilon_per_w <= limit for terms in config.distinct_terms(known))


def restarts(choices: list[tuple[int, int]]) -> Iterator[tuple[Schedule, int]]:
    """Configurations to restart with, and how many hours until then."""
    privacies = ("preset = 'day'", "preset = 'bill'", "preset = 'typical-day'", "preset = 'appliance'")
    for which, hours in choices:
        zone = ZONES[which % len(ZONES)]
        privacy = privacies[which // len(ZONES) % len(privacies)]
        if privacy.endswith("'appliance'"):
            text = written(privacy=privacy, window="clock = 'event'\nahead = '9999d'", source="hold = '400d'")
            yield config.schedule(config.parse(text).stream[0]), hours
        else:
            yield schedule(privacy, zone=zone), hours


@pytest.mark.slow("plays years of windows")
@settings(max_examples=20)
@given(
    choices=st.lists(st.tuples(st.integers(0, 23), st.integers(1, 900)), min_size=2, max_size=6),
    start_ms=st.integers(parse_time("2026-01-01T00:00:00Z"), parse_time("2028-12-31T00:00:00Z")),
)
def test_a_change_of_zone_or_rules_opens_nothing_twice(choices: list[tuple[int, int]], start_ms: int) -> None:
    """Restarts with other zones, units and shapes, at any moment: no time is ever in two draws (law 1)."""
    world: World | None = None
    at_ms = start_ms
    for known, hours in restarts(choices):
        changed = stream(known, ahead_ms=FAR_MS)
        if world is None:
            world = World(changed, has_model=False)
        else:
            world.crash(changed)
        for _ in range(8):
            world.send("m1", at_ms, 100)
            world.feed()
            at_ms += hours * HOUR_MS // 8 + 1
    assert world is not None
    assert not world.counts["refused_ahead"]


class Rules:
    """A grid whose zone's rules change under it while windows are open."""

    def __init__(self, shift_ms: int) -> None:
        self.shift_ms = shift_ms

    def first_start_ms(self, time_ms: int) -> int:
        """Days that start at another hour."""
        return time_ms + (self.shift_ms - time_ms) % DAY_MS

    def start_ms(self, time_ms: int) -> int:
        """The day that a time lies in."""
        return self.first_start_ms(time_ms + 1) - DAY_MS

    def end_ms(self, start_ms: int) -> int:
        """The next day's start."""
        return self.first_start_ms(start_ms + 1)


@given(shifts=st.lists(st.integers(-14, 14), min_size=2, max_size=5))
def test_new_time_zone_data_never_lowers_a_mark(shifts: list[int]) -> None:
    """Days that begin at other hours after each restart: what was opened is closed, nothing overlaps."""
    usual = schedule("preset = 'day'").usual
    disk, world = MemoryDisk(), None
    for turn, shift in enumerate(shifts):
        known = stream(
            Schedule(usual, Rules(shift * HOUR_MS), make_terms=lambda ms, _: _day(usual, ms)), ahead_ms=FAR_MS
        )
        if world is None:
            world = World(known, disk=disk, has_model=False)
        else:
            world.crash(known)
        for hour in range(0, 60, 7):
            world.send("m1", BASE_MS + turn * 60 * HOUR_MS + hour * HOUR_MS, 100)
            world.feed()
    assert world is not None
    assert world.witness.records


def _day(usual: Terms, length_ms: int) -> Terms:
    return terms_with(usual, length_ms=length_ms, step_ms=length_ms, clock=Clock.EVENT)


def test_meters_that_open_the_same_month_share_its_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the hours of a month lie is computed once, however many meters begin it at the same moment."""
    known = schedule(f"preset = 'typical-day'\n{QUIET}", zone="Australia/Lord_Howe")
    located: list[str] = []
    compute = Calendar.stretches

    def counted(calendar: Calendar, start_ms: int, rule: BandRule) -> tuple[tuple[int, int], ...]:
        located.append(rule.name)
        return compute(calendar, start_ms, rule)

    monkeypatch.setattr(Calendar, "stretches", counted)
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    from_ms = parse_time("2024-03-31T00:00:00Z") - BASE_MS
    for meter in range(10):
        at_ms = [from_ms, from_ms + 2 * DAY_MS]
        pipeline.feed([message(ms, 100, meter=f"m{meter}") for ms in at_ms], BASE_MS, BASE_MS)
    assert located == ["00:00/06:00", "06:00/12:00", "12:00/18:00", "18:00/24:00"]
