"""`meteragent redact`: what stays of a recorded payload, what does not, and what is refused."""

import json
import random
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.cli.redact import outcome_text
from meteragent.decode.p1 import compute_crc
from meteragent.domain.errors import FormatError
from meteragent.tools.redact import Redactor
from meteragent.tools.redact.replacement import known_names
from tests.decode.test_profiles import CASES
from tests.support.profile_contract import Case

DRAWS = 4
"""A text that survives so many independent draws does not survive by chance."""


def seeded(seed: int) -> Callable[[int], bytes]:
    """Randomness that can be repeated."""
    return random.Random(seed).randbytes


def redacted(text: str, seed: int = 1) -> str:
    """Return a payload after a separate redactor."""
    return Redactor(seeded(seed)).redact_payload(text.encode()).decode()


def survivors(text: str, found: Callable[[str], set[str]]) -> set[str]:
    """Return what of a payload survives each of several independent draws."""
    outputs = [redacted(text, seed) for seed in range(DRAWS)]
    return {one for one in found(text) if all(one in output for output in outputs)}


# What does not stay


KEYS = st.one_of(st.sampled_from(sorted(known_names())), st.text(min_size=1))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.sampled_from(["kWh"])
)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner), st.dictionaries(KEYS, inner)), max_leaves=12
)


def texts(document: object) -> set[str]:
    """Return every key and text of a document with four letters or digits that is not a known name."""
    inside: list[object] = [document]
    found = set()
    while inside:
        one = inside.pop()
        if isinstance(one, dict):
            inside += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            inside += one
        elif isinstance(one, str) and sum(map(str.isalnum, one)) >= 4 and one not in known_names():
            found.add(one)
    return found


@given(DOCUMENTS, st.booleans())
def test_no_text_survives(document: object, ascii_only: bool) -> None:
    """No key or text of a document that is not a known name is in the output, however written."""
    written = json.dumps(document, ensure_ascii=ascii_only)
    quoted = {json.dumps(one, ensure_ascii=ascii_only)[1:-1] for one in texts(document)}
    quoted -= {one for one in quoted if one in "true false null Infinity"}  # JSON's own words stay
    assert not survivors(written, lambda _: quoted)


@given(
    st.lists(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False, width=32)), min_size=1)
)
def test_no_number_survives(numbers: list[float]) -> None:
    """No number of three digits survives, as JSON, as CSV, as the text of a field, as a telegram's value."""
    shown = [re.sub(r"e[+-]?\d+", "", str(one)) for one in numbers]
    for text in (
        json.dumps([float(one) for one in shown]),
        ",".join(shown),
        "\n".join(f"a;{one};kWh" for one in shown),
        json.dumps({"id": shown}),
        "\n".join(["/AAA5A", *(f"1-0:1.7.0({one}*kW)" for one in shown), "!"]),
    ):
        whole = [one for one in re.findall(r"[\d.]+", text) if len(re.sub(r"\D", "", one).strip("0")) >= 3]
        contents = {one for one in whole if one not in ("1.7.0", "1.7.0.")}
        assert not survivors(text, lambda _: contents)  # noqa: B023


WORDS = st.from_regex(r"[a-z]{5,9}", fullmatch=True).filter(lambda word: word not in known_names())
PIECES = st.one_of(
    WORDS, st.sampled_from([*'/!()*,;"{}[]:|=<>\\ \n\r\t019.-', "/AAA5", "1-0:1.7.0(", ",1\n"])
)


@given(st.lists(PIECES, min_size=1))
def test_no_word_survives_whatever_surrounds_it(pieces: list[str]) -> None:
    """A payload of any form is refused, or none of its words is in the output."""
    text = "".join(pieces)
    words = {word for word in re.findall(r"[a-z]{5,}", text) if word not in known_names()}
    for payload in (text, f"{text},1", f"/AAA5{text}"):
        with suppress(FormatError):
            assert not survivors(payload, lambda _: words)


