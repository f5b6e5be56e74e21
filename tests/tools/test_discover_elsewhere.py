"""`discover` where users have changed the topics: each family is found, and nothing else is taken for it."""

import pytest

from meteragent.decode.profiles import PROFILES
from meteragent.tools.discover import find_meters
from tests.support.discover_scenes import Message, heard, scene, summary
from tests.support.payloads import Payload, payloads
from tests.tools.test_discover_payloads import heard as heard_alone
from tests.tools.test_discover_payloads import is_stated

NEIGHBOURS: dict[str, tuple[str, bytes]] = {
    "zigbee2mqtt": ("house/attic/bridge/state", b'{"state":"online"}'),
    "zigbee2mqtt-attribute": ("house/attic/bridge/info", b'{"version":"2.1.0"}'),
    "mbmd": ("house/attic/sdm1-1/Voltage/L1", b"231.5"),
    "emonhub": ("house/attic/emonpi/vrms", b"240.1"),
    "vzlogger": ("house/attic/{}/uuid", b"00000000-0000"),
    "dsmr-reader-topics": ("house/attic/reading/electricity_currently_delivered", b"0.633"),
    "homeassistant-statestream": ("house/attic/sensor/house/unit_of_measurement", b'"W"'),
}
"""For families whose topics may be another's, too: a topic of the family that was also heard."""
DOCUMENTS = (b"{", b"[", b"/")
WITH_ENDS = ("victron", "vzlogger", "zigbee2mqtt")
"""Families whose documents are plain objects, so that only the topics tell."""
MOVED = [
    payload
    for payload in payloads()
    if any(" " in text for text in payload.reads.values())
    and not payload.file.startswith(("esphome/dsmr-", "emonhub/topic-"))
]


def moved(payload: Payload) -> str:
    """Return a topic as users choose it: any, or for bare numbers one with the end that the family keeps."""
    if payload.bytes.lstrip().startswith(DOCUMENTS) and payload.profile not in WITH_ENDS:
        return "cellar/anything"
    if payload.profile == "shelly-gen1":
        return f"house/attic/{payload.topic}"
    return f"house/attic/{payload.topic.removeprefix('vzlogger/data').partition('/')[2]}"


def test_every_family_is_moved() -> None:
    """Each profile has a payload that is heard on an unusual topic."""
    assert {payload.profile for payload in MOVED} == set(PROFILES)


@pytest.mark.parametrize("payload", MOVED, ids=str)
def test_a_family_is_found_on_an_unusual_topic(payload: Payload) -> None:
    """It is proposed or, if nothing states its unit, named; what its messages do not hold is not offered."""
    topic = moved(payload)
    neighbours = []
    if payload.profile in NEIGHBOURS:
        name, content = NEIGHBOURS[payload.profile]
        neighbours = [(name.format(*topic.split("/")[2:3]), content)]
    result = heard_alone((topic, payload.bytes), *neighbours)
    offers = [offer for proposal in result.proposals for offer in proposal.offers]
    named = {offer.source["profile"] for offer in offers}
    named |= {entry.source.get("profile") for entry in result.unplaced}
    assert payload.profile in named
    assert [dict(offer.source) for offer in offers if not is_stated(offer, payload)] == []


