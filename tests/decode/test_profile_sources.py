"""Devices' profiles as a configuration names them: units, scales, ids, and what is refused before the start.

What each message holds is tested by `test_profiles`.
"""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.config.model import Source
from meteragent.config.source import interval_ms, lateness_ms
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError, PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO, MINUTE_MS, Kind

NOON_MS = 1_795_176_000_000
ID = "51423977"
COUNTS = [*range(40), *[0] * 6, 511]


def source(profile: str, **keys: Any) -> Source:
    """A source of a configuration that is accepted; its meter is called home."""
    known = {"topic": "some/topic", "meter": "home", "kind": "power", "unit": "W", "profile": profile, **keys}
    lines = [f"{key} = {json.dumps(value)}" for key, value in known.items() if value is not None]
    text = "\n".join(["[source]", *lines, "[sink]", 'topic = "private/{meter}"'])
    return config.parse(text).stream[0].source


def read(payload: Any, profile: str, **keys: Any) -> list[Reading]:
    """What a configured source reads in a payload."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return list(config.decoder(source(profile, **keys))(raw))


def refused(profile: str, **keys: Any) -> str:
    """Why a source is refused."""
    with pytest.raises(ConfigError) as error:
        source(profile, **keys)
    return str(error.value)


def idm(time: str, offset: int, **fields: Any) -> dict[str, Any]:
    """An IDM as rtlamr writes it."""
    block = {"DifferentialConsumptionIntervals": COUNTS, "TransmitTimeOffset": offset}
    message = {"ERTSerialNumber": int(ID), "LastConsumptionCount": 471131, **block, **fields}
    return {"Time": time, "Type": "IDM", "Message": message}


def intervals(time: str, offset: int, **fields: Any) -> list[Reading]:
    """The intervals of an IDM of 10 Wh a count."""
    known = {"kind": "interval_energy", "unit": "Wh", "scale": 10, "id": ID}
    return read(idm(time, offset, **fields), "rtlamr", **known)


# Units and scales ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "payload", "keys", "value"),
    [
        ("vzlogger", b"812.500000", {}, "812.5"),
        ("vzlogger", b"0.812500", {"unit": "kW"}, "0.8125"),
        ("vzlogger", b"27182818.3", {"kind": "register", "unit": "Wh"}, "27182818.3"),
        ("sml2mqtt", b"-2417.3", {"unit": "kW"}, "-2.4173"),
        ("sml2mqtt", b"14142.1356", {"kind": "register", "unit": "kWh"}, "14142.1356"),
        ("sml2mqtt", b"14142135.6", {"kind": "register", "unit": "Wh"}, "14142135.6"),
        ("emonhub", b'{"power1": 318, "time": 1795176000}', {}, "318"),
        ("emonhub", b'{"P3": 318, "time": 1795176000}', {"value": "P3", "unit": "kW"}, "318"),
        (
            "emonhub",
            b'{"pulsecount": 918273, "time": 1795176000}',
            {"kind": "register", "unit": "kWh", "scale": "1/800"},
            "1147.84125",
        ),
        ("emonhub-csv", b"318,-1204.5,7", {"value": "2 of 3"}, "-1204.5"),
        ("iammeter", {"Data": [231.7, 4.61, 1044, 1834.207, 0.44]}, {"unit": "kW"}, "1.044"),
        ("rtl_433", {"model": "ERT-SCM", "id": int(ID), "consumption_data": 7}, {"kind": "register"}, "70"),
        (
            "rtlamr2mqtt",
            {"reading": 471160, "lastseen": "2026-11-20T12:00:00Z"},
            {"kind": "register"},
            "4711600",
        ),
        (
            "rtlamr2mqtt",
            {"reading": "4711.60", "lastseen": "2026-11-20T12:00:00Z"},
            {"kind": "register"},
            "47116",
        ),
        ("senml", [{"n": "p", "u": "kW", "v": 1.5}], {}, "1500"),
        ("senml", [{"n": "e", "u": "J", "v": 5_400_000}], {"kind": "register", "unit": "kWh"}, "1.5"),
        ("chirpstack", {"time": "2026-11-20T12:00:00Z", "object": {"a": {"b": 4}}}, {"value": "a.b"}, "4"),
    ],
)
def test_a_number_is_in_the_streams_unit(
    profile: str, payload: Any, keys: dict[str, Any], value: str
) -> None:
    """A device's number is converted exactly to the stream's unit, also where only that one is known."""
    radio = {"unit": "Wh", "scale": 10} if profile.startswith("rtl") else {}
    id_ = {"id": ID} if profile == "rtl_433" else {}
    [one] = read(payload, profile, **{**radio, **id_, **keys})
    assert Fraction(one.value_u, MICRO) == Fraction(value)


def test_one_phase_and_three_at_once_are_in_doubt() -> None:
    """A message of an IAMMETER that has both forms is refused: nobody knows which is meant."""
    row = [231.7, 4.61, 1044, 1834.207, 0.44]
    with pytest.raises(PayloadError, match="refused_ambiguous"):
        read({"Data": row, "Datas": [row]}, "iammeter")


@pytest.mark.parametrize("payload", [b"318,-1204.5", b"318,-1204.5,7,-61", b"318", b"318;-1204.5;7", b",,"])
def test_values_without_names_must_be_as_many_as_stated(payload: bytes) -> None:
    """Where there are more or fewer values than the configuration says nobody knows which is which."""
    with pytest.raises(PayloadError, match=r"refused_columns|refused_type"):
        read(payload, "emonhub-csv", value="2 of 3")


def test_a_stream_of_glow_is_in_its_unit() -> None:
    """A Glow display tells kW and kWh; the stream has W and Wh where it asks for them."""
    message = {
        "electricitymeter": {
            "timestamp": "2026-11-20T12:00:00Z",
            "energy": {"import": {"cumulative": 9182.736, "units": "kWh"}},
            "power": {"value": 0.613, "units": "kW"},
        }
    }
    assert read(message, "glow") == [Reading(NOON_MS, 613 * MICRO)]
    assert read(message, "glow", kind="register", unit="kWh") == [Reading(NOON_MS, 9_182_736_000)]


# ERT: blocks of intervals -------------------------------------------------------------------------


def test_an_idm_is_47_intervals() -> None:
    """The newest interval ended TransmitTimeOffset / 16 s before the message; the others 5 minutes apart."""
    found = intervals("2026-11-20T12:04:00Z", 240 * 16)
    assert len(found) == 47
    assert found == sorted(found)
    assert found[-1] == Reading(NOON_MS, COUNTS[0] * 10 * MICRO)
    assert found[-2] == Reading(NOON_MS - 5 * MINUTE_MS, COUNTS[1] * 10 * MICRO)
    assert found[0] == Reading(NOON_MS - 46 * 5 * MINUTE_MS, 5110 * MICRO)


@given(late_s=st.integers(0, 290), jitter_ms=st.integers(-400, 400))
def test_an_interval_told_again_has_the_same_time(late_s: int, jitter_ms: int) -> None:
    """Whenever an interval is told, and if a clock is off by less than half a second, it ends then."""
    sent_ms = late_s * 1000 + 5000 + jitter_ms
    time = f"2026-11-20T12:{sent_ms // 60000:02d}:{sent_ms % 60000 // 1000:02d}.{sent_ms % 1000:03d}Z"
    assert intervals(time, (late_s + 5) * 16)[-1].time_ms == NOON_MS


def test_the_register_is_that_of_the_newest_interval() -> None:
    """LastConsumptionCount was read when the newest interval ended, not when it was sent."""
    [one] = read(idm("2026-11-20T12:04:00Z", 3840), "rtlamr", kind="register", unit="Wh", value="idm", id=ID)
    assert one == Reading(NOON_MS, 471131 * MICRO)


def test_rtl_433s_times_are_before_the_arrival() -> None:
    """The time of rtl_433 has no zone: an interval ended so long before its message came."""
    message = {"time": "2026-11-20 07:04:00", "model": "IDM", **idm("", 3840)["Message"]}
    found = read(message, "rtl_433", kind="interval_energy", unit="Wh", id=ID)
    assert [one.time_ms for one in found[-2:]] == [-540_000, -240_000]


def test_what_ended_just_now_has_the_time_of_its_arrival() -> None:
    """An interval that ended as its message came, by a receiver without a clock, ended at the arrival."""
    message = {"model": "IDM", **idm("", 0)["Message"]}
    known = {"unit": "Wh", "id": ID}
    *_, before, newest = read(message, "rtl_433", kind="interval_energy", **known)
    assert (before.time_ms, newest.time_ms) == (-5 * MINUTE_MS, None)
    assert read(message, "rtl_433", kind="register", value="idm", **known)[0].time_ms is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"DifferentialConsumptionIntervals": COUNTS[:46]}, "refused_type"),
        ({"DifferentialConsumptionIntervals": [*COUNTS, 1]}, "refused_type"),
        ({"DifferentialConsumptionIntervals": [512, *COUNTS[1:]]}, "refused_type"),
        ({"DifferentialConsumptionIntervals": [-1, *COUNTS[1:]]}, "refused_type"),
        ({"DifferentialConsumptionIntervals": [0.5, *COUNTS[1:]]}, "refused_type"),
        ({"DifferentialConsumptionIntervals": [None, *COUNTS[1:]]}, "refused_missing"),
        ({"DifferentialConsumptionIntervals": None}, "refused_missing"),
        ({"DifferentialConsumptionIntervals": {}}, "refused_type"),
        ({"TransmitTimeOffset": 4801}, "refused_time"),
        ({"TransmitTimeOffset": -1}, "refused_type"),
        ({"TransmitTimeOffset": None}, "refused_missing"),
        ({"ERTSerialNumber": 60718884}, "refused_meter"),
        ({"ERTSerialNumber": -1}, "refused_type"),
        ({"ERTSerialNumber": 1e300}, "refused_type"),
        ({"ERTSerialNumber": None}, "refused_missing"),
    ],
)
def test_a_block_that_is_not_whole_is_refused(fields: dict[str, Any], reason: str) -> None:
    """A block of another length, a count that nine bits do not hold, a neighbour's: none of it counts."""
    with pytest.raises(PayloadError, match=reason):
        intervals("2026-11-20T12:04:00Z", 3840, **fields)


