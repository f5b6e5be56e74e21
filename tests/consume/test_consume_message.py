"""Descriptors and records: read back as they were meant, refused if they are wrong (meteragent.consume).

Messages are made by `meteragent.wire.record`, as an agent makes them.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.consume import Descriptor, Record, collect
from meteragent.domain.errors import MeteragentError, RecordError
from meteragent.domain.terms import Rounding, Terms
from meteragent.wire.descriptor import describe_terms
from tests.support.messages import ALL_TERMS, KILO, NOON_MS, changed, described, recorded
from tests.support.stores import TERMS


@pytest.mark.parametrize("terms", ALL_TERMS)
def test_a_descriptor_says_the_terms(terms: Terms) -> None:
    """What an agent describes is read back exactly, whatever the kind, unit and number of slots."""
    actual = Descriptor.parse(described(terms))
    assert (actual.kind, actual.unit, actual.level, actual.radius) == (
        terms.readings.kind,
        terms.readings.unit,
        terms.level,
        terms.radius,
    )
    assert (actual.length_ms, actual.step_ms, actual.valid_from_ms) == (
        terms.length_ms,
        terms.step_ms,
        NOON_MS,
    )
    assert actual.mechanism == terms.mechanism
    assert actual.id == describe_terms(terms).id
    assert actual.facts["ci95"] == describe_terms(terms).facts["ci95"]
    assert actual.rounding == terms.rounding


def test_the_descriptor_of_the_contract() -> None:
    """A descriptor as documented, its id from another program: SHA-256 of the sorted facts without spaces."""
    sent = (
        b'{"v":1,"id":"36cfa4f8","meter":"m1","metric":"linf","epsilon":"1/220","epsilon_unit"'
        b':"1/W","level":"1","radius":"220","hides_wh":"110","n":1,"quantum":"1","mechanism":"'
        b'linf-laplace","length":"PT30M","step":"PT30M","kind":"power","unit":"W","sd":311.1,"'
        b'ci95":659.5,"level_per_day":"48","unbiased":"of slot values after fill and clamp","s'
        b'chedule":"wall","noise":"os","invariants":[],"preset":"appliance","rounding":"dither'
        b'ed","space":"linf","store":"0000000000000000","valid_from":"2026-11-20T12:00:00Z"}'
    )
    actual = Descriptor.parse(sent)
    assert actual.mechanism.epsilon == Fraction(1, 220)
    assert actual.valid_from_ms == NOON_MS


@pytest.mark.parametrize("terms", ALL_TERMS)
@given(quanta=st.integers(-(10**9), 10**9), slot=st.integers(-(10**5), 10**5))
def test_a_record_says_its_value(terms: Terms, quanta: int, slot: int) -> None:
    """A record's value is an exact multiple of the quantum, at the start of its slot."""
    actual = Record.parse(recorded(terms, [quanta], "Müller", first=slot)[0])
    assert actual.value == quanta * terms.quantum
    assert (actual.meter, actual.unit) == ("Müller", terms.value_unit)
    assert (actual.time_ms, actual.step_ms) == (NOON_MS + slot * terms.step_ms, terms.step_ms)
    assert actual.descriptor == describe_terms(terms).id


@pytest.mark.parametrize("form", [bytes, bytes.decode, json.loads])
def test_a_message_comes_as_bytes_text_or_parsed(form: Callable[[bytes], Any]) -> None:
    """Bytes, text and the object that a JSON library makes of them are the same message."""
    sent = recorded(KILO, [-1234567])[0]
    assert Record.parse(form(sent)) == Record.parse(sent)
    assert Record.parse(form(sent)).value == Fraction("-1234.567")
    assert Descriptor.parse(form(described(KILO))) == Descriptor.parse(described(KILO))


def test_fields_of_later_versions_are_no_mistake() -> None:
    """Unknown fields are ignored in a record and kept in a descriptor, whose id covers them."""
    record = recorded(TERMS, [7])[0]
    assert Record.parse(changed(record, quality="good")) == Record.parse(record)
    later = Descriptor.parse(changed(described(TERMS), is_sealed=True, weather="wet"))
    assert later.facts["weather"] == "wet"
    assert later.id != describe_terms(TERMS).id


RECORD_MISTAKES: list[dict[str, Any]] = [
    *({name: None} for name in ("v", "meter", "t", "for", "value", "unit", "sd", "d")),
    *({"v": v} for v in (0, 2, "1", 1.5, True)),
    *({"t": t} for t in ("2026-11-20", "2026-11-20T12:00:00", "noon", 1795176000, "2026-13-20T12:00:00Z")),
    *({"for": d} for d in ("30min", "PT", "PT0S", "P1D", 1800, "PT1e3S")),
    *({"value": v} for v in ("512", [512], True, float("nan"), float("inf"), 10.0**200)),
    *({"meter": 5}, {"unit": 1}, {"d": 4}, {"sd": "311"}),
]


@pytest.mark.parametrize("mistake", RECORD_MISTAKES, ids=str)
def test_what_is_no_record_is_refused(mistake: dict[str, Any]) -> None:
    """A missing or wrong field is a RecordError that names it, and so is an unknown version."""
    (name,) = mistake
    with pytest.raises(RecordError, match=f"'{name}'") as caught:
        Record.parse(changed(recorded(TERMS, [512])[0], **mistake))
    assert "512" not in str(caught.value)


