"""Payloads as programs send them: what is appended or wrapped is removed, and foreign forms have names."""

import base64
import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.decode import json as json_profile
from meteragent.decode import p1
from meteragent.decode.foreign import form_of
from meteragent.decode.profiles import PROFILES
from meteragent.decode.reader import WRAP_W, Message, Term, Value, make_document_reader
from meteragent.domain.counters import REFUSALS
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO, Kind
from tests.support import bare_numbers
from tests.support.payloads import payloads
from tests.support.profile_fixtures.dsmr import telegram

LINES = ("1-0:1.8.1(001234.567*kWh)", "1-0:1.7.0(00.512*kW)")
SYSTEM_TITLE = b"\xdb\x08LGZ\x12\x34\x56\x78\x9a"
ENCRYPTED = SYSTEM_TITLE + b"\x82\x01\x05\x30\x00\x00\x00\x07" + bytes(range(128, 200))
SPARKPLUG = b"\x08\x81\xd4\xee\xf0\xf0\x33\x12\x0d\x0a\x05power\x20\x0a\x6d\x00\x00\x00\x44\x18\x07"

endings = st.text("\0 \t\r\n", max_size=5).map(str.encode)


def refusal(read: Callable[[bytes], object], payload: bytes) -> str:
    """The counter by which a payload is refused."""
    with pytest.raises(PayloadError) as refused:
        read(payload)
    assert refused.value.__context__ is None
    return refused.value.reason


# What is appended or wrapped ------------------------------------------------------------------------


@given(value=st.integers(-(10**6), 10**6), ending=endings)
def test_what_programs_append_is_no_part_of_a_number(value: int, ending: bytes) -> None:
    """Zero bytes, CR, LF, tabs and spaces after a number or a document change nothing."""
    assert bare_numbers.decode(b"%d" % value + ending) == Reading(None, value * MICRO)
    document = b'{"power": %d, "t": 1700000000}' % value + ending
    assert json_profile.make_decoder("power", "t")(document) == Reading(1_700_000_000_000, value * MICRO)


@given(ending=endings)
def test_what_programs_append_is_no_part_of_a_telegram(ending: bytes) -> None:
    """A telegram is read whatever of these follows it, and so is the word for a missing value."""
    whole = telegram("ISK5", *LINES)
    assert p1.parse_telegram(whole + ending) == p1.parse_telegram(whole)
    esphome = PROFILES["esphome"].find_quantity(Kind.POWER, None)
    assert esphome is not None
    assert refusal(esphome.read, b"unavailable" + ending) == "refused_unavailable"


def wrapped(document: object, depth: int) -> object:
    """A document as a string in JSON, `depth` times."""
    return document if depth == 0 else json.dumps(wrapped(document, depth - 1))


@given(value=st.integers(-(10**6), 10**6), depth=st.integers(0, 3), inner=st.integers(0, 2))
def test_json_in_a_string_is_json(value: int, depth: int, inner: int) -> None:
    """A document that is a string of JSON, or has one in a field or a list, is read as what it spells."""
    document = {"sensor": wrapped({"power": value}, inner), "list": [wrapped({"p": [value]}, inner)]}
    payload = json.dumps(wrapped(document, depth)).encode()
    for expression in ("sensor.power", "list[0].p[0]"):
        assert json_profile.make_decoder(expression, None)(payload) == Reading(None, value * MICRO)


def test_a_string_that_spells_no_json_stays_a_string() -> None:
    """A template or a sentence in braces stays as it is, and harms no other field."""
    payload = json.dumps({"name": '{"x" and \\ more', "power": 5, "list": "[a]"}).encode()
    assert json_profile.make_decoder("power", None)(payload) == Reading(None, 5 * MICRO)
    assert refusal(json_profile.make_decoder("name", None), payload) == "refused_type"


@pytest.mark.parametrize("escape", ["\\u0022", '\\"'])
def test_quotes_in_a_string_are_escaped_in_two_ways(escape: str) -> None:
    """Some libraries escape a quote by its number."""
    payload = f'"{{{escape}power{escape}: 512}}"'.encode()
    assert json_profile.make_decoder("power", None)(payload) == Reading(None, 512 * MICRO)


# What is refused by name ----------------------------------------------------------------------------

