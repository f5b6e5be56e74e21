"""Totals of groups, as they are received."""

import json

import pytest

from meteragent.consume import crowd_totals
from meteragent.crowd.total import TotalFormat
from meteragent.domain.errors import RecordError
from meteragent.wire.descriptor import facts_id
from tests.support.crowd import SLOT_S, make_group

FORMAT = TotalFormat(make_group())
DESCRIPTOR = FORMAT.encode_descriptor()
RECORD = FORMAT.encode_record(SLOT_S, 60_600, 100)
NO_NOISE = {"epsilon": "10000", "level": "1100000"}
"""Terms of a loss that no group may have."""


def test_a_total_is_an_energy_and_a_mean() -> None:
    """100 gateways of 303 Wh in half an hour have a mean of 606 W, with an error of 4.4 W."""
    later = FORMAT.encode_record(SLOT_S + 1800, 100, 10)
    first, second = crowd_totals([later, RECORD, DESCRIPTOR, RECORD])["elm-street"]
    assert (first.time_ms, first.homes, float(first.value_wh)) == (SLOT_S * 1000, 100, 30_300)
    assert first.energy().value == 30_300
    mean = first.mean()
    assert (mean.value, mean.unit) == (606, "W")
    assert mean.sd == pytest.approx(4.4, abs=0.01)
    assert mean.high - mean.value == pytest.approx(json.loads(RECORD)["ci95"] / 50, rel=1e-3)
    assert second.homes == 10


@pytest.mark.parametrize(
    "change",
    [
        {"group": "oak-street"},
        {"for": "PT15M"},
        {"t": "2026-11-18T11:00:01Z"},
        {"homes": 0},
        {"homes": 1.5},
        {"homes": 10**400},
        {"value": 0.25},
        {"value": 10**400},
        {"unit": "kWh"},
        {"sd": 100},
        {"sd": 10**400},
        {"d": "00000000"},
        {"v": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_contradicts_its_descriptor_is_refused(change: dict[str, object]) -> None:
    """No total is computed of a record whose meaning is in doubt."""
    with pytest.raises(RecordError):
        crowd_totals([DESCRIPTOR, json.dumps(json.loads(RECORD) | change)])


@pytest.mark.parametrize("name", ["level", "hides_wh", "quantum", "draws", "mechanism", "if_both_collude"])
def test_a_changed_descriptor_is_refused(name: str) -> None:
    """The id is that of the facts."""
    facts = json.loads(DESCRIPTOR)
    with pytest.raises(RecordError):
        crowd_totals([json.dumps(facts | {name: "2"})])


@pytest.mark.parametrize("change", [{"draws": 1}, {"epsilon": "1/2"}, {"quantum": "0"}, {"n": 2}, NO_NOISE])
def test_a_descriptor_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    """A right id does not help inconsistent facts."""
    facts = {name: value for name, value in json.loads(DESCRIPTOR).items() if name != "id"} | change
    with pytest.raises(RecordError):
        crowd_totals([json.dumps({"id": facts_id(facts), **facts})])


def test_totals_of_groups_with_the_same_name_are_in_time_order() -> None:
    """Names of groups may repeat; their ids do not."""
    other = TotalFormat(make_group(level='"1/2"'))
    formats = [FORMAT, other, FORMAT, other]
    records = [form.encode_record(SLOT_S + 1800 * index, 100, 10) for index, form in enumerate(formats)]
    totals = crowd_totals([*records, DESCRIPTOR, other.encode_descriptor()])["elm-street"]
    assert [total.time_ms for total in totals] == [(SLOT_S + 1800 * index) * 1000 for index in range(4)]


def test_two_totals_of_one_slot_are_refused() -> None:
    """A group has one total for each slot, ever."""
    with pytest.raises(RecordError, match="another total"):
        crowd_totals([DESCRIPTOR, RECORD, FORMAT.encode_record(SLOT_S, 60_601, 100)])
