"""`meteragent discover`: the presets that a proposal names."""

import re

import pytest

from meteragent import config
from meteragent.tools.discover.configuration import configuration_toml
from tests.tools.test_discover import ACCESS, PLUG, Sent, candidates, document, listened


@pytest.mark.parametrize(
    ("sent", "others"),
    [
        (("em/status/em:0", document(id=0, total_act_power=514.517)), "street"),
        (("x/power_w", b"500"), "television, street"),
    ],
)
def test_only_presets_that_would_be_accepted_are_named(sent: Sent, others: str) -> None:
    """A device that reports only large changes cannot keep the finest promise, which is not offered."""
    (one,) = candidates(listened(sent))
    text = configuration_toml(one, ACCESS)
    assert f"; others: {others}\n" in text
    for preset in ("television", "street"):
        with_preset = config.parse(text.replace('"appliance"', f'"{preset}"'))
        assert (not config.reading_refusals(with_preset)) is (preset in others)


@pytest.mark.parametrize(
    ("every_ms", "every"), [(5_000, "10s"), (9_000, "15s"), (15_000, None), (300_000, None)]
)
def test_a_plug_that_sends_often_can_choose_a_finer_preset(every_ms: int, every: str | None) -> None:
    """A month is proposed, and how to hide a kettle instead if the device always sends as often as heard."""
    (one,) = candidates(listened(PLUG, every_ms=every_ms))
    text = configuration_toml(one, ACCESS)
    assert config.parse(text).stream[0].privacy.preset == "bill"
    advice = (
        f'every {every}, set source.every = "{every}",\n# choose "appliance" and remove window.timezone\n'
    )
    assert (advice in text) is (every is not None)
    assert ("set source.every" in text) is (every is not None)
    if every is not None:
        text = re.sub("timezone = .*", "", text).replace('"bill"', '"appliance"')
        text = text.replace("[window]", f'every = "{every}"\n[window]')
        assert config.parse_or_none(text) is not None


@pytest.mark.parametrize(
    ("every_ms", "every"),
    [(1_000, "1s"), (10_300, "10s"), (61_000, "1min"), (100_000, "2min"), (5_000_000, "2h")],
)
def test_a_register_states_the_time_between_readings_that_was_heard(every_ms: int, every: str) -> None:
    """The configuration is accepted as it is, and slots wait for the reading that completes them."""
    (one,) = candidates(listened(("cellar/energy_import_total_kwh", b"7712.5"), every_ms=every_ms))
    text = configuration_toml(one, ACCESS)
    assert f'\nevery = "{every}"\n' in text
    settings = config.parse_or_none(text)
    assert settings is not None
    assert config.largest_loss(settings.stream[0])[0] == 0


def test_a_profile_states_the_time_between_its_registers_readings() -> None:
    """It is not repeated, unless the device is slower."""
    telegram = b"/ABC5\\2X\r\n\r\n1-0:1.8.0(001234.000*kWh)\r\n!\r\n"
    (one,) = candidates(listened(("p1/raw", telegram), every_ms=10_000))
    assert "every" not in configuration_toml(one, ACCESS)
    (one,) = candidates(listened(("p1/raw", telegram), every_ms=60_000))
    assert '\nevery = "1min"\n' in configuration_toml(one, ACCESS)