@pytest.mark.parametrize(
    "text",
    [
        '{"mac": "a4:cf:12:9b:7e:05", "AB": "ab"}',
        '{"mac": "A4CF129B7E05", "A4CF129B7E05": 1}',
        '{"eui": "70b3d5fffe4d6612"}',
        '{"mail": "anna@huber.example", "url": "https://huber.example:8443/anna?key=geheim"}',
        '{"iban": "DE02120300000000202051", "mpan": 1800060304050}',
        '{"lat": 52.5163, "lon": 13.3777}',
        '{"Anna Huber": {"power": 412.5}}',
        '{"ENERGY-4711ab": {"Total": 98765.4}}',
        '{"name": "Hub\\u00e9r\\n\\"Anna\\"", "note": "\\/geheim"}',
        '{"type": [{"Type": 7}, 4711, {"Type": 4711}]}',
        '"Anna Huber"',
        "Anna Huber,412.5",
        'customer;power\n"Huber; Anna";412,5\n',
        "/ISK5\\2M550T-1012\r\n\r\n0-0:96.1.1(4530303434303037)\r\n!ABCD\r\n",
        "/ISK5\\2M550T-1012\n\n0-1:24.3.0(121030140000)(4711)\n(Anna*Huber)\n",
    ],
)
def test_what_identifies_is_replaced(text: str) -> None:
    """MAC, EUI, mail, address, account, place, person: as value, key, cell, and in a telegram."""
    kept = {"name", "type", "Type", "power", "Total", "customer", "mpan", "0-0:96.1.1", "0-1:24.3.0"}
    found = re.findall(r"(?:\w\w:){5}\w\w|\d-\d:[\d.]+|\w+", text)
    telling = {one for one in found if one not in kept and len(one) > 3}
    assert telling
    assert not survivors(text, lambda _: telling)


def test_a_topic_is_replaced_level_by_level() -> None:
    """Levels of the built-in profiles' topics stay, and others do not."""
    redactor = Redactor(seeded(1), ["attic"])
    assert re.fullmatch(
        r"tele/[a-z]{7}_\w{6}/attic/SENSOR", redactor.redact_topic("tele/tasmota_4D7731/attic/SENSOR")
    )
    assert "4D7731" not in redactor.redact_topic("tele/tasmota_4D7731/attic/SENSOR")


# What is refused


@pytest.mark.parametrize(
    "text",
    [
        "Zähler Müller: 004711",
        "The meter of Anna Huber shows 412.5",
        '{"id": "Huber',
        "{'name': 'Huber', 'power': 412.5}",
        '{"ID": 00004711}',
        "name=Huber;power=412.5",
        "vzlogger/8d2b1c60-5c3e-11ee-8c99-0242ac120002/agg 412.5",
        "a4:cf:12:9b:7e:05",
        "Huber, Anna",
        "a,b\n1,2\n3",
        "a,b\n1,Huber\nHuber,Anna",
        'a,"b\n1,2',
        "ADCO 021862345678 B\r\nBASE 012345678 .",
        "0-0:96.1.1(4530303434303037)\r\n",
        "/ISK5\\2M550T\r\n\r\n1-0:1.7.0(00.431*kW)\r\nHuber\r\n!",
        "/ISK5\\2M550T\r\n\r\n1-0:1.7.0(00.431*kW)\r\n!ABCD\r\nHuber\r\n",
        "[" * 100_000,
        "9" * 5000 + "x",
    ],
)
def test_what_is_of_no_known_format_is_refused(text: str) -> None:
    """Prose, damaged messages and other formats: it is not known what of them is a name."""
    with pytest.raises(FormatError, match="neither JSON, a P1 telegram nor CSV"):
        redacted(text)


def test_what_is_not_utf_8_is_refused() -> None:
    """Bytes that are not UTF-8 are of no known format."""
    with pytest.raises(FormatError, match="UTF-8"):
        Redactor(seeded(1)).redact_payload(b'{"name": "M\xfcller", "power": 5}')


# What stays


@given(DOCUMENTS, st.booleans())
def test_a_payload_is_as_long_as_it_was(document: object, ascii_only: bool) -> None:
    """Nothing shifts: ASCII punctuation and white space stay where they are."""
    text = json.dumps(document, ensure_ascii=ascii_only, indent=1)
    after = redacted(text)
    assert len(after) == len(text)
    mine = set('{}[]",:;()<>|= \t\r\n')
    if "\\" not in text:
        assert [(i, c) for i, c in enumerate(text) if c in mine] == [
            (i, c) for i, c in enumerate(after) if c in mine
        ]


@given(DOCUMENTS)
def test_structure_stays(document: object) -> None:
    """JSON stays JSON of the same shape and types: null, booleans, 0 and empty texts are as they were."""
    after = json.loads(redacted(json.dumps(document)))
    assert shape(after) == shape(document)


