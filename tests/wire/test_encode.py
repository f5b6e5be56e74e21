"""What a message holds: records and descriptors as DESIGN 5 has them, byte for byte."""

import hashlib
import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.wire.descriptor import canonical_json, describe_terms, described_topic, descriptor_topics
from meteragent.wire.number import decimal_text
from meteragent.wire.record import RecordFormat
from tests.support.terms import terms_with

NOON_MS = 1_795_176_000_000
TEXT = """
[source]
topic = "meters/{meter}/power"
kind = "power"
unit = "W"
[window]
[privacy]
[sink]
topic = "private/{meter}/power"
"""
FIELDS = ["v", "meter", "t", "for", "value", "unit", "sd", "d"]
DESIGN = """{"v":1,"id":"9f2c01ab","meter":"m1","metric":"linf","epsilon":"1/220","epsilon_unit":"1/W",
"level":"1","radius":"220","hides_wh":"110","n":1,"quantum":"1","mechanism":"linf-laplace",
"length":"PT30M","step":"PT30M","kind":"power","unit":"W","sd":311.1,"ci95":659.5,"level_per_day":"48",
"unbiased":"of slot values after fill and clamp","schedule":"wall","noise":"os","invariants":[],
"valid_from":"2026-11-20T12:00:00Z"}"""
"""The descriptor of DESIGN 5, with the half width of dithered values."""


def settled(privacy: str = "", window: str = "", unit: str = "W", kind: str = "power") -> Terms:
    """The terms of a configuration."""
    text = TEXT.replace("[privacy]", f"[privacy]\n{privacy}").replace("[window]", f"[window]\n{window}")
    text = text.replace('"W"', f'"{unit}"').replace('kind = "power"', f'kind = "{kind}"\ninterval = "15min"')
    return config.terms(config.parse(text).stream[0])


APPLIANCE = settled()
ENERGY = settled(unit="kWh", kind="interval_energy")
labels = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
quanta = st.one_of(st.integers(-(10**6), 10**6), st.integers(-(10**30), 10**30))


def exact(payload: bytes) -> dict[str, Any]:
    """A message's fields, its numbers as decimals."""
    found = json.loads(payload, parse_float=Decimal, parse_int=Decimal)
    assert isinstance(found, dict)
    return found


def described(terms: Terms, label: str = "m1") -> dict[str, Any]:
    """A descriptor's fields."""
    found = json.loads(describe_terms(terms).encode_message(label, NOON_MS))
    assert isinstance(found, dict)
    return found


def expected_id(facts: dict[str, Any]) -> str:
    """A descriptor's id, from its own text."""
    kept = {key: facts[key] for key in facts if key not in ("id", "meter", "valid_from")}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# Records ------------------------------------------------------------------------------------------


def test_a_record_is_as_the_contract_has_it() -> None:
    """A record is the design's example with its own descriptor's id, byte for byte."""
    shared = describe_terms(APPLIANCE)
    expected = (
        '{"v":1,"meter":"m1","t":"2026-11-20T12:00:00Z","for":"PT30M","value":512,"unit":"W","sd":311.1,'
        f'"d":"{shared.id}"}}'
    )
    assert RecordFormat.of(shared).encode("m1", NOON_MS, 0, 512) == expected.encode()


def test_a_record_of_energy() -> None:
    """A record of interval energy has the slot's energy in the source's unit, on the finer lattice."""
    shared = describe_terms(ENERGY)
    found = exact(RecordFormat.of(shared).encode("m1", NOON_MS, 0, -1025))
    assert (found["value"], found["unit"], found["for"]) == (Decimal("-0.5125"), "kWh", "PT30M")
    assert found["sd"] == Decimal("0.1556")


def test_a_record_of_a_part_of_a_window() -> None:
    """A slot's record says how long the slot is, not the window."""
    shared = describe_terms(settled(window='length = "1h"\nstep = "10min"', privacy="radius = 220"))
    assert exact(RecordFormat.of(shared).encode("m1", NOON_MS, 1, 5)) == {
        "v": 1,
        "meter": "m1",
        "t": "2026-11-20T12:10:00Z",
        "for": "PT10M",
        "value": 5,
        "unit": "W",
        "sd": Decimal(str(shared.facts["sd"])),
        "d": shared.id,
    }


