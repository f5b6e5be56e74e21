"""`meteragent discover`: the presets that a proposal names."""

import re

import pytest

from meteragent import config
from meteragent.tools.discover.configuration import toml
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
    text = toml(one, ACCESS)
    assert f"; others: {others}\n" in text
    for preset in ("television", "street"):
        with_preset = config.parse(text.replace('"appliance"', f'"{preset}"'))
        assert (not config.refusals(with_preset)) is (preset in others)


@pytest.mark.parametrize(
    ("every_ms", "every"), [(5_000, "10s"), (9_000, "15s"), (15_000, None), (300_000, None)]
)
def test_a_plug_that_sends_often_can_choose_a_finer_preset(every_ms: int, every: str | None) -> None:
    """A month is proposed, and how to hide a kettle instead if the device always sends as often as heard."""
    (one,) = candidates(listened(PLUG, every_ms=every_ms))
    text = toml(one, ACCESS)
    assert config.parse(text).stream[0].privacy.preset == "bill"
    advice = (
        f'every {every}, set source.every = "{every}",\n# choose "appliance" and remove window.timezone\n'
    )
    assert (advice in text) is (every is not None)
    assert ("set source.every" in text) is (every is not None)
    if every is not None:
        text = re.sub("timezone = .*", "", text).replace('"bill"', '"appliance"')
        text = text.replace("[window]", f'every = "{every}"\n[window]')
        assert config.accepted(text) is not None