@pytest.mark.parametrize(("count", "fits"), [(2**32 - 1, True), (2**32, False), (-1, False), (0.5, False)])
def test_a_register_is_a_count(count: float, fits: bool) -> None:
    """A register is a whole number that 32 bits hold."""
    message = {"model": "ERT-SCM", "id": int(ID), "consumption_data": count}
    try:
        assert fits == bool(read(message, "rtl_433", kind="register", unit="Wh", id=ID))
    except PayloadError:
        assert not fits


# What is refused before the start -----------------------------------------------------------------


@pytest.mark.parametrize("profile", ["rtl_433", "rtlamr"])
def test_a_radio_needs_an_id(profile: str) -> None:
    """Where neighbours' meters come on the same topic, the configuration must name the own one."""
    assert "source.id: found nothing" in refused(profile, kind="register", unit="Wh")


@pytest.mark.parametrize(
    "profile", ["wmbusmeters", "sml2mqtt", "glow", "chirpstack", "iammeter", "rtlamr2mqtt"]
)
def test_what_names_a_device_must_not_leave(profile: str) -> None:
    """Where {meter} is a serial number, an EUI or a MAC address, a key or another name is needed."""
    kind = {"kind": "register", "unit": "Wh"} if profile == "rtlamr2mqtt" else {}
    topic = PROFILES[profile].topics[0]
    assert "sink.pseudonym_key_file" in refused(profile, topic=topic, meter=None, **kind)
    assert source(profile, topic=topic.replace("{meter}", "x"), **kind).meter == "home"


