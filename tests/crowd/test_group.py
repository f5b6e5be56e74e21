"""The public file of a group."""

import hashlib
import json
from fractions import Fraction

import pytest

from meteragent.crowd import group as groups
from meteragent.crowd.seal import is_signed
from meteragent.domain.errors import ConfigErrors
from tests.support.crowd import group_text, make_group


def test_the_id_is_the_hash_of_what_the_file_says() -> None:
    """Comments, order and spelling of numbers do not matter."""
    group = make_group()
    spelled = "# a street\n" + group_text(quantum_wh="0.50", level='"1/1"', hide_wh="110.0")
    assert groups.parse_group(spelled).id == group.id == hashlib.sha256(group.canonical_bytes).digest()
    facts = json.loads(group.canonical_bytes)
    assert facts["version"] == 1
    assert facts["quantum_wh"] == "1/2"
    assert facts["hide_wh"] == "110"
    assert group.canonical_bytes == json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")


@pytest.mark.parametrize(
    "change",
    [
        {"name": '"oak-street"'},
        {"slot_s": "900"},
        {"quantum_wh": "0.25"},
        {"level": "2"},
        {"hide_wh": "300"},
        {"lowest_wh": "0"},
        {"highest_wh": "5000"},
        {"smallest_crowd": "4"},
        {"deadline_s": "1300"},
        {"answer_s": "3600"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_value_changes_the_id(change: dict[str, str]) -> None:
    """A home that pins the id pins every parameter."""
    assert make_group(**change).id != make_group().id


def test_every_identity_changes_the_id() -> None:
    """A home that pins the id pins both operators."""
    text = group_text()
    group = groups.parse_group(text)
    for operator in (group.leader, group.helper):
        assert groups.parse_group(text.replace(operator.identity, "ab" * 32)).id != group.id


def test_all_errors_are_reported_at_once() -> None:
    """One run names every wrong field."""
    text = group_text(slot_s="1801", hide_wh="-1", smallest_crowd="1", version="2") + "\nextra = 1\n"
    with pytest.raises(ConfigErrors) as refused:
        groups.parse_group(text.replace('name = "elm-street"', ""))
    keys = [error.key for error in refused.value.errors]
    assert sorted(keys) == ["helper.extra", "hide_wh", "name", "slot_s", "smallest_crowd", "version"]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"quantum_wh": '"1/3"', "hide_wh": "110", "lowest_wh": "0", "highest_wh": "10"}, "quantum_wh"),
        ({"hide_wh": "110.25"}, "hide_wh"),
        ({"lowest_wh": "-0.3"}, "lowest_wh"),
        ({"highest_wh": "1000000000000"}, "highest_wh"),
        ({"lowest_wh": "10000"}, "lowest_wh"),
        ({"level": '"1e-20"'}, "level"),
        ({"level": "100000"}, "level"),
        ({"level": "true"}, "level"),
        ({"level": "inf"}, "level"),
        ({"level": "1e999999999"}, "level"),
        ({"level": '"1e999999999"'}, "level"),
        ({"hide_wh": '" 110"'}, "hide_wh"),
        ({"hide_wh": '"1_10"'}, "hide_wh"),
        ({"name": '"a/b"'}, "name"),
        ({"name": '"street\\n"'}, "name"),
    ],
)
def test_a_value_that_cannot_keep_the_promise_is_refused(change: dict[str, str], key: str) -> None:
    """The error names the field."""
    with pytest.raises(ConfigErrors) as refused:
        make_group(**change)
    assert key in [error.key for error in refused.value.errors]


@pytest.mark.parametrize(
    ("key", "allowed", "refused"),
    [
        ("slot_s", ("60", "86400"), ("59", "30", "172800", "0")),
        ("smallest_crowd", ("2", "1048576"), ("1", "1048577")),
        ("deadline_s", ("1", "86400"), ("0", "86401")),
        ("answer_s", ("600", "604800"), ("599", "604801")),
        # a = level q / hide = level / 220
        ("level", ('"3520"', '"220/68719476736"'), ('"3520.001"', '"219/68719476736"')),
    ],
    ids=["slot", "smallest crowd", "deadline", "answer", "loss"],
)
def test_the_limits_of_a_group(key: str, allowed: tuple[str, ...], refused: tuple[str, ...]) -> None:
    """Each limit is allowed, and the next value is refused."""
    for value in allowed:
        make_group(**{key: value})
    for value in refused:
        with pytest.raises(ConfigErrors) as error:
            make_group(**{key: value})
        assert [problem.key for problem in error.value.errors] == [key]


