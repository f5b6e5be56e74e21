"""SenML packs in: resolved as RFC 8428 says, and what they must not be taken for."""

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.decode import PayloadNumber
from meteragent.decode.profiles import PROFILES
from meteragent.decode.senml import make_reader
from meteragent.domain.counters import REFUSALS
from meteragent.domain.errors import ConfigError, PayloadError
from meteragent.domain.units import Kind

NOON_S = 1_795_176_000
NOON_MS = NOON_S * 1000
NAMES = {"other", *REFUSALS}
J_IN_KWH = 3_600_000


def found(
    pack: Any, kind: Kind = Kind.POWER, name: str | None = None, *, of_sum: bool = False
) -> list[PayloadNumber]:
    """What is found in a pack."""
    payload = pack if isinstance(pack, bytes) else json.dumps(pack).encode()
    return list(make_reader(kind, name, is_sum=of_sum)(payload))


def refusal(pack: Any, kind: Kind = Kind.POWER, name: str | None = None) -> str:
    """The counter of a pack without a reading."""
    with pytest.raises(PayloadError) as refused:
        found(pack, kind, name)
    assert refused.value.__context__ is None, "the parser's exception holds the payload"
    return refused.value.reason


def outcome(payload: bytes, kind: Kind, name: str | None) -> Any:
    """What is found in a payload, or the counter of one without a reading."""
    try:
        return tuple(found(payload, kind, name))
    except PayloadError as error:
        return error.reason


# What is resolved ---------------------------------------------------------------------------------


def test_base_fields_hold_until_they_change() -> None:
    """Name, time, unit and value of a record are those of the base with its own, until it changes."""
    pack = [
        {"bn": "urn:dev:mac:c0ffee:", "bt": NOON_S, "bu": "W", "bv": 1000, "n": "load", "v": 18.5},
        {"n": "load", "t": 10, "v": -18.5},
        {"n": "load", "t": 20},
        {"bt": NOON_S + 60, "bv": 0, "n": "load", "v": 7},
        {"bn": "urn:dev:mac:other:", "n": "volts", "u": "V", "v": 231},
    ]
    assert found(pack, name="load") == [
        PayloadNumber(NOON_MS, Decimal("1018.5")),
        PayloadNumber(NOON_MS + 10_000, Decimal("981.5")),
        PayloadNumber(NOON_MS + 20_000, Decimal(1000)),
        PayloadNumber(NOON_MS + 60_000, Decimal(7)),
    ]


def test_a_base_sum_is_added_to_a_sum() -> None:
    """A record's sum is bs + s."""
    pack = [{"n": "load", "u": "W", "bs": 7_200_000, "s": 36}, {"n": "load", "t": -1, "s": 3600}]
    assert found(pack[:1], Kind.REGISTER, of_sum=True) == [PayloadNumber(None, Decimal(7_200_036))]


@pytest.mark.parametrize(
    ("bt", "t", "time_ms"),
    [
        (NOON_S, 0.25, NOON_MS + 250),
        (NOON_S, -0.0004, NOON_MS - 1),
        (NOON_S + 100, -100, NOON_MS),
        (0, NOON_S, NOON_MS),
        (-5, 0, -5000),
        (0, -86400.5, -86_400_500),
        (0, 0, None),
        (-10, 10, None),
        (0, 2**28, 2**28 * 1000),
    ],
)
def test_times_are_absolute_or_before_the_arrival(bt: float, t: float, time_ms: int | None) -> None:
    """From 2**28 s on a time is Unix time; below 0 it is so long before the arrival; 0 is the arrival."""
    assert found([{"bt": bt, "n": "p", "u": "W", "t": t, "v": 1}]) == [PayloadNumber(time_ms, Decimal(1))]


@pytest.mark.parametrize(("bt", "t"), [(0, 1), (0, 2**28 - 1), (5, -4.5), (0, 10**13), (-(10**13), 0)])
def test_a_time_to_come_is_no_measurement(bt: float, t: float) -> None:
    """A relative time in the future, and one beyond all sense, is refused."""
    assert refusal([{"bt": bt, "n": "p", "u": "W", "t": t, "v": 1}]) == "refused_time"


