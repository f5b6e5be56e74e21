"""`meteragent redact`: what stays of a recorded payload, and what does not."""

import json
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.cli.redact import outcome
from meteragent.decode.p1 import checksum
from meteragent.tools.redact import Redactor
from meteragent.tools.redact.words import WORDS, is_known
from tests.decode.test_profiles import CASES
from tests.support.profile_contract import Case

DRAWS = 4
"""A text that survives so many independent draws does not survive by chance."""


def seeded(seed: int) -> Callable[[int], bytes]:
    """Randomness that can be repeated."""
    return random.Random(seed).randbytes


def redacted(text: str, seed: int = 1) -> str:
    """Return a text after a separate redactor."""
    return Redactor(seeded(seed)).text(text)


def survivors(text: str, found: Callable[[str], set[str]]) -> set[str]:
    """Return what of a text survives each of several independent draws."""
    outputs = [redacted(text, seed) for seed in range(DRAWS)]
    return {one for one in found(text) if all(one in output for output in outputs)}


# What does not stay


KEYS = st.one_of(st.sampled_from(sorted(WORDS)), st.text(min_size=1))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.sampled_from(["kWh"])
)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner), st.dictionaries(KEYS, inner)), max_leaves=12
)


def texts(document: object) -> set[str]:
    """Return every key and text of a document with four letters or digits that is not made of known words."""
    inside: list[object] = [document]
    found = set()
    while inside:
        one = inside.pop()
        if isinstance(one, dict):
            inside += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            inside += one
        elif isinstance(one, str) and sum(map(str.isalnum, one)) >= 4 and not named(one):
            found.add(one)
    return found


def named(text: str) -> bool:
    """Return whether all parts of a text are known words or small numbers."""
    return all(is_known(part) or len(part) <= 2 for part in re.split(r"[:/*@#&?\\]", text))


@given(DOCUMENTS, st.booleans())
def test_no_text_survives(document: object, ascii_only: bool) -> None:
    """No key or text of a document that is not made of known words is in the output, however written."""
    written = json.dumps(document, ensure_ascii=ascii_only)
    quoted = {json.dumps(one, ensure_ascii=ascii_only)[1:-1] for one in texts(document)}
    assert not survivors(written, lambda _: quoted)


def long_numbers(text: str) -> set[str]:
    """Return runs of three and more digits in a text, other than zeros."""
    return {one for one in re.findall(r"\d{3,}", text) if one.strip("0")}


@given(st.lists(st.one_of(st.integers(), st.floats(allow_nan=False, width=32)), min_size=1))
def test_no_number_survives(numbers: list[float]) -> None:
    """No number of three digits survives, as JSON, as CSV, as text, as the text of a field."""
    shown = [re.sub(r"e[+-]?\d+", "", str(one)) for one in numbers]
    for text in (
        json.dumps([float(one) for one in shown]),
        ",".join(shown),
        "\n".join(f"a: {one}" for one in shown),
        json.dumps({"id": shown}),
        " ".join(f"{one}kWh" for one in shown),
    ):
        whole = [one for one in re.findall(r"[\d.]+", text) if len(re.sub(r"\D", "", one).strip("0")) >= 3]
        assert not survivors(text, lambda _: set(whole))  # noqa: B023


