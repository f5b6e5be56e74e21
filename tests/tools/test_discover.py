"""`meteragent discover`: what is recognised, what is guessed, what is called uncertain, what is proposed."""

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

from meteragent import config
from meteragent.decode import Decoder
from meteragent.domain.errors import PayloadError
from meteragent.tools.discover import listener as bounds
from meteragent.tools.discover.candidate import Candidate
from meteragent.tools.discover.configuration import Access, configuration_toml
from meteragent.tools.discover.listener import Listener
from meteragent.tools.discover.propose import report_text
from meteragent.tools.discover.search import search_log
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.decode.test_profiles import CASES
from tests.support.configurations import settled
from tests.support.profile_contract import Case

ACCESS = Access("mqtt://127.0.0.1:1883")
FAMILIES = sorted({case.profile for case in CASES})
Sent = tuple[str, bytes]


def listened(*sent: Sent, times: int = 3, every_ms: int = 10_000, retain: bool = False) -> Listener:
    """Return a listener that has heard all of this a number of times."""
    clock_ms = 0
    listener = Listener(lambda: clock_ms)
    for _ in range(times):
        for topic, payload in sent:
            listener.on_message(topic, payload, retain)
        clock_ms += every_ms
    return listener


OPEN = frozenset(
    [
        "chirpstack",
        "chirpstack-v3",
        "emonhub-csv",
        "esphome",
        "homeassistant-statestream",
        "rtl_433",
        "rtlamr",
        "rtlamr2mqtt",
        "ttn-v3",
        "vzlogger",
    ]
)
"""Families whose messages do not state their unit."""


def candidates(listener: Listener) -> list[Candidate]:
    """Return the proposals of a listener."""
    return search_log(listener).candidates


def said(*sent: Sent, times: int = 3, every_ms: int = 10_000, retain: bool = False) -> str:
    """Return the report on it, in one line."""
    text = report_text(listened(*sent, times=times, every_ms=every_ms, retain=retain), ACCESS, 60)
    return re.sub(r"\s+", " ", text)


def document(**fields: object) -> bytes:
    """Return a JSON payload."""
    return json.dumps(fields).encode()


def of_family(name: str) -> list[Case]:
    """Return the messages of a family."""
    return [case for case in CASES if case.profile == name]


# Known families


@pytest.mark.parametrize("name", sorted({*FAMILIES} - OPEN))
def test_a_family_is_recognised_and_proposed(name: str) -> None:
    """A family's messages lead to its profile; the configuration is accepted and reads some of them."""
    sent = [(case.topic, case.payload) for case in of_family(name)]
    found = candidates(listened(*sent))
    mine = [one for one in found if one.profile == name]
    assert mine
    assert mine[0].rank == 0
    for one in found:
        proposed = config.parse(configuration_toml(one, ACCESS)).stream[0]
        place, decode = config.topic_of(proposed.source), config.build_decoder(proposed.source)
        payloads = [payload for topic, payload in sent if place.meter_of(topic) is not None]
        assert any(reads(decode, payload) for payload in payloads)


@pytest.mark.parametrize("name", sorted(OPEN))
def test_a_family_without_a_unit_is_named_and_not_proposed(name: str) -> None:
    """If a family's messages state no unit, nothing is proposed, and the missing keys are listed."""
    outcome = search_log(listened(*[(case.topic, case.payload) for case in of_family(name)]))
    entries = [entry for entry in outcome.unplaced if entry.source.get("profile") == name]
    assert not outcome.candidates
    assert entries
    assert all("unit" in entry.missing for entry in entries)


def reads(decode: Decoder, payload: bytes) -> bool:
    """Return whether a payload has a reading."""
    try:
        return bool(decode(payload))
    except PayloadError:
        return False


@pytest.mark.parametrize("name", FAMILIES)
def test_no_value_is_shown(name: str) -> None:
    """A report holds no number of a payload except an id or a part of a topic."""
    cases = of_family(name)
    text = report_text(listened(*[(case.topic, case.payload) for case in cases]), ACCESS, 60)
    for case in cases:
        named = " ".join([case.topic, *case.identifies, *(case.device.traps), case.device.title])
        numbers = set(re.findall(r"\d{3,}(?:\.\d+)?|\d+\.\d{2,}", case.payload.decode(errors="replace")))
        shown = {one for one in numbers if re.search(rf"(?<![\d.]){re.escape(one)}(?![\d])", text)}
        assert not {one for one in shown if one not in named and one not in text.split("configuration")[-1]}


