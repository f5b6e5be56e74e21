"""The text of terms: what it states is what it was made of, and its digest tells terms apart."""

import dataclasses
from fractions import Fraction
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain import codec
from meteragent.domain.commit import TimelineState, Total
from meteragent.domain.shapes import SHAPES, Shape
from meteragent.domain.terms import Terms
from tests.support.terms import terms_with
from tests.support.witness import TERMS

# Not left to Hypothesis, which would also make instances of the classes that slots have replaced.
st.register_type_strategy(Shape, st.one_of([st.from_type(kind) for kind in SHAPES.values()]))
FIELDS = get_type_hints(Terms)
NAMES = [field.name for field in dataclasses.fields(Terms)]
all_terms = st.builds(Terms, **dict.fromkeys(NAMES, ...))
"""Terms whose fields hold anything that their types allow."""


@given(all_terms)
def test_what_is_decoded_is_what_was_encoded(terms: Terms) -> None:
    """Terms come back exactly: fractions as fractions, kinds as kinds; so equal texts are of equal terms."""
    assert codec.decode(Terms, codec.encode(terms)) == terms


@given(all_terms, st.sampled_from(NAMES), st.data())
def test_ids_differ_where_terms_differ(terms: Terms, name: str, data: st.DataObject) -> None:
    """Terms have one id if and only if they are equal, whichever field is changed."""
    changed: Any = data.draw(st.from_type(FIELDS[name]))
    other = dataclasses.replace(terms, **{name: changed})
    assert (terms.id == other.id) == (terms == other)
    assert dataclasses.replace(other, **{name: getattr(terms, name)}).id == terms.id


def test_fields_with_like_texts_are_told_apart() -> None:
    """A digit that moves from one field to another makes another id."""
    terms = terms_with(TERMS, every_ms=1000, counters=10)
    assert terms.id != terms_with(TERMS, every_ms=10000, counters=1).id
    quoted = [dataclasses.replace(TERMS, preset=preset) for preset in (None, "null", "None", "")]
    assert len({terms.id for terms in quoted}) == len(quoted)


def test_the_text_states_every_field() -> None:
    """Numbers are numbers, fractions and names are strings, tuples are lists, and what is absent is null."""
    text = codec.encode(terms_with(TERMS, dead_band=Fraction(1, 3), preset='a "b"'))
    assert text == (
        '{"shape":{"space":"linf","length_ms":12,"every_ms":4},"readings":{"kind":"power","unit":"W",'
        '"interval_ms":0,"hold_ms":5,"gap_u":0,"low_u":0,"high_u":20000000000,"modulus_u":null,'
        '"every_ms":null,"dead_band":"1/3","counters":1},"clock":"wall","lateness_ms":0,"level":"1000",'
        '"radius":"10","metric":"linf","quantum_u":1000000,"rounding":"dithered","timezone":null,'
        '"preset":"a \\"b\\"","others_per_day":"0","places":[],"prices":[]}'
    )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"level":"1000"', '"level":1000'),
        ('"level":"1000"', '"level":"1/0"'),
        ('"level":"1000"', '"level":"1e3"'),
        ('"level":"1000"', '"level":" 1"'),
        ('"gap_u":0', '"gap_u":0.0'),
        ('"gap_u":0', '"gap_u":"0"'),
        ('"gap_u":0', '"gap_u":false'),
        ('"unit":"W"', '"unit":null'),
        ('"rounding":"dithered"', '"rounding":"half-even"'),
        ('"kind":"power"', '"kind":"Power"'),
        ('"places":[]', '"places":{}'),
        ('"places":[]', '"places":[["a",[[1]]]]'),
        ('"space":"linf"', '"space":"bands"'),
        ('"space":"linf",', ""),
        ('"every_ms":4', '"every_ms":4,"more":1'),
        (',"prices":[]', ""),
        ('"prices":[]', '"prices":[],"more":1'),
    ],
)
def test_another_text_is_no_terms(right: str, wrong: str) -> None:
    """A field that is missing, unknown or of another type is an error, never a default."""
    text = codec.encode(TERMS)
    assert right in text
    with pytest.raises((ValueError, TypeError, KeyError, ArithmeticError)):
        codec.decode(Terms, text.replace(right, wrong))


@given(st.builds(TimelineState, **dict.fromkeys(TimelineState._fields, ...)))
def test_tuples_with_names_are_read_from_lists_and_objects(state: TimelineState) -> None:
    """A state is read the same from a list as from an object with its fields."""
    objects = state._asdict() | {"windows": [window._asdict() for window in state.windows]}
    assert codec.decode(TimelineState, codec.encode(state)) == state
    assert codec.decode(TimelineState, codec.encode(objects)) == state


@pytest.mark.parametrize("variance", [0, 2.5, 1e300])
def test_a_number_may_have_a_fraction(variance: float) -> None:
    """A number of floating point may be written without a point; a string is none."""
    total = Total(0, 1, "Wh", 3, variance)
    assert codec.decode(Total, codec.encode(total)) == total
    with pytest.raises(TypeError):
        codec.decode(Total, '[0,1,"Wh",3,"4"]')
