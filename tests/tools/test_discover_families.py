"""`discover` where a known family's topics are easily read as the wrong quantity."""

import pytest

from tests.support.discover_scenes import Scene, check, scene

_READINGS = (
    *(
        "electricity_delivered_1",
        "electricity_returned_1",
        "electricity_delivered_2",
        "electricity_returned_2",
    ),
    *("electricity_currently_delivered", "extra_device_delivered", "phase_power_current_l1"),
    *(f"phase_currently_{way}_l{i}" for way in ("delivered", "returned") for i in (1, 2, 3)),
)

SCENES = [
    scene(
        "dsmr-reader's phases, tariffs and directions are not added to each other",
        "dsmr-reader.readthedocs.io: MQTT",
        [(f"dsmr/reading/{name}", f"{place + 1}.5") for place, name in enumerate(_READINGS)],
        """
        main meter: dsmr/reading/electricity_currently_delivered dsmr-reader-topics = power W
          also: dsmr/reading/{phase} dsmr-reader-topics = power W
            of phase_currently_delivered_l1, phase_currently_delivered_l2, phase_currently_delivered_l3
          also: dsmr/reading/{phase} dsmr-reader-topics = power W fed in
            of phase_currently_returned_l1, phase_currently_returned_l2, phase_currently_returned_l3
          also: dsmr/reading/{phase} dsmr-reader-topics = register kWh
            of electricity_delivered_1, electricity_delivered_2
          also: dsmr/reading/{phase} dsmr-reader-topics = register kWh fed in
            of electricity_returned_1, electricity_returned_2
        not dsmr/reading/phase_power_current_l1: its name refers to power, but not to the unit: W o [unit]
        not dsmr/reading/extra_device_delivered: 'extra' names a medium other than electricity
    """,
    ),
    scene(
        "a relay counts watt-minutes and an energy meter watt-hours",
        "shelly-api-docs.shelly.cloud: Gen1",
        [
            ("shellies/plug-1/relay/0/power", "12.5"),
            ("shellies/plug-1/relay/0/energy", "1250"),
            *(
                (f"shellies/em3/emeter/{i}/{name}", "100")
                for i in range(3)
                for name in ("power", "total", "pf")
            ),
            *((f"shellies/em3/emeter/{i}/total_returned", "5") for i in range(3)),
        ],
        """
        meter: shellies/em3/emeter/{phase}/power shelly-gen1 = power W
            of 0, 1, 2
          also: shellies/em3/emeter/{phase}/total shelly-gen1 = register Wh drawn
            of 0, 1, 2
          also: shellies/em3/emeter/{phase}/total_returned shelly-gen1 returned = register Wh fed in
            of 0, 1, 2
        sub-meter of a device: shellies/plug-1/relay/0/power shelly-gen1 = power W
          also: shellies/plug-1/relay/0/energy shelly-gen1 energy = register Wh
    """,
    ),
    scene(
        "two clamps are not summed by themselves",
        "shelly-api-docs.shelly.cloud: EM",
        [(f"shellies/em/emeter/{i}/power", "100.5") for i in range(2)],
        """
        meter: shellies/em/emeter/{phase}/power shelly-gen1 = power W
            of 0
          also: shellies/em/emeter/{phase}/power shelly-gen1 = power W
            of 1
          also: shellies/em/emeter/{phase}/power shelly-gen1 = power W
            of 0, 1
    """,
    ),
    scene(
        "channels on a prefix of one's own",
        "shelly-api-docs.shelly.cloud: EM1",
        [(f"house/em/status/em1:{i}", {"id": i, "act_power": 5.5, "voltage": 230}) for i in range(2)],
        """
        meter: house/em/status/em1:0 shelly-gen2-em1 = power W
          also: house/em/status/em1:1 shelly-gen2-em1 = power W
    """,
    ),
    scene(
        "channels of a panel on topics of their own",
        "a home",
        [(f"panel/ch{i}/power_w", f"{i}.5") for i in (1, 2)],
        """
        meter: panel/ch1/power_w number = power W
          also: panel/ch2/power_w number = power W
    """,
    ),
    scene(
        "a value whose topic names it",
        "github.com/victronenergy/dbus-mqtt",
        [
            ("N/c0ffee/grid/30/Ac/Power", {"value": 512.5}),
            ("N/c0ffee/grid/30/Ac/Energy/Forward", {"value": 7712.5}),
            ("cellar/main_power_w", {"value": 512.5, "ts": 1795176034}),
        ],
        """
        main meter: N/c0ffee/grid/30/Ac/Power victron = power W drawn minus fed in
          also: N/c0ffee/grid/30/Ac/Energy/Forward victron = register kWh drawn
        main meter: cellar/main_power_w json value = power W
    """,
    ),
    scene(
        "a text with its unit",
        "openHAB",
        [("cellar/power", "512.3 W"), ("cellar/energy", "12.5 kWh"), ("cellar/door", "open")],
        """
        not cellar/energy: the payload is a number with a unit: send only the number
        not cellar/power: the payload is a number with a unit: send only the number
    """,
    ),
    scene(
        "registers of SML without a unit",
        "sml2mqtt.readthedocs.io",
        [("sml2mqtt/0a0b/0100100700ff", "412.5"), ("sml2mqtt/0a0b/0100010800ff", "7712.5")],
        """
        main meter: sml2mqtt/0a0b/0100100700ff sml2mqtt = power W drawn minus fed in
        not sml2mqtt/0a0b/0100010800ff: an SML meter read by sml2mqtt: nothing states the unit of i [unit]
    """,
    ),
]


@pytest.mark.parametrize("case", SCENES, ids=str)
def test_a_family_is_read_as_what_it_is(case: Scene) -> None:
    """What is proposed, what is not, and why is exactly as stated, and each configuration is accepted."""
    check(case)