def test_power_comes_before_registers_and_families_before_guesses() -> None:
    """Known families come first, then what is known by its payload, then what is guessed."""
    telegram = document(media="electricity", id="70314159", current_power_consumption_kw=0.431, timestamp=1)
    found = candidates(
        listened(
            ("cellar/main/power_w", b"431"),
            ("home/wmbus", telegram),
            ("tele/plug/SENSOR", document(ENERGY={"Power": 5, "Total": 1.5})),
        )
    )
    assert [(one.rank, one.profile) for one in found] == [(0, "tasmota"), (1, "wmbusmeters"), (2, "number")]
    assert "the usual topic is wmbusmeters/{meter}: is this such a device?" in said(("home/wmbus", telegram))


def test_proposals_do_not_name_two_meters_alike() -> None:
    """The first meter is called home, the others by number."""
    text = said(("x/power_w", b"5"), ("y/y/total_energy_wh", b"5"))
    assert re.findall(r'meter = "([^"]+)"', text) == ["home", "meter-2"]


def test_phases_are_summed() -> None:
    """A device with a topic for each phase is one meter; its registers are mentioned."""
    topics = [
        f"shellies/em3/emeter/{phase}/{what}" for phase in range(3) for what in ("power", "total", "pf")
    ]
    (one,) = candidates(listened(*[(topic, b"512.5") for topic in topics]))
    source = config.parse(configuration_toml(one, ACCESS)).stream[0].source
    assert source.phases == ("0", "1", "2")
    assert (source.topic, source.meter) == ("shellies/em3/emeter/{phase}/power", "home")


def test_what_is_fed_in_is_not_added_to_what_is_drawn() -> None:
    """Of single topics for both directions, only those of energy drawn are summed."""
    names = [f"electricity_{way}_{tariff}" for way in ("delivered", "returned") for tariff in (1, 2)]
    sent = [(f"dsmr/reading/{name}", b"1500.5") for name in [*names, "extra_device_delivered"][:4]]
    (one,) = [one for one in candidates(listened(*sent)) if one.profile == "dsmr-reader-topics"]
    assert one.phases == ("electricity_delivered_1", "electricity_delivered_2")


def test_a_bare_number_without_a_unit_is_listed() -> None:
    """A topic whose unit is not stated is listed with what is known and what is missing."""
    (entry,) = search_log(listened(("homeassistant/sensor/haus_energy/state", b"5.5"))).unplaced
    assert entry.missing == ("unit",)
    assert entry.source["kind"] == "register"
    assert not candidates(listened(*[(f"homeassistant/sensor/s{i}/state", b"5.5") for i in range(6)]))


def test_several_devices_get_pseudonyms() -> None:
    """Topics of several devices stay one template and need a key; the proposal says how to make one."""
    sent = [(f"tele/plug{i}/SENSOR", document(ENERGY={"Power": 5})) for i in range(3)]
    (one,) = candidates(listened(*sent))
    text = configuration_toml(one, ACCESS)
    stream = config.parse(text).stream[0]
    assert (stream.source.topic, stream.source.meter) == ("tele/{meter}/SENSOR", None)
    assert str(stream.sink.pseudonym_key_file) == "pseudonym.key"
    assert "head -c 32 /dev/urandom" in text
    assert "plug0, plug1, plug2" in said(*sent)
    assert "which of the 3 are yours, and which is the main meter" in said(*sent)
    assert "main meter and its sub-meters" in said(*sent)


# Guesses


@pytest.mark.parametrize(
    ("topic", "payload", "kind", "unit", "value", "time"),
    [
        ("cellar/main/power_w", b"512.3", "power", "W", None, None),
        ("cellar/main_power_kw", b"0.512", "power", "kW", None, None),
        ("cellar/main_kW", b"0.512", "power", "kW", None, None),
        ("cellar/energy_total_kwh", b"4711.5", "register", "kWh", None, None),
        ("cellar/TotalkWh", b"4711.5", "register", "kWh", None, None),
        ("x/y", document(power_w=512, t=1795176034), "power", "W", "power_w", "t"),
        ("x/y", document(Leistung_W=512, total_wh=10), "power", "W", "Leistung_W", None),
        ("x/y", document(em={"a:0": {"power_kw": 0.5}}), "power", "kW", 'em."a:0".power_kw', None),
        (
            *("x/y", document(total_energy={"value": 5, "unit": "kWh"})),
            *("register", "kWh", "total_energy.value", None),
        ),
        ("x/y", document(power_factor=1, watts=5, time="nonsense"), "power", "W", "watts", None),
        ("x/y", document(watts="5.5"), "power", "W", "to_number(watts)", None),
    ],
)
def test_names_are_guessed(
    topic: str, payload: bytes, kind: str, unit: str, value: str | None, time: str | None
) -> None:
    """A number whose name refers to power or energy is proposed, with its unit and time if they are named."""
    (one,) = candidates(listened((topic, payload)))
    source = config.parse(configuration_toml(one, ACCESS)).stream[0].source
    assert (source.kind, source.unit, source.value, source.time) == (kind, unit, value, time)
    assert len(config.build_decoder(source)(payload)) == 1
    assert "guessed from the names" in said((topic, payload))


