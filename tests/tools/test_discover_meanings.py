"""`discover` where discovery messages for Home Assistant state what a number means."""

import pytest

from tests.support.discover_scenes import Scene, check, discovery, scene, sensor

HA = "home-assistant.io: MQTT discovery"
SCENES = [
    scene(
        "state class total may fall",
        "home-assistant.io: sensor",
        [("net/kwh", "512.5")],
        """
        not net/kwh: Net energy: state class total: it may be a register that falls or is reset, and its n
    """,
        [sensor("net/e", "Net energy", "kWh", "net/kwh", stat_cla="total")],
    ),
    scene(
        "an energy without a state class",
        HA,
        [("x/e", "512.5"), ("y/e", "512.5")],
        """
        meter: y/e number = register kWh
        not x/e: Energy: its description does not say whether it is a register that only grows or the ener
    """,
        [
            discovery(
                "x/e", name="Energy", stat_t="x/e", unit_of_meas="kWh", dev_cla="energy", dev={"ids": ["x"]}
            ),
            discovery("y/e", name="Energy total", stat_t="y/e", unit_of_meas="kWh", dev={"ids": ["y"]}),
        ],
    ),
    scene(
        "the energy of today is part of the total",
        "github.com/SBFspot: MQTT",
        [("sbf/1", {"EToday": 12.5, "ETotal": 7712.5, "PACTot": 512})],
        """
        panels or another producer: sbf/1 json PACTot = power W produced
          also: sbf/1 json ETotal = register kWh produced
        not sbf/1: SMA Energy Today: 'today' names a part of a register, which restarts at zero (Home Assi
    """,
        [
            sensor(
                "sma/1",
                "SMA Energy Today",
                "kWh",
                "sbf/1",
                "{{ value_json.EToday | float(0) }}",
                stat_cla="total",
            ),
            sensor(
                "sma/2",
                "SMA Energy Total",
                "kWh",
                "sbf/1",
                "{{ value_json.ETotal | float(0) }}",
                dev={"ids": ["sma"], "mdl": "Inverter STP"},
            ),
            sensor(
                "sma/3",
                "SMA Power",
                "W",
                "sbf/1",
                "{{ value_json.PACTot | float(0) }}",
                dev={"ids": ["sma"], "mdl": "Inverter STP"},
            ),
        ],
    ),
    scene(
        "MWh and mW become kWh and W",
        HA,
        [("big/e", "12.5"), ("small/p", "1500")],
        """
        meter: small/p number x 1/1000 = power W
        meter: big/e number x 1000 = register kWh
    """,
        [
            sensor("big/e", "Energy total", "MWh", "big/e", dev_cla="energy", stat_cla="total_increasing"),
            sensor("small/p", "Power", "mW", "small/p", dev_cla="power", stat_cla="measurement"),
        ],
    ),
    scene(
        "joules and watt-minutes become Wh",
        HA,
        [("fine/e", "7200000"), ("old/e", "8100")],
        """
        meter: fine/e number x 1/3600 = register Wh
        meter: old/e number x 1/60 = register Wh
    """,
        [
            sensor("fine/e", "Energy total", "J", "fine/e", dev_cla="energy", stat_cla="total_increasing"),
            sensor("old/e", "Energy total", "Wmin", "old/e", dev_cla="energy", stat_cla="total_increasing"),
        ],
    ),
    scene(
        "three phases become one meter",
        "github.com/EmonCMS; PZEM by ESPHome",
        [(f"pzem/l{i}/power", "101.5") for i in (1, 2, 3)],
        """
        meter: pzem/{phase}/power number = power W
            of l1, l2, l3
    """,
        [sensor(f"pzem/p{i}", f"Power L{i}", "W", f"pzem/l{i}/power") for i in (1, 2, 3)],
    ),
    scene(
        "a total is not added to its phases",
        "AmsToMqttBridge: HA discovery",
        [("ams/power", {"P": 2100, "P1": 700, "P2": 700, "P3": 700, "PO": 0, "tPI": 12345.6, "tPO": 1.5})],
        """
        meter: ams/power json P = power W drawn
          also: ams/power json tPI = register kWh drawn
          also: ams/power json PO = power W fed in
          also: ams/power json tPO = register kWh fed in
    """,
        [
            sensor("ams/P", "Active import", "W", "ams/power", "{{ value_json.P }}"),
            sensor("ams/PO", "Active export", "W", "ams/power", "{{ value_json.PO }}"),
            *(
                sensor(f"ams/P{i}", f"Active import L{i}", "W", "ams/power", f"{{{{ value_json.P{i} }}}}")
                for i in (1, 2, 3)
            ),
            sensor("ams/tPI", "Accumulated active import", "kWh", "ams/power", "{{ value_json.tPI }}"),
            sensor("ams/tPO", "Accumulated active export", "kWh", "ams/power", "{{ value_json.tPO }}"),
        ],
    ),
    scene(
        "only one phase is no meter",
        HA,
        [("one/l2/power", "101.5")],
        """
        not one/l2/power: only one phase: no other phase's numbers were received
    """,
        [sensor("one/p2", "Power L2", "W", "one/l2/power")],
    ),
    scene(
        "circuits of a panel are not phases",
        HA,
        [(f"panel/ch{i}", "101.5") for i in (1, 2)],
        """
        meter: panel/ch1 number = power W
          also: panel/ch2 number = power W
    """,
        [sensor(f"panel/c{i}", f"Channel {i} power", "W", f"panel/ch{i}") for i in (1, 2)],
    ),
    scene(
        "delivered beside returned is drawn",
        "github.com/dsmrreader/dsmr-reader: HA",
        [("d/del", "0.5"), ("d/ret", "0.1")],
        """
        meter: d/del number = power kW drawn
          also: d/ret number = power kW fed in
    """,
        [sensor("d/1", "Power delivered", "kW", "d/del"), sensor("d/2", "Power returned", "kW", "d/ret")],
    ),
    scene(
        "delivered beside received says nothing",
        "ANSI meters",
        [("d/del", "0.5"), ("d/rec", "0.1")],
        """
        not d/del: its name does not state whether it counts what is drawn or fed in
        not d/rec: its name does not state whether it counts what is drawn or fed in
    """,
        [sensor("d/1", "Power delivered", "kW", "d/del"), sensor("d/2", "Power received", "kW", "d/rec")],
    ),
    scene(
        "a battery is not what a home draws",
        "Solar Assistant: HA discovery",
        [
            ("sa/battery_power", "-512"),
            ("sa/grid_power", "120"),
            ("sa/load_power", "632"),
            ("sa/pv_power", "0"),
        ],
        """
        main meter: sa/grid_power number = power W
          also: sa/load_power number = power W drawn
          also: sa/pv_power number = power W produced
        not sa/battery_power: Battery power: a battery's charge or discharge is not what a home draws (Hom
    """,
        [
            sensor(f"sa/{name}", f"{name.title()} power", "W", f"sa/{name}_power")
            for name in ("battery", "grid", "load", "pv")
        ],
    ),
    scene(
        "alike plugs are meters of one proposal",
        "esphome.io: MQTT discovery",
        [(f"{name}/sensor/power/state", "12.5") for name in ("desk", "rack")],
        """
        sub-meter of a device desk,rack: {meter}/sensor/power/state esphome = power W
    """,
        [
            sensor(
                f"{name}/power",
                "Power",
                "W",
                f"{name}/sensor/power/state",
                dev={"ids": name, "name": name, "mdl": "plug"},
            )
            for name in ("desk", "rack")
        ],
    ),
    scene(
        "two descriptions that contradict each other",
        HA,
        [("c/p", "512")],
        """
        not c/p: two descriptions contradict each other
    """,
        [sensor("c/1", "Power", "W", "c/p"), sensor("d/1", "Power", "kW", "c/p")],
    ),
    scene(
        "a description contradicts the family",
        "esphome.io; tasmota docs",
        [("tele/tic/SENSOR", {"ENERGY": {"Power": 512, "Total": 12.5}})],
        """
        not tele/tic/SENSOR: ENERGY.Total: its name refers to energy, but not to the unit: Wh or kW [unit]
        not tele/tic/SENSOR: Power: apparent power in VA is not power in W (Home Assistant's discovery mes
    """,
        [
            discovery(
                "tic/p",
                name="Power",
                stat_t="tele/tic/SENSOR",
                val_tpl="{{ value_json.ENERGY.Power }}",
                unit_of_meas="VA",
                dev_cla="apparent_power",
                dev={"ids": "tic"},
            )
        ],
    ),
    scene(
        "described and silent",
        HA,
        [("other/x", "21.5")],
        """
        meter: late/power number = power W
    """,
        [sensor("late/p", "Power", "W", "late/power")],
    ),
    scene(
        "where no number is",
        HA,
        [("on/p", "on"), ("gone/p", {"q": 1})],
        """
        not gone/p: Power: its messages have no number at the described place (Home Assistant's discovery
        not on/p: Power: its messages have no number at the described place (Home Assistant's discovery me
    """,
        [
            sensor("on/p", "Power", "W", "on/p"),
            sensor("gone/p", "Power", "W", "gone/p", "{{ value_json.p }}"),
        ],
    ),
]


@pytest.mark.parametrize("case", SCENES, ids=str)
def test_a_meaning_is_understood(case: Scene) -> None:
    """What is proposed, what is not, and why is exactly as stated, and each configuration is accepted."""
    check(case)
