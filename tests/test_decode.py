"""Payload -> Reading: exact numbers, and a named counter for everything that is not a reading."""

import gc
import json
import time
import traceback
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.decode import Decoder, attempt, number
from meteragent.decode import json as json_profile
from meteragent.errors import PayloadError
from meteragent.health import REFUSALS
from meteragent.reading import Reading

DOCUMENT = json_profile.decoder("power", "t")
UNTIMED = json_profile.decoder("power", None)
LARGEST_U = 10**18
"""Values beyond 10**12 of the unit are brought to it."""

TWO_WAYS = pytest.mark.parametrize(
    "decode", [number.decode, lambda payload: UNTIMED(b'{"power":' + payload + b"}")], ids=["number", "json"]
)


def refused(decode: Decoder, payload: bytes) -> str:
    """The counter of a payload that is refused."""
    with pytest.raises(PayloadError) as error:
        decode(payload)
    assert error.value.reason in REFUSALS
    return error.value.reason


def outcome(decode: Decoder, payload: bytes) -> str:
    """`reading`, or the counter of what is none; any other exception is a failure."""
    try:
        assert isinstance(decode(payload), Reading)
    except PayloadError as error:
        return error.reason
    return "reading"


def micro(value: Fraction) -> int:
    """floor(value * 10**6 + 1/2), beyond 10**12 its end."""
    bounded = max(min(value, Fraction(10**12)), Fraction(-(10**12)))
    return int((bounded * 10**6 + Fraction(1, 2)) // 1)


# --- exact numbers ----------------------------------------------------------------------------------


@TWO_WAYS
@given(value=st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_values_are_rounded_down_from_a_half_more(decode: Decoder, value: Decimal) -> None:
    """A value is floor(x * 10**6 + 1/2) millionths, exactly, for any finite decimal."""
    text = f"{value:e}".replace("E", "e")
    assert decode(text.encode()) == Reading(None, micro(Fraction(value)))


@TWO_WAYS
@given(
    whole=st.integers(-(10**12), 10**12),
    tail=st.integers(0, 10**40),
    digits=st.integers(1, 40),
    above=st.booleans(),
)
def test_no_digit_is_lost(decode: Decoder, whole: int, tail: int, digits: int, above: bool) -> None:
    """However many digits a number has, the last one still decides which way a half goes."""
    text = f"{whole}.{tail % 10**digits:0{digits}d}"
    assert decode(text.encode()).value_u == micro(Fraction(text))
    half = f"{whole}.0000005" + ("0" * digits + "1" if above else "")
    assert decode(half.encode()).value_u == micro(Fraction(half))


@TWO_WAYS
@pytest.mark.parametrize(
    ("text", "value_u"),
    [
        ("0", 0),
        ("512.3", 512_300_000),
        ("1E3", 10**9),
        ("0.0000005", 1),
        ("0.0000015", 2),
        ("0.0000025", 3),
        ("-0.0000005", 0),
        ("-0.0000015", -1),
        ("0.00000049999999999999999999999999999999999999999", 0),
        ("-0.00000050000000000000000000000000000000000000001", -1),
        ("1e12", LARGEST_U),
        ("1000000000000.000001", LARGEST_U),
        ("1e400", LARGEST_U),
        ("1e1000000", LARGEST_U),
        ("-1e1000000", -LARGEST_U),
        ("9.9999999999999999999999999999999999999e999999", LARGEST_U),
        ("1e99999999999999999999", LARGEST_U),
        ("-7e99999999999999999999", -LARGEST_U),
        ("0e99999999999999999999", 0),
        ("0.0e99999999999999999999", 0),
        ("1e-1000000", 0),
        ("1e-99999999999999999999", 0),
        ("-1e-99999999999999999999", 0),
        ("0e1000000", 0),
        ("9" * 5000, LARGEST_U),
    ],
)
def test_edges_of_numbers(decode: Decoder, text: str, value_u: int) -> None:
    """Finite numbers are never refused, however large, small or long."""
    assert decode(text.encode()).value_u == value_u


@pytest.mark.parametrize(
    ("text", "value_u"), [("+5", 5), (" 5\r\n", 5), ("5.", 5), (".5e1", 5), ("-.5e1", -5)]
)
def test_a_bare_number_may_be_written_as_meters_do(text: str, value_u: int) -> None:
    """A sign, white space around it, a point at either end."""
    assert number.decode(text.encode()).value_u == value_u * 10**6


# --- times ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "time_ms"),
    [
        ("0", 0),
        ("1763640000", 1_763_640_000_000),
        ("1763640000.0005", 1_763_640_000_000),
        ("1763640000.9999999999999999999999999999", 1_763_640_000_999),
        ("1763640000123", 1_763_640_000_123),
        ("1763640000123.9", 1_763_640_000_123),
        ("99999999999", 99_999_999_999_000),
        ("100000000000", 100_000_000_000),
        ('"2025-11-20T12:00:00Z"', 1_763_640_000_000),
        ('"2025-11-20t13:00:00.1239+01:00"', 1_763_640_000_123),
        ('"2025-11-20 11:30:00.5-00:30"', 1_763_640_000_500),
        ('"1970-01-01T00:00:00Z"', 0),
    ],
)
def test_times_are_unix_seconds_or_milliseconds_or_rfc_3339(written: str, time_ms: int) -> None:
    """From 10**11 on a number is milliseconds; all are rounded down to a millisecond."""
    assert DOCUMENT(f'{{"power":1,"t":{written}}}'.encode()).time_ms == time_ms


@pytest.mark.parametrize(
    "written",
    [
        "-1",
        "1e15",
        "1e1000000",
        "1e99999999999999999999",
        "NaN",
        "true",
        "[1]",
        "{}",
        '""',
        '"1763640000"',
        '"2025-11-20T12:00:00"',
        '"2025-11-20T12:00Z"',
        '"2025-11-20"',
        '"2025-13-20T12:00:00Z"',
        '"2025-11-20T24:30:00Z"',
        '"2025-11-20T12:00:00+25:00"',
        '"2025-11-20T12:00:00ZZ"',
        '"\\u0662025-11-20T12:00:00Z"',
        '"1969-12-31T23:59:59Z"',
        '"0001-01-01T00:00:00+14:00"',
    ],
)
def test_other_times_are_refused(written: str) -> None:
    """A time without a zone, before 1970, or of no known form is `refused_time`."""
    assert refused(DOCUMENT, f'{{"power":1,"t":{written}}}'.encode()) == "refused_time"


def test_without_a_time_expression_there_is_no_time() -> None:
    """Neither profile invents one: the time of arrival counts."""
    assert UNTIMED(b'{"power":1,"t":7}') == Reading(None, 10**6)
    assert number.decode(b"1") == Reading(None, 10**6)


# --- what is not a reading --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "refused_empty"),
        (b" \r\n\t", "refused_empty"),
        (b"\xff\xfe", "refused_encoding"),
        (b'{"power":"\xc3"}', "refused_encoding"),
        (b"{", "refused_json"),
        (b"power=1", "refused_json"),
        (b'{"power":1,}', "refused_json"),
        (b'{"power":1} 2', "refused_json"),
        (b'{"power":01}', "refused_json"),
        (b'{"power":+1}', "refused_json"),
        (b'{"power":1', "refused_json"),
        (b"\xef\xbb\xbf{}", "refused_json"),
        (b"[" * 60_000, "refused_json"),
        (b'{"power":' * 20_000 + b"1" + b"}" * 20_000, "refused_json"),
        (b"{}", "refused_missing"),
        (b"5", "refused_missing"),
        (b'"power"', "refused_missing"),
        (b"[1,2]", "refused_missing"),
        (b"null", "refused_missing"),
        (b'{"Power":1,"t":1}', "refused_missing"),
        (b'{"power":null,"t":1}', "refused_missing"),
        (b'{"power":1}', "refused_missing"),
        (b'{"power":1,"t":null}', "refused_missing"),
        (b'{"power":"512","t":1}', "refused_type"),
        (b'{"power":true,"t":1}', "refused_type"),
        (b'{"power":[1],"t":1}', "refused_type"),
        (b'{"power":{"value":1},"t":1}', "refused_type"),
        (b'{"power":NaN,"t":1}', "refused_not_finite"),
        (b'{"power":Infinity,"t":1}', "refused_not_finite"),
        (b'{"power":-Infinity,"t":1}', "refused_not_finite"),
    ],
)
def test_documents_that_are_not_readings(payload: bytes, reason: str) -> None:
    """Each kind of bad document has its counter."""
    assert refused(DOCUMENT, payload) == reason


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "refused_empty"),
        (b"\n", "refused_empty"),
        (b"\x80", "refused_encoding"),
        (b"nan", "refused_not_finite"),
        (b"-INF", "refused_not_finite"),
        (b" infinity ", "refused_not_finite"),
        (b"on", "refused_type"),
        (b"1,5", "refused_type"),
        (b"1_000", "refused_type"),
        (b"0x10", "refused_type"),
        (b"1 2", "refused_type"),
        (b"e5", "refused_type"),
        (b".", "refused_type"),
        (b'{"power":1}', "refused_type"),
        ("٣".encode(), "refused_type"),
        (b"1\x00", "refused_type"),
    ],
)
def test_texts_that_are_not_numbers(payload: bytes, reason: str) -> None:
    """Each kind of bad text has its counter; only ASCII digits are a number."""
    assert refused(number.decode, payload) == reason