@pytest.mark.parametrize(
    ("kind", "unit", "factor"),
    [
        (Kind.POWER, "W", 1),
        (Kind.POWER, "kW", 1000),
        (Kind.REGISTER, "J", 1),
        (Kind.REGISTER, "Wh", 3600),
        (Kind.REGISTER, "kWh", J_IN_KWH),
        (Kind.INTERVAL_ENERGY, "kWh", J_IN_KWH),
    ],
)
@given(number=st.decimals(-(10**9), 10**9, places=6))
def test_units_are_converted_exactly(kind: Kind, unit: str, factor: int, number: Decimal) -> None:
    """Power is in W and energy in J, exactly, whatever unit a record has."""
    payload = b'[{"n":"x","u":"%s","v":%s}]' % (unit.encode(), f"{number:f}".encode())
    [one] = found(payload, kind)
    assert Fraction(one.number) == Fraction(number) * factor


def test_secondary_units_come_with_either_version() -> None:
    """A unit such as kW is read from a pack of version 26, which announces it, and from one that does not."""
    for base in ({}, {"bver": 10}, {"bver": 26}):
        assert found([{**base, "n": "p", "u": "kW", "v": 2}]) == [PayloadNumber(None, Decimal(2000))]


def test_a_sum_is_a_register_where_it_is_asked_for() -> None:
    """`s` of a power is a register in J, of a record that is named, or of the only one that has a sum."""
    pack = [{"n": "load", "u": "kW", "v": 1, "s": 7200}, {"n": "spare", "u": "W", "v": 3}]
    assert found(pack, Kind.REGISTER, of_sum=True) == [PayloadNumber(None, Decimal(7_200_000))]
    assert found(pack, Kind.REGISTER, "load") == [PayloadNumber(None, Decimal(7_200_000))]
    assert refusal(pack, Kind.REGISTER, "spare") == "refused_missing"
    assert refusal(pack, Kind.INTERVAL_ENERGY, "load") == "refused_unit"
    assert refusal(pack, Kind.REGISTER) == "other"


# Which record is meant ----------------------------------------------------------------------------

TWO = [{"bn": "urn:x:", "n": "in/power", "u": "W", "v": 1}, {"n": "out/power", "u": "W", "v": 2}]


@pytest.mark.parametrize("name", ["in/power", "urn:x:in/power", "x:in/power"])
def test_a_record_is_known_by_its_name_or_its_end(name: str) -> None:
    """The full name, or its end behind a colon or a slash, says which record is meant."""
    assert found(TWO, name=name) == [PayloadNumber(None, Decimal(1))]


@pytest.mark.parametrize(
    ("name", "reason"), [(None, "refused_ambiguous"), ("power", "refused_ambiguous"), ("ower", "other")]
)
def test_two_names_that_fit_are_refused(name: str | None, reason: str) -> None:
    """If two names fit, nothing is guessed; a part of a name does not fit."""
    assert refusal(TWO, name=name) == reason


def test_reactive_power_is_not_power() -> None:
    """The end of a name begins after a colon or slash: reactive_power is another name, var another unit."""
    pack = [{"n": "m:power", "u": "W", "v": 1}, {"n": "m:reactive_power", "u": "var", "v": 2}]
    assert found(pack, name="power") == found(pack) == [PayloadNumber(None, Decimal(1))]


def test_a_name_is_the_configurations() -> None:
    """The value of a source is the name of a record, or words that mean no name, as the default does."""
    profile = PROFILES["senml"]
    named, default = profile.find_quantity(Kind.POWER, "in/power"), profile.find_quantity(Kind.POWER, None)
    assert named is not None
    assert list(named.read(json.dumps(TWO).encode())) == [PayloadNumber(None, Decimal(1))]
    assert default == profile.quantities["the only power"]
    assert profile.find_quantity(Kind.POWER, "the only sum") is None


