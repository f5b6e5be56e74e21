"""`discover` where discovery messages for Home Assistant state what a number is: their forms."""

import pytest

from meteragent import config
from meteragent.tools.discover import find_meters
from meteragent.tools.discover.candidate import NOT_HEARD
from meteragent.tools.discover.search import search_log
from tests.support.discover_scenes import ACCESS, Message, Scene, check, discovery, heard, scene, sensor

HA = "home-assistant.io: MQTT discovery"
SCENES = [
    scene(
        "a plain path with quotes",
        HA,
        [("my/em", {"em": {"total power": 512, "l": [1, 2]}})],
        """
        meter: my/em json em."total power" = power W
    """,
        [sensor("em/p", "Power", "W", "my/em", "{{ value_json.em['total power'] | float(0) }}")],
    ),
    scene(
        "a path with an index",
        HA,
        [("my/em", {"emeters": [{"power": 412.5}, {"power": 3.5}]})],
        """
        meter: my/em json emeters[0].power = power W
    """,
        [sensor("em/p0", "Power", "W", "my/em", "{{ value_json['emeters'][0].power }}")],
    ),
    scene(
        "a number written as text is converted",
        HA,
        [("my/em", {"power": "512.5"})],
        """
        meter: my/em json to_number(power) = power W
    """,
        [sensor("em/p", "Power", "W", "my/em", "{{ value_json.power | float }}")],
    ),
    scene(
        "the base topic is expanded, and names are abbreviated or not",
        "github.com/openshwprojects/OpenBK7231T_App: hass.c",
        [
            ("obk7a1/power/get", "57.2"),
            ("obk7a1/energycounter/get", "12.5"),
            ("obk7a1/power_apparent/get", "61"),
        ],
        """
        sub-meter of a device: obk7a1/power/get number = power W
          also: obk7a1/energycounter/get number = register Wh
        not obk7a1/power_apparent/get: Apparent Power: apparent power in VA is not power in W (Home Assist
    """,
        [
            discovery(
                f"obk7a1_{i}",
                **{
                    "~": "obk7a1",
                    "name": name,
                    "stat_t": f"~/{topic}/get",
                    "unit_of_meas": unit,
                    "dev_cla": kind,
                    "stat_cla": state,
                    "dev": {"ids": ["obk7a1"], "name": "obk7a1", "mf": "Tuya", "mdl": "Plug"},
                },
            )
            for i, (name, topic, unit, kind, state) in enumerate(
                (
                    ("Power", "power", "W", "power", "measurement"),
                    ("Energy Total", "energycounter", "Wh", "energy", "total_increasing"),
                    ("Apparent Power", "power_apparent", "VA", "apparent_power", "measurement"),
                )
            )
        ],
    ),
    scene(
        "a device message with components",
        HA,
        [("sensors/rack/state", {"w": 212.5, "kwh": 99.5, "t": 21})],
        """
        meter: sensors/rack/state json w = power W
          also: sensors/rack/state json kwh = register kWh
    """,
        [
            (
                "homeassistant/device/rack/config",
                {
                    "dev": {"ids": "rack1", "name": "Rack"},
                    "o": {"name": "x"},
                    "stat_t": "sensors/rack/state",
                    "cmps": {
                        "a": {
                            "p": "sensor",
                            "dev_cla": "power",
                            "unit_of_meas": "W",
                            "val_tpl": "{{ value_json.w }}",
                            "uniq_id": "rack_w",
                        },
                        "b": {
                            "p": "sensor",
                            "dev_cla": "energy",
                            "unit_of_meas": "kWh",
                            "stat_cla": "total_increasing",
                            "val_tpl": "{{ value_json.kwh }}",
                            "uniq_id": "rack_kwh",
                        },
                        "c": {
                            "p": "sensor",
                            "dev_cla": "temperature",
                            "unit_of_meas": "°C",
                            "val_tpl": "{{ value_json.t }}",
                            "uniq_id": "rack_t",
                        },
                        "d": {"p": "switch", "cmd_t": "sensors/rack/set", "uniq_id": "rack_s"},
                    },
                },
            )
        ],
    ),
    scene(
        "components written out, with their own topics",
        HA,
        [("a/power", "212.5")],
        """
        meter: a/power number = power kW
    """,
        [
            (
                "homeassistant/device/a/config",
                {
                    "device": {"identifiers": ["a1"], "name": "Hall"},
                    "components": {
                        "x": {
                            "platform": "sensor",
                            "device_class": "power",
                            "unit_of_measurement": "kW",
                            "state_topic": "a/power",
                            "unique_id": "x",
                        }
                    },
                },
            )
        ],
    ),
    scene(
        "a Z-Wave plug by its gateway",
        "github.com/zwave-js/zwave-js-ui: hass discovery",
        [
            ("zwave/kitchen/meter/endpoint_0/value/66049", {"time": 1795176034123, "value": 57.1}),
            ("zwave/kitchen/meter/endpoint_0/value/65537", {"time": 1795176034123, "value": 9.25}),
        ],
        """
        meter: zwave/kitchen/meter/endpoint_0/value/66049 json value = power W drawn
          also: zwave/kitchen/meter/endpoint_0/value/65537 json value = register kWh drawn
    """,
        [
            sensor(
                "kitchen/w",
                "kitchen_electric_consumption_w",
                "W",
                "zwave/kitchen/meter/endpoint_0/value/66049",
                "{{ value_json.value | default('') }}",
            ),
            sensor(
                "kitchen/kwh",
                "kitchen_electric_consumption_kwh",
                "kWh",
                "zwave/kitchen/meter/endpoint_0/value/65537",
                "{{ value_json.value | default('') }}",
            ),
        ],
    ),
    scene(
        "a heat meter is not electricity",
        "github.com/WobwobRt/Meter2MQTT: HA_INTEGRATION.md",
        [("meter/heat1", {"energy": 12.5, "power": 4500, "flow": 0.4})],
        """
        not meter/heat1: Energy: its device also measures a flow of water or heat, so this may be heat and
        not meter/heat1: Power: its device also measures a flow of water or heat, so this may be heat and
    """,
        [
            sensor("mc/e", "Energy", "kWh", "meter/heat1", "{{ value_json.energy }}"),
            sensor("mc/p", "Power", "W", "meter/heat1", "{{ value_json.power }}"),
            discovery(
                "mc/f",
                name="Flow",
                stat_t="meter/heat1",
                val_tpl="{{ value_json.flow }}",
                unit_of_meas="m³/h",
                dev_cla="volume_flow_rate",
                dev={"ids": ["mc"]},
            ),
        ],
    ),
    scene(
        "a class that contradicts the unit",
        "public sketch: uPower",
        [("power/meter/total/current", "512")],
        """
        not power/meter/total/current: uPower total: device class energy and unit W contradict each other
    """,
        [
            discovery(
                "upower",
                name="uPower total",
                state_topic="power/meter/total/current",
                device_class="energy",
                unit_of_meas="W",
                device={"identifiers": ["u1"]},
            )
        ],
    ),
    scene(
        "a state class that contradicts the class",
        "github.com/koson/esp-home-iot: ha_mqtt_discovery.md",
        [("iot/energy", {"t1": 512.5}), ("iot/readings", "512.5;100.25")],
        """
        not iot/energy: Energy T1: state class measurement contradicts an energy: is it the energy of an i
        not iot/readings: Energy T2: its template calculates, and a configuration cannot: {{value.split(';
    """,
        [
            sensor("n/t1", "Energy T1", "kWh", "iot/energy", "{{ value_json.t1 }}", stat_cla="measurement"),
            sensor("n/t2", "Energy T2", "kWh", "iot/readings", "{{value.split(';')[1]}}"),
        ],
    ),
]


