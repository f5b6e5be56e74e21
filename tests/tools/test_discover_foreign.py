"""`discover` names payloads in the form of other programs, and proposes nothing for them."""

import pytest

from meteragent.domain.counters import REFUSALS
from meteragent.tools.discover import find_meters, report_text
from tests.support.discover_scenes import ACCESS, Message, check, heard, scene, sensor, summary

SPARKPLUG = bytes.fromhex("08b0e0d4f3a1321219080a10b0e0d4f3a1322009410900000000008040401801")
ENCRYPTED = bytes.fromhex("db08534147350006cad08201f230002ad054ffbcf40b43f940e06f3b945c20a8aac1327c39b42387")
FOREIGN: dict[str, tuple[str, bytes | str]] = {
    "refused_influx": (
        "telegraf/host/smartmeter",
        "smartmeter,obis=16.7.0 value=345.6 1795176009000000000",
    ),
    "refused_sparkplug": ("spBv1.0/house/DDATA/gateway/meter", SPARKPLUG),
    "refused_encrypted": ("smartmeter/raw", ENCRYPTED),
    "refused_notation": ("home/meter", "{'power': 345.6, 'energy': 1234.5}"),
    "refused_part": ("p1/line", "1-0:1.8.1(001234.000*kWh)"),
    "refused_comma": ("openhab/Zaehlerstand", "1234,5"),
    "refused_suffix": ("cellar/anything", "512.3 W"),
    "refused_list": ("cellar/power", "345.6;1234.5"),
    "refused_compressed": ("cellar/data", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"),
}


@pytest.mark.parametrize("form", FOREIGN)
def test_a_foreign_form_is_named_with_what_to_send_instead(form: str) -> None:
    """The topic is listed with the text that the running agent has for such a payload."""
    topic, payload = FOREIGN[form]
    listener = heard(scene(form, "", [(topic, payload)], ""))
    assert "Next: change what is sent, as stated above" in report_text(listener, ACCESS, 60)
    result = find_meters(listener)
    assert [(entry.topic, entry.reason) for entry in result.unplaced] == [(topic, REFUSALS[form])]
    assert not result.proposals
    assert not result.quiet_topics


@pytest.mark.parametrize(
    "message",
    [
        ("lamp/colour", "255,255,255"),
        ("living/temperature", "21,5"),
        ("house/door", "open"),
        ("openWB/counter/0/get/states", [1, 2, 3]),
        ("house/power_limits", {"a": [1, 2]}),
    ],
)
def test_a_list_or_a_comma_counts_only_where_a_meter_is_named(message: Message) -> None:
    """Colours, temperatures, words and lists in JSON are no foreign meters."""
    result = find_meters(heard(scene("", "", [message], "")))
    assert not [entry for entry in result.unplaced if entry.reason in REFUSALS.values()]


def test_a_described_number_with_a_comma_is_named() -> None:
    """A description says where the number is; that it has a comma is the reason not to propose it."""
    check(
        scene(
            "a comma in a described number",
            "home-assistant.io: MQTT sensor",
            [("p1/power", "345,6")],
            """
            not p1/power: Power: the number has a comma or separators: send it with a point only, such as 1234
            """,
            [sensor("power/p1", "Power", "W", "p1/power")],
        )
    )


def test_a_number_as_text_with_a_comma_is_named_by_its_field() -> None:
    """A field whose name states power or energy is not called quiet if its text has a comma or a unit."""
    fields = {"power_w": "345,6", "total_kwh": "12.5 kWh", "state": "1,5"}
    result = find_meters(heard(scene("", "", [("home/meter", fields)], "")))
    assert summary(result) == [
        "not home/meter: power_w: the number has a comma or separators: send it with a point only, such as",
        "not home/meter: total_kwh: the payload is a number with a unit: send only the number",
    ]
