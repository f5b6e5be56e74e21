"""Messages that would cost: a number beyond its bounds is refused before anything is computed from it."""

import json
from typing import Any

import pytest

from meteragent.consume import Descriptor, Record, message
from meteragent.domain.errors import RecordError
from meteragent.wire.grammar import DESCRIPTOR, RECORD, Form
from tests.support.messages import changed, described, recorded
from tests.support.stores import TERMS

BOMBS: list[dict[str, Any]] = [
    *({"n": n, "step": "PT0.001S"} for n in (10**5, 10**6, 10**9, 10**15, 10**4000)),
    {"epsilon": f"1/{'9' * 59}", "radius": "9" * 59},
    {"level": "9" * 50, "epsilon": "9" * 50, "radius": "1", "hides_wh": "1/2"},
    {"quantum": f"1{'0' * 40}", "radius": f"22{'0' * 40}"},
    {"length": "PT999999999H", "step": "PT999999999H", "timezone": "UTC"},
    {"valid_from": "9999-12-31T23:59:59Z"},
    {"bands": {f"b{i}": "PT1S" for i in range(300)}},
    {"sd": 1e300},
    {"ci95": 10**400},
    {"unbiased": "x" * 300},
    {"timezone": "../" * 200},
]
LONGER: dict[str, Any] = {"weather": "x" * 20_000}


@pytest.mark.parametrize("fields", BOMBS, ids=lambda fields: json.dumps(fields)[:40])
def test_no_arithmetic_begins_before_the_bounds(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descriptor with such a number, and the id of its facts, is refused before the first computation."""

    def computed(*_: object) -> None:
        raise AssertionError("computed")

    for name in ("half_width", "sd", "LInfLaplace", "id_of"):
        monkeypatch.setattr(message, name, computed)
    sent = changed(described(TERMS), is_sealed=True, **fields)
    for form in (sent, json.loads(sent)):
        with pytest.raises(RecordError, match=r"is out of its bounds|is missing or not|cannot be read"):
            Descriptor.parse(form)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_fact_that_is_not_finite_is_refused(number: str) -> None:
    """JSON has no such number, so no later reader could hold it, even in a field that nobody reads."""
    for fact in (float(number), [{"x": float(number)}]):
        with pytest.raises(RecordError, match="'id' does not match its facts"):
            Descriptor.parse(changed(described(TERMS), is_sealed=True, weather=fact))


def test_the_length_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message longer than its table allows is not even parsed."""
    monkeypatch.setattr(message, "load_fields", None)
    with pytest.raises(RecordError, match="more than 16384 bytes"):
        Descriptor.parse(changed(described(TERMS), is_sealed=True, **LONGER))
    with pytest.raises(RecordError, match="more than 2048 bytes"):
        Record.parse(changed(recorded(TERMS, [1])[0], **LONGER))


RECORDS: list[dict[str, Any]] = [
    {"value": 10**31},
    {"value": 10**1000},
    {"sd": 1e300},
    {"draws": 2**31},
    {"draws": -5},
    {"t": "9999-12-31T23:30:00Z"},
    {"t": "0001-01-01T00:00:00+14:00"},
    {"for": "PT9601H"},
    {"meter": "m\x1b[2J"},
    {"meter": "m" * 129},
    {"band": ""},
    {"band": "\x1b]0;x\x07"},
]


@pytest.mark.parametrize("fields", RECORDS, ids=lambda fields: json.dumps(fields)[:40])
def test_a_record_beyond_the_bounds_is_refused(fields: dict[str, Any]) -> None:
    """The error names the field, not the value."""
    [name] = fields
    with pytest.raises(RecordError, match=f"a record whose '{name}'"):
        Record.parse(changed(recorded(TERMS, [1])[0], **fields))


UNBOUNDED = {"anyOf", "const", "enum", "maxLength", "maximum", "pattern", "properties", "maxProperties"}


@pytest.mark.parametrize("table", [RECORD, DESCRIPTOR], ids=lambda table: table.noun)
def test_every_field_has_bounds(table: Any) -> None:
    """The schema of each field states its values, its pattern, its length or its largest value."""
    forms: dict[str, Form] = {name: row.form for name, row in table.rows.items()}
    assert [name for name, form in forms.items() if not UNBOUNDED & form.schema.keys()] == ["invariants"][
        : "invariants" in forms
    ]
