"""SenML packs out: as RFC 8428 has them, byte for byte, and the same numbers as the JSON records."""

import functools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.consume import Record, collect
from meteragent.decode import PayloadNumber
from meteragent.decode.senml import reader
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import parse_time
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import Kind
from meteragent.wire.descriptor import describe
from meteragent.wire.record import RecordFormat
from tests.support.messages import ENERGY, HALF_HOUR_MS, KILO, NOON_MS, described, recorded
from tests.support.stores import TERMS

MONTH = """
[source]
topic = "meters/{meter}/power"
kind = "power"
unit = "W"
[window]
timezone = "Europe/Amsterdam"
[privacy]
preset = "typical-day"
[sink]
topic = "private/{meter}/power"
"""
BANDS = config.terms(config.parse(MONTH).stream[0])
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:./_-]*", re.ASCII)
labels = st.one_of(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    st.sampled_from(["utf8:6d31", "utf8:", "-a", "a b", "a/b", "70b3d5c0ffee4d66", "power"]),
)
by_terms = pytest.mark.parametrize("terms", [TERMS, KILO, ENERGY, BANDS], ids=["W", "kW", "Wh", "bands"])


@functools.cache
def shared(terms: Terms) -> RecordFormat:
    """What packs under the same terms share."""
    return RecordFormat.of(describe(terms), "senml")


def packed(terms: Terms, label: str, start_ms: int, place: int, quanta: int) -> bytes:
    """A record as a pack."""
    return shared(terms).record(label, start_ms, place, quanta)


def with_fields(place: int, **fields: Any) -> list[dict[str, Any]]:
    """A pack whose record at a place has other fields (`None`: without)."""
    pack = json.loads(packed(TERMS, "m1", NOON_MS, 0, 512))
    changed = {name: one for name, one in {**pack[place], **fields}.items() if one is not None}
    return [*pack[:place], changed, *pack[place + 1 :]]


# What leaves --------------------------------------------------------------------------------------


def test_a_record_is_a_pack() -> None:
    """A slot's record says its value under the meter's name at its start, and beside it what JSON says."""
    assert packed(TERMS, "m1", NOON_MS, 0, 512).decode() == (
        '[{"bn":"m1/","bt":1795176000,"n":"power","u":"W","v":512},'
        '{"n":"power_for","u":"s","v":1800},'
        f'{{"n":"power_sd","u":"W","v":{describe(TERMS).facts["sd"]}}},'
        f'{{"n":"power_terms","vs":"{describe(TERMS).id}"}}]'
    )


def test_a_secondary_unit_is_announced() -> None:
    """A unit such as kWh is SenML's by version 26 only, which the pack states; W needs none."""
    one = json.loads(packed(ENERGY, "m1", NOON_MS, 0, -3))[0]
    assert one == {"bn": "m1/", "bt": NOON_MS // 1000, "bver": 26, "n": "energy", "u": "Wh", "v": -3}
    assert json.loads(packed(KILO, "m1", NOON_MS, 0, 1))[0]["bver"] == 26


def test_a_band_is_named() -> None:
    """A band of a mean day has its window's start and length, and its name."""
    pack = json.loads(packed(BANDS, "m1", NOON_MS, 1, 5))
    by_name = {one["n"]: one for one in pack}
    assert by_name["power_band"] == {"n": "power_band", "vs": BANDS.bands[1].name}
    assert by_name["power_for"]["v"] * 1000 == BANDS.length_ms
    assert pack[0]["bt"] * 1000 == NOON_MS


@by_terms
@given(label=labels, quanta=st.integers(-(10**9), 10**9))
def test_a_pack_keeps_to_the_standard(terms: Terms, label: str, quanta: int) -> None:
    """Every name is one that SenML allows, whatever the meter is called, and every number is exact."""
    pack = json.loads(packed(terms, label, NOON_MS, 0, quanta), parse_float=Decimal)
    assert all(NAME.fullmatch(pack[0]["bn"] + one["n"]) for one in pack)
    assert Decimal(pack[0]["v"]) == quanta * Decimal(terms.quantum_u) / 10**6
    assert [set(one) & {"v", "vs"} for one in pack] == [
        {"v"},
        *[{"vs"}] * bool(terms.bands),
        *[{"v"}] * 2,
        {"vs"},
    ]


@by_terms
@given(numbers=st.lists(st.tuples(labels, st.integers(-(10**9), 10**9)), min_size=2, max_size=2))
def test_the_fields_do_not_depend_on_what_happened(terms: Terms, numbers: list[tuple[str, int]]) -> None:
    """Every pack of a stream has the same records with the same fields."""
    one, other = (json.loads(packed(terms, label, NOON_MS, 0, quanta)) for label, quanta in numbers)
    assert [(record["n"], list(record)) for record in one] == [
        (record["n"], list(record)) for record in other
    ]


@given(quanta=st.integers(-(10**9), 10**9))
def test_any_senml_reader_finds_the_value(quanta: int) -> None:
    """A pack read as any device's SenML has one power, at the slot's start."""
    payload = packed(TERMS, "m1", NOON_MS, 0, quanta)
    assert list(reader(Kind.POWER, "m1/power")(payload)) == [PayloadNumber(NOON_MS, Decimal(quanta))]


def test_the_descriptor_is_the_same() -> None:
    """The descriptor of a stream of packs is that of JSON records, with the same id."""
    assert shared(TERMS).descriptor.message("m1", NOON_MS) == described(TERMS)
    assert shared(TERMS).descriptor.id == describe(TERMS).id


# What is read back --------------------------------------------------------------------------------


@by_terms
@given(label=labels, quanta=st.integers(-(10**9), 10**9), slot=st.integers(-100, 100))
def test_a_pack_says_what_the_json_record_says(terms: Terms, label: str, quanta: int, slot: int) -> None:
    """A record is the same, read from a pack and from JSON, whatever the meter is called."""
    start_ms = NOON_MS + slot * terms.length_ms
    as_json = RecordFormat.of(describe(terms)).record(label, start_ms, 0, quanta)
    assert Record.parse(packed(terms, label, start_ms, 0, quanta)) == Record.parse(as_json)


@by_terms
@given(quanta=st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=4))
def test_collected_packs_are_collected_records(terms: Terms, quanta: list[int]) -> None:
    """The series of a stream's packs is that of its JSON records."""
    in_window = list(enumerate(quanta[: terms.n]))
    start_ms = parse_time("2026-11-01T00:00:00+01:00") if terms.bands else NOON_MS
    as_json = [
        RecordFormat.of(describe(terms)).record("m1", start_ms, place, one) for place, one in in_window
    ]
    as_packs = [packed(terms, "m1", start_ms, place, one) for place, one in in_window]
    told = [described(terms)]
    assert collect(told + as_packs) == collect(told + as_json)