@pytest.mark.parametrize("name", ["\x1b[31mpower", "power_\x1b]0;title\x07", "power\x00", "\u202epower"])
def test_a_field_s_name_that_no_key_holds_is_shown(name: str) -> None:
    """Control and bidi characters in a name stop nothing: the topic is in the report, other fields count."""
    text = said(("own/m", document(**{name: 5.5})), ("own/n", document(**{name: 4, "power_w": 5.5})))
    assert "own/m" in text
    assert "power_w" in text


@pytest.mark.parametrize(
    "sent",
    [
        ("cellar/temperature", b"21.5"),
        ("cellar/power_factor", b"0.97"),
        ("cellar/gas/energy", b"21.5"),
        ("x/y", document(voltage=231.5, humidity=40)),
        ("x/y", document(power="on", energy=None, load=True)),
        ("x/y", document(energy_today=5)),
        ("x/y", b'{"power": '),
        ("cellar/power", b"on"),
    ],
)
def test_other_things_are_not_proposed(sent: Sent) -> None:
    """What is no meter, no number or a part of another register is left out; then topics are listed."""
    assert not candidates(listened(sent))
    assert re.search("No topic looks like a meter|Nothing can be proposed", said(sent))
    assert sent[0] in said(sent)


def test_alike_topics_are_one_proposal() -> None:
    """Topics that differ in one segment and are read alike are meters of one proposal."""
    (one,) = candidates(listened(*[(f"flat/{name}/power_w", b"5") for name in ("a", "b", "c")]))
    assert (one.template, one.meters) == ("flat/{meter}/power_w", ("a", "b", "c"))


def test_private_streams_are_left_out() -> None:
    """Records and descriptors of meteragent, and topics below them, are not meters."""
    records = RecordFormat.of(describe_terms(settled()))
    sent = [
        ("private/m1/power", records.encode("m1", 1_795_176_000_000, 0, 5)),
        ("private/m1/power/privacy", records.descriptor.encode_message("m1", 1_795_176_000_000)),
        ("private/m1/power/total_kwh", b"5.25"),
    ]
    assert not candidates(listened(*sent))
    assert candidates(listened(sent[2]))
    assert "Left out: 2 topics of meteragent's private streams." in said(*sent)


@pytest.mark.parametrize(("times", "text"), [(1, "1 message on 1 topic in"), (2, "2 messages on 1 topic in")])
def test_one_is_singular(times: int, text: str) -> None:
    """One topic is not called topics, nor one message messages."""
    assert text in said(PLUG, times=times)


# What is not sure

SURE = next((case.topic, case.payload) for case in CASES if case.profile == "dsmr-reader")
PLUG = ("tele/tasmota_4D7731/SENSOR", document(Time="x", ENERGY={"Power": 5, "Total": 1.5, "Today": 1}))


@pytest.mark.parametrize(
    ("text", "sent", "options"),
    [
        ("only retained messages were received", [PLUG], {"retain": True}),
        ("each topic had one message", [PLUG], {"times": 1}),
        ("values below zero", [("x/power_w", b"-500")], {}),
        ("values above 100 kW", [("x/power_kw", b"500")], {}),
        ("refers to power, but not to the unit: W or kW?", [("x/power", b"500")], {}),
        ("nothing states the kind and the unit", [("vzlogger/chn1/raw", b"5")], {}),
        ("its numbers fell", [("x/total_kwh", b"50"), ("x/total_kwh", b"40")], {}),
        ("a register that only grows or an interval's energy", [("x/energy_kwh", b"5")], {}),
        ("20 min between readings is long", [PLUG], {"every_ms": 1_200_000}),
        ("Today start again at zero and count the same energy", [PLUG], {}),
        ("'today' names a part", [("x/y", document(energy=5, energy_today=1))], {}),
        (
            'known: profile = "json", value = "power", kind = "power"; missing',
            [("x/y", document(power=5))],
            {},
        ),
        ("the payload has no time", [PLUG], {}),
        ("with this configuration it is not sent", [PLUG], {}),
        ("a topic seems to hold a serial number", [("a4cf129b7e05/power_w", b"5")], {}),
        ("source.dead_band", [("zigbee2mqtt/plug", document(power=5))], {}),
        ("as far below 0", [("x/power_w", b"-500")], {}),
        ("about one every 10 s", [PLUG], {}),
        ("3 messages, 3 of them retained", [PLUG], {"retain": True}),
    ],
)
def test_doubts_are_said(text: str, sent: list[Sent], options: dict[str, Any]) -> None:
    """Each uncertainty is stated, and only where it exists."""
    assert text in said(*sent, **options)
    assert text not in said(SURE, times=2, every_ms=7000)


