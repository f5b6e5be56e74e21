"""Payload -> Reading: what is read exactly, and what each bad payload is counted as."""

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import floor

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.decode import json as json_profile
from meteragent.domain.counters import REFUSALS
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO
from tests.support import bare_numbers

Decode = Callable[[bytes], Reading]

CANARY = b"7391155"
HUGE_U = 10**12 * MICRO
VALUE_ONLY = json_profile.make_decoder("power", None)
WITH_TIME = json_profile.make_decoder("power", "t")
FUNCTION = json_profile.make_decoder("length(power)", None)
DECODERS: dict[str, Decode] = {"number": bare_numbers.decode, "json": VALUE_ONLY, "time": WITH_TIME}

numerals = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
"""Numbers as JSON writes them."""
near_halves = st.builds(
    lambda whole, digits, sign: f"{sign}{whole}.{digits}",
    st.integers(0, 10**9),
    st.sampled_from(["0000005", "0000004999999999999999999999999999999999", "00000050000000000000000000001"]),
    st.sampled_from(["", "-"]),
)
"""Numbers at, just below and just above half a millionth."""


def rounded_u(text: str) -> int:
    """floor(x * 10**6 + 1/2) by rational arithmetic, x brought to +-10**12 first."""
    value = max(-Fraction(10**12), min(Fraction(Decimal(text)), Fraction(10**12)))
    return floor(value * MICRO + Fraction(1, 2))


def refusal(decode: Decode, payload: bytes) -> PayloadError:
    """The error with which a payload is refused."""
    with pytest.raises(PayloadError) as refused:
        decode(payload)
    return refused.value


def with_value(document: bytes) -> bytes:
    """A document with a good value as well."""
    return document.replace(b"}", b', "power": %s}' % CANARY).replace(b"{, ", b"{")


def outcome(decode: Decode, payload: bytes) -> bool:
    """Whether a payload is a bounded value or refused by a counter that exists."""
    try:
        return abs(decode(payload).value_u) <= HUGE_U
    except PayloadError as error:
        return error.reason in REFUSALS


# What is refused ----------------------------------------------------------------------------------