DOCUMENT = json.dumps({"power": 512.3, "energy": 1234.567, "name": "meter in the hall"}).encode()
FOREIGN = {
    "refused_compressed": [
        gzip.compress(DOCUMENT),
        zlib.compress(DOCUMENT),
        zlib.compress(DOCUMENT, 1),
        bz2.compress(DOCUMENT),
        lzma.compress(DOCUMENT),
        base64.b64encode(gzip.compress(DOCUMENT)),
        zlib.compress(DOCUMENT).hex().encode(),
    ],
    "refused_encrypted": [
        ENCRYPTED,
        ENCRYPTED.hex().encode(),
        ENCRYPTED.hex(" ").upper().encode(),
        base64.b64encode(ENCRYPTED),
        b"\x68\xfa\xfa\x68\x53\xff\x00\x01\x67" + ENCRYPTED + b"\x16",
        b"\x7e\xa0\x8b\xce\xff\x03\x13\xee\xe1\xe6\xe7\x00" + ENCRYPTED + b"\x7e",
        b"\x1b\x1b\x1b\x1b\x01\x01\x01\x01\x76\x05\xff",
    ],
    "refused_sparkplug": [SPARKPLUG, base64.b64encode(SPARKPLUG)],
    "refused_influx": [
        b"smartmeter,host=gateway power=512.3,energy=1234.567 1790000000000000000",
        b"power value=512i",
        b'em\\ ter,room=the\\ hall state="on",power=-1.5',
        b"cpu,a=b idle=true\nmeter power=3u",
    ],
    "refused_notation": [
        str({"power": 512.3, "phase": None}).encode(),
        b"{power: 512.3}",
        b"OrderedDict([('power', 512.3)])",
        b"defaultdict(<class 'int'>, {'power': 512})",
        str(DOCUMENT).encode(),
        b"[object Object]",
        b"Reading(power=512.3, unit='W')",
        b"(512.3, 'W')",
    ],
    "refused_part": [
        b"1-0:1.8.1(001234.567*kWh)",
        b"1-0:1.8.0*255(001234.5678*kWh)\r\n",
        b"1.8.0(001234.5*kWh)",
        b"!1F2A",
        telegram("ISK5", *LINES)[20:] + telegram("ISK5", *LINES),
    ],
    "refused_comma": [
        b"512,3",
        b"-0,5",
        b"1.234,56",
        b"1,234.5",
        b"1 234,5",
        "1\u202f234,5".encode(),
        b"1'234.5",
    ],
    "refused_list": [
        b"512;230",
        b"512.3,230.1,2.2",
        b"512, 230",
        b"512.3 230.1",
        b"2026-11-20 12:00:00;512.3;on",
        b"512|230",
        b"power=512 voltage=230",
        b"power: 512\nvoltage: 230",
        b"[512; 230]",
    ],
    "refused_suffix": [b"512.3 W", b"512W", b"0.512 kW", b"1234.567*kWh", b"512,3 W", b"512 watt"],
}


@pytest.mark.parametrize("form", FOREIGN)
def test_a_foreign_payload_is_refused_by_its_name(form: str) -> None:
    """In place of a number, of JSON or of a telegram, each form has its counter, which says what to send."""
    readers: list[Callable[[bytes], object]] = [bare_numbers.decode]
    if form not in ("refused_comma", "refused_list", "refused_suffix"):
        readers += [json_profile.make_decoder("power", None), p1.parse_telegram]
    for payload in FOREIGN[form]:
        assert {refusal(read, payload) for read in readers} == {form}, payload
        assert form_of(payload) == form
    assert ": " in REFUSALS[form]


@pytest.mark.parametrize("text", ['{"power": 512,3}', '{"power":1234,5,"t":1}', '[{"power" : -0,5 }]'])
def test_a_comma_in_a_documents_number_is_named(text: str) -> None:
    """A document whose number has a comma is no JSON, and the comma is the reason."""
    assert refusal(json_profile.make_decoder("power", None), text.encode()) == "refused_comma"


def test_a_comma_in_a_string_is_named_where_strings_count() -> None:
    """A profile that reads numbers in strings names the comma in such a string."""
    value = Value(((Term("power", is_negative=False),),), accepts_text=True)
    read = make_document_reader(Message(), value, WRAP_W)
    texts = [json.dumps({"power": text}).encode() for text in ("512,3", "512.3 W")]
    assert [refusal(read, text) for text in texts] == ["refused_comma", "refused_suffix"]


OTHERS = (
    "about 512\non\ntrue\n0x12\n12:30\n2026-11-20 12:00:00\n192.168.1.1\nhello, world\nAA:BB:CC:DD:EE:FF\n"
    "x\x01\n-\n1_0\nopen;closed\n\nrgb(1,2,3)\n{}\n[]\n\u00ff\u00fe"
)


def test_other_payloads_have_no_form() -> None:
    """A word, a date, an address or a sentence is not mistaken for one of these forms."""
    for text in OTHERS.split("\n"):
        assert form_of(text.encode()) is None
        assert form_of(text.encode("latin-1")) is None


def test_no_payload_that_a_profile_reads_has_a_form() -> None:
    """Of the corpus, only the lists of columns that a profile reads by their positions look foreign."""
    forms = {payload.file: (payload.profile, form_of(payload.bytes)) for payload in payloads()}
    assert {form for form in forms.values() if form[1]} <= {("emonhub-csv", "refused_list")}


@given(payload=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_a_form_is_a_counter(payload: bytes) -> None:
    """Whatever arrives has no form, or one that is a counter."""
    assert form_of(payload) in (None, *FOREIGN)