def test_what_is_no_name_is_refused_before_the_start() -> None:
    """A source.value with characters that no SenML name has is refused with what would do."""
    text = """
        [source]
        topic = "senml/{meter}"
        profile = "senml"
        value = "the power"
        kind = "power"
        unit = "W"
        [sink]
        topic = "private/{meter}"
        """
    with pytest.raises(ConfigError, match=r"source\.value.*'the only power'"):
        config.parse(text)


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        (b"", "refused_empty"),
        (b"[", "refused_json"),
        (b"17", "refused_type"),
        ({"n": "p", "u": "W", "v": 1}, "refused_type"),
        ([[]], "refused_type"),
        ([], "other"),
        ([{"n": "p", "u": "W", "v": 1, "spin_": 1}], "refused_extension"),
        ([{"n": "p", "u": "W", "v": 1}, {"n": "q", "u": "V", "b_": 1}], "refused_extension"),
        ([{"bver": 11, "n": "p", "u": "W", "v": 1}], "refused_extension"),
        ([{"bver": "10", "n": "p", "u": "W", "v": 1}], "refused_extension"),
        ([{"bver": None, "n": "p", "u": "W", "v": 1}], "refused_extension"),
        ([{"n": "p", "u": "W", "vs": "7391155"}], "refused_type"),
        ([{"n": "p", "u": "W", "vb": True}], "refused_type"),
        ([{"n": "p", "u": "W", "v": "7391155"}], "refused_type"),
        ([{"n": "p", "u": "W", "v": True}], "refused_type"),
        ([{"n": "p", "u": "W", "v": None}], "other"),
        (b'[{"n":"p","u":"W","v":NaN}]', "refused_not_finite"),
        ([{"n": "p", "u": "W", "bv": "1", "v": 1}], "refused_type"),
        ([{"n": "p", "u": "W", "t": "now", "v": 1}], "refused_type"),
        ([{"n": "p", "u": "W", "bt": None, "v": 1}], "refused_missing"),
        ([{"n": 7, "u": "W", "v": 1}], "refused_type"),
        ([{"bn": 7, "n": "p", "u": "W", "v": 1}], "refused_type"),
        ([{"n": "p", "u": 7, "v": 1}], "refused_type"),
        ([{"n": "p", "v": 1}], "other"),
        ([{"n": "p", "u": "var", "v": 1}], "other"),
    ],
)
def test_what_is_no_power_is_counted(pack: Any, reason: str) -> None:
    """A text that is not a pack, an unknown required field, and a value that is no number are counted."""
    assert refusal(pack) == reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"u": "W", "vs": "7391155"}, "refused_type"),
        ({"u": "W", "v": None}, "refused_missing"),
        ({"u": "W", "bv": 5, "vs": "7391155"}, "refused_type"),
        ({"u": "V", "v": 1}, "refused_unit"),
        ({"v": 1}, "refused_unit"),
    ],
)
def test_a_named_record_that_is_no_power_is_counted(fields: dict[str, Any], reason: str) -> None:
    """What was asked for by name and holds no power has its counter."""
    assert refusal([{"n": "p", **fields}], name="p") == reason


labels = st.sampled_from(["bn", "bt", "bu", "bv", "bs", "bver", "n", "u", "v", "vs", "vb", "s", "t", "x"])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["W", "kW", "J", "kWh", "p"]),
    st.sampled_from([10, 26, NOON_S]),
)
packs = st.lists(st.dictionaries(labels, leaves, max_size=6), max_size=4)
numerals = st.from_regex(rb'\A\[\{"n":"p","u":"kW","(v|bv|t)":-?[1-9](\.[0-9]{1,50})?e[+-]?[0-9]{1,9}\}\]\Z')


@pytest.mark.parametrize("name", [None, "p"])
@given(payload=st.one_of(st.binary(max_size=60), packs.map(lambda one: json.dumps(one).encode()), numerals))
def test_any_pack_is_readings_or_counted(name: str | None, payload: bytes) -> None:
    """Whatever arrives is bounded readings, or a message that a counter names: nothing else is raised."""
    for kind in Kind:
        told = outcome(payload, kind, name)
        assert told in NAMES or all(one.number.is_finite() and one.id is None for one in told)
