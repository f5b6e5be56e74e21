"""The public file of a group."""

import hashlib
import json
from fractions import Fraction

import pytest

from meteragent.crowd import group as groups
from meteragent.domain.errors import ConfigErrors
from tests.support.crowd import group_text, make_group


def test_the_id_is_the_hash_of_what_the_file_says() -> None:
    """Comments, order and spelling of numbers do not matter."""
    group = make_group()
    spelled = "# a street\n" + group_text(quantum_wh="0.50", level='"1/1"', hide_wh="110.0")
    assert groups.parse(spelled).id == group.id == hashlib.sha256(group.canonical).digest()
    facts = json.loads(group.canonical)
    assert facts["version"] == 1
    assert facts["quantum_wh"] == "1/2"
    assert facts["hide_wh"] == "110"
    assert group.canonical == json.dumps(facts, sort_keys=True, separators=(",", ":")).encode("ascii")


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
    group = groups.parse(text)
    for operator in (group.leader, group.helper):
        assert groups.parse(text.replace(operator.identity, "ab" * 32)).id != group.id


def test_all_errors_are_reported_at_once() -> None:
    """One run names every wrong field."""
    text = group_text(slot_s="1801", hide_wh="-1", smallest_crowd="1", version="2") + "\nextra = 1\n"
    with pytest.raises(ConfigErrors) as refused:
        groups.parse(text.replace('name = "elm-street"', ""))
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
        groups.parse(text.replace("The helper", "The leader"))


@pytest.mark.parametrize("text", ["", "name", "leader = 1\nhelper = []"])
def test_any_other_text_is_refused(text: str) -> None:
    """A file that is no group is refused with what is expected."""
    with pytest.raises(ConfigErrors):
        groups.parse(text)


def test_times_of_a_slot() -> None:
    """A slot belongs to the day of its start, closes after its deadline and expires after the answer's."""
    group = make_group()
    assert group.is_slot(3600)
    assert not group.is_slot(3601)
    assert (group.end_s(3600), group.closes_s(3600), group.expires_s(3600)) == (5400, 6600, 93_000)
    assert groups.day_of(86_399) == 0
    assert groups.day_of(86_400) == 1
    assert group.loss == Fraction(1, 220)