def test_not_finite_harms_only_where_it_is_the_value() -> None:
    """NaN elsewhere in a document is ignored."""
    assert DOCUMENT(b'{"power":1,"t":1,"angle":NaN}') == Reading(1000, 10**6)


@pytest.mark.parametrize(
    ("expression", "document", "value_u"),
    [
        ("ENERGY.Power", b'{"ENERGY":{"Power":7}}', 7_000_000),
        ("phases[1].p", b'{"phases":[{"p":1},{"p":2.5}]}', 2_500_000),
        ('"active power"', b'{"active power":3}', 3_000_000),
        ("a || b", b'{"b":4}', 4_000_000),
        ("[?unit=='W'].v | [0]", b'[{"unit":"V","v":1},{"unit":"W","v":5}]', 5_000_000),
    ],
)
def test_the_value_is_found_by_jmespath(expression: str, document: bytes, value_u: int) -> None:
    """Nested documents, lists, quoted names, alternatives and filters."""
    assert json_profile.decoder(expression, None)(document).value_u == value_u


@pytest.mark.parametrize("expression", ["abs(power)", "power.keys(@)", "sort(power)", "to_number(power)"])
def test_what_an_expression_cannot_digest_is_refused(expression: str) -> None:
    """An error of JMESPath on a document is `refused_type`; nothing found is `refused_missing`."""
    assert refused(json_profile.decoder(expression, None), b'{"power":"x"}') in {
        "refused_type",
        "refused_missing",
    }