@pytest.mark.parametrize(
    ("profile", "keys", "said"),
    [
        ("glow", {"value": "day", "kind": "register", "unit": "kWh"}, "one of 'import', 'export'"),
        ("wmbusmeters", {"value": "tariff", "kind": "register", "unit": "kWh"}, "one of 'import', 'export'"),
        ("glow", {"kind": "interval_energy", "unit": "kWh"}, "'power', 'register'"),
        ("emonhub-csv", {"value": "2"}, "one of '1 of 11'"),
        ("emonhub-csv", {"value": "3 of 2"}, "one of '1 of 11'"),
        ("emonhub-csv", {"value": "0 of 2"}, "one of '1 of 11'"),
        ("chirpstack", {"value": "a..b"}, "one of 'power'"),
        ("iammeter", {"value": "power-d"}, "one of 'power', 'power-a'"),
        ("senml", {"value": "the power"}, "one of 'the only power'"),
        ("senml", {"time": "t"}, "no time"),
    ],
)
def test_what_a_device_does_not_tell_is_refused(profile: str, keys: dict[str, Any], said: str) -> None:
    """A quantity that a device has not, or that is not offered, is refused with those that are."""
    assert said in refused(profile, **keys)


def test_intervals_are_five_minutes() -> None:
    """The length of an IDM's intervals follows from the profile.

    One that a slot's end cuts ends five minutes later at most, and is told within five more.
    """
    one = source("rtlamr", kind="interval_energy", unit="Wh", id=ID)
    assert interval_ms(one) == 5 * MINUTE_MS
    assert lateness_ms(one, None) == 10 * MINUTE_MS


@pytest.mark.parametrize("name", [name for name in PROFILES if PROFILES[name].named is not None])
@given(
    value=st.text(max_size=12), payload=st.one_of(st.binary(max_size=20), st.sampled_from([b"{}", b"[{}]"]))
)
def test_any_name_is_a_quantity_or_none(name: str, value: str, payload: bytes) -> None:
    """Whatever a user writes as source.value is refused, or reads any payload or counts it."""
    for kind in Kind:
        quantity = PROFILES[name].quantity(kind, value)
        if quantity is not None:
            assert quantity.kind is kind
            try:
                quantity.read(payload)
            except PayloadError as error:
                assert error.reason  # noqa: PT017  any named refusal will do