def test_estimates_of_packs() -> None:
    """What a consumer computes from packs and from JSON records is the same, error bars included."""
    packs = [packed(TERMS, "m1", NOON_MS + i * HALF_HOUR_MS, 0, 100 * i) for i in range(4)]
    records = [one for i in range(4) for one in recorded(TERMS, [100 * i], first=i)]
    one, other = (collect([described(TERMS), *sent])["m1"] for sent in (packs, records))
    end_ms = NOON_MS + 4 * HALF_HOUR_MS
    assert one.energy(NOON_MS, end_ms) == other.energy(NOON_MS, end_ms)
    assert one.value(NOON_MS + HALF_HOUR_MS).value == 100


@pytest.mark.parametrize("form", [bytes, bytes.decode, json.loads])
def test_a_pack_comes_as_bytes_text_or_parsed(form: Callable[[bytes], Any]) -> None:
    """Bytes, text and what a JSON library makes of them are the same pack."""
    sent = packed(KILO, "m1", NOON_MS, 0, -1234567)
    assert Record.parse(form(sent)) == Record.parse(sent)


def test_a_resolved_pack_is_the_same() -> None:
    """A pack that was resolved on the way, and put in another order, says the same."""
    pack = json.loads(packed(KILO, "m1", NOON_MS, 0, 7))
    resolved = [
        {
            **{k: v for k, v in one.items() if k not in ("bn", "bt")},
            "n": f"m1/{one['n']}",
            "t": NOON_MS // 1000,
        }
        for one in pack
    ]
    assert Record.parse(resolved[::-1]) == Record.parse(packed(KILO, "m1", NOON_MS, 0, 7))


@pytest.mark.parametrize(
    "pack",
    [
        [],
        [7],
        with_fields(0, n="current"),
        with_fields(0, v=None),
        with_fields(0, v="512"),
        with_fields(0, u=None),
        with_fields(0, bt=None),
        with_fields(0, bt=1795176000.00025),
        with_fields(0, bt=100),
        with_fields(0, bt=10**400),
        with_fields(0, bt=float("nan")),
        with_fields(0, bver=11),
        with_fields(0, bv=1),
        with_fields(0, odd_=1),
        with_fields(0, bn="utf8:zz/"),
        with_fields(0, bn="utf8:ff/"),
        with_fields(1, n="energy_for"),
        with_fields(1, t=1),
        with_fields(1, t="x"),
        with_fields(1, v=0),
        with_fields(1, v=-1800),
        with_fields(1, v="PT30M"),
        with_fields(2, v=None),
        with_fields(2, n="power"),
        with_fields(2, n="energy"),
        with_fields(3, vs=None),
        with_fields(3, vs=7),
        [*with_fields(0), {"n": "power", "u": "W", "v": 513}],
        [*with_fields(0), {"n": "power_for", "v": 900}],
    ],
    ids=str,
)
def test_a_pack_that_says_less_is_refused(pack: list[Any]) -> None:
    """A pack with a part that is missing, of the wrong type or ambiguous is not a record."""
    with pytest.raises(RecordError):
        Record.parse(pack)


def test_an_event_clock_makes_packs_too() -> None:
    """Packs of archives, which run by the event clock, are the same."""
    archived = replace(TERMS, clock=Clock.EVENT)
    assert (
        json.loads(packed(archived, "m1", NOON_MS, 0, 512))[0]
        == json.loads(packed(TERMS, "m1", NOON_MS, 0, 512))[0]
    )