@pytest.mark.parametrize(
    "text",
    [
        '{"mac": "a4:cf:12:9b:7e:05", "AB": "ab"}',
        '{"mac": "A4CF129B7E05", "A4CF129B7E05": 1}',
        "a4:cf:12:9b:7e:05 of",
        '{"eui": "70b3d5fffe4d6612"}',
        '{"mail": "anna@huber.example", "url": "https://huber.example:8443/anna?key=geheim"}',
        "mqtt.huber.example 192.0.2.177",
        '{"iban": "DE02120300000000202051", "mpan": 1800060304050}',
        '{"lat": 52.5163, "lon": 13.3777}',
        '{"Anna Huber": {"power": 412.5}}',
        '{"ENERGY-4711ab": {"Total": 98765.4}}',
        "vzlogger/8d2b1c60-5c3e-11ee-8c99-0242ac120002/agg 412.5",
        "{'name': 'Huber', 'power': 412.5}",
        '{"name": "Hub\\u00e9r\\n\\"Anna\\"", "note": "\\/geheim"}',
        "Zähler Müller: 004711",
        '{"id": "Huber',
        "name=Huber;power=412.5",
        '{"note": "a_n_n_a"}',
        "/ISK5\\2M550T-1012\r\n\r\n0-0:96.1.1(4530303434303037)\r\n!ABCD\r\n",
        "ADCO 021862345678 B\r\nBASE 012345678 .",
    ],
)
def test_what_identifies_is_replaced(text: str) -> None:
    """MAC, EUI, mail, address, host, account, place, person: as value, key, topic, in broken JSON too."""
    telling = {one for one in re.findall(r"(?:\w\w:){5}\w\w|\w+", text) if not is_known(one) and len(one) > 3}
    assert telling
    assert not survivors(text, lambda _: telling)


# What stays


@given(st.text())
def test_a_text_is_as_long_as_it_was(text: str) -> None:
    """Nothing shifts: ASCII punctuation and white space stay where they are."""
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
        ("0", "0"),
        ("00000000", "00000000"),
        ("-0.000", "-0.000"),
        ("512.3", r"1[0-5]\d\.\d"),
        ("-00.512", r"-00\.1[0-5]\d"),
        ("+7", r"\+[1-9]"),
        ("9.75e-3", r"1\.[0-5]\de-3"),
        ("NaN", "NaN"),
        ("unavailable", "unavailable"),
        ("00.512*kW", r"00\.1[0-5]\d\*kW"),
        ("512W", r"1[0-5]\dW"),
        ('{"Type": 12, "type": 7}', r'\{"Type": 12, "type": 7\}'),
        ('{"phase_1_power": 42}', r'\{"phase_1_power": 1[0-5]\}'),
        ('{"Temperature": 12}', r'\{"Temperature": 1[0-5]\}'),
        ('{"unit_of_measurement": "kWh"}', r'\{"unit_of_measurement": "kWh"\}'),
        ("1-0:1.7.0(00.412*kW)", r"1-0:1\.7\.0\(00\.1[0-5]\d\*kW\)"),
        ("time,power_w\n12:30,431", r"time,power_w\n12:30,1[0-5]\d"),
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
        ("2026-11-20T12:00:00Z 2025-03-04T08:11:12", "2020-01-15T12:00:00Z 2020-01-15T08:11:12"),
        ("2026-11-20T23:59:59Z 2026-11-21T00:00:01Z", "2020-01-15T23:59:59Z 2020-01-16T00:00:01Z"),
    ],
)
def test_times_are_moved_by_whole_days(text: str, pattern: str) -> None:
    """The first time becomes 15 January 2020; others of its week keep their distance; the form stays."""
    assert re.fullmatch(pattern, redacted(text))


def test_the_fraction_of_a_second_is_drawn() -> None:
    """The decimals of a time would identify messages for ever, so they are replaced."""
    assert not survivors(
        '2026-11-20T12:34:56.123456Z {"ts": 1795176034.987654}', lambda _: {"123456", "987654"}
    )


def test_a_serial_number_is_no_time() -> None:
    """Ten digits are a time only under a key that says so: undoing the shift must not reveal an id."""
    before, after = '{"ts": 1795176034, "id": 1795170000}', ""
    after = redacted(before)
    assert json.loads(after)["ts"] == 1579089634
    assert json.loads(after)["id"] - 1579089634 != 1795170000 - 1795176034


def test_the_same_gets_the_same() -> None:
    """Repetitions stay visible: as key and value, over several messages; other text differs."""
    after = redacted('{"src": "haus-huber", "haus-huber": 431.5, "b": "haus-meier"}\n{"v": 431.5}').split(
        "\n"
    )
    first = json.loads(after[0])
    assert first["src"] in first
    assert first["b"] != first["src"]
    assert json.loads(after[1])["v"] == first[first["src"]]


@pytest.mark.parametrize("name", ["a_n_n_a", "AB12CD", "power1234", "l1_2_3", "Huber", "Power Huber", ""])
def test_names_are_not_spelt_from_known_parts(name: str) -> None:
    """Single letters in a row, two numbers, or a long one make no known word."""
    assert not is_known(name)


