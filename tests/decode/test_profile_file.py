"""A profile's file: what it may say, and how everything that is wrong with it is told at once."""

from fractions import Fraction
from typing import Any

import pytest

from meteragent.decode import profile_file
from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError, PayloadError
from meteragent.domain.units import Kind
from tests.support.configurations import refused

HEAD = """\
name = "my-meter"
title = "a meter of my own"
topics = ["mine/{meter}"]
time = "arrival"
every = "10s"
hold = "5min"
"""
SOURCE = """
[[source]]
address = "https://example.com/meter"
date = "2026-11-23"
facts = "from documentation"
"""
POWER = """
[quantity.power]
kind = "power"
unit = "kW"
value = "now.p"
"""


def profile(quantities: str = POWER, head: str = HEAD) -> Profile:
    """The profile of a file."""
    return profile_file.parse_profile(head + SOURCE + quantities, "my-meter")


def errors(text: str, name: str = "my-meter") -> tuple[ConfigError, ...]:
    """The errors of a file."""
    return refused(lambda: profile_file.parse_profile(text, name)).errors


def read(keys: str, payload: str, head: str = HEAD) -> Any:
    """The numbers of a quantity with these keys in a payload, or the reason why there are none."""
    quantity = profile(f"\n[quantity.q]\n{keys}\n", head).quantities["q"]
    try:
        return [(number.time_ms, number.number) for number in quantity.read(payload.encode())]
    except PayloadError as error:
        return error.reason


def test_a_small_file_is_a_profile() -> None:
    """What a file leaves out is unknown, or has the default of the page on profiles."""
    device = profile()
    power = device.quantities["power"]
    assert (power.kind, power.scale, power.has_time, power.direction) == (
        Kind.POWER,
        Fraction(1000),
        False,
        None,
    )
    assert (device.every_ms, device.hold_ms, device.period_ms) == (10_000, 300_000, None)
    assert not device.knows_dead_band
    assert device.quantum_w == 1
    assert device.identifies is None
    assert device.fields == ("now", "p")
    assert [origin.address for origin in device.evidence.origins] == ["https://example.com/meter"]


def test_every_profile_states_where_its_facts_are_from() -> None:
    """A built-in profile has sources, each captured or from documentation, or a module reads its messages."""
    unstated = {name for name, device in PROFILES.items() if not device.evidence.origins}
    readers = {"dsmr-reader", "dsmr-reader-topics", "emonhub", "emonhub-csv", "iammeter", "rtl_433", "rtlamr"}
    assert unstated == {*readers, "rtlamr2mqtt", "senml", "vzlogger", "wmbusmeters"}


def test_everything_wrong_is_told_at_once() -> None:
    """Each error has its line, its key, the value and the expected value."""
    text = (
        HEAD.replace("title", "tilte").replace('"10s"', '"10"')
        + POWER.replace('"power"\n', '"powr"\n').replace("unit", "unti")
        + "\n[quantity.export]\nkind = 'register'\nvalue = 'a..b'\nscale = 3\n"
        + SOURCE.replace("captured", "guessed").replace("2026-11-23", "today")
    )
    told = [(error.line, error.key, error.meant) for error in errors(text)]
    assert told == [
        (2, "tilte", "title"),
        (5, "every", None),
        (9, "quantity.power.kind", "'power'"),
        (10, "quantity.power.unti", "unit"),
        (15, "quantity.export.value", None),
        (16, "quantity.export.scale", None),
        (20, "source[0].date", None),
    ]


