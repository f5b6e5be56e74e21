"""simulators.homes.household: homes that differ and stay themselves, who are away now and then."""

import numpy as np
import pytest

from simulators.homes.household import JOURNEY_MAX_DAYS, Households
from simulators.homes.signature import DAY_S

HOMES = np.arange(2000)
MONDAY, SATURDAY = 0, 5


@pytest.fixture(scope="module")
def people() -> Households:
    """Two thousand homes."""
    return Households.of(1, HOMES)


def test_traits_are_a_homes_own(people: Households) -> None:
    """A home has the same traits alone, among others and in another order."""
    some = Households.of(1, HOMES[[1999, 7]])
    for name in ("standby_mw", "busy", "late_s", "commutes"):
        assert np.array_equal(getattr(some, name), getattr(people, name)[[1999, 7]])


def test_homes_differ(people: Households) -> None:
    """Traits are as stated: factors with mean 1, 45% commute; limits are 5 standard errors."""
    assert people.busy.mean() == pytest.approx(1, abs=5 * 0.45 / 2000**0.5)
    assert np.log(people.busy).std() == pytest.approx(0.45, rel=0.08)
    assert people.standby_mw.mean() == pytest.approx(112_000, rel=5 * 0.45 / 2000**0.5)
    assert people.commutes.mean() == pytest.approx(0.45, abs=5 * 0.011)
    assert abs(np.corrcoef(people.busy, people.standby_mw)[0, 1]) < 5 / 2000**0.5
    assert not np.array_equal(people.busy, Households.of(2, HOMES).busy)


def test_days_differ(people: Households) -> None:
    """How busy a day is has a mean of 1 around the home's own, and is new each day."""
    factors = np.array([people.activity(day) / people.busy for day in range(5)])
    assert factors.mean() == pytest.approx(1, abs=5 * 0.35 / 10_000**0.5)
    assert np.log(factors).std() == pytest.approx(0.35, rel=0.05)
    assert abs(np.corrcoef(factors[0], factors[1])[0, 1]) < 5 / 2000**0.5


def test_at_work(people: Households) -> None:
    """Commuters are out on weekdays from the morning to the afternoon, others are not; nobody at weekends."""
    absences, stay = people.absences(MONDAY), ~people.travels(MONDAY)
    working = stay & people.commutes
    assert (absences.begin_s[working] >= 7 * 3600).all()
    assert (absences.end_s[working] <= 19 * 3600).all()
    assert (absences.end_s - absences.begin_s)[working].min() >= 6 * 3600
    at_home = stay & ~people.commutes
    assert (absences.end_s[at_home] == absences.begin_s[at_home]).all()
    weekend = people.absences(SATURDAY)
    assert set(weekend.end_s[~people.travels(SATURDAY)]) == {0}


def test_on_a_journey(people: Households) -> None:
    """Who travels is away for the whole day, for 1 to 14 days in a row, on about 16 days of a year.

    A journey takes 1 + 14 u² days on average 5.2, six weeks of a hundred: 4.3% of all days.
    """
    away = np.array([people.travels(day) for day in range(364)])
    absences = people.absences(10)
    assert (absences.begin_s[away[10]] == 0).all()
    assert (absences.end_s[away[10]] == DAY_S).all()
    assert away.mean() == pytest.approx(0.043, rel=0.1)
    # Journeys of neighbouring weeks can touch: among 2,000 homes the longest absence is one or two of them.
    longest = max(_longest(row) for row in away.T)
    assert 10 <= longest <= 3 * JOURNEY_MAX_DAYS
    assert _longest(away[:, away.any(axis=0)][:, 0]) >= 1


def _longest(days: np.ndarray) -> int:
    """The longest run of days."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], days.astype(int), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def test_a_journey_starts_on_any_day(people: Households) -> None:
    """Weekdays are alike for journeys, and one from two weeks ago may still go on."""
    away = np.array([people.travels(day) for day in range(364)])
    begins = away[1:] & ~away[:-1]
    by_weekday = np.array([begins[day::7].sum() for day in range(7)])
    assert by_weekday.max() < 1.25 * by_weekday.min()


def test_cover(people: Households) -> None:
    """An absence covers its first second and not the one it ends in."""
    absences = people.absences(MONDAY)
    row = np.flatnonzero(absences.begin_s > 0)[:1]
    begin, end = absences.begin_s[row], absences.end_s[row]
    assert absences.cover(row, begin).all()
    assert absences.cover(row, end - 1).all()
    assert not absences.cover(row, begin - 1).any()
    assert not absences.cover(row, end).any()