TELEGRAM = b"/ABC5\\2X\r\n\r\n1-0:1.8.0(001234.000*kWh)\r\n1-0:1.7.0(00.512*kW)\r\n!\r\n"
LOCAL = "2026-11-20T18:00:00"
AMSREADER = {"id": "aa:bb", "name": "AMS", "up": 100, "t": 0, "vcc": 3.3, "rssi": -60, "temp": -127}
SCENES: dict[str, tuple[list[Message], str]] = {
    "amsreader on a topic of one segment": (
        [("amsleser", {**AMSREADER, "data": {"P": 1250, "PO": 0, "tPI": 1234.5, "tPO": 0.0}})],
        """
        main meter: amsleser amsreader = power W drawn
          also: amsleser amsreader power-returned = power W fed in
          also: amsleser amsreader = register kWh drawn
          also: amsleser amsreader export = register kWh fed in
        """,
    ),
    "amsreader's form for Home Assistant": (
        [
            ("ams/power", {"P": 1250, "t": 1795176009}),
            ("ams/energy", {"tPI": 1234.5, "tPO": 0.0, "t": 1795176009}),
        ],
        """
        main meter: ams/power amsreader = power W drawn
        main meter: ams/energy amsreader = register kWh drawn
          also: ams/energy amsreader export = register kWh fed in
        """,
    ),
    "plugs below another base of Zigbee2MQTT": (
        [
            ("z2m/bridge/state", {"state": "online"}),
            ("z2m/washer", {"power": 102, "energy": 1.05, "state": "ON"}),
            ("z2m/dryer", {"power": 5, "energy": 7.5, "state": "OFF"}),
        ],
        """
        sub-meter of a device dryer,washer: z2m/{meter} zigbee2mqtt = power W
          also: z2m/{meter} zigbee2mqtt = register kWh
        """,
    ),
    "a reading head with another FullTopic": (
        [
            (
                "house/head/tele/SENSOR",
                {"Time": "2026-11-20T18:00:00", "SML": {"Total_in": 1234.5, "Power_curr": 345}},
            )
        ],
        """
        main meter: house/head/tele/SENSOR tasmota-sml = power W drawn minus fed in
          also: house/head/tele/SENSOR tasmota-sml = register kWh drawn
        """,
    ),
    "a base that another program has, too": (
        [("house/grid/Power", "345"), ("house/grid/Import", "1234.5"), ("house/grid/Frequency", "50.1")],
        """
        not house/grid/Import: its name refers to energy, but not to the unit: Wh or kWh? [unit]
        not house/grid/Power: its name refers to power, but not to the unit: W or kW? [unit]
        """,
    ),
    "fields that another program has, too": (
        [
            ("solar/power", {"P": 1.25}),
            ("plug/state", {"power": 5, "energy": 1.5}),
            ("meter/json", {"Time": LOCAL, "Grid": {"Power": 1.25}}),
        ],
        """
        not meter/json: Grid.Power: its name refers to power, but not to the unit: W or kW? [unit]
        not plug/state: power: its name refers to power, but not to the unit: W or kW? [unit]
        not plug/state: energy: its name refers to energy, but not to the unit: Wh or kWh? [kind,unit]
        """,
    ),
    "one tariff of dsmr-reader below another base": (
        [("p1/electricity_delivered_1", "6120.771"), ("p1/electricity_currently_delivered", "0.633")],
        """
        main meter: p1/electricity_currently_delivered dsmr-reader-topics = power W
        not p1/electricity_delivered_1: only one tariff: no other tariff's register was received
        """,
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_what_is_moved_is_read_as_what_it_is(name: str) -> None:
    """What is proposed, what is not, and why is exactly as stated."""
    messages, expected = SCENES[name]
    case = scene(name, "", messages, expected)
    result = find_meters(heard(case))
    assert summary(result) == case.lines


@pytest.mark.parametrize(
    ("messages", "is_captured"),
    [
        (
            [("dsmr/raw", b"/ABC5\\2X\r\n\r\n1-0:1.8.0(001234.000*kWh)\r\n1-0:1.7.0(00.512*kW)\r\n!\r\n")],
            True,
        ),
        ([("tele/plug/SENSOR", {"ENERGY": {"Power": 5, "Total": 1.5}})], False),
        ([("emon/emonpi", {"power1": 5, "vrms": 240, "time": 1795176009})], False),
    ],
)
def test_a_profile_that_rests_on_documentation_alone_is_marked(
    messages: list[Message], is_captured: bool
) -> None:
    """The title says so, because a real device may differ."""
    [proposal] = find_meters(heard(scene("", "", messages, ""))).proposals
    assert ("documentation alone" in proposal.certainty) is not is_captured