@pytest.mark.parametrize(
    ("keys", "key", "expected"),
    [
        ("kind = 'power'\nunit = 'kWh'\nvalue = 'a'", "unit", "one of W, kW, mW"),
        ("kind = 'register'\nunit = 'W'\nvalue = 'a'", "unit", "one of Wh, kWh"),
        ("kind = 'interval_energy'\nvalue = 'a'", "interval", "the time that each number covers"),
        ("kind = 'power'\nvalue = 'a'\ninterval = '5min'", "interval", "only for kind"),
        ("kind = 'power'\nvalue = 'a'\nstep = 1", "step", "is not counted"),
        ("kind = 'power'\nvalue = 'a'\ncounters = 2", "counters", "is not counted"),
        ("kind = 'power'\ntext = true", "value", "the path of the number"),
        ("kind = 'power'\nvalue = 'a'\nunit_at = 'b'", "unit", "the string that unit_at must find"),
        ("kind = 'power'\nvalue = []", "value", "a path, a list of paths"),
        ("kind = 'power'\nvalue = [['a'], 'b']", "value", "a path, a list of paths"),
        ("kind = 'power'\nvalue = 'a'\nchannel = -1", "channel", "from 0, or 'all'"),
        ("kind = 'power'\nvalue = 'a'\nmatch = { b = 1979-05-27 }", "match", "true (present)"),
        ("kind = 'power'\nvalue = 'a'\ndirection = 'in'", "direction", "'import', 'export', 'net' or 'both'"),
        ("kind = 'register'\nvalue = 'a'\nstep = 0", "step", "greater than 0"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys: str, key: str, expected: str) -> None:
    """A key is refused that the kind does not have, that needs another, or whose value has another form."""
    (error,) = errors(HEAD + SOURCE + f"\n[quantity.q]\n{keys}\n")
    assert error.key == f"quantity.q.{key}"
    assert expected in error.expected


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("my-meter", "other", "name"),
        ('"arrival"', '"a b"', "time"),
        ('"arrival"', '"*.time"', "time"),
        ("mine/{meter}", "mine/#", "topics"),
        ('["mine/{meter}"]', "[]", "topics"),
        ('"5min"', '"0s"', "hold"),
        ('hold = "5min"', "", "hold"),
        ('hold = "5min"', 'hold = "5min"\nperiod = "sometimes"', "period"),
        ('hold = "5min"', 'hold = "5min"\ndead_band = -1', "dead_band"),
        ('hold = "5min"', 'hold = "5min"\nmatch = 3', "match"),
        ('hold = "5min"', 'hold = "5min"\nothers = "a b"', "others"),
    ],
)
def test_wrong_values_are_refused(old: str, new: str, key: str) -> None:
    """A value of a wrong form is refused on its own."""
    (error,) = errors(HEAD.replace(old, new) + SOURCE + POWER)
    assert error.key == key


@pytest.mark.parametrize("name", ["number", "json", "My Meter", "ä"])
def test_a_name_is_that_of_a_file(name: str) -> None:
    """Names of formats, capitals and spaces are not allowed as names of profiles."""
    (error,) = errors(HEAD.replace("my-meter", name) + SOURCE + POWER, name)
    assert error.key == "name"


def test_what_is_not_toml_has_its_line() -> None:
    """A file that TOML does not allow is refused with the line."""
    (error,) = errors(HEAD + "[quantity.power\n")
    assert error.line == 7


