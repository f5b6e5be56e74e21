"""Readings that keep leaving gaps are a problem, because time without a reading counts as `window.gap`."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from meteragent.core.arrivals import BAD_PART, Limits
from meteragent.core.pipeline import Pipeline
from meteragent.domain.problem import Problem
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO, MINUTE_MS, Kind
from tests.core.test_pipeline import core
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, message

HALF_HOUR_MS = HOUR_MS // 2
HOLD_MS = 15 * MINUTE_MS
POWER = terms_with(
    TERMS, length_ms=HALF_HOUR_MS, step_ms=HALF_HOUR_MS, hold_ms=HOLD_MS, every_ms=None, high_u=10**4 * MICRO
)
LIMITS = Limits(first_ms=MINUTE_MS, meter_ms=HOUR_MS, phase_ms=MINUTE_MS)
REPLAY = Limits(None, None, None)


class Hours:
    """A core whose clock goes on by the minute, and the problems that it has in each minute."""

    def __init__(self, terms: Terms = POWER) -> None:
        self.core: Pipeline = core(terms)
        self.minute = 0
        self.core.arrivals.advance_clock(BASE_MS, is_connected=True)

    def go(self, minutes: int, *heard: int, meter: str = "m1") -> "Hours":
        """Let minutes pass; a meter is heard at these minutes, counted from now."""
        for minute in range(minutes):
            now_ms = BASE_MS + self.minute * MINUTE_MS
            sent = [message(self.minute * MINUTE_MS, 500, meter=meter)] if minute in heard else []
            self.core.feed(sent, now_ms, now_ms)
            self.minute += 1
            self.core.arrivals.advance_clock(now_ms + MINUTE_MS, is_connected=True)
        return self

    @property
    def problems(self) -> list[Problem]:
        """What is wrong now."""
        return list(self.core.arrivals.problems(LIMITS))

    @property
    def codes(self) -> list[str]:
        """The codes of what is wrong."""
        return [found.code for found in self.problems]


def each(period: int, hours: int) -> Iterable[int]:
    """The minutes of a meter that sends regularly."""
    return range(0, 60 * hours, period)


@pytest.mark.parametrize("period", [17, 20, 30, 45])
def test_a_meter_that_sends_more_seldom_than_a_reading_stands_is_told(period: int) -> None:
    """When the fourth slot closes or the third gap begins, and for as long as it goes on."""
    hours = Hours().go(30 + 3 * period + 30, *range(0, 10**4, period))
    [found] = hours.problems
    assert found.code == "reading_gaps"
    assert found.fields == {"meters": 1, "of": 1, "apart_ms": period * MINUTE_MS}
    assert "window.gap" in found.cause
    assert "source.hold" in found.cure
    for _ in range(20):
        assert hours.go(period, -hours.minute % period).codes == ["reading_gaps"]


@pytest.mark.parametrize("period", [1, 5, 10, 15])
def test_a_meter_that_sends_often_enough_is_not(period: int) -> None:
    """A reading stands until the next one."""
    assert Hours().go(24 * 60, *each(period, 24)).codes == []


def test_a_message_that_is_a_little_late_is_no_gap() -> None:
    """Messages each `hold`, some a few seconds late, lose less than a twentieth of the time."""
    terms = terms_with(POWER, hold_ms=HOLD_MS - 30_000)
    assert Hours(terms).go(24 * 60, *each(15, 24)).codes == []


@pytest.mark.parametrize("silent", [20, 55])
def test_an_outage_is_no_such_problem(silent: int) -> None:
    """One gap, however long, and a few that are hours apart, are none; a silence has a problem of its own."""
    hours = Hours()
    for _ in range(5):
        hours.go(90 + silent, *range(90))
        assert hours.codes == []
    assert hours.go(90).codes == ["no_readings"]
    assert hours.go(10, 0).codes == []


def test_a_meter_that_reports_on_change_may_leave_gaps() -> None:
    """It is silent while nothing changes."""
    assert Hours(terms_with(POWER, every_ms=0)).go(24 * 60, *each(30, 24)).codes == []


def test_bursts_with_gaps_between_them_are_told() -> None:
    """A meter may send each minute and yet be silent for half of the time."""
    heard = [minute for minute in range(6 * 60) if minute % 30 < 3]
    assert Hours().go(6 * 60, *heard).codes == ["reading_gaps"]


def test_it_ends_after_its_cause() -> None:
    """A meter that sends often enough again has no problem after four of its former periods."""
    hours = Hours().go(5 * 60, *each(30, 5))
    assert hours.codes == ["reading_gaps"]
    assert hours.go(30 * BAD_PART + 30, *range(300)).codes == []


def test_a_good_meter_hides_no_bad_one() -> None:
    """The problem says how many of the meters have it."""
    hours = Hours()
    for _ in range(12):
        hours.go(1, 0, meter="good").go(14, 0, meter="bad").go(1, 0, meter="good").go(14)
    assert [(found.code, found.fields["meters"], found.fields["of"]) for found in hours.problems] == [
        ("reading_gaps", 1, 2)
    ]


def test_intervals_that_leave_gaps_are_told() -> None:
    """Energies of a quarter of an hour, each half hour, are half of the energy."""
    terms = terms_with(POWER, kind=Kind.INTERVAL_ENERGY, unit="Wh", interval_ms=HOLD_MS, hold_ms=0)
    terms = replace(terms, lateness_ms=HALF_HOUR_MS)
    assert Hours(terms).go(5 * 60, *each(30, 5)).codes == ["reading_gaps"]
    assert Hours(terms).go(5 * 60, *each(15, 5)).codes == []


@pytest.mark.parametrize(("missing", "codes"), [(1, []), (4, ["reading_gaps"]), (24, ["reading_gaps"])])
def test_a_silence_of_a_replay_is_told_by_its_end(missing: int, codes: list[str]) -> None:
    """By the event clock, a silence lasts no time; the readings after it say how long it was."""
    pipeline = core(replace(POWER, clock=Clock.EVENT))
    minutes = [minute for minute in range(3 * 24 * 60) if not 600 <= minute < 570 + 60 * missing]
    for minute in minutes[::10]:
        pipeline.feed([message(minute * MINUTE_MS, 500, received_ms=9 * DAY_MS)], BASE_MS + 9 * DAY_MS, 0)
    assert [found.code for found in pipeline.arrivals.problems(REPLAY)] == codes