@pytest.mark.parametrize("quantum", ["1", "0.1", "0.000001", "0.25", "60"])
@given(value=quanta)
def test_a_value_is_an_exact_multiple_of_the_quantum(quantum: str, value: int) -> None:
    """Whatever the lattice, the value read back as a decimal is exactly the number of quanta."""
    terms = replace(APPLIANCE, quantum_u=int(Decimal(quantum) * MICRO))
    found = exact(RecordFormat.of(describe_terms(terms)).encode("m1", NOON_MS, 0, value))["value"]
    assert Fraction(found) == value * Fraction(quantum)


@given(value_u=st.integers(-(10**30), 10**30))
def test_a_number_is_written_plainly(value_u: int) -> None:
    """Millionths are written without exponent, trailing zeros or a negative zero."""
    text = decimal_text(value_u)
    assert Fraction(Decimal(text)) == Fraction(value_u, MICRO)
    assert set(text) <= set("-.0123456789")
    assert "." not in text or text[-1] not in "0."
    assert text not in ("-0", "-0.0")


@given(label=labels, value=quanta, start=st.integers(0, 10**8), more=st.tuples(labels, quanta))
def test_every_record_of_a_stream_has_the_same_fields(
    label: str, value: int, start: int, more: tuple[str, int]
) -> None:
    """Two records of a stream differ in meter, time and value, never in which fields there are."""
    shared = describe_terms(APPLIANCE)
    one = exact(RecordFormat.of(shared).encode(label, start * 1_800_000, 0, value))
    other = exact(RecordFormat.of(shared).encode(more[0], NOON_MS, 0, more[1]))
    assert list(one) == list(other) == FIELDS
    assert {key for key in FIELDS if one[key] != other[key]} <= {"meter", "t", "value"}
    assert (one["meter"], one["value"]) == (label, value)


@pytest.mark.parametrize(
    "label", ['a"b', "a\\b", "zähler-7", "計", "a\tb", "\u2028", "}", '","value":0,"x":"']
)
def test_a_name_cannot_break_a_message(label: str) -> None:
    """Quotes, backslashes, controls and other scripts in a name leave messages valid UTF-8 JSON."""
    shared = describe_terms(APPLIANCE)
    sent = RecordFormat.of(shared).encode(label, NOON_MS, 0, 512), shared.encode_message(label, NOON_MS)
    assert [exact(payload)["meter"] for payload in sent] == [label, label]
    assert exact(sent[0])["value"] == 512


# Descriptors --------------------------------------------------------------------------------------


def test_a_descriptor_is_as_the_contract_has_it() -> None:
    """The default's descriptor is the design's in fields, order and figures, with what it adds of its own."""
    shared = describe_terms(APPLIANCE)
    contract = json.loads(DESIGN) | {"id": shared.id}
    found = described(APPLIANCE)
    added = {"preset": "appliance", "rounding": "dithered", "space": "linf"}
    assert found == contract | added
    assert [key for key in found if key not in added] == list(contract)
    assert (found["sd"], found["ci95"], found["level_per_day"], found["hides_wh"]) == (
        311.1,
        659.5,
        "48",
        "110",
    )


def test_a_descriptor_of_half_up_terms_says_so() -> None:
    """Half-up rounding, which archives have, is stated as any other, and has its own figures."""
    half_up = replace(APPLIANCE, rounding="half-up")
    assert describe_terms(half_up).facts == describe_terms(APPLIANCE).facts | {
        "ci95": 659.1,
        "rounding": "half-up",
    }


def test_a_descriptor_has_no_spaces() -> None:
    """A descriptor is compact JSON, so that the same facts are the same bytes."""
    sent = describe_terms(APPLIANCE).encode_message("m1", NOON_MS)
    assert sent == json.dumps(json.loads(sent), separators=(",", ":")).encode()
    assert sent == describe_terms(APPLIANCE).encode_message("m1", NOON_MS)


@pytest.mark.parametrize("terms", [APPLIANCE, ENERGY, settled("level = 0.1"), settled("hide = '20Wh'")])
def test_the_id_is_the_hash_of_the_facts(terms: Terms) -> None:
    """The id is 8 hex digits of SHA-256 of the canonical JSON without id, meter and valid_from."""
    found = described(terms)
    assert found["id"] == expected_id(found) == describe_terms(terms).id
    assert exact(RecordFormat.of(describe_terms(terms)).encode("m1", NOON_MS, 0, 1))["d"] == found["id"]