def shape(document: object) -> object:
    """Return a document's structure without its content; objects whose keys coincide count as one."""
    if isinstance(document, dict):
        return "{}"
    if isinstance(document, list):
        return [shape(one) for one in document]
    if document is None or isinstance(document, bool):
        return document
    if isinstance(document, str):
        return len(document) > 0
    return type(document).__name__, document == 0


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", ""),
        ("0", "0"),
        ("00000000", "00000000"),
        ("-0.000", "-0.000"),
        ("512.3", r"1[0-5]\d\.\d"),
        ("-00.512", r"-00\.1[0-5]\d"),
        ("+7", r"\+[1-9]"),
        ("9.75e-3", r"1\.[0-5]\de-3"),
        ("NaN", "NaN"),
        ("unavailable", "unavailable"),
        ('{"ERTType": "0x17", "Type": 12}', r'\{"ERTType": "0x17", "Type": 12\}'),
        ('{"u": "kWh", "v": 42}', r'\{"u": "kWh", "v": 1[0-5]\}'),
        ("/AAA5A\n1-0:1.7.0(00.412*kW)", r"/[A-Z]{3}5[A-Z]\n1-0:1\.7\.0\(00\.1[0-5]\d\*kW\)"),
        ("time,power\n12:30,431", r"time,power\n12:30,1[0-5]\d"),
        ("time;power\r\n12:30; 4,31\r\n", r"time;power\r\n12:30; 1,[0-5]\d\r\n"),
        ('{"value": 431}\r\n\0', '\\{"value": 1[0-5]\\d\\}\r\n\0'),
        (r'{"data": "{\"value\": 431}"}', r'\{"data": "\{\\"value\\": 1[0-5]\d\}"\}'),
        ('name\tvalue\n"Anna"\t431\n', r'name\tvalue\n"[A-Z][a-z]{3}"\t1[0-5]\d\n'),
    ],
)
def test_numbers_keep_their_shape(text: str, pattern: str) -> None:
    """Sign, leading zeros, point, exponent, unit and number of digits stay; so does what is not measured."""
    assert re.fullmatch(pattern, redacted(text))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("2026-11-20T12:34:56Z", "2020-01-15T12:34:56Z"),
        ("2026-11-20T12:34:56.123456+01:00", r"2020-01-15T12:34:56\.\d{6}\+01:00"),
        ('"2026-11-20 12:34"', '"2020-01-15 12:34"'),
        ("2026-11-20", "2020-01-15"),
        ("20.11.2026", r"15\.01\.2020"),
        ("261120123456W", "200115123456W"),
        ("H261120123456", "H200115123456"),
        ('{"ts": 1795176034.07}', r'\{"ts": 1579089634\.\d\d\}'),
        ('{"timestamp": "1795176034117"}', r'\{"timestamp": "1579089634117"\}'),
        ("2026-13-45T12:00:00Z", "9999-99-99T12:00:00Z"),
        ("2026-11-20T12:00:00Z,2025-03-04T08:11:12", "2020-01-15T12:00:00Z,2020-01-15T08:11:12"),
        ("2026-11-20T23:59:59Z,2026-11-21T00:00:01Z", "2020-01-15T23:59:59Z,2020-01-16T00:00:01Z"),
    ],
)
def test_times_are_moved_by_whole_days(text: str, pattern: str) -> None:
    """The first time becomes 15 January 2020; others of its week keep their distance; the form stays."""
    assert re.fullmatch(pattern, redacted(text))


def test_the_fraction_of_a_second_is_drawn() -> None:
    """The decimals of a time would identify messages for ever, so they are replaced."""
    text = '["2026-11-20T12:34:56.123456Z", {"ts": 1795176034.987654}]'
    assert not survivors(text, lambda _: {"123456", "987654"})


def test_a_serial_number_is_no_time() -> None:
    """Ten digits are a time only under a key that says so: undoing the shift must not reveal an id."""
    after = json.loads(redacted('{"ts": 1795176034, "id": 1795170000}'))
    assert after["ts"] == 1579089634
    assert after["id"] - 1579089634 != 1795170000 - 1795176034


def test_the_same_gets_the_same() -> None:
    """Repetitions stay visible: as key and value, over several messages; other text differs."""
    redactor = Redactor(seeded(1))
    first = json.loads(
        redactor.redact_payload(b'{"src": "haus-huber", "haus-huber": 431.5, "b": "haus-meier"}')
    )
    assert first["src"] in first
    assert first["b"] != first["src"]
    assert json.loads(redactor.redact_payload(b'{"v": 431.5}'))["v"] == first[first["src"]]


def test_a_name_can_be_kept() -> None:
    """A key or value that is named stays."""
    after = Redactor(seeded(1), ["activePower"]).redact_payload(b'{"activePower": 0, "v": "activePower"}')
    assert after == b'{"activePower": 0, "v": "activePower"}'