def test_retained_messages_have_no_cadence() -> None:
    """When the broker delivers retained messages says nothing about how often they are sent."""
    assert "about one every" not in said(PLUG, retain=True)


def test_a_radio_s_neighbours() -> None:
    """If messages name meters and count pulses, the operator must state id and unit."""
    sent = [(case.topic, case.payload) for case in of_family("rtlamr")]
    (entry,) = {one.missing for one in search_log(listened(*sent)).unplaced}
    assert entry == ("unit", "scale", "id")


def test_what_is_proposed_runs() -> None:
    """A plug that reports its power every five minutes hides no kettle, so a month is proposed."""
    (one,) = candidates(listened(PLUG))
    proposed = config.parse(configuration_toml(one, ACCESS))
    assert (proposed.stream[0].privacy.preset, config.reading_refusals(proposed)) == ("bill", [])


def test_slow_meters_get_longer_slots() -> None:
    """With fewer than two readings in half an hour, a day is proposed; an interval is as it arrived."""
    (one,) = candidates(listened(SURE, every_ms=3_600_000))
    assert config.parse(configuration_toml(one, ACCESS)).stream[0].privacy.preset == "day"


def test_feed_in_reaches_below_zero() -> None:
    """If values below zero arrived, the proposed range contains them."""
    (one,) = candidates(listened(("x/power_w", b"-500")))
    assert config.parse(configuration_toml(one, ACCESS)).stream[0].window.range[0] < 0


def test_the_broker_is_proposed_as_it_was_reached() -> None:
    """Address, user and files are as given; the password is not shown."""
    (one,) = candidates(listened(PLUG))
    keys = (("username", "u"), ("password_file", 'p"w'), ("ca_file", "ca.pem"))
    source = config.parse(configuration_toml(one, Access("mqtts://broker.example", keys))).stream[0].source
    assert (source.url, source.username, str(source.password_file)) == ("mqtts://broker.example", "u", 'p"w')
    assert str(source.ca_file) == "ca.pem"


# Bounds


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of topics and payloads, and their sizes, are bounded; the excess is counted."""
    monkeypatch.setattr(bounds, "TOPICS_MAX", 3)
    listener = listened(*[(f"t/{i}", b"1") for i in range(5)], times=100)
    assert (len(listener.topics), listener.shed, listener.message_count) == (3, 200, 500)
    assert {len(heard.payloads) for heard in listener.topics.values()} == {bounds.PAYLOADS_KEPT}
    assert "on further topics and were only counted" in report_text(listener, ACCESS, 1)
    assert not listened(("t", bytes(bounds.PAYLOAD_MAX + 1))).topics["t"].payloads
    large = listened(*[(f"t/{i}", bytes(60_000)) for i in range(3)], times=300)
    kept = sum(len(payload) for heard in large.topics.values() for payload in heard.payloads)
    assert kept == 3 * bounds.PAYLOADS_KEPT * 60_000 <= bounds.KEPT_MAX
    large.on_message("t/0", b"newest" * 10_000, False)
    assert large.topics["t/0"].payloads[-1] == b"newest" * 10_000


@pytest.mark.parametrize("payloads", [[b"\xff", b"", b"[" * 3000, b'{"a":' * 2000, b"1" * 9000]])
def test_nothing_that_comes_can_stop_it(payloads: Iterable[bytes]) -> None:
    """Any bytes on any topic are examined, and do no harm."""
    topics = ["tele/x/SENSOR", "dsmr/raw", "x/power", "rtl_433/x/events", "", "/", "x" * 60_000]
    assert said(*[(topic, payload) for payload in payloads for topic in topics])
