"""The import of energies into Home Assistant's statistics: ids, hours and sums.

`make homeassistant` runs the script against a real Home Assistant.
"""

import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.homeassistant.energy_statistics import Row, hourly, rows, statistic_id
from meteragent.consume import Descriptor, Record, Series
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS
from tests.support.messages import ENERGY, NOON_MS, described, recorded
from tests.support.stores import TERMS
from tests.support.terms import terms_with

VALID = re.compile(r"^(?!.+__)(?!_)[\da-z_]+(?<!_):(?!_)[\da-z_]+(?<!_)$", re.ASCII)
"""What Home Assistant accepts as a statistic's id (integration recorder, file statistics, November 2026)."""
NAMES = st.text(min_size=1, max_size=40)
VALUES = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60)


def series(values: list[int], terms: Terms = TERMS, first: int = 0) -> Series:
    """The records of consecutive slots, as an agent sends them."""
    descriptor = Descriptor.parse(described(terms))
    records = [
        Record.parse(payload)
        for at, z in enumerate(values)
        for payload in recorded(terms, [z], first=first + at)
    ]
    return Series.of(records, {descriptor.id: descriptor})


@given(NAMES, NAMES)
def test_home_assistant_accepts_every_id(stream: str, meter: str) -> None:
    """Whatever a stream and a meter are called."""
    assert VALID.fullmatch(statistic_id(stream, meter))


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_two_meters_have_two_ids(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Also names that differ only in characters that an id cannot have."""
    assert (statistic_id(*one) == statistic_id(*other)) == (one == other)


def test_plain_names_are_the_id() -> None:
    """Other names end in a digest, so that `a_b` and `a.b` differ."""
    assert statistic_id("main", "home") == "meteragent:main_home"
    assert statistic_id("main", "a.b") != statistic_id("main", "a_b")


@given(VALUES, st.integers(0, 5))
def test_hours_have_the_energy_of_their_slots(values: list[int], first: int) -> None:
    """Each hour that is over has the energy of its half hours, in mWh."""
    energies = hourly(series(values, first=first))
    expected: dict[int, Fraction] = {}
    for at, watts in enumerate(values, first):
        hour_ms = NOON_MS + at // 2 * HOUR_MS
        expected[hour_ms] = expected.get(hour_ms, Fraction(0)) + Fraction(watts) * 500
    end_ms = NOON_MS + (first + len(values)) * HOUR_MS // 2
    assert energies == {hour_ms: round(e) for hour_ms, e in expected.items() if hour_ms + HOUR_MS <= end_ms}


def test_a_slot_longer_than_an_hour_counts_evenly() -> None:
    """A mean power is the same in each hour; so is an energy's part."""
    power = terms_with(TERMS, length_ms=4 * HOUR_MS, step_ms=4 * HOUR_MS)
    assert hourly(series([900], power)) == {NOON_MS + at * HOUR_MS: 900_000 for at in range(4)}
    energy = terms_with(ENERGY, length_ms=4 * HOUR_MS, step_ms=4 * HOUR_MS)
    assert hourly(series([1000], energy)) == {NOON_MS + at * HOUR_MS: 250_000 for at in range(4)}


def test_a_slot_across_hours_counts_in_proportion() -> None:
    """Three slots of 80 minutes fill four hours; the last one lasts until the end of the fourth."""
    terms = terms_with(TERMS, length_ms=4_800_000, step_ms=4_800_000)
    start_ms = NOON_MS - NOON_MS % 4_800_000
    energies = hourly(series([60, 120, 180], terms))
    assert start_ms == NOON_MS
    assert energies == {
        NOON_MS + at * HOUR_MS: kwh for at, kwh in enumerate([60_000, 100_000, 140_000, 180_000])
    }


@given(VALUES, st.data())
def test_sums_continue_when_the_store_has_forgotten_records(values: list[int], data: st.DataObject) -> None:
    """The rows of the last records follow the row before them, as if all had been imported at once."""
    complete = rows(series(values), None)
    hours = data.draw(st.integers(0, (len(values) - 1) // 2))
    continued = rows(series(values[2 * hours :], first=2 * hours), complete[hours - 1] if hours else None)
    assert complete[:hours] + continued == complete


def test_a_part_of_the_first_hour_is_imported_once() -> None:
    """An agent that starts at half past has a first hour with one slot, which later imports leave alone."""
    first, *later = rows(series([100, 200, 300, 400, 500], first=1), None)
    assert first == Row(NOON_MS, 50_000, 50_000)
    assert [row.sum_mwh for row in later] == [300_000, 750_000]
    assert rows(series([100, 200, 300, 400, 500], first=1), first) == later


def test_rows_are_in_kwh() -> None:
    """As Home Assistant's energy dashboard expects them."""
    document = Row(NOON_MS, 1_500_000, 2_500_001).document()
    assert document == {"start": "2026-11-20T12:00:00Z", "state": 1.5, "sum": 2.500001}


def test_what_is_no_energy_of_its_time_is_refused() -> None:
    """The bands of a mean day describe no single day."""
    one = series([100])
    bands = replace(one, records=tuple(replace(record, band="00:00/06:00") for record in one.records))
    with pytest.raises(ValueError, match="mean day"):
        hourly(bands)
