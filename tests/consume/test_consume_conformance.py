"""The conformance file: `meteragent.consume` reads each case as it states, or refuses it by its rule."""

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from meteragent.consume import Series, collect
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import iso_time
from meteragent.wire import contract
from tests.commands import contracts
from tests.support.generated import assert_renewed

FILE = json.loads((contracts.FOLDER / "conformance.json").read_text())
CASES: list[dict[str, Any]] = FILE["cases"]
ACCEPTED = [case for case in CASES if "accepted" in case]
REFUSED = [case for case in CASES if "refused" in case]
REASONS = {
    "json": "not a JSON object",
    "version": "'v' (is not 1|is missing)",
    "field": "is missing or not|cannot be read|is not a whole number|is out of its bounds|more than",
    "id": "'id' does not match its facts",
    "unknown": "cannot be read|unknown to this version",
    "terms": "contradicts other fields|do not make a mechanism",
    "descriptor": "whose descriptor is not among",
    "slot": "whose unit or duration",
    "band": "whose (band|unit or duration)",
    "draws": "whose (number of draws|'draws' is out of its bounds)",
    "lattice": "whose value or sd",
    "sd": "whose value or sd",
    "twice": "two different records of one slot",
    "overlap": "slots overlap",
}
"""What `consume` says where a message breaks each rule."""


def meanings(meters: dict[str, Series]) -> list[dict[str, Any]]:
    """Return what the records say, as the conformance file states it."""
    return [_meaning(series, place) for series in meters.values() for place in range(len(series.records))]


def _meaning(series: Series, place: int) -> dict[str, Any]:
    record = series.records[place]
    terms = series.descriptor_of(record)
    kwh = None
    if terms.shape.is_additive:
        kwh = str(_decimal(record.value * terms.kwh_per_unit(record.band)))
    row: dict[str, Any] = {
        "meter": record.meter,
        "from": iso_time(record.time_ms),
        "to": iso_time(record.time_ms + record.step_ms),
        "value": _decimal(record.value),
        "unit": record.unit,
        "kwh": kwh,
    }
    row |= {} if record.band is None else {"band": record.band}
    return row if record.draws == 1 else {**row, "draws": record.draws}


def _decimal(number: Fraction) -> str:
    """Return a decimal fraction, digit for digit."""
    digits = next(n for n in range(40) if (number * 10**n).denominator == 1)
    whole = f"{abs(int(number * 10**digits)):0{digits + 1}}"
    text = f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole
    return f"-{text}" if number < 0 else text


def sorted_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in order of time and band."""
    return sorted(rows, key=lambda row: (row["from"], row.get("band", "")))


@pytest.mark.parametrize("case", ACCEPTED, ids=[case["name"] for case in ACCEPTED])
def test_what_the_contract_accepts_is_read_as_it_means(case: dict[str, Any]) -> None:
    """Meter, time, exact value, unit, energy, band and draws are those of the case; nothing else is read."""
    assert sorted_rows(meanings(collect(case["messages"]))) == sorted_rows(case["accepted"])


@pytest.mark.parametrize("case", REFUSED, ids=[case["name"] for case in REFUSED])
def test_what_the_contract_refuses_is_refused_by_its_rule(case: dict[str, Any]) -> None:
    """A case that breaks a rule is a RecordError that says so."""
    with pytest.raises(RecordError) as caught:
        collect(case["messages"])
    assert re.search(REASONS[case["refused"]], str(caught.value))


def test_each_rule_has_a_case() -> None:
    """Each rule of the contract has a case and each case a rule, and no two cases share a name."""
    assert {case["refused"] for case in REFUSED} == contract.RULES.keys() == REASONS.keys()
    assert FILE["rules"] == contract.RULES
    assert len({case["name"] for case in CASES}) == len(CASES)
    assert len(ACCEPTED) + len(REFUSED) == len(CASES)


def test_the_files_are_those_of_the_code() -> None:
    """docs/contracts holds what `make tables` writes, and nothing else."""
    expected = {name: contracts.text(content) for name, content in contracts.files().items()}
    assert {path.name for path in contracts.FOLDER.iterdir()} == expected.keys()
    for name, text in expected.items():
        assert_renewed(contracts.FOLDER / name, text)