def test_the_two_operators_are_two() -> None:
    """One party in both roles is refused."""
    group = make_group()
    text = group_text().replace(group.helper.identity, group.leader.identity)
    with pytest.raises(ConfigErrors, match="differs from the leader"):
        groups.parse_group(text.replace("The helper", "The leader"))


@pytest.mark.parametrize(
    ("change", "key", "found"),
    [
        ({"slot_s": "0x1" + "0" * 5000}, "slot_s", "an integer with thousands of digits"),
        ({"level": "0x1" + "0" * 5000}, "level", "an integer with thousands of digits"),
        ({"level": "[0x1" + "0" * 5000 + "]"}, "level", "an integer with thousands of digits"),
        ({"level": "1e99999999999999999999"}, "level", "1e99999999999999999999"),
        ({"lowest_wh": "1e-99999999999999999999"}, "lowest_wh", "1e-99999999999999999999"),
        ({"name": "1e99999999999999999999"}, "name", "1e99999999999999999999"),
        ({"level": "1e65"}, "level", "1e65"),
        ({"level": "1." + "0" * 63}, "level", "1." + "0" * 58 + " .."),
        ({"level": "1" + "0" * 64}, "level", "1" + "0" * 59 + " .."),
        ({"level": '"1.' + "0" * 63 + '"'}, "level", "'1." + "0" * 57 + " .."),
        ({"level": "nan"}, "level", "NaN"),
        ({"level": "[" * 90 + "]" * 90}, "level", "a list of lists or tables"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_number_that_cannot_be_read_is_refused(change: dict[str, str], key: str, found: str) -> None:
    """The error names its field and what the file has, beside the errors of other fields."""
    with pytest.raises(ConfigErrors) as refused:
        make_group(**({"deadline_s": "0"} | change))
    assert {(error.key, error.found) for error in refused.value.errors} == {("deadline_s", "0"), (key, found)}


def test_numbers_of_64_characters_are_read() -> None:
    """Strings and decimals as they are written, integers as decimal digits."""
    for value in ("1." + "0" * 62, '"1.' + "0" * 62 + '"', "0x1", "+1"):
        assert make_group(level=value).id == make_group().id


@pytest.mark.parametrize(
    ("value", "reason"),
    [("1" * 5000, "thousands of digits"), ("[" * 5000 + "]" * 5000, "nested too deeply"), ("=", "line 3")],
    ids=["digits", "brackets", "form"],
)
def test_a_text_that_is_not_toml_is_refused(value: str, reason: str) -> None:
    """The error says why."""
    with pytest.raises(ConfigErrors, match=reason):
        make_group(slot_s=value)


def small_order_points() -> list[bytes]:
    """Return the 8 points of small order, in all encodings, as RFC 8032 encodes them."""
    y8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    p = 2**255 - 19
    coordinates = [0, 1, p - 1, p, p + 1, int.from_bytes(y8, "little"), p - int.from_bytes(y8, "little")]
    return [(y | sign << 255).to_bytes(32, "little") for y in coordinates for sign in (0, 1)]


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_an_identity_of_small_order_is_refused(role: str) -> None:
    """Under the neutral point, anyone can sign everything."""
    assert is_signed(bytes([1]) + bytes(31), b"anything", bytes([1]) + bytes(63))
    identity = getattr(make_group(), role).identity
    for point in small_order_points():
        with pytest.raises(ConfigErrors, match="small order") as refused:
            groups.parse_group(group_text().replace(identity, point.hex()))
        assert refused.value.key == f"{role}.identity"


@pytest.mark.parametrize("text", ["", "name", "leader = 1\nhelper = []"])
def test_any_other_text_is_refused(text: str) -> None:
    """A file that is no group is refused with what is expected."""
    with pytest.raises(ConfigErrors):
        groups.parse_group(text)


def test_times_of_a_slot() -> None:
    """A slot belongs to the day of its start, closes after its deadline and expires after the answer's."""
    group = make_group()
    assert group.is_slot(3600)
    assert not group.is_slot(3601)
    assert (group.end_s(3600), group.closing_s(3600), group.expiry_s(3600)) == (5400, 6600, 93_000)
    assert groups.day_of(86_399) == 0
    assert groups.day_of(86_400) == 1
    assert group.loss_per_quantum == Fraction(1, 220)