def test_a_replacement_is_no_known_name() -> None:
    """A replacement that is a known name is drawn again, because it must mean nothing."""
    spelt = iter([ord(letter) - ord("a") for letter in "macxyz"])
    assert Redactor(lambda size: next(spelt).to_bytes(size)).redact_payload(b'"abc"') == b'"xyz"'


def test_what_stays_is_not_counted() -> None:
    """Only replacements are counted, not zeros and known names."""
    redactor = Redactor(seeded(1))
    redactor.redact_payload(b'{"power": 0, "u": "W", "x": null}')
    assert not redactor.replaced_counts
    redactor.redact_payload(b'{"power": 12.5, "u": "Huber", "Huber": "2026-11-20"}')
    assert redactor.replaced_counts == {"number": 1, "text": 1, "key": 1, "time": 1}


def test_replacements_do_not_follow_from_what_was_there() -> None:
    """Two payloads of the same shape become the same with the same randomness."""
    one, other = '{"name": "Huber", "x": [512.3, 7]}', '{"name": "Meier", "x": [987.6, 4]}'
    assert redacted(one, 5) == redacted(other, 5) != redacted(one, 6)


UNKNOWN_FORMATS = {"rtlamr: an id with leading zeros", "shelly-gen1: no number"}


def kept(quantities: Iterable[str]) -> list[str]:
    """Return the names in quantities that users name themselves, such as a path."""
    return [part for name in quantities for part in (name, *re.findall(r"[\w:-]+", name))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_profiles_read_it_as_before(case: Case) -> None:
    """A device's message gives as many readings as before, or is refused for the same reason.

    Users keep the names that they gave themselves. A payload of no known format is refused.
    """
    for seed in range(3):
        redactor = Redactor(seeded(seed), kept(case.readings))
        if str(case) in UNKNOWN_FORMATS:
            with pytest.raises(FormatError):
                redactor.redact_payload(case.payload)
            continue
        after = redactor.redact_payload(case.payload)
        for name in case.readings:
            read = case.quantity(name).read
            assert outcome_text(read, after) == outcome_text(read, case.payload), (name, after)


@pytest.mark.parametrize("case", [case for case in CASES if str(case) not in UNKNOWN_FORMATS], ids=str)
def test_what_identifies_in_a_device_s_message_is_gone(case: Case) -> None:
    """No name, serial number or address of a fixture is left."""
    outputs = [Redactor(seeded(seed)).redact_payload(case.payload).decode() for seed in range(DRAWS)]
    assert not [one for one in case.identifies if all(one in output for output in outputs)]


# P1 telegrams

TELEGRAM = (
    "/ISK5\\2M550T-1012\r\n\r\n1-3:0.2.8(50)\r\n0-0:1.0.0(261120123456W)\r\n"
    "0-0:96.1.1(4530303034303037)\r\n1-0:1.8.1(004711.815*kWh)\r\n0-0:96.14.0(0002)\r\n1-0:1.7.0(00.431*kW)\r\n!"
)


@pytest.mark.parametrize("line_end", ["\r\n", "\n"])
def test_a_check_sum_is_as_right_as_it_was(line_end: str) -> None:
    """A correct CRC of a telegram is correct after redaction; a wrong one stays wrong."""
    body = TELEGRAM.replace("\r\n", line_end)
    right = f"{body}{compute_crc(TELEGRAM.encode()):04X}{line_end}"
    for telegram, is_right in (
        (right, True),
        (f"{body}0000{line_end}", False),
        (f"{body}0{line_end}", False),
    ):
        after, _, told = redacted(telegram).rpartition("!")
        sent = f"{after}!".replace(line_end, "\r\n").encode()
        assert (int(told, 16) == compute_crc(sent)) is is_right
        assert re.match(r"/[A-Z]{3}5\\", after)
        assert "(200115123456W)" in after
        assert "4530303034303037" not in after
    assert redacted(body).endswith("!")


def test_several_telegrams_are_redacted() -> None:
    """Each telegram of a recording has its own checksum, and the last may be incomplete."""
    telegram = f"{TELEGRAM}{compute_crc(TELEGRAM.encode()):04X}\r\n"
    first, second, rest = redacted(telegram * 2 + TELEGRAM[:60]).split("!")
    assert second[:4] == first_sum(first)
    assert rest[:4] == first_sum(second[6:])


def first_sum(telegram: str) -> str:
    """Return the checksum of a telegram that is given without its end."""
    return f"{compute_crc(f'{telegram}!'.encode()):04X}"
