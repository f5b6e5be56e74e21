"""`discover` in homes where a guess once hid a meter or named a wrong number."""

import pytest

from tests.support.discover_scenes import Scene, check, discovery, scene

TASMOTA = "https://github.com/arendst/Tasmota docs"
_P1 = "sensors/power/p1meter"
_DSMR = (
    "power_consumed",
    "power_produced",
    *(f"energy_{way}_tariff_{n}" for way in ("consumed", "produced") for n in (1, 2)),
)
_PLUG = {"Time": "2026-01-02T10:00:00", "ENERGY": {"Total": 12.5, "Power": 57, "ApparentPower": 60}}
_SML = {"Time": "2026-01-02T10:00:00", "SML": {"Total_in": 7712.4531, "Total_out": 12.3, "Power_curr": 431}}

SCENES = [
    scene(
        "a plug does not hide the reading head beside it",
        "tasmota docs: Smart Meter Interface",
        [("tele/plug1/SENSOR", _PLUG), ("tele/plug1/STATE", {"POWER": "ON"}), ("tele/hichi/SENSOR", _SML)],
        """
        main meter: tele/hichi/SENSOR tasmota-sml = power W drawn minus fed in
          also: tele/hichi/SENSOR tasmota-sml = register kWh drawn
          also: tele/hichi/SENSOR tasmota-sml export = register kWh fed in
        sub-meter of a device: tele/plug1/SENSOR tasmota = power W
          also: tele/plug1/SENSOR tasmota = register kWh
    """,
    ),
    scene(
        "a plug on Zigbee2MQTT does not hide the clamp beside it",
        "zigbee2mqtt.io: PJ-1203A",
        [
            ("zigbee2mqtt/plug", {"state": "ON", "power": 12, "energy": 3.1}),
            (
                "zigbee2mqtt/clamp",
                {
                    "power_a": 1844.8,
                    "energy_flow_a": "producing",
                    "power_b": 12.1,
                    "energy_flow_b": "consuming",
                    "energy_a": 101.5,
                    "energy_b": 12.25,
                },
            ),
        ],
        """
        meter: zigbee2mqtt/clamp zigbee2mqtt-flow = power W drawn minus fed in
          also: zigbee2mqtt/clamp zigbee2mqtt-flow power-b = power W drawn minus fed in
          also: zigbee2mqtt/clamp zigbee2mqtt-flow = register kWh drawn
          also: zigbee2mqtt/clamp zigbee2mqtt-flow energy-b = register kWh drawn
        sub-meter of a device: zigbee2mqtt/plug zigbee2mqtt = power W
          also: zigbee2mqtt/plug zigbee2mqtt = register kWh
    """,
    ),
    scene(
        "apparent power is not power",
        "tasmota docs: Teleinfo",
        [
            ("tele/tic/SENSOR", {"Time": "x", "ENERGY": {"Total": 9098.1, "Power": 170}}),
            (
                "tele/tic/SENSOR",
                {"TIC": {"ADCO": "012345678901", "HCHC": "001200345", "HCHP": "001996123", "PAPP": "00170"}},
            ),
        ],
        """
        main meter: tele/tic/SENSOR tasmota-teleinfo = register Wh drawn
    """,
    ),
    scene(
        "unit words decide the kind",
        "api-documentation.homewizard.com, with other names",
        [
            (
                "p1/data",
                {
                    "total_power_import_kwh": 1377.003,
                    "total_power_import_t1_kwh": 1000.5,
                    "total_power_import_t2_kwh": 376.503,
                    "total_power_export_kwh": 12.1,
                    "total_power_export_t1_kwh": 6,
                    "total_power_export_t2_kwh": 6.1,
                    "net_power_w": -543,
                    "total_gas_m3": 256.8,
                    "active_power_average_w": 123.0,
                    "montly_power_peak_w": 1111,
                },
            )
        ],
        """
        meter: p1/data json net_power_w = power W drawn minus fed in
          also: p1/data json total_power_import_kwh = register kWh drawn
          also: p1/data json total_power_export_kwh = register kWh fed in
        not p1/data: total_gas_m3: m3 is a volume of gas or water
        not p1/data: active_power_average_w: 'average' names another quantity, a limit or a statistic
        not p1/data: montly_power_peak_w: 'peak' names another quantity, a limit or a statistic
    """,
    ),
    scene(
        "a HomeWizard device behind a bridge",
        "api-documentation.homewizard.com",
        [
            (
                "homewizard/data",
                {
                    "total_power_import_kwh": 1377.003,
                    "total_power_import_t1_kwh": 1000.5,
                    "total_power_import_t2_kwh": 376.503,
                    "total_power_export_kwh": 12.1,
                    "total_power_export_t1_kwh": 6,
                    "total_power_export_t2_kwh": 6.1,
                    "active_power_w": -543,
                    "active_power_l1_w": -676,
                    "active_power_l2_w": 133,
                    "active_power_l3_w": 0,
                    "total_gas_m3": 256.8,
                    "active_power_average_w": 123.0,
                    "montly_power_peak_w": 1111,
                },
            )
        ],
        """
        meter: homewizard/data homewizard = power W drawn minus fed in
          also: homewizard/data homewizard = register kWh drawn
          also: homewizard/data homewizard export = register kWh fed in
    """,
    ),
    scene(
        "a grid meter on a GX device is found whatever its instance",
        "github.com/victronenergy/dbus-flashmq",
        [
            (f"N/c0ffee4d1177/grid/40/Ac/{name}", {"value": value})
            for name, value in (
                ("Power", -1218.5),
                ("L1/Power", -431.5),
                ("L2/Power", -787),
                ("Energy/Forward", 8913.25),
                ("Energy/Reverse", 41.5),
                ("Current", 5.1),
            )
        ],
        """
        main meter: N/c0ffee4d1177/grid/40/Ac/Power victron = power W drawn minus fed in
          also: N/c0ffee4d1177/grid/40/Ac/Energy/Forward victron = register kWh drawn
          also: N/c0ffee4d1177/grid/40/Ac/Energy/Reverse victron export = register kWh fed in
        not N/c0ffee4d1177/grid/40/Ac/L1/Power: belongs to c0ffee4d1177, which is proposed as a grid meter
        not N/c0ffee4d1177/grid/40/Ac/L2/Power: belongs to c0ffee4d1177, which is proposed as a grid meter
    """,
    ),
    scene(
        "what panels behind a plug feed in is not what is drawn",
        "shelly-api-docs.shelly.cloud: Switch",
        [
            (
                "plug-c0ffee/status/switch:0",
                {
                    "id": 0,
                    "apower": -350.2,
                    "aenergy": {"total": 20834.5},
                    "ret_aenergy": {"total": 2003.9},
                },
            )
        ],
        """
        sub-meter of a device: plug-c0ffee/status/switch:0 shelly-gen2-switch = power W drawn minus fed in
          also: plug-c0ffee/status/switch:0 shelly-gen2-switch = register Wh drawn
          also: plug-c0ffee/status/switch:0 shelly-gen2-switch returned = register Wh fed in
    """,
    ),
    scene(
        "tariffs and phases without units are no meters",
        "github.com/daniel-jong/esp8266_p1meter",
        [
            (f"{_P1}/{name}", "1234")
            for name in (
                "consumption_low_tarif",
                "consumption_high_tarif",
                "actual_consumption",
                "l1_instant_power_usage",
                "gas_meter_m3",
            )
        ],
        """
        not sensors/power/p1meter/actual_consumption: its name refers to energy, but not to th [kind,unit]
        not sensors/power/p1meter/consumption_high_tarif: its name refers to energy, but not t [kind,unit]
        not sensors/power/p1meter/consumption_low_tarif: its name refers to energy, but not to [kind,unit]
        not sensors/power/p1meter/l1_instant_power_usage: its name refers to power, but not to the [unit]
        not sensors/power/p1meter/gas_meter_m3: m3 is a volume of gas or water
    """,
    ),
    scene(
        "ESPHome's DSMR without a description",
        "esphome.io: DSMR",
        [(f"p1/sensor/{name}/state", "1.245") for name in (*_DSMR, "gas_consumed")],
        """
        not p1/sensor/energy_consumed_tariff_1/state: its name refers to energy, but not to th [kind,unit]
        not p1/sensor/energy_consumed_tariff_2/state: its name refers to energy, but not to th [kind,unit]
        not p1/sensor/energy_produced_tariff_1/state: its name refers to energy, but not to th [kind,unit]
        not p1/sensor/energy_produced_tariff_2/state: its name refers to energy, but not to th [kind,unit]
        not p1/sensor/power_consumed/state: its name refers to power, but not to the unit: W or kW? [unit]
        not p1/sensor/power_produced/state: its name refers to power, but not to the unit: W or kW? [unit]
        not p1/sensor/gas_consumed/state: 'gas' names a medium other than electricity
    """,
    ),
    scene(
        "ESPHome's DSMR with its description",
        "esphome.io: DSMR; MQTT discovery",
        [(f"p1/sensor/{name}/state", "1.245") for name in _DSMR],
        """
        meter: p1/sensor/power_consumed/state number = power kW drawn
          also: p1/sensor/{phase}/state number = register kWh drawn
            of energy_consumed_tariff_1, energy_consumed_tariff_2
          also: p1/sensor/power_produced/state number = power kW fed in
          also: p1/sensor/{phase}/state number = register kWh fed in
            of energy_produced_tariff_1, energy_produced_tariff_2
    """,
        [
            discovery(
                f"p1/{name}",
                name=name.replace("_", " ").title(),
                stat_t=f"p1/sensor/{name}/state",
                unit_of_meas="kW" if name[0] == "p" else "kWh",
                dev_cla=name.split("_")[0],
                stat_cla="measurement" if name[0] == "p" else "total_increasing",
                dev={"ids": "a1b2c3", "name": "p1"},
            )
            for name in _DSMR
        ],
    ),
    scene(
        "house, grid and panels are not one meter thrice",
        "docs.evcc.io: MQTT API",
        [
            (f"evcc/{name}", "512.25")
            for name in (
                "site/grid/power",
                "site/pv/power",
                "site/homePower",
                "site/battery/power",
                "loadpoints/1/chargePower",
                "site/grid/energy",
            )
        ],
        """
        main meter: evcc/site/grid/power evcc = power W drawn minus fed in
          also: evcc/site/grid/energy evcc = register kWh drawn
          also: evcc/site/homePower evcc home = power W drawn
        not evcc/loadpoints/1/chargePower: its name refers to power, but not to the unit: W or kW? [unit]
        not evcc/site/pv/power: its name refers to power, but not to the unit: W or kW? [unit]
        not evcc/site/battery/power: a battery's charge or discharge is not what a home draws
    """,
    ),
    scene(
        "the unit topic beside a state counts",
        "home-assistant.io: MQTT Statestream",
        [
            ("homeassistant/sensor/haus_power/state", "1.2453"),
            ("homeassistant/sensor/heizung_temp/state", "21.2"),
        ],
        """
        meter: homeassistant/sensor/haus_power/state homeassistant-statestream = power kW
    """,
        [
            ("homeassistant/sensor/haus_power/unit_of_measurement", '"kW"'),
            ("homeassistant/sensor/haus_power/device_class", '"power"'),
            ("homeassistant/sensor/heizung_temp/unit_of_measurement", '"°C"'),
        ],
    ),
    scene(
        "two clamps of one device are one proposal",
        "shelly-api-docs.shelly.cloud: EM1",
        [
            (
                f"shellyproem50-c0ffee4d1122/status/em1:{i}",
                {"id": i, "act_power": power, "current": 1.4, "voltage": 230.2},
            )
            for i, power in enumerate((321.5, -1200.5))
        ],
        """
        meter: shellyproem50-c0ffee4d1122/status/em1:0 shelly-gen2-em1 = power W
          also: shellyproem50-c0ffee4d1122/status/em1:1 shelly-gen2-em1 = power W
    """,
    ),
    scene(
        "what panels produce is not what the home draws",
        "github.com/tbnobody/OpenDTU: MqttHandleHass.cpp",
        [
            ("solar/116180403020/0/power", "312.5"),
            ("solar/116180403020/0/yieldtotal", "512.5"),
            ("solar/116180403020/0/yieldday", "1512"),
            ("solar/116180403020/0/powerdc", "330.5"),
        ],
        """
        panels or another producer: solar/116180403020/0/power number = power W produced
          also: solar/116180403020/0/powerdc number = power W produced
          also: solar/116180403020/0/yieldtotal number = register kWh produced
        not solar/116180403020/0/yieldday: YieldDay: 'day' names a part of a register, which restarts at z
    """,
        [
            discovery(
                f"dtu_116180403020/ch0_{name}",
                name=name,
                stat_t=f"solar/116180403020/0/{name.lower()}",
                unit_of_meas=unit,
                dev_cla=kind,
                stat_cla=state,
                dev={"ids": "116180403020", "name": "Garage", "mf": "OpenDTU", "mdl": "HM-800"},
            )
            for name, unit, kind, state in (
                ("Power", "W", "power", "measurement"),
                ("YieldTotal", "kWh", "energy", "total_increasing"),
                ("YieldDay", "Wh", "energy", "total_increasing"),
                ("PowerDC", "W", "power", "measurement"),
            )
        ],
    ),
    scene(
        "a template that calculates is not read",
        "home-assistant.io: MQTT sensor; TeleInfoKit",
        [("kit/data/PAPP", "00230"), ("kit/data/BASE", "001200345")],
        """
        not kit/data/BASE: BASE: its template calculates, and a configuration cannot: {{float(value)/1000.
        not kit/data/PAPP: PAPP: apparent power in VA is not power in W (Home Assistant's discovery messag
    """,
        [
            discovery(
                "kit/BASE",
                name="BASE",
                dev_cla="energy",
                stat_cla="total_increasing",
                unit_of_meas="kWh",
                val_tpl="{{float(value)/1000.0}}",
                stat_t="kit/data/BASE",
                dev={"ids": "kit"},
            ),
            discovery(
                "kit/PAPP",
                name="PAPP",
                dev_cla="apparent_power",
                unit_of_meas="VA",
                stat_t="kit/data/PAPP",
                dev={"ids": "kit"},
            ),
        ],
    ),
    scene(
        "gas and water are not electricity",
        "github.com/allangood/rtlamr2mqtt; wmbusmeters",
        [
            ("home/gas/energy_total_kwh", "12.3"),
            ("home/meter", {"water_m3": 12.5, "total_energy_kwh": 3.5}),
            ("warmte/meter", {"power_kw": 4.5}),
        ],
        """
        not home/gas/energy_total_kwh: 'gas' names a medium other than electricity
        not home/meter: water_m3: m3 is a volume of gas or water
        not home/meter: total_energy_kwh: the same message has a volume or a flow, so this may be heat and
        not warmte/meter: power_kw: 'warmte' names a medium other than electricity
    """,
    ),
    scene(
        "VA in a bare name is listed and not read",
        "github.com/arendst/Tasmota: energy",
        [("cellar/apparent_power_va", "512"), ("cellar/power_w", "480")],
        """
        meter: cellar/power_w number = power W
        not cellar/apparent_power_va: apparent power in VA is not power in W
    """,
    ),
    scene(
        "tariffs on single topics are summed",
        "github.com/dsmrreader/dsmr-reader: MQTT",
        [
            ("p1/electricity_import_t1_kwh", "1200.5"),
            ("p1/electricity_import_t2_kwh", "900.25"),
            ("p1/electricity_export_t1_kwh", "5.5"),
            ("p1/power_import_kw", "0.5"),
        ],
        """
        meter: p1/power_import_kw number = power kW drawn
          also: p1/{phase} number = register kWh drawn
            of electricity_import_t1_kwh, electricity_import_t2_kwh
        not p1/electricity_export_t1_kwh: only one tariff: no other tariff's register was received
    """,
    ),
]


@pytest.mark.parametrize("case", SCENES, ids=str)
def test_a_home_is_understood(case: Scene) -> None:
    """What is proposed, what is not, and why is exactly as stated, and each configuration is accepted."""
    check(case)