ANY = {
    "empty": (b"", "refused_empty"),
    "whitespace": (b" \r\n\t ", "refused_empty"),
    "zero bytes": (b"\0\r\0\n", "refused_empty"),
    "not UTF-8": (b"\xff" + CANARY, "refused_encoding"),
    "cut UTF-8": (CANARY + b"\xc3", "refused_encoding"),
}
NUMBER = {
    **ANY,
    "words": (b"about " + CANARY, "refused_type"),
    "two numbers": (CANARY + b" " + CANARY, "refused_list"),
    "a unit": (CANARY + b" W", "refused_suffix"),
    "decimal comma": (CANARY + b",5", "refused_comma"),
    "underscore": (CANARY + b"_0", "refused_type"),
    "hexadecimal": (b"0x" + CANARY, "refused_type"),
    "other digits": ("٧٣٩١".encode(), "refused_type"),
    "wide space": ("\u00a0".encode(), "refused_type"),
    "zero byte": (CANARY + b"\0" + CANARY, "refused_type"),
    "a sign": (b"-", "refused_type"),
    "a point": (b".", "refused_type"),
    "JSON": (b'{"power": %s}' % CANARY, "refused_type"),
    "true": (b"true", "refused_type"),
    "null": (b"null", "refused_type"),
    "NaN": (b"NaN", "refused_not_finite"),
    "infinity": (b" -Infinity\n", "refused_not_finite"),
    "inf": (b"+inf", "refused_not_finite"),
    "1 MB of words": (CANARY * 150_000 + b"x", "refused_type"),
}
JSON = {
    **ANY,
    "words": (b"about " + CANARY, "refused_json"),
    "cut short": (b'{"power": ' + CANARY, "refused_json"),
    "two documents": (b'{"power": %s} {}' % CANARY, "refused_json"),
    "byte order mark": (b'\xef\xbb\xbf{"power": %s}' % CANARY, "refused_json"),
    "single quotes": (b"{'power': %s}" % CANARY, "refused_notation"),
    "leading zero": (b'{"power": 0%s}' % CANARY, "refused_json"),
    "nested 100,000 deep": (b'{"power":' * 100_000 + CANARY + b"}" * 100_000, "refused_json"),
    "lists 100,000 deep": (b"[" * 100_000, "refused_json"),
    "1 MB never closed": (b'{"power": "' + CANARY * 150_000, "refused_json"),
    "missing key": (b'{"Power": %s}' % CANARY, "refused_missing"),
    "null": (b'{"power": null, "x": %s}' % CANARY, "refused_missing"),
    "bare number": (CANARY, "refused_missing"),
    "bare list": (b"[%s]" % CANARY, "refused_missing"),
    "bare null": (b"null", "refused_missing"),
    "string": (b'{"power": "%s"}' % CANARY, "refused_type"),
    "1 MB string": (b'{"power": "%s"}' % (CANARY * 150_000), "refused_type"),
    "bool": (b'{"power": true}', "refused_type"),
    "list": (b'{"power": [%s]}' % CANARY, "refused_type"),
    "object": (b'{"power": {"power": %s}}' % CANARY, "refused_type"),
    "NaN": (b'{"power": NaN}', "refused_not_finite"),
    "infinite": (b'{"power": Infinity}', "refused_not_finite"),
    "negative infinite": (b'{"power": -Infinity}', "refused_not_finite"),
}
TIME = {
    "missing": (b"{}", "refused_missing"),
    "null": (b'{"t": null}', "refused_missing"),
    "bool": (b'{"t": true}', "refused_time"),
    "negative": (b'{"t": -1}', "refused_time"),
    "NaN": (b'{"t": NaN}', "refused_time"),
    "infinite": (b'{"t": Infinity}', "refused_time"),
    "microseconds": (b'{"t": 1700000000000000}', "refused_time"),
    "huge exponent": (b'{"t": 1e999999999}', "refused_time"),
    "list": (b'{"t": [1700000000]}', "refused_time"),
    "object": (b'{"t": {"s": 1700000000}}', "refused_time"),
    "text": (b'{"t": "%s yesterday"}' % CANARY, "refused_time"),
    "empty text": (b'{"t": ""}', "refused_time"),
    "number as text": (b'{"t": "1700000000"}', "refused_time"),
    "naive": (b'{"t": "2026-11-20T12:00:00"}', "refused_time"),
    "date only": (b'{"t": "2026-11-20"}', "refused_time"),
    "no such day": (b'{"t": "2026-02-30T12:00:00Z"}', "refused_time"),
    "leap second": (b'{"t": "2016-12-31T23:59:60Z"}', "refused_time"),
    "before 1970": (b'{"t": "1969-12-31T23:59:59Z"}', "refused_time"),
    "half a character": (b'{"t": "\\ud800"}', "refused_time"),
}


@pytest.mark.parametrize("what", NUMBER)
def test_a_payload_that_is_no_number_is_refused(what: str) -> None:
    """Profile `number`: each payload that is not one finite number is refused by its counter."""
    payload, counter = NUMBER[what]
    assert refusal(bare_numbers.decode, payload).reason == counter
    assert counter in REFUSALS


@pytest.mark.parametrize("decode", [VALUE_ONLY, WITH_TIME])
@pytest.mark.parametrize("what", JSON)
def test_a_document_without_a_number_is_refused(what: str, decode: Decode) -> None:
    """Profile `json`: each payload without a finite number in its place is refused by its counter."""
    payload, counter = JSON[what]
    assert refusal(decode, payload).reason == counter
    assert counter in REFUSALS


@pytest.mark.parametrize("what", TIME)
def test_a_time_in_the_wrong_form_is_refused(what: str) -> None:
    """A time that is not seconds, milliseconds or RFC 3339 with a zone is refused by its counter."""
    payload, counter = TIME[what]
    assert refusal(WITH_TIME, with_value(payload)).reason == counter


def test_a_wrong_time_does_not_matter_where_none_is_asked_for() -> None:
    """NaN and text harm only where the value or the time is."""
    assert VALUE_ONLY(b'{"power": 5, "t": NaN, "x": Infinity, "y": "z"}') == Reading(None, 5 * MICRO)