# What the keys of a quantity mean -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "payload", "outcome"),
    [
        ("'a.b'", '{"a": {"b": 0.1}}', "0.1"),
        ("'a.\"b c\"'", '{"a": {"b c": -2}}', "-2"),
        ("'*.b'", '{"x": 1, "a": {"b": 3}}', "3"),
        ("'*.b'", '{"x": {"b": 1}, "a": {"b": 3}}', "refused_ambiguous"),
        ("'x.*.b'", '{"x": {"a": {"b": 3}}, "b": 4}', "3"),
        ("'a[0]'", '{"a": [7, 8]}', "7"),
        ("'sum(a)'", '{"a": [0.1, 0.2]}', "0.3"),
        ("['a', '-b', 'c']", '{"a": 0.3, "b": 0.1, "c": 1}', "1.2"),
        ("['a', 'b']", '{"a": 1}', "refused_missing"),
        ("['a', 'b']", '{"a": 1, "b": null}', "refused_missing"),
        ("[['a'], ['b', 'c']]", '{"b": 1, "c": 2}', "3"),
        ("[['a'], ['b', 'c']]", '{"a": 9, "b": 1}', "9"),
        ("[['a'], ['b', 'c']]", '{"c": 1}', "refused_missing"),
        ("'a'", '{"b": 1}', "refused_missing"),
        ("'a'", '{"a": "1"}', "refused_type"),
        ("'a'", '{"a": [1]}', "refused_type"),
        ("'a'", "[1]", "refused_type"),
        ("'a'\ntext = true", '{"a": "0012.50"}', "12.50"),
        ("'a'\nchannel = 'all'", '{"a": [0.1, 0.2]}', "0.3"),
        ("'a'\nchannel = 'all'", '{"a": 5}', "5"),
        ("'a'\nchannel = 1", '{"a": [4, 6]}', "6"),
        ("'a'\nchannel = 1", '{"a": 4}', "refused_missing"),
        ("'a'\nnegative = { t = 'up' }", '{"a": 1, "t": "up"}', "-1"),
        ("'a'\nnegative = { t = 'up' }", '{"a": 1, "t": "down"}', "1"),
        ("'a'\nmatch = { t = 'el' }", '{"a": 1, "t": "el"}', "1"),
        ("'a'\nmatch = { t = 'el' }", '{"a": 1, "t": "gas"}', "other"),
        ("'a'\nmatch = { t = [0, 'x'] }", '{"a": 1}', "other"),
        ("'a'\nmatch = { t = [0, 'x'] }", '{"a": 1, "t": false}', "other"),
        ("'a'\nmatch = { t = [0, 'x'] }", '{"a": 1, "t": 0.0}', "1"),
        ("'a'\nmatch = [{ t = true, u = false }, { v = true }]", '{"a": 1, "t": 2, "u": 3}', "other"),
        ("'a'\nmatch = [{ t = true, u = false }, { v = true }]", '{"a": 1, "v": null}', "1"),
    ],
)
def test_a_value_is_found_as_written(value: str, payload: str, outcome: str) -> None:
    """Paths, sums, differences, alternatives, channels, texts and conditions; decimals stay exact."""
    got = read(f"kind = 'register'\nvalue = {value}", payload)
    assert (got if isinstance(got, str) else str(got[0][1])) == outcome


@pytest.mark.parametrize(
    ("payload", "outcome"),
    [
        ('{"m": {"t": 1795176000}, "a": 1}', 1795176000000),
        ('{"m": {"t": "2026-11-20T12:00:00+00:00"}, "a": 1}', 1795176000000),
        ('{"m": {"t": "2026-11-20T13:00:00"}, "a": 1}', "refused_time"),
        ('{"m": {}, "a": 1}', "refused_missing"),
        ('{"a": 1}', None),
    ],
)
def test_a_time_is_required_where_its_object_is(payload: str, outcome: Any) -> None:
    """A time without a zone is refused; without the object that should hold it, the arrival counts."""
    got = read("kind = 'power'\nvalue = 'a'", payload, HEAD.replace("arrival", "m.t"))
    assert (got if isinstance(got, str) else got[0][0]) == outcome


def test_a_partial_message_may_lack_the_quantity() -> None:
    """A message that leaves out what has not changed is counted as other; any other is refused."""
    head = HEAD + "partial = { changes = true }\n"
    assert read("kind = 'power'\nvalue = 'a'", '{"changes": 1}', head) == "other"
    assert read("kind = 'power'\nvalue = 'a'", '{"b": 1}', head) == "refused_missing"
    assert read("kind = 'power'\nvalue = 'a'", '{"changes": 1, "a": null}', head) == "refused_missing"


def test_other_fields_are_named_by_the_configuration() -> None:
    """With `others`, source.value may be any path below that object; any other text is not a quantity."""
    device = profile(head=HEAD + "others = 'object'\n")
    quantity = device.find_quantity(Kind.REGISTER, 'x."total energy"')
    assert quantity is not None
    assert quantity.scale is None
    assert [number.number for number in quantity.read(b'{"object": {"x": {"total energy": 4}}}')] == [4]
    assert device.find_quantity(Kind.REGISTER, "x..y") is None