@pytest.mark.parametrize("case", SCENES, ids=str)
def test_a_description_is_understood(case: Scene) -> None:
    """What is proposed, what is not, and why is exactly as stated, and each configuration is accepted."""
    check(case)


NUMBER = [sensor("em/p", "Power", "W", "my/em", "{{ value_json.w }}")]
DEVICE = [
    (
        "tasmota/discovery/C0FFEE4D7731/config",
        {"t": "plug7", "ft": "%prefix%/%topic%/", "tp": ["cmnd", "stat", "tele"], "ver": 1},
    ),
    ("tasmota/discovery/C0FFEE4D7731/sensors", {"sn": {"ENERGY": {"Power": 5, "Total": 1.5}}}),
]


@pytest.mark.parametrize(
    ("retained", "live"),
    [
        (NUMBER, ("my/em", {"w": 5})),
        (DEVICE, ("tele/plug7/SENSOR", {"ENERGY": {"Power": 5, "Total": 1.5}})),
    ],
    ids=["a number", "a device"],
)
def test_what_only_describes_itself_is_doubted(retained: list[Message], live: Message) -> None:
    """Numbers and devices of which no message came are proposed with the same doubt, and others without."""
    for messages, count in (([], 1), ([live], 0)):
        (candidate,) = search_log(heard(scene("", "", messages, "", retained))).candidates
        assert candidate.doubts.count(NOT_HEARD) == count
        assert [log.topic for log in candidate.topics] == [live[0]]


@pytest.mark.parametrize(
    ("nodes", "followed"),
    [(("plug",), ["homeassistant/sensor/plug/power/config"]), (("plug", "lamp"), [])],
    ids=["one meter", "several meters"],
)
def test_the_unit_of_a_discovery_message_is_followed(nodes: tuple[str, ...], followed: list[str]) -> None:
    """The configuration names its topic; of several meters, no one message states the unit."""
    live = [(f"home/{node}/power", "57.5") for node in nodes]
    retained = [sensor(f"{node}/power", "Power", "W", f"home/{node}/power") for node in nodes]
    result = find_meters(heard(scene("followed", HA, live, "", retained)))
    offers = [offer for proposal in result.proposals for offer in proposal.offers]
    assert [offer.source["unit_topic"] for offer in offers if "unit_topic" in offer.source] == followed
    for offer, topic in zip(offers, followed, strict=False):
        source = config.parse(offer.to_toml(ACCESS)).stream[0].source
        unit = config.topic_of(source).unit
        assert unit is not None
        assert (unit.filter, config.topic_of(source).units[None]) == (topic, ("W",))