@pytest.mark.parametrize("profile", DECODERS)
@given(payload=st.one_of(st.binary(), st.text().map(str.encode), numerals.map(str.encode)))
def test_whatever_arrives_is_a_reading_or_a_refusal(profile: str, payload: bytes) -> None:
    """Any bytes are a reading within the bounds of values, or refused by a counter that exists."""
    assert outcome(DECODERS[profile], payload)


LEAKS: dict[str, tuple[Decode, bytes]] = {
    **{f"number: {what}": (bare_numbers.decode, payload) for what, (payload, _) in NUMBER.items()},
    **{f"json: {what}": (WITH_TIME, payload) for what, (payload, _) in JSON.items()},
    **{f"function: {what}": (FUNCTION, payload) for what, (payload, _) in JSON.items()},
    **{f"time: {what}": (WITH_TIME, with_value(payload)) for what, (payload, _) in TIME.items()},
}


@pytest.mark.parametrize("what", LEAKS)
def test_a_refusal_holds_nothing_of_the_payload(what: str) -> None:
    """A refusal is its counter's name and nothing else: no text, cause or context with the payload."""
    error = refusal(*LEAKS[what])
    assert error.args == (error.reason,)
    assert vars(error) == {"reason": error.reason}
    assert error.__cause__ is None
    assert error.__context__ is None
    assert CANARY.decode() not in f"{error} {error!r} {error.args}"


# Values -------------------------------------------------------------------------------------------


@given(text=st.one_of(numerals, near_halves))
def test_a_value_is_rounded_exactly(text: str) -> None:
    """A value is floor(x * 10**6 + 1/2) millionths of what the meter wrote, in both profiles."""
    assert bare_numbers.decode(text.encode()) == Reading(None, rounded_u(text))
    assert VALUE_ONLY(b'{"power": %s}' % text.encode()) == Reading(None, rounded_u(text))


@pytest.mark.parametrize(
    ("text", "value_u"),
    [
        ("512.3", 512_300_000),
        ("+0.5", 500_000),
        (".5", 500_000),
        ("5.", 5_000_000),
        (" 7\n", 7_000_000),
        ("1E3", 10**9),
        ("-0", 0),
        ("0.0000005", 1),
        ("-0.0000005", 0),
        ("-0.00000050000000000000000000000000000000000000000000000000000000000000000000001", -1),
        ("0.1", 100_000),
    ],
)
def test_numbers_as_meters_write_them(text: str, value_u: int) -> None:
    """A bare number may have a sign, a point at either end, an exponent and space around it."""
    assert bare_numbers.decode(text.encode()) == Reading(None, value_u)


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    "text",
    ["1000000000000.0000004", "1e13", "9" * 100_000, "1e999999", "1e999999999", "1e99999999999999999999999"],
)
def test_a_huge_value_is_brought_to_the_bound(text: str, sign: str) -> None:
    """Finite values beyond 10**12 of the unit become it, with their sign, however they are written."""
    value_u = -HUGE_U if sign else HUGE_U
    assert bare_numbers.decode((sign + text).encode()).value_u == value_u
    assert VALUE_ONLY(f'{{"power": {sign}{text}}}'.encode()).value_u == value_u


@pytest.mark.parametrize(
    "text",
    ["1e-999999", "-1e-999999999", "5e-99999999999999999999999", "0e99999999999999999999999", "0e999999"],
)
def test_a_tiny_value_is_zero(text: str) -> None:
    """Finite values far below a millionth, and every zero, are 0, however they are written."""
    assert bare_numbers.decode(text.encode()).value_u == 0
    assert VALUE_ONLY(f'{{"power": {text}}}'.encode()).value_u == 0


def test_a_number_of_a_megabyte_is_read() -> None:
    """A million digits after the point are one value, rounded like any other."""
    text = "1.0000004" + "9" * 1_000_000
    assert bare_numbers.decode(text.encode()).value_u == 10**6
    assert VALUE_ONLY(f'{{"power": {text}}}'.encode()).value_u == 10**6