def test_a_wrong_expression_is_an_error_at_the_start() -> None:
    """An expression that JMESPath does not know is a ValueError when the decoder is made."""
    with pytest.raises(ValueError, match="a JMESPath expression"):
        json_profile.decoder("power[", None)


# --- nothing is kept, nothing takes long ------------------------------------------------------------


@pytest.mark.parametrize(
    ("decode", "payload"),
    [
        (DOCUMENT, b'{"power": canary-4711'),
        (DOCUMENT, b'{"power":"canary-4711","t":1}'),
        (DOCUMENT, b'{"power":1,"t":"canary-4711"}'),
        (DOCUMENT, b'{"canary-4711":1}'),
        (DOCUMENT, b"canary-4711\xff"),
        (DOCUMENT, b'["canary-4711",' * 5000),
        (json_profile.decoder("abs(power)", None), b'{"power":"canary-4711"}'),
        (number.decode, b"canary-4711"),
        (number.decode, b"canary-4711\xff"),
    ],
)
def test_an_error_holds_nothing_of_the_payload(decode: Decoder, payload: bytes) -> None:
    """Not in its text, its arguments, its cause or its context, nor in what a traceback prints."""
    with pytest.raises(PayloadError) as caught:
        decode(payload)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert error.args == (error.reason,)
    printed = "".join(traceback.format_exception(error))
    assert "canary" not in f"{error} {error!r} {vars(error)} {printed}"


@pytest.mark.parametrize("filler", [b"%c" % byte for byte in b'10-.e \n[{"\\'] + [b'"a":', b"nan"])
@pytest.mark.parametrize("shape", [b"%b", b'{"t":1,"power":%b}', b"0.%bx", b'{"t":%b}'])
def test_no_payload_takes_long(shape: bytes, filler: bytes) -> None:
    """64 KiB of anything are decoded or refused in a small part of a second of work."""
    payload = shape % (filler * (65_536 // len(filler)))
    gc.collect()
    began = time.process_time()
    for decode in (number.decode, DOCUMENT):
        assert outcome(decode, payload) in {"reading", *REFUSALS}
    assert time.process_time() - began < 0.5


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_reading_or_a_counter(payload: bytes) -> None:
    """No payload raises anything but PayloadError with a known counter."""
    for decode in (number.decode, DOCUMENT, UNTIMED):
        assert outcome(decode, payload) in {"reading", *REFUSALS}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["power", "t", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values, st.sampled_from(["power", "power.a", "a[0].power", "max([power, t])", "t || power"]))
def test_any_document_is_a_reading_or_a_counter(document: object, expression: str) -> None:
    """No JSON document raises anything but PayloadError, whatever the expression."""
    decode = json_profile.decoder(expression, "t")
    assert outcome(decode, json.dumps(document).encode()) in {"reading", *REFUSALS}


def test_a_mistake_that_was_not_foreseen_is_not_hidden() -> None:
    """Only the named mistake of a parser is a refusal; a bug stays a bug."""
    assert attempt("refused_json", ValueError, int, "7") == 7
    with pytest.raises(TypeError):
        attempt("refused_json", ValueError, int, [])  # type: ignore[arg-type]
