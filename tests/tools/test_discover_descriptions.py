"""`discover` where Tasmota, Zigbee2MQTT, Homie or statestream describe their devices themselves."""

from typing import Any

import pytest

from tests.support.discover_scenes import Message, Scene, check, discovery, scene

Z2M = "zigbee2mqtt.io: exposes, bridge/devices"
HOMIE = "homieiot.github.io"
TASMOTA = "tasmota.github.io/docs: MQTT discovery"
_ENERGY = {
    "TotalStartTime": "2024-01-01T00:00:00",
    "Total": 12.5,
    "Yesterday": 1,
    "Today": 1,
    "Power": 57,
    "ApparentPower": 60,
}


def numeric(name: str, unit: str, description: str = "") -> dict[str, Any]:
    """Return what a device exposes as a number."""
    return {
        "type": "numeric",
        "name": name,
        "property": name,
        "unit": unit,
        "access": 1,
        "description": description,
    }


def exposed(base: str, name: str, features: list[dict[str, Any]]) -> Message:
    """Return a list of devices: the coordinator, and one that exposes features."""
    coordinator = {
        "ieee_address": "0x00124b00c0ffee00",
        "type": "Coordinator",
        "friendly_name": "Coordinator",
        "definition": None,
    }
    definition = {"model": "X", "vendor": "Y", "exposes": features}
    device = {"ieee_address": "0x00124b00c0ffee77", "type": "Router", "friendly_name": name}
    return f"{base}/bridge/devices", [coordinator, device | {"definition": definition}]


SWITCH = {
    "type": "switch",
    "features": [
        {"type": "binary", "name": "state", "property": "state", "value_on": "ON", "value_off": "OFF"}
    ],
}
POWER = numeric("power", "W", "Instantaneous measured power")
SUM = numeric("energy", "kWh", "Sum of consumed energy")


def tasmota(name: str, full: str = "%prefix%/%topic%/", relays: tuple[int, ...] = (0, 0)) -> dict[str, Any]:
    """Return Tasmota's description of its topics."""
    return {
        "ip": "192.0.2.7",
        "dn": "Cellar",
        "fn": ["Cellar", None],
        "hn": f"{name}-0001",
        "mac": "C0FFEE4D7731",
        "md": "Generic",
        "t": name,
        "ft": full,
        "tp": ["cmnd", "stat", "tele"],
        "rl": list(relays),
        "ver": 1,
    }


def homie(base: str, **attributes: str) -> list[Message]:
    """Return attributes of a Homie property."""
    return [(f"{base}/${name}", text) for name, text in attributes.items()]