def test_the_id_is_that_of_the_terms_alone() -> None:
    """Meters and times share an id; any change of the promise changes it."""
    shared = describe_terms(APPLIANCE)
    other = json.loads(shared.encode_message("m2", 0))
    assert (other["id"], other["meter"], other["valid_from"]) == (shared.id, "m2", "1970-01-01T00:00:00Z")
    changes: list[dict[str, Any]] = [
        *({"level": Fraction(2)}, {"radius": Fraction(221)}, {"quantum_u": MICRO // 2}, {"unit": "kW"}),
        *({"length_ms": 3_600_000}, {"length_ms": 900_000, "step_ms": 900_000}, {"clock": Clock.EVENT}),
        *({"kind": Kind.INTERVAL_ENERGY, "unit": "Wh"}, {"preset": None}, {"rounding": "half-up"}),
    ]
    ids = {describe_terms(terms_with(APPLIANCE, **change)).id for change in changes}
    assert len(ids | {shared.id}) == len(changes) + 1


def test_canonical_json() -> None:
    """Canonical JSON has sorted keys, no spaces, and other scripts as UTF-8."""
    assert canonical_json({"b": [1, "ä"], "a": None}) == '{"a":null,"b":[1,"ä"]}'.encode()


@pytest.mark.parametrize(
    ("privacy", "window", "preset"),
    [
        ("", "", "appliance"),
        ("level = 1.0\nhide = '110Wh'\nquantum = 1", "step = '30min'\nlength = '30min'", "appliance"),
        ("radius = 220", "", "appliance"),
        ("preset = 'television'", "", "television"),
        ("preset = 'street'", "lateness = '5s'", "street"),
        ("level = 2", "", None),
        ("hide = '111Wh'", "", None),
        ("quantum = 0.5", "", None),
        ("", "length = '15min'", None),
        ("", "step = '10min'", None),
    ],
)
def test_a_preset_is_named_only_with_its_numbers(privacy: str, window: str, preset: str | None) -> None:
    """A descriptor names a preset exactly when its numbers are the preset's."""
    assert described(settled(privacy, window)).get("preset") == preset


def test_exact_numbers_travel_as_text() -> None:
    """Epsilon, level, radius, quantum and what is hidden are exact: fractions where no decimal is."""
    terms = settled("level = 0.1\nradius = 0.3\nquantum = 0.1", "length = '7min'\nclock = 'event'")
    found = described(terms)
    exact_texts = {"epsilon": "1/3", "level": "1/10", "radius": "3/10", "quantum": "1/10", "n": 1}
    assert found | exact_texts == found
    assert (found["hides_wh"], found["level_per_day"]) == ("7/200", "144/7")
    assert (found["length"], found["step"], found["schedule"]) == ("PT7M", "PT7M", "event")


def test_energy_and_kilowatts_are_in_their_unit() -> None:
    """Epsilon, radius, quantum and errors are in the source's unit; what is hidden is in Wh."""
    energy, kilowatts = described(ENERGY), described(settled(unit="kW"))
    same = {"hides_wh": "110", "level": "1", "n": 1, "preset": "appliance"}
    in_kwh = {"unit": "kWh", "epsilon": "100/11", "epsilon_unit": "1/kWh", "radius": "11/100", "sd": 0.1556}
    in_kw = {"unit": "kW", "epsilon": "50/11", "epsilon_unit": "1/kW", "radius": "11/50", "sd": 0.3111}
    assert energy | same | in_kwh | {"kind": "interval_energy", "quantum": "1/2000"} == energy
    assert kilowatts | same | in_kw | {"kind": "power", "quantum": "1/1000"} == kilowatts


def test_descriptors_are_retained_below_the_records() -> None:
    """The latest descriptor is on <sink topic>/privacy, each for ever under its id below."""
    expected = ("private/m1/power/privacy", "private/m1/power/privacy/9f2c01ab")
    assert descriptor_topics("private/m1/power", "9f2c01ab") == expected
    assert [described_topic(topic) for topic in (*expected, "private/m1")] == [
        *("private/m1/power", "private/m1/power", "private/m1")
    ]