# Times --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "time_ms"),
    [
        ("0", 0),
        ("1700000000", 1_700_000_000_000),
        ("1700000000.0009", 1_700_000_000_000),
        ("1700000000.001", 1_700_000_000_001),
        ("1.7e9", 1_700_000_000_000),
        ("99999999999", 99_999_999_999_000),
        ("100000000000", 100_000_000_000),
        ("1700000000123", 1_700_000_000_123),
        ("1700000000123.9", 1_700_000_000_123),
        ("1e-999999999", 0),
        ('"2026-11-20T12:00:00Z"', 1_795_176_000_000),
        ('"2026-11-20t12:00:00.1239z"', 1_795_176_000_123),
        ('"2026-11-20 13:30:00+01:30"', 1_795_176_000_000),
        ('"1970-01-01T00:00:00+00:00"', 0),
    ],
)
def test_a_time_is_read_in_each_form(time: str, time_ms: int) -> None:
    """Unix seconds, Unix milliseconds (from 10**11 on) and RFC 3339 become whole ms, rounded down."""
    assert WITH_TIME(f'{{"power": 1, "t": {time}}}'.encode()) == Reading(time_ms, MICRO)


def test_without_a_time_the_arrival_counts() -> None:
    """A profile that names no time gives readings without one, whatever the document holds."""
    assert VALUE_ONLY(b'{"power": 1, "t": 1700000000}').time_ms is None


# Where they are -----------------------------------------------------------------------------------

DOCUMENT = b"""{"ENERGY": {"Power": 512.3, "Total-kWh": 1}, "Time": "2026-11-20T12:00:00Z",
    "list": [{"id": "b", "p": 1}, {"id": "a", "p": 2}], "1st": 3, "power": 4}"""


@pytest.mark.parametrize(
    ("expression", "value_u"),
    [
        ("ENERGY.Power", 512_300_000),
        ('ENERGY."Total-kWh"', 1_000_000),
        ("list[1].p", 2_000_000),
        ("list[-2].p", 1_000_000),
        ("list[?id=='a'].p | [0]", 2_000_000),
        ('"1st"', 3_000_000),
        ("missing.Power || power", 4_000_000),
        ("power", 4_000_000),
    ],
)
def test_a_value_is_found_by_its_path(expression: str, value_u: int) -> None:
    """Value and time are found anywhere in the document by JMESPath."""
    decode = json_profile.make_decoder(expression, "Time")
    assert decode(DOCUMENT) == Reading(1_795_176_000_000, value_u)


@pytest.mark.parametrize(
    ("expression", "counter"),
    [
        ("ENERGY", "refused_type"),
        ("ENERGY.power", "refused_missing"),
        ("list[*].p", "refused_type"),
        ("list[7].p", "refused_missing"),
        ("power.x", "refused_missing"),
        ("sum(list)", "refused_type"),
        ("abs(`true`)", "refused_type"),
        ("unknown(power)", "refused_type"),
    ],
)
def test_a_path_that_finds_no_number_refuses(expression: str, counter: str) -> None:
    """What a path finds is refused like a value in the wrong form; so is what it cannot compute."""
    assert refusal(json_profile.make_decoder(expression, None), DOCUMENT).reason == counter


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b_1", "true"]), inner)
    ),
    max_leaves=6,
)


@given(document=json_values, name=st.sampled_from(["a", "b_1", "true", "null", "_"]))
def test_a_plain_name_means_what_it_means_in_jmespath(document: object, name: str) -> None:
    """A plain name finds what JMESPath finds with it, in any document."""
    found = jmespath.search(name, document)
    payload = json.dumps(document).encode()
    decode = json_profile.make_decoder(name, None)
    if isinstance(found, int) and not isinstance(found, bool):
        assert decode(payload).value_u == found * MICRO
    else:
        counter = "refused_missing" if found is None else "refused_type"
        assert refusal(decode, payload).reason == counter


@pytest.mark.parametrize("expression", ["", "a..b", "a[", "'", "a b"])
def test_what_is_no_path_is_refused(expression: str) -> None:
    """A text that is not a JMESPath expression is a ValueError that says what it should be."""
    for value, time in ((expression, None), ("power", expression)):
        with pytest.raises(ValueError, match=r"^a JMESPath expression \("):
            json_profile.make_decoder(value, time)
