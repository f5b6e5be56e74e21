"""Devices' profiles in a configuration: what is accepted, what is refused and why, and overlapping blocks."""

import json

import pytest

from meteragent import config
from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.reading import Message
from meteragent.domain.units import UNITS, Kind
from tests.core.test_profile_leaks import PRIVACY, left
from tests.support.configurations import refused

MINUTE_MS = 60_000
START_MS = 1795176000000
TOPICS = [(profile, topic) for profile in PROFILES.values() for topic in profile.topics]
UNNAMED = [profile for profile in PROFILES.values() if profile.identifies is not None]


def written(profile: str, kind: Kind, topic: str, *, sink: str = "", **source: object) -> str:
    """A configuration of a profile."""
    unit = UNITS[kind][0]
    keys = {"topic": topic.replace("+", "1"), "profile": profile, "kind": str(kind), "unit": unit, **source}
    return (
        "[source]\n"
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        + f'[privacy]\n{PRIVACY[unit]}\n[sink]\ntopic = "private/{{meter}}/power"\n{sink}'
    )


def asked(profile: str, kind: Kind, topic: str, **source: object) -> str:
    """The same with what the profile and its topic ask for."""
    needs: dict[str, object] = {"id": "17"} if PROFILES[profile].needs_id else {}
    needs |= {"phases": ["0", "1"]} if "{phase}" in topic else {}
    needs |= {} if "{meter}" in topic else {"meter": "home"}
    needs |= {"interval": "5min"} if kind is Kind.INTERVAL_ENERGY else {}
    sink = 'pseudonym_key_file = "key"\n' if "{meter}" in topic else ""
    return written(profile, kind, topic, sink=sink, **{**needs, **source})


@pytest.mark.parametrize(("profile", "topic"), TOPICS, ids=lambda one: getattr(one, "name", one))
def test_each_topic_of_a_profile_is_accepted(profile: Profile, topic: str) -> None:
    """With every usual topic, every quantity can be configured, by name and as the first of its kind."""
    for name, quantity in profile.quantities.items():
        for value in ({"value": name}, {}):
            [stream] = config.parse(asked(profile.name, quantity.kind, topic, **value)).stream
            assert stream.source.profile == profile.name


@pytest.mark.parametrize("profile", UNNAMED, ids=lambda one: one.name)
def test_a_name_that_identifies_must_not_leave(profile: Profile) -> None:
    """Where {meter} is a device's or a contract's name, a key or a name of one's own is asked for."""
    topic = next(topic for topic in profile.topics if "{meter}" in topic)
    kind = next(iter(profile.quantities.values())).kind
    without = asked(profile.name, kind, topic).replace('pseudonym_key_file = "key"\n', "")
    error = refused(lambda: config.parse(without))
    assert error.key == "sink.pseudonym_key_file"
    assert str(profile.identifies) in error.expected


def test_apparent_power_is_not_power() -> None:
    """Who asks a French meter's frames for power is told that they have none in W, and what they have."""
    text = asked("tasmota-teleinfo", Kind.POWER, "tele/{meter}/SENSOR")
    error = refused(lambda: config.parse(text))
    assert error.key == "source.kind"
    assert "'register'" in error.expected
    assert "PAPP and SINSTS are VA" in error.expected


@pytest.mark.parametrize(
    ("profile", "kind", "value"),
    [
        ("tasmota", Kind.REGISTER, "Today"),
        ("tasmota", Kind.REGISTER, "Yesterday"),
        ("tasmota", Kind.REGISTER, "power"),
        ("dsmr-p1", Kind.REGISTER, "1-0:1.8.1"),
        ("dsmr-p1", Kind.POWER, "1-0:1.6.0"),
        ("shelly-gen2-em", Kind.POWER, "a_current"),
    ],
)
def test_parts_of_a_register_and_other_fields_are_not_offered(profile: str, kind: Kind, value: str) -> None:
    """Days, single tariffs, peaks and currents cannot be asked for: the quantities that can be are named."""
    error = refused(lambda: config.parse(asked(profile, kind, PROFILES[profile].topics[0], value=value)))
    assert error.key == "source.value"
    assert all(
        repr(name) in error.expected for name, one in PROFILES[profile].quantities.items() if one.kind is kind
    )


