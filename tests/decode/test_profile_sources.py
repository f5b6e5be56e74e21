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
from meteragent.config.source import has_local_times, has_times
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError, PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO, Kind
from tests.support.profile_fixtures import dsmr

NOON_MS = 1_795_176_000_000
ID = "51423977"


def source(profile: str, **keys: Any) -> Source:
    """A source of a configuration that is accepted; its meter is called home."""
    known = {"topic": "some/topic", "meter": "home", "kind": "power", "unit": "W", "profile": profile, **keys}
    lines = [f"{key} = {json.dumps(value)}" for key, value in known.items() if value is not None]
    text = "\n".join(["[source]", *lines, "[sink]", 'topic = "private/{meter}"'])
    return config.parse(text).stream[0].source


def read(payload: Any, profile: str, **keys: Any) -> list[Reading]:
    """What a configured source reads in a payload."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return list(config.build_decoder(source(profile, **keys))(raw))


def refused(profile: str, **keys: Any) -> str:
    """Why a source is refused."""
    with pytest.raises(ConfigError) as error:
        source(profile, **keys)
    return str(error.value)


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
        (
            "rtl_433",
            {"model": "ERT-SCM", "id": int(ID), "ert_type": 7, "consumption_data": 7},
            {"kind": "register"},
            "70",
        ),
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


@pytest.mark.parametrize(
    ("timestamp", "reason"), [("2026-11-20T13:30:07", "refused_time"), (None, "refused_missing")]
)
def test_a_time_of_dsmr_reader_has_a_zone(timestamp: str | None, reason: str) -> None:
    """A mapping may have no time, but a time that it has must be one."""
    message = {
        "timestamp": timestamp,
        "electricity_currently_delivered": "0.417",
        "electricity_currently_returned": "0",
    }
    with pytest.raises(PayloadError, match=reason):
        read(message, "dsmr-reader", value="power-net")
    del message["timestamp"]
    assert read(message, "dsmr-reader", value="power-net") == [Reading(None, 417 * MICRO)]


@pytest.mark.parametrize(
    ("timezone", "time_ms"),
    [
        (None, 1795177807000),
        ("Europe/Dublin", 1795181407000),
        ("Europe/Vilnius", 1795174207000),
        ("arrival", None),
    ],
)
def test_a_p1_meter_may_be_in_another_zone(timezone: str | None, time_ms: int | None) -> None:
    """`source.timezone` names the zone of a telegram's time, or lets the arrival count."""
    payload = dsmr.telegram("ISK5", "0-0:1.0.0(261120133007W)", "1-0:1.7.0(00.417*kW)")
    assert read(payload, "dsmr-p1", timezone=timezone) == [Reading(time_ms, 417 * MICRO)]
    one = source("dsmr-p1", timezone=timezone)
    assert has_times(one) == has_local_times(one) == (timezone != "arrival")


@pytest.mark.parametrize(
    ("profile", "timezone", "said"),
    [
        ("glow", "Europe/Dublin", "profile = 'dsmr-p1'"),
        ("json", "arrival", "profile = 'dsmr-p1'"),
        ("dsmr-p1", "Europe/Dubin", "'Europe/Dublin'"),
        ("dsmr-p1", "GMT+1:00", "'arrival' to ignore"),
        ("dsmr-p1", "", "'arrival' to ignore"),
    ],
)
def test_a_zone_that_does_not_exist_or_apply_is_refused(profile: str, timezone: str, said: str) -> None:
    """A zone is known, and only where times are local."""
    text = refused(profile, timezone=timezone)
    assert "source.timezone" in text
    assert said in text


def test_an_iem3000s_register_is_read_with_its_power_only() -> None:
    """Its other telegrams repeat the register a thousand times too small."""
    telegram = {
        "media": "electricity",
        "meter": "iem3000",
        "id": ID,
        "total_energy_consumption_kwh": 33370.162,
        "active_consumption_kw": 18.25,
        "timestamp": "2026-11-20T12:00:00Z",
    }
    known = {"kind": "register", "unit": "Wh"}
    assert read(telegram, "wmbusmeters", **known) == [Reading(NOON_MS, 33_370_162 * MICRO)]
    assert read(telegram, "wmbusmeters") == [Reading(NOON_MS, 18_250 * MICRO)]
    del telegram["active_consumption_kw"]
    with pytest.raises(PayloadError, match="other"):
        read({**telegram, "total_energy_consumption_kwh": 33.370162}, "wmbusmeters", **known)


def test_the_sum_of_tariffs_is_of_as_many_as_stated() -> None:
    """A third tariff beside two stated ones is refused, because one number would be a part of the whole."""
    telegram = {
        "media": "electricity",
        "meter": "amiplus",
        "timestamp": "2026-11-20T12:00:00Z",
        "total_energy_consumption_tariff_1_kwh": 25011.061,
        "total_energy_consumption_tariff_2_kwh": 18530.681,
    }
    known = {"kind": "register", "unit": "Wh", "value": "import of 2 tariffs"}
    assert read(telegram, "wmbusmeters", **known) == [Reading(NOON_MS, 43_541_742 * MICRO)]
    with pytest.raises(PayloadError, match="refused_columns"):
        read({**telegram, "total_energy_consumption_tariff_3_kwh": 0}, "wmbusmeters", **known)
    assert "one of 'import', 'export'" in refused("wmbusmeters", **{**known, "value": "import of 5 tariffs"})


# What is refused before the start -----------------------------------------------------------------


@pytest.mark.parametrize(
    "profile", ["wmbusmeters", "sml2mqtt", "glow", "chirpstack", "iammeter", "rtlamr2mqtt"]
)
def test_what_names_a_device_must_not_leave(profile: str) -> None:
    """Where {meter} is a serial number, an EUI or a MAC address, a key or another name is needed."""
    kind = {"kind": "register", "unit": "Wh"} if profile == "rtlamr2mqtt" else {}
    topic = PROFILES[profile].topics[0].replace("+", "1")
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


@pytest.mark.parametrize("name", [name for name in PROFILES if PROFILES[name].named is not None])
@given(
    value=st.text(max_size=12), payload=st.one_of(st.binary(max_size=20), st.sampled_from([b"{}", b"[{}]"]))
)
def test_any_name_is_a_quantity_or_none(name: str, value: str, payload: bytes) -> None:
    """Whatever a user writes as source.value is refused, or reads any payload or counts it."""
    for kind in Kind:
        quantity = PROFILES[name].find_quantity(kind, value)
        if quantity is not None:
            assert quantity.kind is kind
            try:
                quantity.read(payload)
            except PayloadError as error:
                assert error.reason  # noqa: PT017  any named refusal will do
