"""What is read quickly is read as with a second look: payload for payload the same reading or refusal."""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meteragent.decode import json as json_profile
from meteragent.decode.number import make_scaler, parse_finite, to_millionths
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading

FACTORS = (
    Fraction(1),
    Fraction(1000),
    Fraction(1, 1000),
    Fraction(1, 3600),
    Fraction(7, 10**9),
    Fraction(10**30),
    Fraction(1, 10**6),
)
"""From W to kW and back, from J to Wh; scales that no device has."""

numbers = st.one_of(
    st.integers(-(10**4), 10**4).map(str),
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.decimals(-(10**7), 10**7, places=3).map(str),
    st.builds("{}e{}".format, st.integers(-999, 999), st.integers(-40, 40)),
    st.sampled_from(
        ["-0", "0.0", "0e9", "1.0e2", "1e400", "-1E+0012", "0.0000005", "-0.0000005", "9" * 5000]
    ),
    st.sampled_from(["1e99999999999999999999", "-1e-99999999999999999999", "1000000000000", "1000000000001"]),
    st.sampled_from(
        ["999999999999.9999999", f"0.{'0' * 60}1", f"0.4999995{'9' * 70}", f"-2.5000005{'0' * 70}1"]
    ),
)
times = st.one_of(
    st.integers(0, 2 * 10**9).map(str),
    st.sampled_from(
        ["99999999999", "100000000000", "999999999999999", "1000000000000000", "-1", "1.5", "1e10"]
    ),
    st.sampled_from(
        ['"2026-11-20T12:00:00Z"', '"2026-11-20t12:00:00.25+01:00"', '"1969-01-01T00:00:00Z"', '"noon"']
    ),
    numbers,
)
others = st.one_of(
    numbers,
    st.sampled_from(
        [
            "NaN",
            "-Infinity",
            "true",
            "null",
            '"x"',
            "[1.5,{}]",
            '{"t":1,"power":2}',
            '"\\u00e9"',
            "01",
            "+1",
            "tru",
        ]
    ),
)
names = st.sampled_from(["t", "power", "T", "power ", "", "\\u0074", "voltage"])
spaces = st.sampled_from(["", "", "", " ", "\n", "\t ", "\x0b", "\ufeff"])


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Objects with a time and a value in any order, other fields, fields twice; seldom no JSON at all."""
    fields = [("t", draw(times | others)), ("power", draw(numbers | others))]
    fields += draw(st.lists(st.tuples(names, others), max_size=2))
    fields = draw(st.permutations(fields))[draw(st.integers(0, 1)) :]
    space = [draw(spaces) for _ in range(4)]
    body = f",{space[0]}".join(f'"{name}"{space[1]}:{found}' for name, found in fields)
    text = space[2] + "{" + body + "}" + space[3]
    return draw(st.sampled_from([text, text, text, text[:-1], text + "}", f"[{text}]"])).encode()


def outcome(read: Callable[[bytes], Reading], payload: bytes) -> Reading | str:
    """A reading, or the counter of what is none."""
    try:
        return read(payload)
    except PayloadError as error:
        return error.reason


def plain(payload: bytes, time: str | None, factor: Fraction) -> Reading:
    """The same with a second look at each payload, and by fractions."""
    found = json_profile.make_reader("power", time)(payload)
    return Reading(found.time_ms, millionths(found.number, factor))


def millionths(number: Decimal, factor: Fraction) -> int:
    """As DESIGN 2 says it: floor(x + 1/2), of a number no larger than 10**12 and not below 10**-20."""
    bounded = min(max(number, Decimal(-(10**12))), Decimal(10**12))
    exact = Fraction(bounded) if bounded.adjusted() > -20 else Fraction(0)
    return math.floor(exact * factor * 10**6 + Fraction(1, 2))


@given(payloads(), st.sampled_from(["t", None]), st.sampled_from(FACTORS))
@example(b'{"t":1800000000,"power":1512}', "t", Fraction(1))
@example(b'{"power":1.5,"power":-2.0000005}', None, Fraction(1))
def test_a_payload_is_read_alike_with_and_without_a_second_look(
    payload: bytes, time: str | None, factor: Fraction
) -> None:
    """The same time and value, or the same counter, of payloads of any form (DESIGN 2: exact)."""
    decode = json_profile.make_decoder("power", time, factor)
    assert outcome(decode, payload) == outcome(lambda found: plain(found, time, factor), payload)


@given(payloads(), st.binary(max_size=2), st.integers(0, 80), st.integers(0, 3))
def test_a_damaged_payload_is_read_alike(payload: bytes, damage: bytes, at: int, lost: int) -> None:
    """Also if bytes are changed or missing, so that text is not UTF-8 or brackets do not match."""
    damaged = payload[:at] + damage + payload[at + lost :]
    decode = json_profile.make_decoder("power", "t")
    assert outcome(decode, damaged) == outcome(lambda found: plain(found, "t", Fraction(1)), damaged)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"t":1,"power":1}x',
        b'{"t":1,"power":1} ',
        b'{"t":1,"power":1000000000001}',
        b'{"t":99999999999,"power":-1000000000000}',
        b'{"t":100000000000,"power":1}',
        b'{"t":1000000000000000,"power":1}',
        b'{"t":1,"power":true}',
        b'{"t":true,"power":1}',
        b'{"t":1e99999999999999999999,"power":1}',
    ],
)
def test_at_the_edges_too(payload: bytes) -> None:
    """The largest number, the first time in milliseconds, trailing text, and values that are not numbers."""
    decode = json_profile.make_decoder("power", "t")
    assert outcome(decode, payload) == outcome(lambda found: plain(found, "t", Fraction(1)), payload)


@pytest.mark.parametrize(
    "payload", [b'{"t":1800000000,"power":1512}', b'{"name":"x", "power":-0.5, "t":"2026-11-20T12:00:00Z"}']
)
def test_most_payloads_need_no_second_look(payload: bytes) -> None:
    """A whole number or a decimal and its time under their names: the plain way is not taken."""
    with patch.object(json_profile, "make_reader", lambda *_: None):
        decode = json_profile.make_decoder("power", "t")
    assert isinstance(decode(payload), Reading)


def test_an_expression_is_no_name() -> None:
    """What only JMESPath understands is looked for by it, also where a field is called so."""
    payload = json.dumps({"a.b": 1, "a": {"b": 2}, "t": 5}).encode()
    assert json_profile.make_decoder("a.b", "t")(payload) == Reading(5000, 2_000_000)
    assert json_profile.make_decoder("a.b", None)(payload) == Reading(None, 2_000_000)
    assert json_profile.make_decoder("t", "a.b")(payload) == Reading(2000, 5_000_000)


@given(numbers, st.sampled_from(FACTORS))
@example("123456789012.345678901234567890123456789", Fraction(10**29))
def test_a_number_is_scaled_exactly(text: str, factor: Fraction) -> None:
    """floor(value * factor * 10**6 + 1/2), whatever its digits and exponent, also where it is a half."""
    number = parse_finite(text)
    assert make_scaler(factor)(number) == millionths(number, factor)
    assert to_millionths(number) == millionths(number, Fraction(1))


@given(st.integers(-(10**14), 10**14), st.sampled_from([-3, 0, 3]))
def test_halves_of_a_millionth_go_up(k: int, tens: int) -> None:
    """A value halfway between two millionths is the greater one, below zero too; just before it is not."""
    half, before = 5 * (2 * k + 1), 5 * (2 * k + 1) * 10**60 - 1
    times = make_scaler(Fraction(10) ** tens)
    assert times(Decimal(f"{half}e{-7 - tens}")) == k + 1
    assert times(Decimal(f"{before}e{-67 - tens}")) == k


def test_what_is_too_small_is_nothing() -> None:
    """Below 10**-20 a number is 0, whatever its factor: no payload makes an integer of a million digits."""
    assert make_scaler(Fraction(10**30))(Decimal("9e-21")) == 0
    assert make_scaler(Fraction(10**30))(Decimal("1e-19")) == 10**17
    assert make_scaler(Fraction(1, 3))(Decimal("-1e-400000")) == 0