@pytest.mark.parametrize(
    "name", ["total_act_power", "TotalStartTime", "power_l1", "kWh", "energy 2", "ENERGY"]
)
def test_names_of_known_words_stay(name: str) -> None:
    """Known words stay however they are joined, with one small number."""
    assert is_known(name)


def test_addresses_are_replaced_as_a_whole() -> None:
    """Parts of a MAC address that look like zeros or known words do not stay."""
    assert not survivors('{"mac": "00:dd:00:dd:00:dd"}', lambda _: {"00:dd:00", "dd:00:dd"})


def test_a_replacement_is_no_known_word() -> None:
    """A replacement that is a known word is drawn again, because it must mean nothing."""
    spelt = iter([ord(letter) - ord("a") for letter in "sumxyz"])
    assert Redactor(lambda size: next(spelt).to_bytes(size)).text('"abc"') == '"xyz"'


def test_what_stays_is_not_counted() -> None:
    """Only replacements are counted, not zeros and known words."""
    redactor = Redactor(seeded(1))
    redactor.text('{"power": 0, "unit": "W", "x": null}')
    assert not redactor.replaced
    redactor.text('{"power": 12.5, "unit": "Huber", "Huber": "2026-11-20"}')
    assert redactor.replaced == {"number": 1, "text": 1, "key": 1, "time": 1}


def test_replacements_do_not_follow_from_what_was_there() -> None:
    """Two texts of the same shape become the same with the same randomness."""
    one, other = '{"name": "Huber", "x": [512.3, 7]}', '{"name": "Meier", "x": [987.6, 4]}'
    assert redacted(one, 5) == redacted(other, 5) != redacted(one, 6)


def test_what_is_no_text_stays_none() -> None:
    """Bytes that are not UTF-8 are replaced by one that never is."""
    after = Redactor(seeded(1)).payload(b'{"name": "M\xfcller", "power": 5}')
    with pytest.raises(UnicodeDecodeError):
        after.decode()
    assert b"\xfc" not in after


@pytest.mark.parametrize("case", CASES, ids=str)
def test_profiles_read_it_as_before(case: Case) -> None:
    """A device's message gives as many readings as before, or is refused for the same reason."""
    for seed in range(3):
        after = Redactor(seeded(seed)).payload(case.payload)
        for name in case.readings:
            read = case.quantity(name).read
            assert outcome(read, after) == outcome(read, case.payload), (name, after)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_identifies_in_a_device_s_message_is_gone(case: Case) -> None:
    """No name, serial number or address of a fixture is left."""
    outputs = [Redactor(seeded(seed)).payload(case.payload).decode(errors="replace") for seed in range(DRAWS)]
    assert not [one for one in case.identifies if all(one in output for output in outputs)]


# P1 telegrams

TELEGRAM = (
    "/ISK5\\2M550T-1012\r\n\r\n1-3:0.2.8(50)\r\n0-0:1.0.0(261120123456W)\r\n"
    "0-0:96.1.1(4530303434303037)\r\n1-0:1.8.1(004711.815*kWh)\r\n0-0:96.14.0(0002)\r\n1-0:1.7.0(00.431*kW)\r\n!"
)


@pytest.mark.parametrize("line_end", ["\r\n", "\n"])
def test_a_check_sum_is_as_right_as_it_was(line_end: str) -> None:
    """A correct CRC of a telegram is correct after redaction; a wrong one stays wrong."""
    body = TELEGRAM.replace("\r\n", line_end)
    right = f"{body}{checksum(TELEGRAM.encode()):04X}{line_end}"
    for telegram, is_right in ((right, True), (f"{body}0000{line_end}", False)):
        after, _, told = redacted(telegram).rpartition("!")
        sent = f"{after}!".replace(line_end, "\r\n").encode()
        assert (int(told, 16) == checksum(sent)) is is_right
        assert re.match(r"/[A-Z]{3}5\\", after)
        assert "(200115123456W)" in after
        assert "4530303434303037" not in after
    assert redacted(body).endswith("!")