# Blocks that overlap, and sums --------------------------------------------------------------------


def minutes(end_ms: int, *blocks: float) -> Message:
    """A plug's message of its last full minutes, a second after the last one's end."""
    energy = {"total": 18.25, "by_minute": blocks, "minute_ts": end_ms // 1000}
    returned = {"total": 0.0, "by_minute": [0.0 for _ in blocks], "minute_ts": end_ms // 1000}
    payload = json.dumps({"id": 0, "apower": 40.1, "aenergy": energy, "ret_aenergy": returned}).encode()
    return Message("plug/status/switch:0", payload, False, end_ms + 1000, None)


def test_overlapping_minutes_count_once() -> None:
    """Each minute is told three times and counts once: the windows begin 2 minutes in, so 6 of 8 count."""
    text = asked("shelly-gen2-switch", Kind.INTERVAL_ENERGY, "{meter}/status/switch:0")
    text = text.replace("[privacy]", '[window]\nlength = "1min"\n[privacy]').replace("5min", "1min")
    energies = [700.0 + at for at in range(11)]
    messages = [minutes(START_MS + at * MINUTE_MS, *reversed(energies[at : at + 3])) for at in range(1, 9)]
    counts = left(text, messages, START_MS + 9 * MINUTE_MS).counts
    assert counts["accepted"] == 6
    assert counts["duplicate"] + counts["late"] + counts["early"] == 3 * 8 - 6


def shown(text: str, messages: list[Message], end_ms: int) -> list[int]:
    """The values of the records of messages, in order, with noise of a few units only."""
    text = text.replace("radius = 1000", "radius = 1").replace("radius = 100\nquantum = 0.001", "radius = 1")
    texts = left(text.replace("[privacy]", '[window]\nlength = "1min"\n[privacy]'), messages, end_ms).texts
    records = [json.loads(one) for one in texts if one.startswith('{"v":1,"meter"')]
    return [record["value"] for record in records]


def test_phases_on_topics_of_their_own_are_one_power() -> None:
    """Three phases of a first-generation Shelly are summed: what leaves is about 600 W, never one of them."""
    text = asked("shelly-gen1", Kind.POWER, "shellies/{meter}/emeter/{phase}/power", phases=["0", "1", "2"])
    messages = [
        Message(f"shellies/plug/emeter/{phase}/power", b"%d00" % (phase + 1), False, now_ms + phase, None)
        for now_ms in range(START_MS, START_MS + 4 * MINUTE_MS, 10_000)
        for phase in range(3)
    ]
    values = shown(text, messages, START_MS + 4 * MINUTE_MS)
    assert len(values) >= 3
    assert all(abs(value - 600) < 20 for value in values)


def test_tariffs_on_topics_of_their_own_are_one_register() -> None:
    """While the tariff changes, both registers together rise by 60 Wh a minute: that is what leaves."""
    tariffs = ["electricity_delivered_1", "electricity_delivered_2"]
    text = asked("dsmr-reader-topics", Kind.REGISTER, "dsmr/reading/{phase}", phases=tariffs)
    text = text.replace("[sink]", "quantum = 1\n[sink]")
    messages = []
    for second in range(0, 601, 10):
        drawn_wh = (min(second, 300), max(second - 300, 0))
        for at, name in enumerate(tariffs):
            number = f"{7000 + drawn_wh[at] / 1000:.3f}".encode()
            messages.append(Message(f"dsmr/reading/{name}", number, False, START_MS + 1000 * second, None))
    values = shown(text, messages, START_MS + 600_000)
    assert len(values) >= 7
    assert all(abs(value - 60) < 20 for value in values)
