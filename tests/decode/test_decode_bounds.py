"""Payload -> Reading: no payload takes long, and none raises what was not foreseen."""

import gc
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.decode import json as json_profile
from meteragent.decode import parse_or_refuse
from meteragent.domain.counters import REFUSALS
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading
from tests.support import bare_numbers

Decode = Callable[[bytes], Reading]

DOCUMENT = json_profile.make_decoder("power", "t")
LARGEST = 65_536
"""source.max_payload, unless it is set."""
FILLERS = (
    b"1",
    b"0",
    b"-",
    b".",
    b"e",
    b" ",
    b"\n",
    b"[",
    b"{",
    b'"',
    b"\\",
    b'"a":',
    b"nan",
    b"\xe2\x80\xa8",
)


def outcome(decode: Decode, payload: bytes) -> str:
    """`reading`, or the counter of what is none; any other exception is a failure."""
    try:
        assert isinstance(decode(payload), Reading)
    except PayloadError as error:
        return error.reason
    return "reading"


@pytest.mark.slow("many payloads of 64 KiB")
@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("shape", [b"%b", b'{"t":1,"power":%b}', b"0.%bx", b'{"power":1,"t":%b}'])
def test_no_payload_takes_long(shape: bytes, filler: bytes) -> None:
    """64 KiB of anything are a reading or refused within half a second of work, usually milliseconds."""
    payload = shape % (filler * (LARGEST // len(filler)))
    gc.collect()
    began = time.process_time()
    for decode in (bare_numbers.decode, DOCUMENT):
        assert outcome(decode, payload) in {"reading", *REFUSALS}
    assert time.process_time() - began < 0.5


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["power", "t", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "expression",
    ["power.a", "a[0].power", "max([power, t])", "t || power", "sort_by(a, &t)[0].power", "to_number(power)"],
)
@given(document=json_values)
def test_whatever_an_expression_meets_is_a_reading_or_a_counter(expression: str, document: object) -> None:
    """No document makes a JMESPath expression raise anything but PayloadError with a known counter."""
    payload = json.dumps(document).encode()
    assert outcome(json_profile.make_decoder(expression, "t"), payload) in {"reading", *REFUSALS}


@pytest.mark.parametrize("text", ["1e1000000", "-1e1000000", "9." + "9" * 40 + "e999999", "0e1000000"])
def test_exponents_around_a_million_are_numbers(text: str) -> None:
    """Where Python's decimals overflow, values are still brought to their bound and times refused."""
    assert outcome(bare_numbers.decode, text.encode()) == "reading"
    assert outcome(DOCUMENT, f'{{"t":1,"power":{text}}}'.encode()) == "reading"
    expected = "reading" if text.startswith("0") else "refused_time"
    assert outcome(DOCUMENT, f'{{"power":1,"t":{text}}}'.encode()) == expected


def test_a_time_whose_year_cannot_be_written_is_refused() -> None:
    """A time before 1970 is refused: in records it would be no RFC 3339 time, or an error."""
    assert outcome(DOCUMENT, b'{"power":1,"t":"0001-01-01T00:00:00+14:00"}') == "refused_time"


def test_a_mistake_that_was_not_foreseen_is_not_hidden() -> None:
    """Only the named mistake of a parser is a refusal; a bug stays a bug."""
    assert parse_or_refuse("refused_json", ValueError, int, "7") == 7
    with pytest.raises(TypeError):
        parse_or_refuse("refused_json", ValueError, int, [])  # type: ignore[arg-type]
