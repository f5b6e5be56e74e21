"""ERT meters by radio as a configuration names them: intervals, media, packets, and the id that they need."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.config.model import Window
from meteragent.config.source import interval_ms, lateness_ms
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO, MINUTE_MS
from tests.decode.test_profile_sources import ID, NOON_MS, read, refused, source

COUNTS = [*range(40), *[0] * 6, 511]


def idm(time: str, offset: int, **fields: Any) -> dict[str, Any]:
    """An IDM as rtlamr writes it."""
    block = {"DifferentialConsumptionIntervals": COUNTS, "TransmitTimeOffset": offset}
    block |= {"PacketTypeID": 28, "ERTType": 7}
    message = {"ERTSerialNumber": int(ID), "LastConsumptionCount": 471131, **block, **fields}
    return {"Time": time, "Type": "IDM", "Message": message}


def intervals(time: str, offset: int, **fields: Any) -> list[Reading]:
    """The intervals of an IDM of 10 Wh a count."""
    known = {"kind": "interval_energy", "unit": "Wh", "scale": 10, "id": ID}
    return read(idm(time, offset, **fields), "rtlamr", **known)


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


@pytest.mark.parametrize("type_", range(16))
@pytest.mark.parametrize("flags", [0x00, 0x10, 0xB0])
def test_only_meters_of_electricity_are_read(type_: int, flags: int) -> None:
    """The lower four bits of the type are the medium; gas, water and unknown types count as other."""
    scm = {"model": "ERT-SCM", "id": int(ID), "ert_type": type_, "consumption_data": 7}
    plus = {"model": "SCMplus", "id": int(ID), "EndpointType": hex(flags | type_), "Consumption": 7}
    line: dict[str, Any] = {"Time": "2026-11-20T12:04:00Z", "Type": "SCM+"}
    line["Message"] = {"EndpointType": flags | type_, "EndpointID": int(ID), "Consumption": 7}
    known: dict[str, Any] = {"kind": "register", "unit": "Wh", "id": ID}
    attributes = idm("", 0, ERTType=flags | type_)["Message"]
    readers: tuple[Callable[[], list[Reading]], ...] = (
        lambda: read(scm, "rtl_433", value="scm", **known),
        lambda: read(plus, "rtl_433", value="scm-plus", **known),
        lambda: read(line, "rtlamr", value="scm-plus", **known),
        lambda: intervals("2026-11-20T12:04:00Z", 0, ERTType=flags | type_),
        lambda: read(attributes, "rtlamr2mqtt", kind="interval_energy", unit="Wh"),
    )
    for reading in readers:
        if type_ in (4, 5, 7, 8):
            assert reading()
        else:
            with pytest.raises(PayloadError, match="other"):
                reading()


def test_the_medium_in_words_counts_too() -> None:
    """A message of rtl_433 that says Gas is no electricity, whatever its type is."""
    scm = {"model": "SCMplus", "id": int(ID), "EndpointType": "0x07", "Consumption": 7}
    known: dict[str, Any] = {"kind": "register", "unit": "Wh", "value": "scm-plus", "id": ID}
    assert read({**scm, "MeterType": "Electric"}, "rtl_433", **known)
    for word in ("Gas", "Water", "unknown"):
        with pytest.raises(PayloadError, match="other"):
            read({**scm, "MeterType": word}, "rtl_433", **known)
    with pytest.raises(PayloadError, match="refused_missing"):
        read({**scm, "EndpointType": None}, "rtl_433", **known)


@pytest.mark.parametrize(("packet", "is_read"), [(28, True), ("0x1C", True), (52, False), ("0x34", False)])
def test_a_net_meters_packet_is_no_idm(packet: Any, is_read: bool) -> None:
    """Another packet type has another layout, whose numbers are nonsense as an IDM."""
    try:
        assert bool(intervals("2026-11-20T12:04:00Z", 0, PacketTypeID=packet)) == is_read
    except PayloadError as error:
        assert not is_read
        assert error.reason == "other"  # noqa: PT017  the other cases have no error


@pytest.mark.parametrize(("count", "fits"), [(2**32 - 1, True), (2**32, False), (-1, False), (0.5, False)])
def test_a_register_is_a_count(count: float, fits: bool) -> None:
    """A register is a whole number that 32 bits hold."""
    message = {"model": "ERT-SCM", "id": int(ID), "ert_type": 7, "consumption_data": count}
    try:
        assert fits == bool(read(message, "rtl_433", kind="register", unit="Wh", id=ID))
    except PayloadError:
        assert not fits


@pytest.mark.parametrize("profile", ["rtl_433", "rtlamr"])
def test_a_radio_needs_an_id(profile: str) -> None:
    """Where neighbours' meters come on the same topic, the configuration must name the own one."""
    assert "source.id: found nothing" in refused(profile, kind="register", unit="Wh")


def test_intervals_are_five_minutes() -> None:
    """The length of an IDM's intervals follows from the profile.

    One that a slot's end cuts ends five minutes later at most, and is told within five more, and a tenth.
    """
    one = source("rtlamr", kind="interval_energy", unit="Wh", id=ID)
    assert interval_ms(one) == 5 * MINUTE_MS
    assert lateness_ms(one, Window()) == 11 * MINUTE_MS