SCENES = [
    scene(
        "a Tasmota plug that only describes itself",
        TASMOTA,
        [("other/t", "21")],
        """
        sub-meter of a device: tele/plug7/SENSOR tasmota = power W
          also: tele/plug7/SENSOR tasmota = register kWh
    """,
        [
            ("tasmota/discovery/C0FFEE4D7731/config", tasmota("plug7", relays=(1, 0))),
            (
                "tasmota/discovery/C0FFEE4D7731/sensors",
                {"sn": {"Time": "2026-01-02T10:00:00", "ENERGY": _ENERGY}, "ver": 1},
            ),
        ],
    ),
    scene(
        "a Tasmota device with a full topic of its own",
        TASMOTA,
        [("home/cellar/tele/SENSOR", {"Time": "2026-01-02T10:00:00", "ENERGY": _ENERGY})],
        """
        meter: home/cellar/tele/SENSOR tasmota = power W
          also: home/cellar/tele/SENSOR tasmota = register kWh
    """,
        [("tasmota/discovery/C0FFEE4D7731/config", tasmota("cellar", "home/%topic%/%prefix%/"))],
    ),
    scene(
        "a reading head that describes itself",
        TASMOTA,
        [("tele/hichi/LWT", "Online")],
        """
        main meter: tele/hichi/SENSOR tasmota-sml = power W drawn minus fed in
          also: tele/hichi/SENSOR tasmota-sml = register kWh drawn
    """,
        [
            ("tasmota/discovery/C0FFEE4D7731/config", tasmota("hichi")),
            (
                "tasmota/discovery/C0FFEE4D7731/sensors",
                {
                    "sn": {"Time": "2026-01-02T10:00:00", "SML": {"Total_in": 7712.5, "Power_curr": 431}},
                    "ver": 1,
                },
            ),
        ],
    ),
    scene(
        "the answer to Status 8",
        "tasmota.github.io/docs: Commands",
        [("stat/plug9/STATUS8", {"StatusSNS": {"Time": "2026-01-02T10:00:00", "ENERGY": _ENERGY}})],
        """
        meter: tele/plug9/SENSOR tasmota = power W
          also: tele/plug9/SENSOR tasmota = register kWh
    """,
    ),
    scene(
        "a plug by what it exposes",
        Z2M,
        [("zigbee2mqtt/desk", {"state": "ON", "power": 12.5, "energy": 3.25, "voltage": 231})],
        """
        sub-meter of a device: zigbee2mqtt/desk zigbee2mqtt = power W
          also: zigbee2mqtt/desk zigbee2mqtt = register kWh
    """,
        [exposed("zigbee2mqtt", "desk", [SWITCH, POWER, SUM, numeric("voltage", "V")])],
    ),
    scene(
        "another base topic",
        Z2M,
        [("z2m-cellar/main", {"power": 412, "energy": 77.5})],
        """
        main meter: z2m-cellar/main json power = power W
          also: z2m-cellar/main json energy = register kWh drawn
    """,
        [exposed("z2m-cellar", "main", [POWER, SUM])],
    ),
    scene(
        "power beside phases b and c is phase a",
        Z2M,
        [("z2m/em", {"power": 100, "power_phase_b": 200, "power_phase_c": 300})],
        """
        meter: z2m/em json sum([power, power_phase_b, power_phase_c]) = power W
    """,
        [
            exposed(
                "z2m",
                "em",
                [
                    POWER,
                    numeric("power_phase_b", "W", "Instantaneous measured power on phase B"),
                    numeric("power_phase_c", "W", "Instantaneous measured power on phase C"),
                ],
            )
        ],
    ),
    scene(
        "power beside phases a, b and c is their sum",
        Z2M,
        [
            (
                "z2m/em",
                {
                    "power": 600,
                    "power_a": 100,
                    "power_b": 200,
                    "power_c": 300,
                    "energy": 12.5,
                    "produced_energy": 1.5,
                },
            )
        ],
        """
        meter: z2m/em json power = power W
          also: z2m/em json energy = register kWh drawn
          also: z2m/em json produced_energy = register kWh fed in
    """,
        [
            exposed(
                "z2m",
                "em",
                [
                    POWER,
                    *(
                        numeric(f"power_{p}", "W", f"Instantaneous measured power (Phase {p.upper()})")
                        for p in "abc"
                    ),
                    SUM,
                    numeric("produced_energy", "kWh", "Sum of produced energy"),
                ],
            )
        ],
    ),
    scene(
        "a clamp whose direction is another field",
        Z2M,
        [
            (
                "zigbee2mqtt/clamp",
                {
                    "power_a": 1844.8,
                    "energy_flow_a": "producing",
                    "energy_a": 101.5,
                    "energy_produced_a": 55.1,
                },
            )
        ],
        """
        meter: zigbee2mqtt/clamp zigbee2mqtt-flow = power W drawn minus fed in
          also: zigbee2mqtt/clamp zigbee2mqtt-flow = register kWh drawn
          also: zigbee2mqtt/clamp zigbee2mqtt-flow produced-a = register kWh fed in
        not zigbee2mqtt/clamp: power_a: its direction is in another field, energy_flow_a (Zigbee2MQTT's li
    """,
        [
            exposed(
                "zigbee2mqtt",
                "clamp",
                [
                    numeric("power_a", "W"),
                    {
                        "type": "enum",
                        "name": "energy_flow_a",
                        "property": "energy_flow_a",
                        "values": ["consuming", "producing"],
                    },
                    numeric("energy_a", "kWh"),
                    numeric("energy_produced_a", "kWh"),
                ],
            )
        ],
    ),
    scene(
        "a friendly name with slashes, which the family's topic has not",
        Z2M,
        [("zigbee2mqtt/cellar/rack/plug", {"state": "ON", "power": 12.5})],
        """
        sub-meter of a device: zigbee2mqtt/cellar/rack/plug json power = power W
    """,
        [exposed("zigbee2mqtt", "cellar/rack/plug", [SWITCH, POWER])],
    ),
    scene(
        "apparent power that is exposed",
        Z2M,
        [("zigbee2mqtt/tic", {"apparent_power": 512, "current_summ_delivered": 7712.5})],
        """
        not zigbee2mqtt/tic: apparent_power: apparent power in VA is not power in W (Zigbee2MQTT's list of
        not zigbee2mqtt/tic: current_summ_delivered: its name does not state whether it counts what is dra
    """,
        [
            exposed(
                "zigbee2mqtt",
                "tic",
                [
                    numeric("apparent_power", "VA", "Instantaneous apparent power"),
                    numeric("current_summ_delivered", "kWh", "Total active power delivered index"),
                ],
            )
        ],
    ),
    scene(
        "a plug with discovery messages, too, is one proposal",
        Z2M,
        [("zigbee2mqtt/desk", {"state": "ON", "power": 12.5, "energy": 3.25})],
        """
        sub-meter of a device: zigbee2mqtt/desk zigbee2mqtt = power W
          also: zigbee2mqtt/desk zigbee2mqtt = register kWh
    """,
        [
            exposed("zigbee2mqtt", "desk", [SWITCH, POWER, SUM]),
            discovery(
                "0x00124b00c0ffee77/power",
                name="Power",
                state_topic="zigbee2mqtt/desk",
                value_template="{{ value_json.power }}",
                unit_of_measurement="W",
                device_class="power",
                state_class="measurement",
                device={"identifiers": ["zigbee2mqtt_0x00124b00c0ffee77"], "name": "desk"},
            ),
        ],
    ),
    scene(
        "Homie 4",
        HOMIE,
        [
            ("homie/em-1/grid/power", "412.5"),
            ("homie/em-1/grid/energy-total", "7712.5"),
            ("homie/em-1/grid/voltage", "231"),
        ],
        """
        main meter: homie/em-1/grid/power number = power W
          also: homie/em-1/grid/energy-total number = register kWh
    """,
        [
            ("homie/em-1/$homie", "4.0.0"),
            ("homie/em-1/$name", "Meter"),
            *homie("homie/em-1/grid/power", name="Power", datatype="float", unit="W"),
            *homie("homie/em-1/grid/energy-total", name="Energy total", datatype="float", unit="kWh"),
            *homie("homie/em-1/grid/voltage", datatype="float", unit="V"),
        ],
    ),
    scene(
        "Homie 5",
        HOMIE,
        [("homie/5/em2/import/kw", "0.5"), ("homie/5/em2/export/kw", "0"), ("homie/5/em2/limit/w", "3000")],
        """
        main meter: homie/5/em2/import/kw number = power kW drawn
          also: homie/5/em2/export/kw number = power kW fed in
        not homie/5/em2/limit/w: Power: 'limit' names another quantity, a limit or a statistic (the device
    """,
        [
            (
                "homie/5/em2/$description",
                {
                    "homie": "5.0",
                    "version": 1,
                    "name": "Main",
                    "nodes": {
                        "import": {
                            "properties": {"kw": {"name": "Power import", "datatype": "float", "unit": "kW"}}
                        },
                        "export": {
                            "properties": {"kw": {"name": "Power export", "datatype": "float", "unit": "kW"}}
                        },
                        "limit": {
                            "properties": {
                                "w": {"name": "Power", "datatype": "float", "unit": "W", "settable": True}
                            }
                        },
                    },
                },
            )
        ],
    ),
    scene(
        "a Homie energy that may be of an interval, and one that is text",
        HOMIE,
        [("homie/x/n/energy", "0.25"), ("homie/x/n/power", "12")],
        """
        not homie/x/n/energy: energy: its description does not say whether it is a register that only grow
        not homie/x/n/power: power: its data type is string, not a number (the device's Homie description)
    """,
        [
            ("homie/x/$homie", "3.0.1"),
            *homie("homie/x/n/energy", datatype="float", unit="kWh"),
            *homie("homie/x/n/power", datatype="string", unit="W"),
        ],
    ),
    scene(
        "statestream of a home",
        "home-assistant.io: MQTT Statestream",
        [
            ("ha/sensor/grid_import/state", "7712.5"),
            ("ha/sensor/grid_export/state", "12.5"),
            ("ha/sensor/net/state", "-0.5"),
            ("ha/light/hall/state", "on"),
        ],
        """
        main meter: ha/sensor/grid_import/state homeassistant-statestream = register kWh drawn
          also: ha/sensor/grid_export/state homeassistant-statestream = register kWh fed in
        meter: ha/sensor/net/state homeassistant-statestream = power kW drawn minus fed in
    """,
        [
            (f"ha/sensor/{name}/{key}", f'"{value}"')
            for name, unit, kind, state in (
                ("grid_import", "kWh", "energy", "total_increasing"),
                ("grid_export", "kWh", "energy", "total_increasing"),
                ("net", "kW", "power", "measurement"),
            )
            for key, value in (("unit_of_measurement", unit), ("device_class", kind), ("state_class", state))
        ],
    ),
]


@pytest.mark.parametrize("case", SCENES, ids=str)
def test_a_device_that_describes_itself_is_understood(case: Scene) -> None:
    """What is proposed, what is not, and why is exactly as stated, and each configuration is accepted."""
    check(case)