DESCRIPTOR_MISTAKES: list[dict[str, Any]] = [
    *({name: None} for name in ("v", "id", "meter", "metric", "epsilon", "epsilon_unit", "level", "radius")),
    *({name: None} for name in ("hides_wh", "n", "quantum", "mechanism", "length", "step", "kind", "unit")),
    *(
        {"v": 2},
        {"sd": None},
        {"ci95": None},
        {"space": None},
        {"rounding": None},
        {"valid_from": None},
        {"metric": "l1"},
        {"mechanism": "gaussian"},
    ),
    *({"epsilon": "1/221"}, {"epsilon": 0.0045}, {"epsilon": "1/0"}, {"epsilon": "-1/220"}),
    *({"epsilon_unit": "1/kW"}, {"level": "2"}, {"radius": "221"}, {"hides_wh": "111"}, {"quantum": "0"}),
    *({"n": 2}, {"n": "1"}, {"n": 1.5}, {"n": 0}, {"length": "PT1H"}, {"step": "PT15M"}, {"sd": 280.0}),
    *({"ci95": 600.0}, {"ci95": "659.1"}),
    *({"rounding": "half-even"}, {"rounding": 1}, {"rounding": ""}),
    *({"kind": "register"}, {"kind": "interval_energy"}, {"unit": "Wh"}, {"unit": "kW"}, {"level": "1e9"}),
]


@pytest.mark.parametrize("mistake", DESCRIPTOR_MISTAKES, ids=str)
def test_what_is_no_descriptor_is_refused(mistake: dict[str, Any]) -> None:
    """A field that is missing, wrong or contradicts another is a RecordError, even if the id fits."""
    with pytest.raises(RecordError, match="a descriptor whose"):
        Descriptor.parse(changed(described(TERMS), is_sealed="id" not in mistake, **mistake))


@pytest.mark.parametrize("said", ["half-up", "dithered"])
@pytest.mark.parametrize("figure", ["sd", "ci95"])
def test_figures_are_those_of_the_rounding(said: Rounding, figure: str) -> None:
    """If a quantum is as large as the noise, a figure of the other rounding is refused."""
    coarse = replace(TERMS, radius=Fraction(1))
    both = {item: describe_terms(replace(coarse, rounding=item)).facts[figure] for item in get_args(Rounding)}
    other = next(value for item, value in both.items() if item != said)
    sent = described(replace(coarse, rounding=said))
    assert Descriptor.parse(changed(sent, is_sealed=True, **{figure: both[said]})).rounding == said
    with pytest.raises(RecordError, match=f"'{figure}' contradicts"):
        Descriptor.parse(changed(sent, is_sealed=True, **{figure: other}))


OTHER_FACTS: dict[str, Any] = {
    "metric": "l1",
    "kind": "register",
    "unit": "kW",
    "epsilon_unit": "1/kW",
    "space": "curve",
    "rounding": "half-up",
    "schedule": "event",
    "noise": "prf",
    "preset": "x",
    "unbiased": "x",
    "length": "PT7M",
    "step": "PT7M",
    "invariants": ["x"],
    "sd": 7.5,
    "ci95": 7.5,
    "n": 2,
}
"""Facts that the table allows, and others than those of TERMS; an exact number is 7/3."""


@pytest.mark.parametrize("name", sorted(describe_terms(TERMS).facts.keys() - {"v", "mechanism"}))
def test_every_fact_is_covered_by_the_id(name: str) -> None:
    """A descriptor is refused if any of its facts was changed after its id was made."""
    with pytest.raises(RecordError, match="'id' does not match its facts"):
        Descriptor.parse(changed(described(TERMS), **{name: OTHER_FACTS.get(name, "7/3")}))


def test_the_meter_and_the_time_are_not() -> None:
    """The id is that of the terms, so meters share it."""
    other = Descriptor.parse(changed(described(TERMS), meter="m2", valid_from="2026-11-21T00:00:00Z"))
    assert (other.meter, other.id) == ("m2", describe_terms(TERMS).id)


@pytest.mark.parametrize(
    "message",
    [b"", b"\xff", b"512", b"[]", b"null", b'"text"', "{", b"[" * 100_000, b'{"v":' + b"9" * 5000 + b"}"],
    ids=lambda message: str(message[:9]),
)
def test_what_is_no_json_object_is_refused(message: bytes) -> None:
    """Rubbish is a RecordError, the sender's fault, whose text does not contain it."""
    for parse in (Record.parse, Descriptor.parse, lambda item: collect([item])):
        with pytest.raises(RecordError) as caught:
            parse(message)
        assert isinstance(caught.value, MeteragentError)
        assert caught.value.__context__ is None


RUBBISH = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@settings(max_examples=300)
@given(rubbish=RUBBISH, name=st.sampled_from(sorted(json.loads(described(TERMS)))), sealed=st.booleans())
def test_no_message_is_an_accident(rubbish: Any, name: str, sealed: bool) -> None:
    """Whatever a field contains, a message is read or refused as the sender's fault; no other error."""
    messages = [changed(described(TERMS), is_sealed=sealed, **{name: rubbish})]
    messages += [changed(recorded(TERMS, [5])[0], **{name: rubbish})]
    for message in messages:
        for parse in (Record.parse, Descriptor.parse, lambda item: collect([item])):
            for form in (message, json.loads(message)):
                with suppress(RecordError):
                    parse(form)
